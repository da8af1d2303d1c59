//! What the door answers when all is well: JSON of a few members.

use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};

use super::batch::Judged;
use super::sessions::Visit;
use crate::events::verdict::push_json_string;
use crate::http::{Answer, answer, no_store};

/// The device and the session that an item belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Visited {
    pub(super) device: String,
    pub(super) session: String,
}

impl From<Visit> for Visited {
    fn from(visit: Visit) -> Self {
        Self {
            device: visit.device,
            session: visit.session,
        }
    }
}

pub(super) fn json(status: StatusCode, body: Vec<u8>) -> Answer {
    no_store(answer(status, "application/json", body))
}

/// `{deviceId, sessionId}`, and why the item was dropped where it was.
pub(super) fn visited(visited: &Visited, dropped: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(b"{\"deviceId\":");
    push_json_string(&visited.device, &mut out);
    out.extend_from_slice(b",\"sessionId\":");
    push_json_string(&visited.session, &mut out);
    if let Some(why) = dropped {
        member("dropped", why, &mut out);
    }
    out.push(b'}');
    out
}

/// A comma, a member's name and its text.
pub(super) fn member(name: &str, value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    push_json_string(value, out);
}

/// The verdicts of a batch behind their counts. With one to send again, when.
pub(super) fn batch(status: StatusCode, head: String, judged: &[Judged], retry: bool) -> Answer {
    let mut out = head.into_bytes();
    // Two ids, two hashes and the words around them.
    out.reserve(judged.len() * 176);
    for (index, item) in judged.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        item.push(index, &mut out);
    }
    out.extend_from_slice(b"]}");
    let mut response = json(status, out);
    if retry {
        let headers = response.headers_mut();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
    }
    response
}

/// `{bot: {name, type}}`.
pub(super) fn bot(name: &str, kind: &str) -> Vec<u8> {
    let mut out = b"{\"bot\":{\"name\":".to_vec();
    push_json_string(name, &mut out);
    out.extend_from_slice(b",\"type\":");
    push_json_string(kind, &mut out);
    out.extend_from_slice(b"}}");
    out
}
