//! Signatures of deliveries: Standard Webhooks 1.0.0, versions `v1` and `v1a`.
//!
//! Signed is `id.timestamp.body`. `v1` is HMAC-SHA-256; a secret is `whsec_` and base64 of 24 to 64
//! bytes, and one without that prefix signs with its own bytes, as Sparrow has it. `v1a` is
//! Ed25519; a secret is `whsk_` and base64 of the seed of 32 bytes, alone or followed by the public
//! key, which receivers get as `whpk_` and base64.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq as _;

/// What texts begin with: a secret of `v1`, one of `v1a`, and the public key of that.
const PREFIX: &str = "whsec_";
const PRIVATE: &str = "whsk_";
const PUBLIC: &str = "whpk_";
/// Bytes of a secret that is made here.
const SECRET_BYTES: usize = 32;
/// Bytes that a decoded secret may have.
const SECRET_BYTES_RANGE: std::ops::RangeInclusive<usize> = 24..=64;
/// Bytes that a raw secret may have.
const RAW_BYTES_RANGE: std::ops::RangeInclusive<usize> = 16..=256;
/// Bytes of an Ed25519 seed, and of a public key.
const SEED_BYTES: usize = 32;
/// Seconds that a timestamp may be off when a signature is verified.
pub const TOLERANCE_SECONDS: i64 = 300;

/// Why a text is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "takes `whsec_` and base64 of 24 to 64 bytes, `whsk_` and base64 of an Ed25519 key, or 16 to \
     256 printable characters without such a prefix"
)]
pub struct BadSecret;

/// A key that signs deliveries.
pub struct Signer {
    key: Key,
}

enum Key {
    Hmac(Box<hmac::Key>),
    Ed25519(Box<Ed25519KeyPair>),
}

impl Signer {
    /// The signer of a secret's text.
    ///
    /// # Errors
    /// [`BadSecret`].
    pub fn of(secret: &str) -> Result<Self, BadSecret> {
        if let Some(encoded) = secret.strip_prefix(PRIVATE) {
            let pair = key_pair(encoded).ok_or(BadSecret)?;
            let key = Key::Ed25519(Box::new(pair));
            return Ok(Self { key });
        }
        let bytes = match secret.strip_prefix(PREFIX) {
            Some(encoded) => STANDARD
                .decode(encoded)
                .ok()
                .filter(|bytes| SECRET_BYTES_RANGE.contains(&bytes.len()))
                .ok_or(BadSecret)?,
            None => {
                let printable = secret.bytes().all(|byte| (b' '..=b'~').contains(&byte));
                if !printable || !RAW_BYTES_RANGE.contains(&secret.len()) {
                    return Err(BadSecret);
                }
                secret.as_bytes().to_vec()
            }
        };
        let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
        let key = Key::Hmac(Box::new(key));
        Ok(Self { key })
    }

    /// What receivers verify with; none where that is the secret itself.
    #[must_use]
    pub fn public_key(&self) -> Option<String> {
        match &self.key {
            Key::Hmac(_) => None,
            Key::Ed25519(pair) => {
                let public = STANDARD.encode(pair.public_key().as_ref());
                Some(format!("{PUBLIC}{public}"))
            }
        }
    }

    /// Appends ` v1,BASE64` or ` v1a,BASE64` to the value of `webhook-signature`.
    pub fn append(&self, id: &str, timestamp_s: i64, body: &[u8], header: &mut String) {
        if !header.is_empty() {
            header.push(' ');
        }
        match &self.key {
            Key::Hmac(key) => {
                header.push_str("v1,");
                STANDARD.encode_string(tag(key, id, timestamp_s, body), header);
            }
            Key::Ed25519(pair) => {
                header.push_str("v1a,");
                let signature = pair.sign(&signed(id, timestamp_s, body));
                STANDARD.encode_string(signature, header);
            }
        }
    }

    /// Whether one of the signatures in a header is this key's, and its time is within the
    /// tolerance.
    #[must_use]
    pub fn verifies(
        &self,
        id: &str,
        timestamp_s: i64,
        body: &[u8],
        header: &str,
        now_s: i64,
    ) -> bool {
        if timestamp_s.abs_diff(now_s) > TOLERANCE_SECONDS.unsigned_abs() {
            return false;
        }
        let of_version = |version: &'static str| {
            let texts = header
                .split(' ')
                .filter_map(move |text| text.strip_prefix(version));
            texts.filter_map(|text| STANDARD.decode(text).ok())
        };
        match &self.key {
            Key::Hmac(key) => {
                let tag = tag(key, id, timestamp_s, body);
                let ours = |bytes: Vec<u8>| bool::from(bytes.ct_eq(tag.as_ref()));
                of_version("v1,").any(ours)
            }
            Key::Ed25519(pair) => {
                let public = UnparsedPublicKey::new(&ED25519, pair.public_key().as_ref());
                let signed = signed(id, timestamp_s, body);
                of_version("v1a,").any(|bytes| public.verify(&signed, &bytes).is_ok())
            }
        }
    }
}

/// The key of a seed, whose public key must be the one that follows it, if one does.
fn key_pair(encoded: &str) -> Option<Ed25519KeyPair> {
    let bytes = STANDARD.decode(encoded).ok()?;
    match bytes.split_at_checked(SEED_BYTES)? {
        (seed, []) => Ed25519KeyPair::from_seed_unchecked(seed).ok(),
        (seed, public) => Ed25519KeyPair::from_seed_and_public_key(seed, public).ok(),
    }
}

