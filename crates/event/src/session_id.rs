//! Session ids that every door derives alike, without asking the session fold.

use sha2::{Digest, Sha256};

/// Milliseconds at the start of a bucket that still belong to the one before, so that a visit
/// which begins just before a boundary is not cut in two.
const GRACE_MS_MAX: u64 = 5_000;

/// The grace is at most this fraction of the time-out, so that short time-outs keep their
/// buckets apart.
const GRACE_DIVISOR: u64 = 6;

/// Bytes of hash in a session id.
const HASH_BYTES: usize = 16;

/// Characters of 16 bytes in base64 without padding.
const ID_CHARS: usize = 22;

/// A session id: 22 characters of base64url.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId([u8; ID_CHARS]);

impl SessionId {
    /// An id that was written before; none when `text` is not one.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let id: [u8; ID_CHARS] = text.try_into().ok()?;
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        id.iter().all(plain).then_some(Self(id))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl std::fmt::Debug for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The session id of a device that has no live session: base64url (RFC 4648 section 5, no
/// padding) of the first 16 bytes of SHA-256 over `sess:v1:{project}:{device}:{bucket}`.
///
/// `event_ms` is the event's own time in Unix milliseconds, `timeout_ms` the idle time-out of
/// sessions (0 counts as 1).
pub fn session_id(project: &str, device: &str, event_ms: i64, timeout_ms: u64) -> SessionId {
    hashed("sess:v1:", project, device, bucket(event_ms, timeout_ms))
}

/// The session id of a device whose event is too old for any door to ask after its session:
/// named by the record that started it, so that it is no session's that was there before.
pub fn session_id_of_record(project: &str, device: &str, offset: u64) -> SessionId {
    hashed("sess:v1:offset:", project, device, i128::from(offset))
}

fn hashed(kind: &str, project: &str, device: &str, number: i128) -> SessionId {
    let mut hasher = Sha256::new();
    for part in [kind, project, ":", device, ":"] {
        hasher.update(part);
    }
    hasher.update(number.to_string());
    let hash = hasher.finalize();
    let mut head = [0; HASH_BYTES];
    head.copy_from_slice(&hash[..HASH_BYTES]);
    SessionId(base64url(&head))
}

fn bucket(event_ms: i64, timeout_ms: u64) -> i128 {
    let timeout = i128::from(timeout_ms.max(1));
    let grace = i128::from(GRACE_MS_MAX.min(timeout_ms / GRACE_DIVISOR));
    let event = i128::from(event_ms);
    let whole = event.div_euclid(timeout);
    if event.rem_euclid(timeout) < grace {
        whole - 1
    } else {
        whole
    }
}

fn base64url(bytes: &[u8; HASH_BYTES]) -> [u8; ID_CHARS] {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // 128 bits and four zero bits make 22 groups of six; the last holds two bits of the hash.
    let bits = u128::from_be_bytes(*bytes);
    let mut text = [0; ID_CHARS];
    for (position, character) in text.iter_mut().enumerate() {
        let shift = 122 - 6 * position as i32;
        let group = if shift >= 0 {
            bits >> shift
        } else {
            bits << -shift
        };
        *character = ALPHABET[(group & 63) as usize];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_HOUR: u64 = 1_800_000;
    /// 991,111 * 1,800,000: the first millisecond of that bucket.
    const BOUNDARY: i64 = 1_783_999_800_000;

    // python3 -c 'import hashlib, base64; print(base64.urlsafe_b64encode(hashlib.sha256(
    //   b"sess:v1:shop:dev-1:991111").digest()[:16]).decode().rstrip("="))'
    const IN_991111: &str = "QO-7Qg3nS7RUuT-1EN1J7w";
    const IN_991110: &str = "p3bOA29b8JgR11UvdOEKfA";

    fn id(event_ms: i64) -> String {
        session_id("shop", "dev-1", event_ms, HALF_HOUR)
            .as_str()
            .to_owned()
    }

    #[test]
    fn the_bucket_holds_to_its_last_millisecond() {
        assert_eq!(id(BOUNDARY + 900_000), IN_991111);
        assert_eq!(id(BOUNDARY + 1_799_999), IN_991111);
        assert_eq!(id(BOUNDARY - 1), IN_991110);
    }

    #[test]
    fn the_first_five_seconds_belong_to_the_bucket_before() {
        assert_eq!(id(BOUNDARY), IN_991110);
        assert_eq!(id(BOUNDARY + 4_999), IN_991110);
        assert_eq!(id(BOUNDARY + 5_000), IN_991111);
        assert_eq!(id(BOUNDARY + 1_800_000), IN_991111);
    }

    #[test]
    fn short_timeouts_have_a_short_grace() {
        // 6,000 / 6 = 1,000 ms of grace.
        assert_eq!(bucket(12_999, 6_000), 1);
        assert_eq!(bucket(13_000, 6_000), 2);
    }

    #[test]
    fn times_before_1970_round_down() {
        assert_eq!(bucket(-1, 6_000), -1);
        assert_eq!(bucket(-6_000, 6_000), -2);
        assert_eq!(bucket(i64::MIN, 0), i128::from(i64::MIN));
    }
}
