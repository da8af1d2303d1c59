//! Whether a secret is a client's (G4).

use fulmar_registry::{Client, SecretHash};

/// Longest secret that is looked at, in bytes: ours have 68.
const SECRET_BYTES_MAX: usize = 256;

/// What a shown secret proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    Valid,
    Wrong,
    /// It can't be told now.
    Busy,
}

/// Checks secrets.
#[derive(Debug, Default)]
pub(super) struct SecretChecks;

impl SecretChecks {
    pub(super) async fn check(
        &self,
        _id: &str,
        client: &Client,
        secret: &str,
        now_ms: i64,
    ) -> Proof {
        if secret.len() > SECRET_BYTES_MAX {
            return Proof::Wrong;
        }
        let live = client.secrets.iter().filter(|known| known.live(now_ms));
        for known in live {
            if let SecretHash::Ours(hash) = &known.hash
                && hash.matches(secret)
            {
                return Proof::Valid;
            }
        }
        Proof::Wrong
    }
}