fn signed(id: &str, timestamp_s: i64, body: &[u8]) -> Vec<u8> {
    let mut signed = format!("{id}.{timestamp_s}.").into_bytes();
    signed.extend_from_slice(body);
    signed
}

fn tag(key: &hmac::Key, id: &str, timestamp_s: i64, body: &[u8]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    context.update(id.as_bytes());
    context.update(format!(".{timestamp_s}.").as_bytes());
    context.update(body);
    context.sign()
}

/// A new secret of `v1` from the system's randomness.
///
/// # Errors
/// When the system gives none.
pub fn new_secret() -> Result<String, aws_lc_rs::error::Unspecified> {
    Ok(format!(
        "{PREFIX}{}",
        STANDARD.encode(random::<SECRET_BYTES>()?)
    ))
}

/// A new secret of `v1a`.
///
/// # Errors
/// When the system gives no randomness.
pub fn new_private_key() -> Result<String, aws_lc_rs::error::Unspecified> {
    Ok(format!(
        "{PRIVATE}{}",
        STANDARD.encode(random::<SEED_BYTES>()?)
    ))
}

fn random<const N: usize>() -> Result<[u8; N], aws_lc_rs::error::Unspecified> {
    let mut bytes = [0_u8; N];
    aws_lc_rs::rand::fill(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's reference libraries.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const AT: i64 = 1_614_265_330;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    #[test]
    fn the_example_of_the_reference_libraries_signs_alike() {
        let signer = Signer::of(SECRET).unwrap();
        let mut header = String::new();
        signer.append(ID, AT, BODY, &mut header);
        assert_eq!(header, SIGNATURE);
        assert!(signer.verifies(ID, AT, BODY, &header, AT));
    }

    /// The second test of RFC 8032, section 7.1, whose message is the one byte 0x72.
    #[test]
    fn an_ed25519_key_signs_as_the_rfc_has_it() {
        let seed = "TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs=";
        let public = "whpk_PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=";
        let signer = Signer::of(&format!("whsk_{seed}")).unwrap();
        assert_eq!(signer.public_key().as_deref(), Some(public));
        let Key::Ed25519(pair) = &signer.key else {
            panic!("it is no Ed25519 key")
        };
        let wanted = "kqAJqfDUyrhyDoILX2QlQKKye1QWUD+Ps3YiI+vbadoIWsHkPhWZbkWPNhPQ8R2MOHsurrQwKu6w\
                      DSkWErsMAA==";
        assert_eq!(STANDARD.encode(pair.sign(&[0x72])), wanted);
        let mut header = String::new();
        signer.append(ID, AT, BODY, &mut header);
        assert!(
            header.starts_with("v1a,") && header.len() == 4 + 88,
            "{header}"
        );
        assert!(signer.verifies(ID, AT, BODY, &header, AT));
        assert!(!signer.verifies(ID, AT, b"{}", &header, AT));
        assert!(!signer.verifies(ID, AT + 1, BODY, &header, AT));
        assert!(!signer.verifies(ID, AT, BODY, &header, AT + 301));
        let as_v1 = header.replace("v1a,", "v1,");
        assert!(!signer.verifies(ID, AT, BODY, &as_v1, AT));
    }

    #[test]
    fn two_secrets_make_a_list_that_each_verifies() {
        let (old, new) = (
            Signer::of(SECRET).unwrap(),
            Signer::of(&new_secret().unwrap()).unwrap(),
        );
        let mut header = String::new();
        old.append(ID, AT, BODY, &mut header);
        new.append(ID, AT, BODY, &mut header);
        for signer in [&old, &new] {
            assert!(signer.verifies(ID, AT, BODY, &header, AT));
        }
        assert_eq!(header.split(' ').count(), 2);
    }

    #[test]
    fn anything_changed_or_untimely_is_refused() {
        let signer = Signer::of(SECRET).unwrap();
        assert!(signer.verifies(ID, AT, BODY, SIGNATURE, AT + 300));
        assert!(signer.verifies(ID, AT, BODY, SIGNATURE, AT - 300));
        assert!(!signer.verifies(ID, AT, BODY, SIGNATURE, AT + 301));
        assert!(!signer.verifies(ID, AT, BODY, SIGNATURE, AT - 301));
        assert!(!signer.verifies("msg_other", AT, BODY, SIGNATURE, AT));
        assert!(!signer.verifies(ID, AT, b"{}", SIGNATURE, AT));
        assert!(!signer.verifies(ID, AT, BODY, &SIGNATURE.replace("v1,", "v2,"), AT));
        assert!(!signer.verifies(ID, AT, BODY, &SIGNATURE.replace('g', "h"), AT));
        let unknown_first = format!("v9,AAAA {SIGNATURE}");
        assert!(signer.verifies(ID, AT, BODY, &unknown_first, AT));
    }

    #[test]
    fn a_text_that_is_no_secret_is_refused() {
        for text in [
            "",
            "short",
            "whsec_AAAA",
            "whsec_!!!",
            "line\nbreak-and-more-of-it",
            "whsk_AAAA",
            // A seed with the public key of another one.
            &format!("whsk_{}", STANDARD.encode([7; 64])),
        ] {
            assert_eq!(Signer::of(text).err(), Some(BadSecret), "{text}");
        }
        assert!(Signer::of("a raw secret of Sparrow").is_ok());
    }
}
