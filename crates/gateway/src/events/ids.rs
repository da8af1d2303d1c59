//! Ids that the door makes itself.

use std::fmt::Write as _;

use fulmar_event::Timestamp;
use rustls::crypto::SecureRandom;
use sha2::{Digest, Sha256};

/// Makes ids that nobody can guess or meet by chance.
pub(crate) struct IdMint {
    random: &'static dyn SecureRandom,
}

impl IdMint {
    pub(crate) fn new() -> Self {
        Self {
            random: rustls::crypto::aws_lc_rs::default_provider().secure_random,
        }
    }

    /// A UUID of version 7: its time first, so that ids sort as they came.
    /// `None` when the system gives no randomness.
    pub(super) fn uuid(&self, now: Timestamp) -> Option<String> {
        let mut bytes = [0_u8; 16];
        self.random.fill(&mut bytes).ok()?;
        let millis = now.as_millis().to_be_bytes();
        bytes[..6].copy_from_slice(&millis[2..]);
        Some(uuid_text(bytes, 0x70))
    }

    /// A UUID of version 4: nothing but chance.
    pub(crate) fn random_uuid(&self) -> Option<String> {
        let mut bytes = [0_u8; 16];
        self.random.fill(&mut bytes).ok()?;
        Some(uuid_text(bytes, 0x40))
    }
}

/// The text of a UUID of 16 bytes, which get its version and variant (RFC 9562).
fn uuid_text(mut bytes: [u8; 16], version: u8) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes[6] = bytes[6] & 0x0f | version;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.into_iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The id of a CloudEvent: its source and id name it only together, so both
/// are in the hash (X1).
pub(super) fn cloud_event_id(source: &str, id: &str) -> String {
    hashed_id(&[source, id])
}

/// The id of an event that was published under an idempotency key, which every
/// door answers alike (R4).
pub(super) fn keyed_id(project: &str, consumer: &str, key: &str) -> String {
    hashed_id(&[project, consumer, key])
}

/// Each part is led by its length.
fn hashed_id(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let mut text = String::with_capacity(32);
    for byte in &hash.finalize()[..16] {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_its_version_variant_and_time() {
        let mint = IdMint::new();
        let now = Timestamp::from_millis(0x0123_4567_89ab);
        let id = mint.uuid(now).unwrap();
        assert_eq!(id.len(), 36);
        assert!(id.starts_with("01234567-89ab-7"), "{id}");
        assert!(matches!(id.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
        assert_ne!(id, mint.uuid(now).unwrap());
    }

    #[test]
    fn parts_of_a_cloud_event_id_do_not_run_together() {
        assert_ne!(cloud_event_id("ab", "c"), cloud_event_id("a", "bc"));
        assert_eq!(cloud_event_id("/s", "1"), cloud_event_id("/s", "1"));
        assert_eq!(cloud_event_id("/s", "1").len(), 32);
    }
}
