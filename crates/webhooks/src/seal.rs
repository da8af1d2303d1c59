//! Secrets at rest: each sealed with a data key of its own, which a master key wraps.
//!
//! A sealed text is base64 of: format (1 byte), id of the master key (8), nonce and wrapped data
//! key (12 + 32 + 16), nonce and sealed secret (12 + n + 16). All are AES-256-GCM; the id of the
//! master key is authenticated with both.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The only format so far.
const FORMAT: u8 = 1;
/// Bytes of a key's id in a sealed text.
const ID_BYTES: usize = 8;
/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// Bytes that sealing adds: nonce and tag.
const OVERHEAD: usize = NONCE_LEN + 16;
/// Bytes before the sealed secret.
const HEAD_BYTES: usize = 1 + ID_BYTES + KEY_BYTES + OVERHEAD;

/// Why a text can't be sealed or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// A line of the keyring is not `id=64 hex digits`.
    #[error(
        "line {0} of the keyring is not `ID=64 hex digits`, with an id of 1 to 8 letters, digits, `_` or `-`"
    )]
    Line(usize),
    /// There is no key in it.
    #[error("the keyring has no key")]
    Empty,
    /// The key that sealed it is in no ring.
    #[error("sealed with the key `{0}`, which is not in the keyring")]
    UnknownKey(String),
    /// Not a sealed text, or changed.
    #[error("a sealed secret is damaged")]
    Damaged,
    /// No randomness.
    #[error("the system gave no random bytes")]
    Random,
}

/// Master keys by id. The first one seals; all open.
pub struct Keyring {
    ring: RwLock<Arc<Ring>>,
}

struct Ring {
    keys: BTreeMap<[u8; ID_BYTES], LessSafeKey>,
    primary: [u8; ID_BYTES],
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Keyring({} keys)", self.ring().keys.len())
    }
}

impl Keyring {
    /// Reads a keyring: a key a line, `ID=HEX`, the one that seals first.
    ///
    /// # Errors
    /// [`SealError::Line`] or [`SealError::Empty`].
    pub fn parse(text: &str) -> Result<Self, SealError> {
        let mut keys = BTreeMap::new();
        let mut primary = None;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (id, key) = parse_line(line).ok_or(SealError::Line(index + 1))?;
            primary.get_or_insert(id);
            keys.insert(id, key);
        }
        let primary = primary.ok_or(SealError::Empty)?;
        let ring = Arc::new(Ring { keys, primary });
        let ring = RwLock::new(ring);
        Ok(Self { ring })
    }

    fn ring(&self) -> Arc<Ring> {
        Arc::clone(&self.ring.read().expect("no holder panics"))
    }

    /// Goes on with other keys.
    pub fn replace(&self, other: Self) {
        *self.ring.write().expect("no holder panics") = other.ring();
    }

    /// The id of the key that seals.
    #[must_use]
    pub fn primary(&self) -> String {
        shown(&self.ring().primary)
    }

    /// `k1`, `k2` and so on: the first that no key has.
    #[must_use]
    pub fn unused_id(&self) -> Option<String> {
        let ring = self.ring();
        let known: Vec<String> = ring.keys.keys().map(shown).collect();
        let mut names = (1..10_000_u32).map(|number| format!("k{number}"));
        names.find(|name| !known.contains(name))
    }

    /// The text of a keyring with one new key.
    ///
    /// # Errors
    /// [`SealError::Random`].
    pub fn generate(id: &str) -> Result<String, SealError> {
        let mut bytes = [0_u8; KEY_BYTES];
        aws_lc_rs::rand::fill(&mut bytes).map_err(|_| SealError::Random)?;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("{id}={hex}\n"))
    }

    /// Seals a secret.
    ///
    /// # Errors
    /// [`SealError::Random`].
    pub fn seal(&self, secret: &str) -> Result<String, SealError> {
        let mut data_key = [0_u8; KEY_BYTES];
        aws_lc_rs::rand::fill(&mut data_key).map_err(|_| SealError::Random)?;
        let mut out = Vec::with_capacity(HEAD_BYTES + secret.len() + OVERHEAD);
        let ring = self.ring();
        let id = &ring.primary;
        out.push(FORMAT);
        out.extend_from_slice(id);
        seal_onto(&ring.keys[id], id, &data_key, &mut out)?;
        seal_onto(&key_of(&data_key), id, secret.as_bytes(), &mut out)?;
        Ok(STANDARD.encode(out))
    }

    /// Opens a sealed secret.
    ///
    /// # Errors
    /// [`SealError::UnknownKey`] by name, or [`SealError::Damaged`].
    pub fn open(&self, sealed: &str) -> Result<String, SealError> {
        let bytes = STANDARD.decode(sealed).map_err(|_| SealError::Damaged)?;
        if bytes.len() < HEAD_BYTES + OVERHEAD || bytes[0] != FORMAT {
            return Err(SealError::Damaged);
        }
        let (head, secret) = bytes.split_at(HEAD_BYTES);
        let id: [u8; ID_BYTES] = head[1..=ID_BYTES]
            .try_into()
            .map_err(|_| SealError::Damaged)?;
        let ring = self.ring();
        let master = ring
            .keys
            .get(&id)
            .ok_or_else(|| SealError::UnknownKey(shown(&id)))?;
        let data_key = open_from(master, &id, &head[1 + ID_BYTES..])?;
        let data_key: [u8; KEY_BYTES] = data_key.try_into().map_err(|_| SealError::Damaged)?;
        let secret = open_from(&key_of(&data_key), &id, secret)?;
        String::from_utf8(secret).map_err(|_| SealError::Damaged)
    }

    /// Whether the key that seals now has sealed this: if not, it is to be sealed again.
    #[must_use]
    pub fn is_current(&self, sealed: &str) -> bool {
        let bytes = STANDARD.decode(sealed).unwrap_or_default();
        bytes.get(1..=ID_BYTES) == Some(&self.ring().primary[..])
    }
}

