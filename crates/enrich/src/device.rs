//! Device ids: a salted hash of agent, address and project, which a daily salt forgets.

use sha3::Shake256;
use sha3::digest::{ExtendableOutput, Update, XofReader};

/// The agent that stands in for a missing `User-Agent`, so that such requests still have a
/// device of their own.
pub const UNKNOWN_AGENT: &str = "unknown/1.0";

/// Characters of a device id that a producer names itself (`__deviceId`).
const CLAIMED_CHARS_MAX: usize = 64;

/// Bytes of hash in a device id: 128 bits, so that two devices of a day never meet.
const HASH_BYTES: usize = 16;

/// A device id: 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceId([u8; 2 * HASH_BYTES]);

impl DeviceId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl std::fmt::Debug for DeviceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The ids that a device may have in the two-day window of salts (R3).
///
/// A door asks for a live session of `current`, then of `previous`; the first found carries a
/// visit over midnight. With none, the device is `current`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCandidates {
    /// The id under today's salt.
    pub current: DeviceId,
    /// The id under yesterday's salt; none on the first day of a server.
    pub previous: Option<DeviceId>,
}

impl DeviceCandidates {
    /// The candidates of one request; arguments as for [`device_id`].
    pub fn new(
        agent: &str,
        address: &str,
        project: &str,
        salt_current: &str,
        salt_previous: Option<&str>,
    ) -> Self {
        Self {
            current: device_id(agent, address, project, salt_current),
            previous: salt_previous.map(|salt| device_id(agent, address, project, salt)),
        }
    }
}

/// The device id of a request: hex of the first 16 bytes of SHAKE256 (FIPS 202) over
/// `agent:address:project:salt`.
///
/// `agent` is the `User-Agent` as sent, replaced by [`UNKNOWN_AGENT`] when empty; `address` is
/// the client's, or empty; `salt` is the text of the day's salt.
pub fn device_id(agent: &str, address: &str, project: &str, salt: &str) -> DeviceId {
    let agent = if agent.is_empty() {
        UNKNOWN_AGENT
    } else {
        agent
    };
    let mut hasher = Shake256::default();
    for part in [agent, ":", address, ":", project, ":", salt] {
        hasher.update(part.as_bytes());
    }
    let mut hash = [0; HASH_BYTES];
    hasher.finalize_xof().read(&mut hash);

    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 2 * HASH_BYTES];
    for (pair, byte) in text.chunks_exact_mut(2).zip(hash) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    DeviceId(text)
}

/// The device id that a producer named itself (`__deviceId`): trimmed, 1 to 64 characters;
/// none when it breaks that rule, and the derived id stands.
pub fn claimed_device_id(claimed: &str) -> Option<&str> {
    let trimmed = claimed.trim();
    let ok = !trimmed.is_empty() && trimmed.chars().nth(CLAIMED_CHARS_MAX).is_none();
    ok.then_some(trimmed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: &str = "0123456789abcdef0123456789abcdef";

    // python3 -c 'import hashlib; print(hashlib.shake_256(
    //   b"Mozilla/5.0 (X11; Linux x86_64):203.0.113.7:shop:0123456789abcdef0123456789abcdef"
    // ).hexdigest(16))'
    #[test]
    fn is_shake256_over_the_four_parts() {
        let id = device_id(
            "Mozilla/5.0 (X11; Linux x86_64)",
            "203.0.113.7",
            "shop",
            SALT,
        );
        assert_eq!(id.as_str(), "74baf353728f8598cb3006e228e22e96");
    }

    // The same over b"unknown/1.0::shop:0123456789abcdef0123456789abcdef".
    #[test]
    fn a_missing_agent_and_address_still_make_a_device() {
        let id = device_id("", "", "shop", SALT);
        assert_eq!(id.as_str(), "c9e3e128557c734d577531f2810ebd83");
    }

    #[test]
    fn candidates_follow_the_salts() {
        let first_day = DeviceCandidates::new("a", "b", "p", "today", None);
        assert_eq!(first_day.previous, None);
        let second_day = DeviceCandidates::new("a", "b", "p", "tomorrow", Some("today"));
        assert_eq!(second_day.previous, Some(first_day.current));
        assert_ne!(second_day.current, first_day.current);
    }

    #[test]
    fn a_claimed_id_is_trimmed_and_bounded_in_characters() {
        assert_eq!(claimed_device_id("  dev-1 \n"), Some("dev-1"));
        assert_eq!(claimed_device_id(" \t"), None);
        let widest = "é".repeat(64);
        assert_eq!(claimed_device_id(&widest), Some(widest.as_str()));
        assert_eq!(claimed_device_id(&"é".repeat(65)), None);
    }
}
