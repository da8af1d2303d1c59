//! Events of the events door: one JSON object each, members in a fixed order.

use jiff::Timestamp;

use super::combined::AccessLine;
use super::ndjson::{self, JsonLine};
use super::sshd::{Activity, SshdLine};
use super::{Place, cut, moved};
use crate::id::event_id;
use crate::item::Item;

/// Bytes of `source` that the door takes.
const SOURCE_BYTES_MAX: usize = 512;

/// Bytes of the collected line that an event carries, as at the agents door.
const RAW_RECORD_BYTES_MAX: usize = 4_096;

/// Bytes of an ordering key; host names in DNS are shorter.
const KEY_BYTES_MAX: usize = 255;

/// Appends `ssh.logon` or `ssh.logoff`, once for each repeat. The key is the
/// host, so that a host's events keep their order (I3).
pub(super) fn append_sshd(line: &SshdLine<'_>, raw: &str, place: Place<'_>, out: &mut Vec<Item>) {
    let (kind, outcome) = match line.activity {
        Activity::Logon { success: true } => ("ssh.logon", "success"),
        Activity::Logon { success: false } => ("ssh.logon", "failure"),
        Activity::Logoff => ("ssh.logoff", "success"),
    };
    for repeat in 0..u64::from(line.repeats) {
        let envelope = Envelope {
            kind,
            time: line.time,
            key: line.host,
            repeat,
        };
        out.push(envelope.item(place, |json| {
            json.text("host", Some(line.host));
            json.text("outcome", Some(outcome));
            json.text(
                "outcome_reason",
                Some(line.reason).filter(|text| !text.is_empty()),
            );
            json.text("method", Some(line.method).filter(|text| !text.is_empty()));
            json.text("user", Some(line.user));
            json.text("source_ip", Some(line.ip).filter(|text| !text.is_empty()));
            json.number(
                "source_port",
                (line.port > 0).then_some(u64::from(line.port)),
            );
            json.text("raw_record", Some(cut(raw, RAW_RECORD_BYTES_MAX)));
        }));
    }
}

/// Appends `http.request`. The key is the peer, so that a peer's requests keep
/// their order (I3).
pub(super) fn append_access(line: &AccessLine<'_>, place: Place<'_>, out: &mut Vec<Item>) {
    let envelope = Envelope {
        kind: "http.request",
        time: line.time,
        key: line.remote_addr,
        repeat: 0,
    };
    out.push(envelope.item(place, |json| {
        json.text("remote_addr", Some(line.remote_addr));
        json.text("user", line.user.as_deref());
        json.text("method", line.method.as_deref());
        json.text("target", line.target.as_deref());
        json.text("protocol", line.protocol.as_deref());
        json.number("status", Some(u64::from(line.status)));
        json.number("bytes", Some(line.bytes));
        json.text("referrer", line.referrer.as_deref());
        json.text("user_agent", line.user_agent.as_deref());
    }));
}

/// Appends a producer's own event, its bytes kept.
pub(super) fn append_json(line: &JsonLine<'_>, place: Place<'_>, out: &mut Vec<Item>) {
    let made = event_id(place.source, place.offset, place.line, 0);
    let bytes = ndjson::render(line, &made, place.shift).into_bytes();
    let id = match (line.has_id, line.id) {
        (false, _) => made,
        (true, id) => id.unwrap_or("").to_owned(),
    };
    let time_ms = line
        .time
        .as_ref()
        .map(|(time, _)| moved(*time, place.shift).as_millisecond());
    out.push(Item { id, time_ms, bytes });
}

struct Envelope<'a> {
    kind: &'static str,
    time: Timestamp,
    key: &'a str,
    repeat: u64,
}

impl Envelope<'_> {
    fn item(&self, place: Place<'_>, data: impl FnOnce(&mut Object)) -> Item {
        let id = event_id(place.source, place.offset, place.line, self.repeat);
        let time = moved(self.time, place.shift);
        let mut json = Object::new(Vec::with_capacity(512));
        json.text("id", Some(&id));
        json.text("type", Some(self.kind));
        json.text("time", Some(&time.to_string()));
        json.text("key", Some(cut(self.key, KEY_BYTES_MAX)));
        json.text("source", Some(cut(place.source, SOURCE_BYTES_MAX)));
        json.object("data", data);
        Item {
            id,
            time_ms: Some(time.as_millisecond()),
            bytes: json.end(),
        }
    }
}

/// A JSON object being written.
pub(super) struct Object {
    out: Vec<u8>,
    first: bool,
}

impl Object {
    pub(super) fn new(mut out: Vec<u8>) -> Object {
        out.push(b'{');
        Object { out, first: true }
    }

    fn name(&mut self, name: &str) {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    pub(super) fn text(&mut self, name: &str, value: Option<&str>) {
        self.name(name);
        serde_json::to_writer(&mut self.out, &value).expect("text into memory is always written");
    }

    pub(super) fn number(&mut self, name: &str, value: Option<u64>) {
        self.name(name);
        serde_json::to_writer(&mut self.out, &value).expect("a number is always written");
    }

    pub(super) fn object(&mut self, name: &str, write: impl FnOnce(&mut Object)) {
        self.name(name);
        let mut inner = Object::new(std::mem::take(&mut self.out));
        write(&mut inner);
        self.out = inner.end();
    }

    pub(super) fn end(mut self) -> Vec<u8> {
        self.out.push(b'}');
        self.out
    }
}
