//! One event of the events door, from its JSON object.

use std::borrow::Cow;

use fulmar_event::limits::{
    MESSAGE_ID_BYTES_MAX, MESSAGE_SOURCE_BYTES_MAX, MESSAGE_TYPE_BYTES_MAX,
};
use fulmar_event::{SchemaCheck, Timestamp};

use super::time::parse_rfc3339;
use super::verdict::{Fault, code};
use crate::json::{DEPTH_MAX, JsonError, RawText, Scanner, decode_text};

/// Labels of one event, and bytes of a label's name and of its value.
const LABELS_MAX: usize = 64;
const LABEL_NAME_BYTES_MAX: usize = 64;
const LABEL_VALUE_BYTES_MAX: usize = 256;

/// Bytes of an unknown member's name that an answer repeats.
const NAME_BYTES_SHOWN: usize = 64;

/// An event as sent, its parts standing in the request's body.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Event<'a> {
    pub(super) kind: Cow<'a, str>,
    pub(super) id: Option<Cow<'a, str>>,
    pub(super) time: Option<Timestamp>,
    pub(super) key: Option<Cow<'a, str>>,
    pub(super) source: Cow<'a, str>,
    pub(super) subject: Cow<'a, str>,
    /// A JSON object of strings as it stands, or empty.
    pub(super) labels: &'a str,
    /// The producer's own bytes, or empty.
    pub(super) data: Cow<'a, [u8]>,
    pub(super) data_content_type: Cow<'a, str>,
    pub(super) data_base64: bool,
    /// A JSON object of CloudEvents attributes, or empty.
    pub(super) extensions: Vec<u8>,
    /// Of a publication, or empty.
    pub(super) idempotency_key: Cow<'a, str>,
    /// When a delivery of it is of no use any more, ms since the epoch; 0 is never.
    pub(super) expires_ms: i64,
    pub(super) schema: SchemaCheck,
}

/// An event that can't be admitted, with its id if that was read.
#[derive(Debug, PartialEq)]
pub(super) struct Refused {
    pub(super) id: Option<String>,
    pub(super) fault: Fault,
}

const MEMBERS: [&str; 8] = [
    "type", "id", "time", "key", "source", "subject", "labels", "data",
];

/// Reads an event whose text is grammatical JSON. Of several faults the first
/// in the text is named.
pub(super) fn parse_event(text: &str) -> Result<Event<'_>, Refused> {
    let mut event = Event::default();
    match read_members(text, &mut event) {
        Ok(()) => Ok(event),
        Err(fault) => Err(Refused {
            id: event.id.map(Cow::into_owned),
            fault,
        }),
    }
}

fn read_members<'a>(text: &'a str, event: &mut Event<'a>) -> Result<(), Fault> {
    let mut scanner = Scanner::new(text);
    let mut seen = Members::default();
    each_member(&mut scanner, |name, value| {
        let Some(place) = MEMBERS.iter().position(|member| *member == name) else {
            return Err(unknown(&name));
        };
        seen.once(place, &name)?;
        read_member(&name, value, event)
    })?;
    if event.kind.is_empty() {
        return Err(Fault::of_field("type", "is missing or empty"));
    }
    Ok(())
}

fn read_member<'a>(name: &str, value: &'a str, event: &mut Event<'a>) -> Result<(), Fault> {
    // A null is a member that is not there, but in `data`, where it is data.
    if value == "null" && name != "data" {
        return Ok(());
    }
    match name {
        "type" => event.kind = text_member(name, value, 1, MESSAGE_TYPE_BYTES_MAX)?,
        "id" => event.id = Some(text_member(name, value, 1, MESSAGE_ID_BYTES_MAX)?),
        "time" => event.time = Some(time_member(name, value)?),
        "key" => event.key = Some(text_member(name, value, 1, MESSAGE_ID_BYTES_MAX)?),
        "source" => event.source = text_member(name, value, 0, MESSAGE_SOURCE_BYTES_MAX)?,
        "subject" => event.subject = text_member(name, value, 0, MESSAGE_SOURCE_BYTES_MAX)?,
        "labels" => event.labels = labels_member(value)?,
        _ => {
            event.data = Cow::Borrowed(value.as_bytes());
            event.data_content_type = Cow::Borrowed("application/json");
        }
    }
    Ok(())
}

/// Calls `visit` with each member's name and its value as it stands. The text
/// has to be one JSON object; `data` may go to its full depth in it.
pub(crate) fn each_member<'a>(
    scanner: &mut Scanner<'a>,
    mut visit: impl FnMut(Cow<'a, str>, &'a str) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if !scanner.take(b'{') {
        return Err(Fault::of_field("", "must be an object"));
    }
    if scanner.take(b'}') {
        return Ok(());
    }
    loop {
        let name = scanner.name().map_err(malformed)?;
        let name = decode_text(name)
            .map_err(|error| Fault::of_field("", format!("a member's name: {error}")))?;
        let value = scanner.value(DEPTH_MAX).map_err(malformed)?;
        visit(name, value)?;
        if !scanner.take(b',') {
            return scanner
                .expect(b'}', "a brace is missing")
                .map_err(malformed);
        }
    }
}

