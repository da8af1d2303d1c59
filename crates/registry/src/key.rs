//! API keys: 256 random bits, known to us only by their SHA-256 (G4).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::error::RegistryError;

/// Bytes of a key's secret: our secrets are random 256 bits (G4).
const SECRET_BYTES: usize = 32;
/// Bytes of a key's public first part: enough that two keys of one server never share it.
const PREFIX_BYTES: usize = 6;
/// What every key starts with, so that scanners of leaked secrets can know it.
const MARK: &str = "fulmar_";
/// Longest text that is looked at as a key, in bytes.
const KEY_TEXT_BYTES_MAX: usize = 128;

/// A key in clear. It is shown once and never stored by the server.
pub struct ApiKey {
    text: String,
    prefix: String,
}

impl ApiKey {
    /// A new key from the system's randomness.
    ///
    /// # Errors
    /// `Random` when the system gives none.
    pub fn generate() -> Result<Self, RegistryError> {
        let mut random = [0_u8; PREFIX_BYTES + SECRET_BYTES];
        getrandom::fill(&mut random).map_err(|e| RegistryError::Random(e.to_string()))?;
        let (prefix, secret) = random.split_at(PREFIX_BYTES);
        let prefix = format!("{MARK}{}", hex(prefix));
        Ok(Self {
            text: format!("{prefix}_{}", hex(secret)),
            prefix,
        })
    }

    /// A key that an operator chose, such as one mounted into a container.
    ///
    /// # Errors
    /// `Refused` when the text is not of the shape `fulmar_` 12 hex digits `_` 64 hex digits.
    pub fn adopt(text: &str) -> Result<Self, RegistryError> {
        let shape = || {
            RegistryError::Refused(
                "a key is `fulmar_`, 12 hex digits, `_` and 64 hex digits".to_owned(),
            )
        };
        let prefix = prefix_of(text).ok_or_else(shape)?;
        let secret = text.get(prefix.len() + 1..).ok_or_else(shape)?;
        let public = prefix.strip_prefix(MARK).ok_or_else(shape)?;
        let is_hex = |s: &str, bytes: usize| {
            s.len() == bytes * 2 && s.bytes().all(|b| b.is_ascii_hexdigit())
        };
        if !is_hex(public, PREFIX_BYTES) || !is_hex(secret, SECRET_BYTES) {
            return Err(shape());
        }
        Ok(Self {
            text: text.to_owned(),
            prefix: prefix.to_owned(),
        })
    }

    /// The whole key, a secret.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The public first part, by which the key is named.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// What the registry keeps of the key.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        KeyHash::of(&self.text)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({}_…)", self.prefix)
    }
}

/// The public first part of a text that may be a key, or `None` when it can be none.
#[must_use]
pub fn prefix_of(text: &str) -> Option<&str> {
    if text.len() > KEY_TEXT_BYTES_MAX || !text.starts_with(MARK) {
        return None;
    }
    let end = text.rfind('_')?;
    (end > MARK.len()).then(|| &text[..end])
}

/// SHA-256 of a key. A slow hash adds nothing to 256 random bits (G4).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// Hash of a key's text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// The hash in hexadecimal.
    pub(crate) fn to_hex(self) -> String {
        hex(&self.0)
    }

    /// The hash of 64 hexadecimal digits.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        let mut bytes = [0_u8; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Whether the text hashes to this, in time that does not depend on where they differ.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        Self::of(text).0.ct_eq(&self.0).into()
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(…)")
    }
}

impl Serialize for KeyHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_hex())
    }
}

impl<'de> Deserialize<'de> for KeyHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bad = || serde::de::Error::custom("a key hash is 64 hex digits");
        Self::from_hex(&text).ok_or_else(bad)
    }
}

/// One thing that a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Send events into the key's own project.
    Ingest,
    /// Set up webhooks, subscriptions and event types of the key's own project, and look at their
    /// deliveries.
    Webhooks,
    /// Everything an operator does: projects, keys, agents, SQL, log level.
    Admin,
}

impl Scope {
    /// The word that commands and answers use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Webhooks => "webhooks",
            Self::Admin => "admin",
        }
    }
}

impl std::str::FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ingest" => Ok(Self::Ingest),
            "webhooks" => Ok(Self::Webhooks),
            "admin" => Ok(Self::Admin),
            other => Err(format!(
                "no scope `{other}`; scopes are ingest, webhooks and admin"
            )),
        }
    }
}

/// What a key may do: a sorted list without repeats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// The scopes of a list, sorted, each once.
    #[must_use]
    pub fn new(mut scopes: Vec<Scope>) -> Self {
        scopes.sort_unstable();
        scopes.dedup();
        Self(scopes)
    }

    /// Whether `scope` is among them.
    #[must_use]
    pub fn allow(&self, scope: Scope) -> bool {
        self.0.contains(&scope)
    }

    /// The scopes, sorted.
    #[must_use]
    pub fn as_slice(&self) -> &[Scope] {
        &self.0
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes every write");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_public_prefix_and_matches_only_its_own_hash() {
        let key = ApiKey::generate().unwrap();
        assert_eq!(key.reveal().len(), 7 + 12 + 1 + 64);
        assert_eq!(prefix_of(key.reveal()), Some(key.prefix()));
        assert!(key.hash().matches(key.reveal()));
        let other = ApiKey::generate().unwrap();
        assert_ne!(key.reveal(), other.reveal());
        assert!(!key.hash().matches(other.reveal()));
        assert!(!key.hash().matches(""));
    }

    #[test]
    fn a_key_never_prints_its_secret() {
        let key = ApiKey::generate().unwrap();
        let shown = format!("{key:?} {:?}", key.hash());
        let secret = key.reveal().rsplit('_').next().unwrap();
        assert!(!shown.contains(secret), "{shown}");
    }

    #[test]
    fn the_hash_is_plain_sha_256() {
        // SHA-256 of "abc", FIPS 180-2 appendix B.1.
        let text = "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"";
        assert_eq!(serde_json::to_string(&KeyHash::of("abc")).unwrap(), text);
        let hash: KeyHash = serde_json::from_str(text).unwrap();
        assert!(hash.matches("abc"));
        assert!(serde_json::from_str::<KeyHash>("\"ba78\"").is_err());
        let not_hex = format!("\"{}\"", "z".repeat(64));
        assert!(serde_json::from_str::<KeyHash>(&not_hex).is_err());
    }

    #[test]
    fn texts_that_can_be_no_key_have_no_prefix() {
        let long = "fulmar_".repeat(64);
        for text in [
            "",
            "fulmar_",
            "fulmar__",
            "abc_def",
            "fulmar_abc",
            "é",
            &long,
        ] {
            assert_eq!(prefix_of(text), None, "{text}");
        }
    }

    #[test]
    fn an_adopted_key_must_have_the_shape_of_ours() {
        let key = ApiKey::generate().unwrap();
        assert_eq!(ApiKey::adopt(key.reveal()).unwrap().prefix(), key.prefix());
        let upper = key.reveal().replace("fulmar", "FULMAR");
        for text in [
            "",
            "secret",
            &key.reveal()[1..],
            &key.reveal()[..83],
            &upper,
        ] {
            assert!(ApiKey::adopt(text).is_err(), "{text}");
        }
    }
}
