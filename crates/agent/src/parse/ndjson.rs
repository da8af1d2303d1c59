//! Events that are JSON already: passed on as they are, with an id where the
//! producer gave none, so that a repeat is still a repeat.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The members that a sender looks at; all others are skipped over.
#[derive(Deserialize)]
struct Probe<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    time: Option<&'a RawValue>,
}

/// A member that is there, though it be `null`.
fn present<'de, D>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// What a line holds.
#[derive(Debug, PartialEq, Eq)]
pub struct JsonLine<'a> {
    /// The object's text without surrounding blanks.
    pub text: &'a str,
    /// The value of `id`, unquoted, if it is a string without escapes.
    pub id: Option<&'a str>,
    /// Whether there is any `id` at all.
    pub has_id: bool,
    /// The value of `time` where it is a time, with its place in `text`.
    pub time: Option<(Timestamp, std::ops::Range<usize>)>,
}

/// Reads a line. `None` when it is no JSON object; anything else that is wrong
/// with it is the door's to judge, event by event.
pub fn parse(line: &str) -> Option<JsonLine<'_>> {
    let text = line.trim_matches([' ', '\t', '\r', '\n']);
    if !text.starts_with('{') {
        return None;
    }
    match serde_json::from_str::<Probe<'_>>(text) {
        Ok(probe) => Some(JsonLine {
            text,
            id: probe.id.and_then(|raw| plain_string(raw.get())),
            has_id: probe.id.is_some(),
            time: probe.time.and_then(|raw| time_at(text, raw.get())),
        }),
        // A repeated member: the door refuses it by name.
        Err(error) if error.is_data() => Some(JsonLine {
            text,
            id: None,
            has_id: true,
            time: None,
        }),
        Err(_) => None,
    }
}

/// The text to send: `id` added where there is none, the time moved by
/// `shift`. Every other byte stays.
pub fn render(line: &JsonLine<'_>, id: &str, shift: SignedDuration) -> String {
    let mut out = String::with_capacity(line.text.len() + 48);
    out.push('{');
    let rest = &line.text[1..];
    if !line.has_id {
        out.push_str("\"id\":\"");
        out.push_str(id);
        out.push('"');
        let empty = rest.trim_start().starts_with('}');
        out.push_str(if empty { "" } else { "," });
    }
    match &line.time {
        Some((time, place)) if !shift.is_zero() => {
            let moved = time.checked_add(shift).unwrap_or(*time);
            out.push_str(&line.text[1..place.start]);
            out.push('"');
            out.push_str(&moved.to_string());
            out.push('"');
            out.push_str(&line.text[place.end..]);
        }
        _ => out.push_str(rest),
    }
    out
}

fn plain_string(raw: &str) -> Option<&str> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    (!inner.contains('\\')).then_some(inner)
}

/// `raw` is a slice of `text`, so that its place is the difference of the two.
fn time_at(text: &str, raw: &str) -> Option<(Timestamp, std::ops::Range<usize>)> {
    let time = plain_string(raw)?.parse().ok()?;
    let start = (raw.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let place = start..start + raw.len();
    (text.get(place.clone()) == Some(raw)).then_some((time, place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sent(line: &str, shift_s: i64) -> Option<String> {
        parse(line).map(|line| render(&line, "ID", SignedDuration::from_secs(shift_s)))
    }

    #[test]
    fn an_id_is_added_only_where_there_is_none() {
        let rows = [
            (r#"{"type":"a"}"#, Some(r#"{"id":"ID","type":"a"}"#)),
            (r#"{}"#, Some(r#"{"id":"ID"}"#)),
            (r#" { "type":"a" } "#, Some(r#"{"id":"ID", "type":"a" }"#)),
            (r#"{"id":"x","type":"a"}"#, Some(r#"{"id":"x","type":"a"}"#)),
            (r#"{"id":7}"#, Some(r#"{"id":7}"#)),
            (r#"{"id":null}"#, Some(r#"{"id":null}"#)),
            (
                r#"{"data":{"id":"x"}}"#,
                Some(r#"{"id":"ID","data":{"id":"x"}}"#),
            ),
            (r#"{"id":"x","id":"y"}"#, Some(r#"{"id":"x","id":"y"}"#)),
            (
                r#"{"n":1.0e400,"n":12345678901234567890}"#,
                Some(r#"{"id":"ID","n":1.0e400,"n":12345678901234567890}"#),
            ),
            ("[]", None),
            ("", None),
            ("{", None),
            (r#"{"a":1} x"#, None),
            ("x", None),
        ];
        for (line, want) in rows {
            assert_eq!(sent(line, 0).as_deref(), want, "{line}");
        }
    }

    #[test]
    fn a_time_is_moved_in_its_place() {
        let rows = [
            (
                r#"{"id":"x", "time" : "2026-01-01T00:00:00Z","b":1}"#,
                r#"{"id":"x", "time" : "2026-01-01T00:01:00Z","b":1}"#,
            ),
            (
                r#"{"time":"2026-01-01T02:00:00+02:00"}"#,
                r#"{"id":"ID","time":"2026-01-01T00:01:00Z"}"#,
            ),
            (r#"{"id":"x","time":"soon"}"#, r#"{"id":"x","time":"soon"}"#),
            (
                r#"{"id":"x","data":{"time":"2026-01-01T00:00:00Z"}}"#,
                r#"{"id":"x","data":{"time":"2026-01-01T00:00:00Z"}}"#,
            ),
        ];
        for (line, want) in rows {
            assert_eq!(sent(line, 60).as_deref(), Some(want), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC*") {
            let _ = sent(&text, 5);
            let _ = sent(&format!("{{{text}}}"), 5);
        }
    }
}