pub(crate) fn malformed(error: JsonError) -> Fault {
    Fault::new(code::MALFORMED_JSON, "", error.to_string())
}

pub(super) fn unknown(name: &str) -> Fault {
    let mut end = name.len().min(NAME_BYTES_SHOWN);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    Fault::new(code::UNKNOWN_MEMBER, &name[..end], hint(name))
}

/// What a member that no event has may have been meant for.
fn hint(name: &str) -> Cow<'static, str> {
    let lower = name.to_ascii_lowercase();
    let meant = match lower.as_str() {
        "specversion" | "datacontenttype" | "dataschema" => {
            return Cow::Borrowed(
                "is of CloudEvents: send those as application/cloudevents+json, an array of them \
                 as application/cloudevents-batch+json",
            );
        }
        "event" | "event_type" | "eventtype" | "kind" | "name" => Some("type"),
        "event_id" | "eventid" | "uuid" | "message_id" | "messageid" => Some("id"),
        "timestamp" | "ts" | "@timestamp" | "event_time" | "eventtime" | "occurred_at" => {
            Some("time")
        }
        "payload" | "properties" | "body" | "attributes" => Some("data"),
        "partition_key" | "partitionkey" | "ordering_key" => Some("key"),
        "tags" | "metadata" => Some("labels"),
        other => MEMBERS.into_iter().find(|member| *member == other),
    };
    match meant {
        Some(member) => Cow::Owned(format!("no event has this member; `{member}` was meant?")),
        None => {
            let members = MEMBERS.join(", ");
            Cow::Owned(format!("no event has this member; an event has {members}"))
        }
    }
}

/// Which members were there, by their place in a list.
#[derive(Debug, Default)]
pub(super) struct Members(u64);

impl Members {
    pub(super) fn once(&mut self, place: usize, name: &str) -> Result<(), Fault> {
        if self.0 >> place & 1 == 1 {
            return Err(Fault::new(code::REPEATED_MEMBER, name, "stands twice"));
        }
        self.0 |= 1 << place;
        Ok(())
    }

    pub(super) fn has(&self, place: usize) -> bool {
        self.0 >> place & 1 == 1
    }
}

/// A string within its bounds, in bytes, without control characters.
pub(super) fn text_member<'a>(
    name: &str,
    value: &'a str,
    bytes_min: usize,
    bytes_max: usize,
) -> Result<Cow<'a, str>, Fault> {
    let text = plain_text(name, value)?;
    if text.len() < bytes_min || text.len() > bytes_max {
        return Err(Fault::of_field(
            name,
            format!("must have {bytes_min} to {bytes_max} bytes"),
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(Fault::of_field(name, "must have no control characters"));
    }
    Ok(text)
}

/// A string, whatever its length.
pub(crate) fn plain_text<'a>(name: &str, value: &'a str) -> Result<Cow<'a, str>, Fault> {
    let Some(inner) = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
    else {
        return Err(Fault::of_field(name, "must be a string"));
    };
    let raw = RawText {
        inner,
        escaped: inner.contains('\\'),
    };
    decode_text(raw).map_err(|error| Fault::of_field(name, error.to_string()))
}

pub(super) fn time_member(name: &str, value: &str) -> Result<Timestamp, Fault> {
    let text = plain_text(name, value)?;
    parse_rfc3339(&text).ok_or_else(|| Fault::of_field(name, "must be an RFC 3339 time"))
}

