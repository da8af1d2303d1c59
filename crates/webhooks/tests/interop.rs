//! Our signatures against the reference library, and its against ours.

#![allow(clippy::unwrap_used)]

use fulmar_webhooks::sign::{Signer, new_secret};
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
