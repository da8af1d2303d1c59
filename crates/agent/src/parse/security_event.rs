//! Events of the agents door: one authentication each.

use fulmar_event::limits::{
    HOSTNAME_BYTES_MAX, METHOD_BYTES_MAX, RAW_RECORD_BYTES_MAX, SOURCE_BYTES_MAX,
    USER_NAME_BYTES_MAX,
};
use fulmar_event::{AuthenticationDraft, Timestamp, encode_event};

use super::sshd::{Activity, SshdLine};
use super::{Place, cut, moved};
use crate::id::event_id;
use crate::item::Item;

/// The name of this collector in `collection.collector`.
const COLLECTOR: &str = "fulmar-send";

/// Appends the line's event, once for each repeat. Fields longer than the
/// contract takes are cut on a character; the raw line tells the rest.
pub(super) fn append(line: &SshdLine<'_>, raw: &str, place: Place<'_>, out: &mut Vec<Item>) {
    let (activity, outcome) = match line.activity {
        Activity::Logon { success: true } => (1, 1),
        Activity::Logon { success: false } => (1, 2),
        Activity::Logoff => (2, 1),
    };
    let time = moved(line.time, place.shift);
    for repeat in 0..u64::from(line.repeats) {
        let id = event_id(place.source, place.offset, place.line, repeat);
        let draft = AuthenticationDraft {
            event_id: &id,
            event_time: contract_time(time),
            observed_time: contract_time(place.now),
            host_hostname: cut(line.host, HOSTNAME_BYTES_MAX),
            collector: COLLECTOR,
            collection_source: cut(place.source, SOURCE_BYTES_MAX),
            sequence: place.offset,
            activity,
            outcome,
            outcome_reason: line.reason,
            method: cut(line.method, METHOD_BYTES_MAX),
            user_name: cut(line.user, USER_NAME_BYTES_MAX),
            service_name: "sshd",
            service_protocol: "ssh",
            source_ip: line.ip,
            source_port: u32::from(line.port),
            transport: i32::from(!line.ip.is_empty()),
            raw_record: cut(raw, RAW_RECORD_BYTES_MAX),
            ..AuthenticationDraft::default()
        };
        let mut bytes = Vec::with_capacity(320 + raw.len());
        encode_event(&draft, &mut bytes);
        out.push(Item {
            id,
            time_ms: Some(time.as_millisecond()),
            bytes,
        });
    }
}

fn contract_time(time: jiff::Timestamp) -> Timestamp {
    let nanos = time.as_nanosecond();
    Timestamp {
        seconds: nanos.div_euclid(1_000_000_000) as i64,
        nanos: nanos.rem_euclid(1_000_000_000) as u32,
    }
}