fn parse_line(line: &str) -> Option<([u8; ID_BYTES], LessSafeKey)> {
    let (name, hex) = line.split_once('=')?;
    let named = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !(1..=ID_BYTES).contains(&name.len()) || !name.bytes().all(named) {
        return None;
    }
    let mut id = [0_u8; ID_BYTES];
    id[..name.len()].copy_from_slice(name.as_bytes());
    if hex.len() != KEY_BYTES * 2 || !hex.is_ascii() {
        return None;
    }
    let mut key = [0_u8; KEY_BYTES];
    for (place, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[place * 2..place * 2 + 2], 16).ok()?;
    }
    Some((id, key_of(&key)))
}

fn shown(id: &[u8; ID_BYTES]) -> String {
    let text: Vec<u8> = id.iter().copied().take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&text).into_owned()
}

fn key_of(bytes: &[u8; KEY_BYTES]) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, bytes).expect("a key of 32 bytes is AES-256's");
    LessSafeKey::new(key)
}

fn seal_onto(
    key: &LessSafeKey,
    id: &[u8],
    plain: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), SealError> {
    let mut nonce = [0_u8; NONCE_LEN];
    aws_lc_rs::rand::fill(&mut nonce).map_err(|_| SealError::Random)?;
    out.extend_from_slice(&nonce);
    let mut sealed = plain.to_vec();
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(nonce, Aad::from(id), &mut sealed)
        .map_err(|_| SealError::Damaged)?;
    out.extend_from_slice(&sealed);
    Ok(())
}

fn open_from(key: &LessSafeKey, id: &[u8], sealed: &[u8]) -> Result<Vec<u8>, SealError> {
    let (nonce, sealed) = sealed.split_at(NONCE_LEN);
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::Damaged)?;
    let mut bytes = sealed.to_vec();
    let plain = key
        .open_in_place(nonce, Aad::from(id), &mut bytes)
        .map_err(|_| SealError::Damaged)?;
    Ok(plain.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_opened_and_never_twice_the_same() {
        let ring = Keyring::parse(&Keyring::generate("a").unwrap()).unwrap();
        let (one, two) = (ring.seal("secret").unwrap(), ring.seal("secret").unwrap());
        assert_ne!(one, two);
        assert_eq!(ring.open(&one).unwrap(), "secret");
        assert_eq!(ring.open(&ring.seal("").unwrap()).unwrap(), "");
    }

    #[test]
    fn a_changed_byte_anywhere_is_found() {
        let ring = Keyring::parse(&Keyring::generate("a").unwrap()).unwrap();
        let sealed = STANDARD.decode(ring.seal("secret").unwrap()).unwrap();
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert!(ring.open(&STANDARD.encode(changed)).is_err(), "{place}");
        }
    }

    #[test]
    fn a_new_key_first_seals_and_the_old_one_still_opens() {
        let old = Keyring::generate("old").unwrap();
        let sealed = Keyring::parse(&old).unwrap().seal("secret").unwrap();
        let ring = Keyring::generate("new").unwrap() + &old;
        let ring = Keyring::parse(&ring).unwrap();
        assert_eq!(ring.open(&sealed).unwrap(), "secret");
        assert!(!ring.is_current(&sealed));
        let again = ring.seal("secret").unwrap();
        assert!(ring.is_current(&again));
        let other = Keyring::parse(&Keyring::generate("x").unwrap()).unwrap();
        assert_eq!(
            other.open(&again),
            Err(SealError::UnknownKey("new".to_owned()))
        );
    }

    #[test]
    fn keys_are_replaced_under_who_seals_with_them() {
        let old = Keyring::generate("k1").unwrap();
        let ring = Keyring::parse(&old).unwrap();
        let sealed = ring.seal("secret").unwrap();
        assert_eq!(ring.unused_id().unwrap(), "k2");
        ring.replace(Keyring::parse(&(Keyring::generate("k2").unwrap() + &old)).unwrap());
        assert_eq!(
            (ring.primary(), ring.unused_id().unwrap()),
            ("k2".into(), "k3".into())
        );
        assert_eq!(ring.open(&sealed).unwrap(), "secret");
        assert!(!ring.is_current(&sealed) && ring.is_current(&ring.seal("").unwrap()));
    }

    #[test]
    fn a_line_that_is_no_key_is_named() {
        let good = Keyring::generate("a").unwrap();
        for line in [
            "",
            "x",
            "a=12",
            "a b=00",
            "=00",
            &good.replace("a=", "tooooolong="),
        ] {
            let text = format!("# ring\n{line}");
            let error = Keyring::parse(&text).unwrap_err();
            let named = [SealError::Line(2), SealError::Empty];
            assert!(named.contains(&error), "{line}: {error}");
        }
    }
}
