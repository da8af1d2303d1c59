//! What became of each event, and the answer that says so.

use std::borrow::Cow;

/// Why one event is refused. Its neighbours are none the worse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Stable, for machines; see the constants of [`code`].
    pub code: &'static str,
    /// The member at fault, or empty.
    pub field: String,
    /// For people.
    pub detail: Cow<'static, str>,
}

/// The codes of refused events.
pub mod code {
    /// A member is missing, of the wrong kind, or breaks its rule.
    pub const INVALID_EVENT: &str = "invalid_event";
    /// A member that no event has.
    pub const UNKNOWN_MEMBER: &str = "unknown_member";
    /// A member twice.
    pub const REPEATED_MEMBER: &str = "repeated_member";
    /// Older than 3,660 days or over five minutes ahead.
    pub const TIME_OUT_OF_RANGE: &str = "time_out_of_range";
    /// A 65th distinct day in one request.
    pub const TOO_MANY_DAYS: &str = "too_many_days";
    /// Over the bound of one event.
    pub const EVENT_TOO_LARGE: &str = "event_too_large";
    /// An idempotency key that was used for another event.
    pub const IDEMPOTENCY_CONFLICT: &str = "idempotency_conflict";
    /// Nobody registered the event's type.
    pub const UNKNOWN_EVENT_TYPE: &str = "unknown_event_type";
    /// The event's type is deactivated.
    pub const DEACTIVATED_EVENT_TYPE: &str = "deactivated_event_type";
    /// An NDJSON line that is no JSON.
    pub const MALFORMED_JSON: &str = "malformed_json";
}

impl Fault {
    pub(crate) fn new(
        code: &'static str,
        field: impl Into<String>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            code,
            field: field.into(),
            detail: detail.into(),
        }
    }

    pub(crate) fn of_field(field: &str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::INVALID_EVENT, field, detail)
    }
}

/// What became of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Durable, under this id.
    Accepted(String),
    /// Durable already.
    Duplicate(String),
    /// Refused, with its id if it could be read.
    Refused(Option<String>, Fault),
}

/// How many of each.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) accepted: u64,
    pub(super) duplicates: u64,
    pub(super) refused: u64,
}

pub(super) fn count(verdicts: &[Verdict]) -> Counts {
    let mut counts = Counts::default();
    for verdict in verdicts {
        match verdict {
            Verdict::Accepted(_) => counts.accepted += 1,
            Verdict::Duplicate(_) => counts.duplicates += 1,
            Verdict::Refused(..) => counts.refused += 1,
        }
    }
    counts
}

/// The body of the answer, in the contract's shape and order.
pub(super) fn to_json(verdicts: &[Verdict]) -> Vec<u8> {
    list_json(verdicts, push_verdict)
}

/// The counts, and for each event its place and what `push` adds.
pub(super) fn list_json(
    verdicts: &[Verdict],
    push: impl Fn(usize, &Verdict, &mut Vec<u8>),
) -> Vec<u8> {
    let counts = count(verdicts);
    // An id of 36 bytes and the words around it are about 90.
    let mut out = Vec::with_capacity(80 + verdicts.len() * 96);
    let head = format!(
        r#"{{"accepted":{},"duplicates":{},"refused":{},"events":["#,
        counts.accepted, counts.duplicates, counts.refused
    );
    out.extend_from_slice(head.as_bytes());
    for (index, verdict) in verdicts.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"index\":");
        out.extend_from_slice(index.to_string().as_bytes());
        push(index, verdict, &mut out);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    out
}

fn push_verdict(_: usize, verdict: &Verdict, out: &mut Vec<u8>) {
    let (id, status, fault) = match verdict {
        Verdict::Accepted(id) => (Some(id), "accepted", None),
        Verdict::Duplicate(id) => (Some(id), "duplicate", None),
        Verdict::Refused(id, fault) => (id.as_ref(), "refused", Some(fault)),
    };
    if let Some(id) = id {
        push_member("id", id, out);
    }
    push_member("status", status, out);
    if let Some(fault) = fault {
        push_fault(fault, out);
    }
}

pub(super) fn push_fault(fault: &Fault, out: &mut Vec<u8>) {
    push_member("code", fault.code, out);
    push_member("field", &fault.field, out);
    push_member("detail", &fault.detail, out);
}

fn push_member(name: &str, value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    push_json_string(value, out);
}

/// Appends a string as JSON.
pub(crate) fn push_json_string(value: &str, out: &mut Vec<u8>) {
    let plain = value
        .bytes()
        .all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
    if plain {
        out.push(b'"');
        out.extend_from_slice(value.as_bytes());
        out.push(b'"');
        return;
    }
    out.push(b'"');
    for character in value.chars() {
        push_character(character, out);
    }
    out.push(b'"');
}

fn push_character(character: char, out: &mut Vec<u8>) {
    match character {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        control if control < ' ' => {
            out.extend_from_slice(format!("\\u{:04x}", u32::from(control)).as_bytes());
        }
        other => {
            let mut bytes = [0; 4];
            out.extend_from_slice(other.encode_utf8(&mut bytes).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_word_by_word() {
        let verdicts = [
            Verdict::Accepted("a\"\u{1}".to_owned()),
            Verdict::Duplicate("b".to_owned()),
            Verdict::Refused(None, Fault::of_field("type", "is missing")),
        ];
        let expected = concat!(
            r#"{"accepted":1,"duplicates":1,"refused":1,"events":["#,
            r#"{"index":0,"id":"a\"\u0001","status":"accepted"},"#,
            r#"{"index":1,"id":"b","status":"duplicate"},"#,
            r#"{"index":2,"status":"refused","code":"invalid_event","field":"type","#,
            r#""detail":"is missing"}]}"#
        );
        assert_eq!(String::from_utf8(to_json(&verdicts)).unwrap(), expected);
        serde_json::from_str::<serde_json::Value>(expected).unwrap();
    }
}
