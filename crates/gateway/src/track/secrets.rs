//! Whether a secret is a client's (G4): ours by SHA-256, imported ones by scrypt, which is costly
//! on purpose and is kept from being asked for too often.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use fulmar_registry::{Client, SecretHash};
use scrypt::Params;
use subtle::ConstantTimeEq;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Longest secret that is looked at, in bytes: ours have 68.
const SECRET_BYTES_MAX: usize = 256;

/// Costly checks at once over all clients: each takes 16 MiB and some 50 ms of a core.
const CHECKS_MAX: usize = 4;

/// How long a wrong imported secret is remembered, in milliseconds.
const WRONG_MS: i64 = 60_000;

/// How long a right one is.
const VALID_MS: i64 = 300_000;

/// Verdicts remembered: more than four checks at once can make in their time.
const REMEMBERED_MAX: usize = 65_536;

/// log2 of the cost, block size, parallelism and bytes of the hashes that are imported: the
/// defaults of the runtime that made them.
const SCRYPT_LOG_N: u8 = 14;
const SCRYPT_R: u32 = 8;
const SCRYPT_P: u32 = 1;

/// What a shown secret proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    Valid,
    Wrong,
    /// It can't be told now.
    Busy,
}

/// Checks secrets.
pub(super) struct SecretChecks {
    hasher: [RandomState; 2],
    slots: Semaphore,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Verdicts by keyed hash of client, stored hash and secret, and until when they count.
    known: HashMap<u128, (Proof, i64)>,
    /// Clients with a check under way.
    checking: HashSet<String>,
}

impl Default for SecretChecks {
    fn default() -> Self {
        Self {
            hasher: [RandomState::new(), RandomState::new()],
            slots: Semaphore::new(CHECKS_MAX),
            state: Arc::default(),
        }
    }
}

impl SecretChecks {
    /// Whether `secret` is one of the client's that are live.
    pub(super) async fn check(
        &self,
        id: &str,
        client: &Client,
        secret: &str,
        now_ms: i64,
    ) -> Proof {
        if secret.is_empty() || secret.len() > SECRET_BYTES_MAX {
            return Proof::Wrong;
        }
        let live = || client.secrets.iter().filter(|known| known.live(now_ms));
        let ours = |hash: &SecretHash| matches!(hash, SecretHash::Ours(h) if h.matches(secret));
        if live().any(|known| ours(&known.hash)) {
            return Proof::Valid;
        }
        let mut proof = Proof::Wrong;
        for known in live() {
            if let SecretHash::Imported(hash) = &known.hash {
                match self.check_imported(id, hash, secret, now_ms).await {
                    Proof::Valid => return Proof::Valid,
                    Proof::Busy => proof = Proof::Busy,
                    Proof::Wrong => {}
                }
            }
        }
        proof
    }

    async fn check_imported(&self, id: &str, hash: &str, secret: &str, now_ms: i64) -> Proof {
        let parts = [id, hash, secret];
        let [high, low] = self.hasher.each_ref().map(|hasher| hasher.hash_one(parts));
        let asked = u128::from(high) << 64 | u128::from(low);
        if let Some(proof) = self.lock().recall(asked, now_ms) {
            return proof;
        }
        let Some(_turn) = self.turn(id) else {
            return Proof::Busy;
        };
        let (hash, secret) = (hash.to_owned(), secret.to_owned());
        // The core's work is not for a thread that answers requests.
        let checked = tokio::task::spawn_blocking(move || scrypt_matches(&hash, &secret)).await;
        let Ok(valid) = checked else {
            return Proof::Busy;
        };
        let (proof, for_ms) = match valid {
            true => (Proof::Valid, VALID_MS),
            false => (Proof::Wrong, WRONG_MS),
        };
        self.lock().remember(asked, proof, now_ms, for_ms);
        proof
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place among the four, and the only one of its client.
    fn turn(&self, id: &str) -> Option<Turn<'_>> {
        let slot = self.slots.try_acquire().ok()?;
        let first = self.lock().checking.insert(id.to_owned());
        first.then(|| Turn {
            checks: self,
            id: id.to_owned(),
            _slot: slot,
        })
    }
}

/// A check under way; its places are free again when it is dropped.
struct Turn<'a> {
    checks: &'a SecretChecks,
    id: String,
    _slot: SemaphorePermit<'a>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.checks.lock().checking.remove(&self.id);
    }
}

