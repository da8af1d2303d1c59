//! Requests of an access log as rows of the SDKs' door, which imports them: views of pages, each of
//! a device that is known by its address and its program.

use sha2::{Digest, Sha256};

use super::combined::AccessLine;
use super::message::Object;
use super::{Place, cut, moved};
use crate::id::{event_id, hex};
use crate::item::Item;

/// Bytes of a path or a referrer that the door takes.
const TEXT_BYTES_MAX: usize = 1_024;

/// Appends `screen_view`.
pub(super) fn append_view(line: &AccessLine<'_>, place: Place<'_>, out: &mut Vec<Item>) {
    let id = event_id(place.source, place.offset, place.line, 0);
    let time = moved(line.time, place.shift);
    let target = line.target.as_deref().unwrap_or("");
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let agent = line.user_agent.as_deref().unwrap_or("");
    let mut json = Object::new(Vec::with_capacity(512));
    json.text("id", Some(&id));
    json.text("name", Some("screen_view"));
    json.text("created_at", Some(&time.to_string()));
    json.text("device_id", Some(&device_id(line.remote_addr, agent)));
    json.text("path", Some(cut(path, TEXT_BYTES_MAX)));
    let referrer = line.referrer.as_deref().unwrap_or("");
    json.text("referrer", Some(cut(referrer, TEXT_BYTES_MAX)));
    json.object("properties", |json| {
        json.text("remote_addr", Some(line.remote_addr));
        json.text("user_agent", line.user_agent.as_deref());
        json.text("user", line.user.as_deref());
        json.text("method", line.method.as_deref());
        json.text("target", line.target.as_deref());
        json.number("status", Some(u64::from(line.status)));
        json.number("bytes", Some(line.bytes));
    });
    out.push(Item {
        id,
        time_ms: Some(time.as_millisecond()),
        bytes: json.end(),
    });
}

/// Hex of the first 16 bytes of SHA-256 over address and agent, each preceded by its length.
fn device_id(address: &str, agent: &str) -> String {
    let mut hasher = Sha256::new();
    for part in [address, agent] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize()[..16])
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::super::combined::parse;
    use super::*;

    #[test]
    fn a_request_is_a_view_of_its_path_by_its_device() {
        let line = "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET /a?b=c HTTP/1.1\" 200 7 \
                    \"https://x.example/\" \"Agent/1.0 (x)\"";
        let place = Place {
            source: "log",
            offset: 0,
            line: line.as_bytes(),
            now: Timestamp::UNIX_EPOCH,
            shift: SignedDuration::ZERO,
        };
        let mut out = Vec::new();
        append_view(&parse(line).unwrap(), place, &mut out);
        let row: serde_json::Value = serde_json::from_slice(&out[0].bytes).unwrap();
        let told =
            ["name", "created_at", "path", "referrer"].map(|name| row[name].as_str().unwrap());
        let expected = [
            "screen_view",
            "2015-05-17T10:05:03Z",
            "/a",
            "https://x.example/",
        ];
        assert_eq!(told, expected);
        assert_eq!(row["properties"]["target"], "/a?b=c");
        // Python's hashlib over 09 00.. '192.0.2.1' | 0d 00.. 'Agent/1.0 (x)'.
        assert_eq!(row["device_id"], "2719109a45ff0b863ff67926948ca7e4");
        assert_eq!(
            (out[0].id.len(), out[0].time_ms),
            (32, Some(1_431_857_103_000))
        );
    }
}
