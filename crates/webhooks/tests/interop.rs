//! Our signatures against the reference library, and its against ours.

#![allow(clippy::unwrap_used)]

use fulmar_webhooks::sign::{Signer, new_private_key, new_secret};
use hyper::HeaderMap;
use standardwebhooks::Webhook;

const BODY: &[u8] = br#"{"version":"1","payload":{"n":1.10}}"#;

fn now_s() -> i64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

fn headers(id: &str, at_s: i64, signature: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("webhook-id", id.parse().unwrap());
    headers.insert("webhook-timestamp", at_s.to_string().parse().unwrap());
    headers.insert("webhook-signature", signature.parse().unwrap());
    headers
}

#[test]
fn theirs_verifies_what_ours_signed() {
    let secret = new_secret().unwrap();
    let (ours, theirs) = (Signer::of(&secret).unwrap(), Webhook::new(&secret).unwrap());
    let other = Signer::of(&new_secret().unwrap()).unwrap();
    for id in ["msg_1", "msg_with.a.dot"] {
        let mut signature = String::new();
        // The old key's signature first: any match counts.
        other.append(id, now_s(), BODY, &mut signature);
        ours.append(id, now_s(), BODY, &mut signature);
        let sent = headers(id, now_s(), &signature);
        theirs.verify(BODY, &sent).unwrap();
        assert!(theirs.verify(b"{}", &sent).is_err());
    }
    for off_s in [-360, 360] {
        let (at_s, mut signature) = (now_s() + off_s, String::new());
        ours.append("msg_1", at_s, BODY, &mut signature);
        assert!(
            theirs
                .verify(BODY, &headers("msg_1", at_s, &signature))
                .is_err()
        );
    }
}

#[test]
fn ours_verifies_what_theirs_signed() {
    let secret = new_secret().unwrap();
    let (ours, theirs) = (Signer::of(&secret).unwrap(), Webhook::new(&secret).unwrap());
    for body in [BODY, b""] {
        let signature = theirs.sign("msg_1", now_s(), body).unwrap();
        assert!(ours.verifies("msg_1", now_s(), body, &signature, now_s()));
        assert!(!ours.verifies("msg_2", now_s(), body, &signature, now_s()));
    }
}

#[test]
fn a_plain_ed25519_library_verifies_v1a_and_is_verified() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};

    let secret = new_private_key().unwrap();
    let ours = Signer::of(&secret).unwrap();
    let seed = STANDARD
        .decode(secret.strip_prefix("whsk_").unwrap())
        .unwrap();
    let theirs = SigningKey::from_bytes(&seed.try_into().unwrap());
    let public = ours.public_key().unwrap();
    let public = STANDARD
        .decode(public.strip_prefix("whpk_").unwrap())
        .unwrap();
    let key = VerifyingKey::from_bytes(&public.try_into().unwrap()).unwrap();
    assert_eq!(key, theirs.verifying_key());

    let (mut header, at_s) = (String::new(), now_s());
    ours.append("msg_1", at_s, BODY, &mut header);
    let signed = [format!("msg_1.{at_s}.").as_bytes(), BODY].concat();
    let signature = STANDARD
        .decode(header.strip_prefix("v1a,").unwrap())
        .unwrap();
    let signature = ed25519_dalek::Signature::from_slice(&signature).unwrap();
    key.verify_strict(&signed, &signature).unwrap();
    let header = format!(
        "v1,AAAA v1a,{}",
        STANDARD.encode(theirs.sign(&signed).to_bytes())
    );
    assert!(ours.verifies("msg_1", at_s, BODY, &header, at_s));
    assert!(!ours.verifies("msg_2", at_s, BODY, &header, at_s));
}
