//! The rules of the agents door over owned structs, in their order. Frozen with the control.

use std::net::IpAddr;

use fulmar_event::BatchRules;
use regex::Regex;

use super::contract::{Authentication, Body, Endpoint, Event, Host, Timestamp};

/// The path of the first field at fault at the door, none if the event holds.
pub(super) fn first_fault(
    event: &Event,
    identifier: &Regex,
    rules: &BatchRules<'_>,
) -> Option<&'static str> {
    if let Some(field) = event_fault(event, identifier) {
        return Some(field);
    }
    let time = event.time.unwrap_or_default();
    if !is_within(time.event_time.unwrap_or_default(), rules) {
        return Some("time.event_time");
    }
    if !is_within(time.observed_time.unwrap_or_default(), rules) {
        return Some("time.observed_time");
    }
    None
}

/// The path of the first field at fault in a record, none if it holds: with the identity that
/// the door has stamped, without the window.
pub(super) fn contract_fault(
    event: &Event,
    identifier: &Regex,
    agent_id: &Regex,
) -> Option<&'static str> {
    let Some(origin) = &event.origin else {
        return Some("origin");
    };
    if !agent_id.is_match(&origin.agent_id) {
        return Some("origin.agent_id");
    }
    if origin.tenant_id.is_empty() || origin.tenant_id.len() > 64 {
        return Some("origin.tenant_id");
    }
    event_fault(event, identifier)
}

/// The rules that hold at the door and behind the log.
fn event_fault(event: &Event, identifier: &Regex) -> Option<&'static str> {
    if event.event_id.len() < 8 || !identifier.is_match(&event.event_id) {
        return Some("event_id");
    }
    if event.schema_version != 1 {
        return Some("schema_version");
    }
    let Some(time) = &event.time else {
        return Some("time");
    };
    if !time.event_time.is_some_and(|time| is_valid(&time)) {
        return Some("time.event_time");
    }
    if !time.observed_time.is_some_and(|time| is_valid(&time)) {
        return Some("time.observed_time");
    }
    if let Some(host) = event
        .origin
        .as_ref()
        .and_then(|origin| origin.host.as_ref())
        && let Some(field) = host_fault(host)
    {
        return Some(field);
    }
    let Some(collection) = &event.collection else {
        return Some("collection");
    };
    if collection.collector.is_empty() || collection.collector.len() > 64 {
        return Some("collection.collector");
    }
    if collection.source.len() > 512 {
        return Some("collection.source");
    }
    if event.event_class != 1 {
        return Some("event_class");
    }
    let Some(Body::Authentication(body)) = &event.body else {
        return Some("authentication");
    };
    authentication_fault(body)
}

fn is_valid(time: &Timestamp) -> bool {
    (-62_135_596_800..=253_402_300_799).contains(&time.seconds)
        && (0..1_000_000_000).contains(&time.nanos)
}

fn is_within(time: Timestamp, rules: &BatchRules<'_>) -> bool {
    let now = rules.now;
    let oldest = (now.seconds - rules.age_max_seconds, now.nanos as i32);
    let newest = (now.seconds + rules.skew_max_seconds, now.nanos as i32);
    let time = (time.seconds, time.nanos);
    time >= oldest && time <= newest
}

fn host_fault(host: &Host) -> Option<&'static str> {
    if host.hostname.len() > 255 {
        return Some("origin.host.hostname");
    }
    if !address_ok(&host.ip) {
        return Some("origin.host.ip");
    }
    if host.os.len() > 128 {
        return Some("origin.host.os");
    }
    if host.architecture.len() > 32 {
        return Some("origin.host.architecture");
    }
    None
}

/// Empty, or an address of the standard library's, perhaps with a zone.
fn address_ok(text: &str) -> bool {
    if text.is_empty() {
        return true;
    }
    if text.len() > 45 {
        return false;
    }
    match text.split_once('%') {
        Some((address, zone)) => !zone.is_empty() && address.parse::<IpAddr>().is_ok(),
        None => text.parse::<IpAddr>().is_ok(),
    }
}

fn authentication_fault(body: &Authentication) -> Option<&'static str> {
    if body.activity == 0 {
        return Some("authentication.activity");
    }
    if body.outcome == 0 {
        return Some("authentication.outcome");
    }
    if body.outcome_reason.len() > 64 {
        return Some("authentication.outcome_reason");
    }
    if body.method.len() > 32 {
        return Some("authentication.method");
    }
    if let Some(user) = &body.user
        && (user.name.len() > 256 || user.domain.len() > 255 || user.uid.len() > 64)
    {
        return Some("authentication.user");
    }
    if let Some(service) = &body.service
        && (service.name.len() > 64 || service.protocol.len() > 32)
    {
        return Some("authentication.service");
    }
    if let Some(network) = &body.network {
        let bad = |endpoint: &Option<Endpoint>| {
            endpoint
                .as_ref()
                .is_some_and(|e| !address_ok(&e.ip) || e.port > 65_535)
        };
        if bad(&network.source) || bad(&network.destination) {
            return Some("authentication.network");
        }
    }
    if body.raw_record.len() > 4_096 {
        return Some("authentication.raw_record");
    }
    None
}
