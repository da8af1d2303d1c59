//! Clients of the SDK door: who sends for which project, and what its secret is known by.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::RegistryError;
use crate::key::{KeyHash, hex};

/// Bytes of a secret of ours: random 256 bits (G4).
const SECRET_BYTES: usize = 32;
/// Start of every secret of ours, so that scanners of leaked secrets can know it.
const SECRET_MARK: &str = "sec_";
/// Bytes of an id: a random UUID.
const ID_BYTES: usize = 16;
/// Where the hyphens of a UUID stand.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
/// Longest name of a client, in characters: what a list shows in one line.
pub(crate) const NAME_CHARS_MAX: usize = 128;
/// Longest imported hash, in bytes: a salt and a hash of 64 bytes each, in hexadecimal.
const IMPORTED_BYTES_MAX: usize = 257;

/// What a client may do beyond sending. Every kind may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientKind {
    /// Sends only.
    Write,
    /// Reads and imports.
    Read,
    /// Everything of its project.
    Root,
}

impl ClientKind {
    /// The word that commands and answers use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Root => "root",
        }
    }
}

impl std::str::FromStr for ClientKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "write" => Ok(Self::Write),
            "read" => Ok(Self::Read),
            "root" => Ok(Self::Root),
            other => Err(format!("no kind `{other}`; kinds are write, read and root")),
        }
    }
}

/// What the registry keeps of a secret; never the secret (G4).
#[derive(Clone, PartialEq, Eq)]
pub enum SecretHash {
    /// SHA-256 of one of ours.
    Ours(KeyHash),
    /// An imported scrypt hash, `saltHex.hashHex`.
    Imported(String),
}

const OURS: &str = "sha256:";
const IMPORTED: &str = "scrypt:";

impl SecretHash {
    /// Takes over a hash of the system before this one.
    ///
    /// # Errors
    /// `Refused` when the text is not `saltHex.hashHex`.
    pub fn imported(text: &str) -> Result<Self, RegistryError> {
        let is_hex = |part: &str| {
            !part.is_empty()
                && part.len().is_multiple_of(2)
                && part.bytes().all(|b| b.is_ascii_hexdigit())
        };
        let parts = text.split_once('.');
        let whole = text.len() <= IMPORTED_BYTES_MAX
            && parts.is_some_and(|(salt, hash)| is_hex(salt) && is_hex(hash));
        match whole {
            true => Ok(Self::Imported(text.to_owned())),
            false => Err(RegistryError::Refused(
                "an imported secret is a scrypt hash, `saltHex.hashHex`".to_owned(),
            )),
        }
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(…)")
    }
}

impl Serialize for SecretHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = match self {
            Self::Ours(hash) => format!("{OURS}{}", hash.to_hex()),
            Self::Imported(text) => format!("{IMPORTED}{text}"),
        };
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for SecretHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let text = String::deserialize(deserializer)?;
        if let Some(hash) = text.strip_prefix(OURS) {
            let hash = KeyHash::from_hex(hash);
            return hash.map(Self::Ours).ok_or(D::Error::custom("not SHA-256"));
        }
        let imported = text.strip_prefix(IMPORTED).unwrap_or_default();
        Self::imported(imported).map_err(D::Error::custom)
    }
}

/// A secret that a client may show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretRecord {
    /// What it is known by.
    pub hash: SecretHash,
    /// Milliseconds since the epoch from which it proves nothing, if that was decided.
    pub expires_ms: Option<i64>,
}

impl SecretRecord {
    /// Whether it proves anything at `now_ms`.
    #[must_use]
    pub fn live(&self, now_ms: i64) -> bool {
        self.expires_ms.is_none_or(|at_ms| now_ms < at_ms)
    }
}

/// A client of the SDK door. It is the source in the identity of what it sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Its project.
    pub project: String,
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub kind: ClientKind,
    /// What it may prove itself with, the newest last.
    pub secrets: Vec<SecretRecord>,
    /// Its id alone is enough: for apps that have no origin and can keep no secret.
    pub ignore_cors_and_secret: bool,
    /// Refused for ever.
    pub revoked: bool,
    /// Milliseconds since the epoch when it was made.
    pub created_ms: i64,
}

/// A new id: a random UUID in lower-case hexadecimal.
///
/// # Errors
/// `Random` when the system gives no randomness.
pub fn new_client_id() -> Result<String, RegistryError> {
    let mut bytes = [0_u8; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(|e| RegistryError::Random(e.to_string()))?;
    // RFC 9562 section 5.4: version 4, variant 10.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = hex(&bytes);
    for at in HYPHENS {
        text.insert(at, '-');
    }
    Ok(text)
}

/// Whether a text has the shape of a client's id: a UUID in lower-case hexadecimal.
#[must_use]
pub fn client_id_ok(text: &str) -> bool {
    let ok = |(at, byte): (usize, u8)| match HYPHENS.contains(&at) {
        true => byte == b'-',
        false => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    };
    text.len() == 36 && text.bytes().enumerate().all(ok)
}

/// A new secret in clear, to be shown once, and what the registry keeps of it.
///
/// # Errors
/// `Random` when the system gives no randomness.
pub fn new_secret() -> Result<(String, SecretHash), RegistryError> {
    let mut bytes = [0_u8; SECRET_BYTES];
    getrandom::fill(&mut bytes).map_err(|e| RegistryError::Random(e.to_string()))?;
    let text = format!("{SECRET_MARK}{}", hex(&bytes));
    let hash = SecretHash::Ours(KeyHash::of(&text));
    Ok((text, hash))
}

/// A new salt of device ids: 16 random bytes in hexadecimal.
///
/// # Errors
/// `Random` when the system gives no randomness.
pub fn new_salt() -> Result<String, RegistryError> {
    let mut bytes = [0_u8; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(|e| RegistryError::Random(e.to_string()))?;
    Ok(hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_lower_case_uuids_of_version_four() {
        let id = new_client_id().unwrap();
        assert!(client_id_ok(&id), "{id}");
        assert_eq!(&id[14..15], "4");
        assert!(matches!(id.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
        assert!(client_id_ok("11111111-2222-4333-8444-555555555555"));
        for text in [
            "",
            "11111111-2222-4333-8444-55555555555",
            "11111111-2222-4333-8444-55555555555A",
            "111111111-222-4333-8444-555555555555",
            "111111112222433384445555555555555555",
        ] {
            assert!(!client_id_ok(text), "{text}");
        }
    }

    #[test]
    fn a_hash_of_each_kind_survives_its_text() {
        // SHA-256 of "abc", FIPS 180-2 appendix B.1.
        let ours = SecretHash::Ours(KeyHash::of("abc"));
        let text = serde_json::to_string(&ours).unwrap();
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(text, format!("\"sha256:{digest}\""));
        let imported = SecretHash::imported("00ff.ABcd").unwrap();
        assert_eq!(
            serde_json::to_string(&imported).unwrap(),
            "\"scrypt:00ff.ABcd\""
        );
        for hash in [ours, imported] {
            let text = serde_json::to_string(&hash).unwrap();
            assert_eq!(serde_json::from_str::<SecretHash>(&text).unwrap(), hash);
            assert_eq!(format!("{hash:?}"), "SecretHash(…)");
        }
        for text in ["", ".", "ab", "ab.", ".ab", "abc.ab", "ab.zz", "ab.cd.ef"] {
            assert!(SecretHash::imported(text).is_err(), "{text}");
        }
    }
}