impl State {
    fn recall(&self, asked: u128, now_ms: i64) -> Option<Proof> {
        let (proof, until_ms) = self.known.get(&asked)?;
        (now_ms < *until_ms).then_some(*proof)
    }

    fn remember(&mut self, asked: u128, proof: Proof, now_ms: i64, for_ms: i64) {
        if self.known.len() >= REMEMBERED_MAX {
            self.known.retain(|_, (_, until_ms)| now_ms < *until_ms);
        }
        // Full of live ones: this one is checked again when it is shown again.
        if self.known.len() < REMEMBERED_MAX {
            self.known.insert(asked, (proof, now_ms + for_ms));
        }
    }
}

/// Whether a secret has a hash of the system before this one: `salt.hash`, where the salt's own
/// text was hashed and the hash is in hexadecimal.
fn scrypt_matches(stored: &str, secret: &str) -> bool {
    let Some((salt, hash)) = stored.split_once('.') else {
        return false;
    };
    let expected = unhex(hash);
    let mut found = vec![0; expected.len()];
    let params = Params::new(SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P, Params::RECOMMENDED_LEN);
    let hashed = params.is_ok_and(|params| {
        scrypt::scrypt(secret.as_bytes(), salt.as_bytes(), &params, &mut found).is_ok()
    });
    hashed && found.ct_eq(&expected).into()
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks_exact(2);
    pairs
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_registry::{ClientKind, SecretRecord};

    /// python3: hashlib.scrypt(b'sec_abcdef', salt=b'000102030405060708090a0b0c0d0e0f',
    /// n=16384, r=8, p=1, dklen=32).hex()
    const STORED: &str = concat!(
        "000102030405060708090a0b0c0d0e0f.",
        "b73128a7b64d1e78634b13d5cd746e75906442dd121d7b96a1b7de3eddaa638b"
    );

    fn client() -> Client {
        Client {
            project: "p".to_owned(),
            name: "n".to_owned(),
            kind: ClientKind::Write,
            secrets: vec![SecretRecord {
                hash: SecretHash::imported(STORED).unwrap(),
                expires_ms: Some(1_000),
            }],
            ignore_cors_and_secret: false,
            revoked: false,
            created_ms: 0,
        }
    }

    #[tokio::test]
    async fn an_imported_hash_is_checked_once_and_remembered() {
        let checks = SecretChecks::default();
        let client = client();
        assert_eq!(
            checks.check("c", &client, "sec_abcdef", 0).await,
            Proof::Valid
        );
        assert_eq!(
            checks.check("c", &client, "sec_abcdeg", 0).await,
            Proof::Wrong
        );
        // With no place left, only what is remembered is answered.
        let _all = checks.slots.acquire_many(4).await.unwrap();
        assert_eq!(
            checks.check("c", &client, "sec_abcdef", 1).await,
            Proof::Valid
        );
        assert_eq!(
            checks.check("c", &client, "sec_abcdeg", 1).await,
            Proof::Wrong
        );
        assert_eq!(checks.check("c", &client, "other", 1).await, Proof::Busy);
        // A secret that has expired proves nothing, however well it is remembered.
        assert_eq!(
            checks.check("c", &client, "sec_abcdef", 1_000).await,
            Proof::Wrong
        );
    }

    #[tokio::test]
    async fn one_check_at_a_time_for_each_client() {
        let checks = SecretChecks::default();
        let turn = checks.turn("c").unwrap();
        assert_eq!(
            checks.check("c", &client(), "sec_abcdef", 0).await,
            Proof::Busy
        );
        assert_eq!(
            checks.check("d", &client(), "sec_abcdef", 0).await,
            Proof::Valid
        );
        drop(turn);
        assert_eq!(
            checks.check("c", &client(), "sec_abcdef", 0).await,
            Proof::Valid
        );
    }

    #[test]
    fn wrong_ones_are_forgotten_after_a_minute() {
        let mut state = State::default();
        state.remember(1, Proof::Wrong, 0, WRONG_MS);
        assert_eq!(state.recall(1, WRONG_MS - 1), Some(Proof::Wrong));
        assert_eq!(state.recall(1, WRONG_MS), None);
    }
}