/// An object of strings, passed on as it stands.
pub(super) fn labels_member(value: &str) -> Result<&str, Fault> {
    let mut names: Vec<Cow<'_, str>> = Vec::new();
    let mut scanner = Scanner::new(value);
    let checked = each_member(&mut scanner, |name, value| {
        if names.contains(&name) {
            return Err(Fault::new(
                code::REPEATED_MEMBER,
                "labels",
                "a label stands twice",
            ));
        }
        if names.len() == LABELS_MAX {
            return Err(Fault::of_field(
                "labels",
                format!("must be at most {LABELS_MAX}"),
            ));
        }
        if name.is_empty() || name.len() > LABEL_NAME_BYTES_MAX {
            let detail = format!("a name must have 1 to {LABEL_NAME_BYTES_MAX} bytes");
            return Err(Fault::of_field("labels", detail));
        }
        text_member("labels", value, 0, LABEL_VALUE_BYTES_MAX)?;
        names.push(name);
        Ok(())
    });
    match checked {
        Ok(()) => Ok(value),
        Err(fault) if fault.field.is_empty() => {
            Err(Fault::of_field("labels", "must be an object of strings"))
        }
        Err(fault) => Err(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_of(text: &str) -> (&'static str, String) {
        let refused = parse_event(text).unwrap_err();
        (refused.fault.code, refused.fault.field)
    }

    #[test]
    fn every_member_as_it_stands() {
        let text = r#"{"type":"order.paid","id":"o-1","time":"2026-11-30T21:56:06.5Z",
            "key":"customer\u002d7","source":"shop","subject":"s","labels":{"a":"b"},
            "data": {"n": 1.10, "big":9007199254740993,"s":"\ud800"} }"#;
        let event = parse_event(text).unwrap();
        assert_eq!(
            (&*event.kind, event.id.as_deref()),
            ("order.paid", Some("o-1"))
        );
        assert_eq!(event.key.as_deref(), Some("customer-7"));
        let time = event.time.unwrap();
        assert_eq!((time.seconds, time.nanos), (1_796_075_766, 500_000_000));
        let data = r#"{"n": 1.10, "big":9007199254740993,"s":"\ud800"}"#;
        assert_eq!(&*event.data, data.as_bytes());
        assert_eq!(
            (&*event.source, &*event.subject, event.labels),
            ("shop", "s", r#"{"a":"b"}"#)
        );
    }

    #[test]
    fn only_type_is_needed_and_null_is_absence() {
        let event = parse_event(r#"{"type":"t","id":null,"time":null,"data":null}"#).unwrap();
        assert_eq!((event.id, event.time), (None, None));
        assert_eq!(&*event.data, b"null");
        assert_eq!(&*parse_event(r#"{"type":"t"}"#).unwrap().data, b"");
    }

    #[test]
    fn every_fault_names_its_member() {
        let table = [
            ("7", "invalid_event", ""),
            ("null", "invalid_event", ""),
            ("[]", "invalid_event", ""),
            ("{}", "invalid_event", "type"),
            (r#"{"type":""}"#, "invalid_event", "type"),
            (r#"{"type":7}"#, "invalid_event", "type"),
            (r#"{"type":"a\u0000b"}"#, "invalid_event", "type"),
            (r#"{"type":"\ud83c"}"#, "invalid_event", "type"),
            (r#"{"type":"t","id":""}"#, "invalid_event", "id"),
            (r#"{"type":"t","id":1}"#, "invalid_event", "id"),
            (r#"{"type":"t","time":17}"#, "invalid_event", "time"),
            (r#"{"type":"t","time":"now"}"#, "invalid_event", "time"),
            (r#"{"type":"t","key":{}}"#, "invalid_event", "key"),
            (r#"{"type":"t","labels":[]}"#, "invalid_event", "labels"),
            (
                r#"{"type":"t","labels":{"a":1}}"#,
                "invalid_event",
                "labels",
            ),
            (
                r#"{"type":"t","labels":{"a":"","a":""}}"#,
                "repeated_member",
                "labels",
            ),
            (r#"{"type":"t","project":"x"}"#, "unknown_member", "project"),
            (r#"{"type":"t","type":"t"}"#, "repeated_member", "type"),
            (r#"{"type":"t","\u0074ype":"t"}"#, "repeated_member", "type"),
        ];
        for (text, code, field) in table {
            assert_eq!(fault_of(text), (code, field.to_owned()), "{text}");
        }
        let refused = parse_event(r#"{"id":"kept","type":1}"#).unwrap_err();
        assert_eq!(refused.id.as_deref(), Some("kept"));
    }

    #[test]
    fn lengths_are_bounded_in_bytes() {
        for (member, bytes_max) in [("id", 256), ("key", 256), ("source", 512), ("subject", 512)] {
            let with =
                |bytes: usize| format!(r#"{{"type":"t","{member}":"{}"}}"#, "x".repeat(bytes));
            assert!(parse_event(&with(bytes_max)).is_ok(), "{member}");
            let refused = fault_of(&with(bytes_max + 1));
            assert_eq!(refused, ("invalid_event", member.to_owned()));
        }
        let of_type = |bytes: usize| format!(r#"{{"type":"{}"}}"#, "x".repeat(bytes));
        assert!(parse_event(&of_type(255)).is_ok());
        assert_eq!(fault_of(&of_type(256)).1, "type");
    }

    #[test]
    fn data_goes_128_levels_deep() {
        let data = |levels: usize| {
            format!(
                r#"{{"type":"t","data":{}{}}}"#,
                "[".repeat(levels),
                "]".repeat(levels)
            )
        };
        assert!(parse_event(&data(128)).is_ok());
        assert_eq!(fault_of(&data(129)).0, "malformed_json");
    }

    #[test]
    fn a_member_that_no_event_has_is_answered_with_what_was_meant() {
        let table = [
            ("timestamp", "`time` was meant?"),
            ("Payload", "`data` was meant?"),
            ("Type", "`type` was meant?"),
            ("specversion", "application/cloudevents+json"),
            ("colour", "an event has type, id, time, key"),
        ];
        for (member, said) in table {
            let refused = parse_event(&format!(r#"{{"type":"t","{member}":1}}"#)).unwrap_err();
            assert!(refused.fault.detail.contains(said), "{:?}", refused.fault);
        }
    }
}
