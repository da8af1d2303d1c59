//! Signatures of deliveries: Standard Webhooks 1.0.0, version `v1`.
//!
//! Signed is `id.timestamp.body` with HMAC-SHA-256; a secret is `whsec_` and base64 of 24 to 64
//! bytes. A secret without that prefix signs with its own bytes, as Sparrow has it.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq as _;

/// What a secret's text begins with.
const PREFIX: &str = "whsec_";
/// Bytes of a secret that is made here.
const SECRET_BYTES: usize = 32;
/// Bytes that a decoded secret may have.
const SECRET_BYTES_RANGE: std::ops::RangeInclusive<usize> = 24..=64;
/// Bytes that a raw secret may have.
const RAW_BYTES_RANGE: std::ops::RangeInclusive<usize> = 16..=256;
/// Seconds that a timestamp may be off when a signature is verified.
pub const TOLERANCE_SECONDS: i64 = 300;

/// Why a text is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "takes `whsec_` and base64 of 24 to 64 bytes, or 16 to 256 printable characters without that \
     prefix"
)]
pub struct BadSecret;

/// A key that signs deliveries.
pub struct Signer {
    key: hmac::Key,
}

impl Signer {
    /// The signer of a secret's text.
    ///
    /// # Errors
    /// [`BadSecret`].
    pub fn of(secret: &str) -> Result<Self, BadSecret> {
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
        Ok(Self { key })
    }

    /// Appends ` v1,BASE64` to the value of `webhook-signature`.
    pub fn append(&self, id: &str, timestamp_s: i64, body: &[u8], header: &mut String) {
        if !header.is_empty() {
            header.push(' ');
        }
        header.push_str("v1,");
        STANDARD.encode_string(self.tag(id, timestamp_s, body), header);
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
        let tag = self.tag(id, timestamp_s, body);
        let ours = |text: &str| {
            let signature = text
                .strip_prefix("v1,")
                .and_then(|text| STANDARD.decode(text).ok());
            signature.is_some_and(|bytes| bool::from(bytes.ct_eq(tag.as_ref())))
        };
        header.split(' ').any(ours)
    }

    fn tag(&self, id: &str, timestamp_s: i64, body: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(id.as_bytes());
        context.update(format!(".{timestamp_s}.").as_bytes());
        context.update(body);
        context.sign()
    }
}

/// A new secret from the system's randomness.
///
/// # Errors
/// When the system gives none.
pub fn new_secret() -> Result<String, aws_lc_rs::error::Unspecified> {
    let mut bytes = [0_u8; SECRET_BYTES];
    aws_lc_rs::rand::fill(&mut bytes)?;
    Ok(format!("{PREFIX}{}", STANDARD.encode(bytes)))
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
        ] {
            assert_eq!(Signer::of(text).err(), Some(BadSecret), "{text}");
        }
        assert!(Signer::of("a raw secret of Sparrow").is_ok());
    }
}
