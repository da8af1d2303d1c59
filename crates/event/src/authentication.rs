//! Authentication events, written: what an agent sends.

use crate::encode;
use crate::limits::SCHEMA_VERSION;
use crate::time::Timestamp;
use crate::view::CLASS_AUTHENTICATION;

/// An authentication event to be encoded. Empty text and zero numbers are left out, as are
/// submessages of which nothing is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names are the contract's own")]
pub struct AuthenticationDraft<'a> {
    pub event_id: &'a str,
    pub event_time: Timestamp,
    pub observed_time: Timestamp,
    pub host_hostname: &'a str,
    pub host_ip: &'a str,
    pub host_os: &'a str,
    pub host_architecture: &'a str,
    pub collector: &'a str,
    pub collection_source: &'a str,
    pub sequence: u64,
    /// 1 logon, 2 logoff.
    pub activity: i32,
    /// 1 success, 2 failure.
    pub outcome: i32,
    pub outcome_reason: &'a str,
    pub method: &'a str,
    pub user_name: &'a str,
    pub user_domain: &'a str,
    pub user_uid: &'a str,
    pub service_name: &'a str,
    pub service_protocol: &'a str,
    pub source_ip: &'a str,
    pub source_port: u32,
    pub destination_ip: &'a str,
    pub destination_port: u32,
    /// 1 TCP, 2 UDP.
    pub transport: i32,
    pub raw_record: &'a str,
}

/// Appends `draft` to `out` as one `Event`, without what a door owns.
pub fn encode_event(draft: &AuthenticationDraft<'_>, out: &mut Vec<u8>) {
    encode::text(1, draft.event_id, out);
    encode::number(2, u64::from(SCHEMA_VERSION), out);
    encode::number(3, CLASS_AUTHENTICATION as u64, out);
    encode::message(4, out, |out| {
        encode::timestamp(1, draft.event_time, out);
        encode::timestamp(2, draft.observed_time, out);
    });
    encode::optional_message(5, out, |out| {
        encode::optional_message(3, out, |out| {
            encode::text(1, draft.host_hostname, out);
            encode::text(2, draft.host_ip, out);
            encode::text(3, draft.host_os, out);
            encode::text(4, draft.host_architecture, out);
        });
    });
    encode::message(6, out, |out| {
        encode::text(1, draft.collector, out);
        encode::text(2, draft.collection_source, out);
        encode::number(3, draft.sequence, out);
    });
    encode::message(16, out, |out| encode_body(draft, out));
}

fn encode_body(draft: &AuthenticationDraft<'_>, out: &mut Vec<u8>) {
    encode::enumeration(1, draft.activity, out);
    encode::enumeration(2, draft.outcome, out);
    encode::text(3, draft.outcome_reason, out);
    encode::text(4, draft.method, out);
    encode::optional_message(5, out, |out| {
        encode::text(1, draft.user_name, out);
        encode::text(2, draft.user_domain, out);
        encode::text(3, draft.user_uid, out);
    });
    encode::optional_message(6, out, |out| {
        encode::text(1, draft.service_name, out);
        encode::text(2, draft.service_protocol, out);
    });
    encode::optional_message(7, out, |out| {
        encode_endpoint(1, draft.source_ip, draft.source_port, out);
        encode_endpoint(2, draft.destination_ip, draft.destination_port, out);
        encode::enumeration(3, draft.transport, out);
    });
    encode::text(15, draft.raw_record, out);
}

fn encode_endpoint(field: u32, ip: &str, port: u32, out: &mut Vec<u8>) {
    encode::optional_message(field, out, |out| {
        encode::text(1, ip, out);
        encode::number(2, u64::from(port), out);
    });
}
