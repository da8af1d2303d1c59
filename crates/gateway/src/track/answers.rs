//! What the door answers when all is well: JSON of a few members.

use std::borrow::Cow;

use hyper::StatusCode;

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
pub(super) fn visited(visited: &Visited, dropped: Option<Cow<'static, str>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(b"{\"deviceId\":");
    push_json_string(&visited.device, &mut out);
    out.extend_from_slice(b",\"sessionId\":");
    push_json_string(&visited.session, &mut out);
    if let Some(why) = dropped {
        out.extend_from_slice(b",\"dropped\":");
        push_json_string(&why, &mut out);
    }
    out.push(b'}');
    out
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
