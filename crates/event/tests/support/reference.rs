//! The rules of the agents door over a full decode: what the walk must agree with.

use std::net::{Ipv4Addr, Ipv6Addr};

use fulmar_event::BatchRules;

use super::fields::{Field, block, number, split};
use super::mirror::{self, Body, Event};

/// What a full decode says of one event.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Not an event.
    Malformed,
    /// The path of the first field at fault.
    Refused(&'static str),
    /// The record that must stand in the log.
    Admitted(Vec<u8>),
}

/// Judges one event.
pub fn judge(bytes: &[u8], rules: &BatchRules<'_>) -> Verdict {
    let Some(event) = mirror::decode(bytes) else {
        return Verdict::Malformed;
    };
    if bytes.len() > rules.event_bytes_max as usize {
        return Verdict::Refused("");
    }
    let foreign = split(bytes)
        .iter()
        .any(|field| (110..=114).contains(&field.number));
    match first_fault(&event, foreign, rules) {
        Some(field) => Verdict::Refused(field),
        None => Verdict::Admitted(stamped(bytes, rules)),
    }
}

fn first_fault(event: &Event, foreign: bool, rules: &BatchRules<'_>) -> Option<&'static str> {
    let rest_ok = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    let id = event.event_id.as_bytes();
    let id_ok = (8..=64).contains(&id.len())
        && id[0].is_ascii_alphanumeric()
        && id.iter().all(|byte| rest_ok(*byte));
    let fault = |ok: bool, field| if ok { None } else { Some(field) };
    fault(id_ok, "event_id")
        .or_else(|| fault(event.schema_version == 1, "schema_version"))
        .or_else(|| time_fault(event))
        .or_else(|| host_fault(event))
        .or_else(|| collection_fault(event))
        .or_else(|| fault(event.event_class == 1, "event_class"))
        .or_else(|| fault(!foreign, "body"))
        .or_else(|| authentication_fault(event))
        .or_else(|| window_fault(event, rules))
}

fn time_fault(event: &Event) -> Option<&'static str> {
    let Some(time) = &event.time else {
        return Some("time");
    };
    let years = -62_135_596_800..=253_402_300_799;
    let valid = |time: Option<mirror::Timestamp>| {
        time.is_some_and(|t| years.contains(&t.seconds) && (0..1_000_000_000).contains(&t.nanos))
    };
    if !valid(time.event_time) {
        return Some("time.event_time");
    }
    if !valid(time.observed_time) {
        return Some("time.observed_time");
    }
    None
}

fn ip_ok(text: &str) -> bool {
    if text.is_empty() || text.parse::<Ipv4Addr>().is_ok() {
        return true;
    }
    let (address, zone) = text.split_once('%').unwrap_or((text, "none"));
    text.len() <= 45 && !zone.is_empty() && address.parse::<Ipv6Addr>().is_ok()
}

fn host_fault(event: &Event) -> Option<&'static str> {
    let host = event
        .origin
        .clone()
        .unwrap_or_default()
        .host
        .unwrap_or_default();
    [
        (host.hostname.len() <= 255, "origin.host.hostname"),
        (ip_ok(&host.ip), "origin.host.ip"),
        (host.os.len() <= 128, "origin.host.os"),
        (host.architecture.len() <= 32, "origin.host.architecture"),
    ]
    .into_iter()
    .find_map(|(ok, field)| (!ok).then_some(field))
}

fn collection_fault(event: &Event) -> Option<&'static str> {
    let Some(collection) = &event.collection else {
        return Some("collection");
    };
    [
        (
            (1..=64).contains(&collection.collector.len()),
            "collection.collector",
        ),
        (collection.source.len() <= 512, "collection.source"),
    ]
    .into_iter()
    .find_map(|(ok, field)| (!ok).then_some(field))
}

fn authentication_fault(event: &Event) -> Option<&'static str> {
    let Some(Body::Authentication(body)) = &event.body else {
        return Some("authentication");
    };
    let user = body.user.clone().unwrap_or_default();
    let service = body.service.clone().unwrap_or_default();
    let network = body.network.clone().unwrap_or_default();
    let source = network.source.unwrap_or_default();
    let destination = network.destination.unwrap_or_default();
    [
        (body.activity != 0, "authentication.activity"),
        (body.outcome != 0, "authentication.outcome"),
        (
            body.outcome_reason.len() <= 64,
            "authentication.outcome_reason",
        ),
        (body.method.len() <= 32, "authentication.method"),
        (user.name.len() <= 256, "authentication.user.name"),
        (user.domain.len() <= 255, "authentication.user.domain"),
        (user.uid.len() <= 64, "authentication.user.uid"),
        (service.name.len() <= 64, "authentication.service.name"),
        (
            service.protocol.len() <= 32,
            "authentication.service.protocol",
        ),
        (ip_ok(&source.ip), "authentication.network.source.ip"),
        (source.port <= 65_535, "authentication.network.source.port"),
        (
            ip_ok(&destination.ip),
            "authentication.network.destination.ip",
        ),
        (
            destination.port <= 65_535,
            "authentication.network.destination.port",
        ),
        (body.raw_record.len() <= 4_096, "authentication.raw_record"),
    ]
    .into_iter()
    .find_map(|(ok, field)| (!ok).then_some(field))
}

fn window_fault(event: &Event, rules: &BatchRules<'_>) -> Option<&'static str> {
    let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let now = nanos(rules.now.seconds, i64::from(rules.now.nanos));
    let oldest = now - nanos(rules.age_max_seconds, 0);
    let newest = now + nanos(rules.skew_max_seconds, 0);
    let time = event.time.unwrap_or_default();
    for (time, field) in [
        (time.event_time, "time.event_time"),
        (time.observed_time, "time.observed_time"),
    ] {
        let time = time.unwrap_or_default();
        if !(oldest..=newest).contains(&nanos(time.seconds, i64::from(time.nanos))) {
            return Some(field);
        }
    }
    None
}

/// The record of a valid event, put together field by field.
pub fn stamped(bytes: &[u8], rules: &BatchRules<'_>) -> Vec<u8> {
    let fields = split(bytes);
    let keep = |fields: &[Field], owned: &[u32]| -> Vec<u8> {
        let kept = fields.iter().filter(|field| !owned.contains(&field.number));
        kept.flat_map(|field| field.bytes.clone()).collect()
    };
    let mut record = keep(&fields, &[5, 7, 100, 101]);
    let mut origin = Vec::new();
    for field in fields.iter().filter(|field| field.number == 5) {
        origin.extend(keep(&split(&field.value), &[1, 2]));
    }
    origin.extend(block(1, rules.project.as_bytes()));
    origin.extend(block(2, rules.agent_id.as_bytes()));
    record.extend(block(5, &origin));
    let now = [
        number(1, rules.now.seconds as u64),
        number(2, u64::from(rules.now.nanos)),
    ];
    let reception = [
        block(1, &now.concat()),
        block(2, rules.gateway.as_bytes()),
        block(3, b"batch-1"),
    ];
    record.extend(block(7, &reception.concat()));
    let stamp = [
        block(1, rules.project.as_bytes()),
        block(2, rules.agent_id.as_bytes()),
        number(3, 1),
        number(4, rules.control_offset),
        block(5, rules.agent_id.as_bytes()),
    ];
    record.extend(block(100, &stamp.concat()));
    record
}
