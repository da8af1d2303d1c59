//! The control of the writer half: each record decoded into owned structs, checked, moved into
//! an owned row, and that appended to the same builders. Frozen with the control.

use fulmar_store::tables::{EnumName, SecurityEventRow, SecurityEventsBuilder};
use prost::Message as _;
use regex::Regex;

use super::contract::{Authentication, Body, Endpoint, Event, Timestamp};
use super::rules::contract_fault;

/// A row that owns its text.
#[derive(Debug, Default)]
struct OwnedRow {
    event_id: String,
    schema_version: u32,
    event_class: &'static str,
    times_ms: [i64; 3],
    tenant_id: String,
    agent_id: String,
    hostname: String,
    host_ip: String,
    os: String,
    architecture: String,
    collector: String,
    source: String,
    sequence: u64,
    gateway: String,
    batch_id: String,
    activity: &'static str,
    outcome: &'static str,
    outcome_reason: String,
    method: String,
    user: [String; 3],
    service: [String; 2],
    source_endpoint: (String, u16),
    destination_endpoint: (String, u16),
    transport: &'static str,
    raw_record: String,
}

/// Decodes, checks and appends records one by one.
pub struct RowsControl {
    identifier: Regex,
    agent_id: Regex,
}

impl Default for RowsControl {
    fn default() -> Self {
        let regex = |pattern| Regex::new(pattern).expect("the pattern is a constant and valid");
        Self {
            identifier: regex("^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$"),
            agent_id: regex("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"),
        }
    }
}

impl RowsControl {
    /// Decodes a record and checks it; none if either fails.
    pub fn decode(&self, bytes: &[u8]) -> Option<Event> {
        let event = Event::decode(bytes).ok()?;
        contract_fault(&event, &self.identifier, &self.agent_id)
            .is_none()
            .then_some(event)
    }

    /// Appends a record's row; false if it is refused.
    pub fn append(
        &self,
        bytes: &[u8],
        partition: u16,
        offset: u64,
        builder: &mut SecurityEventsBuilder,
    ) -> bool {
        let Some(row) = self.decode(bytes).and_then(owned_row) else {
            return false;
        };
        builder.append(&borrowed(&row, partition, offset));
        true
    }
}

fn owned_row(event: Event) -> Option<OwnedRow> {
    let Some(Body::Authentication(body)) = event.body else {
        return None;
    };
    let origin = event.origin.unwrap_or_default();
    let host = origin.host.unwrap_or_default();
    let collection = event.collection.unwrap_or_default();
    let reception = event.reception.unwrap_or_default();
    let time = event.time.unwrap_or_default();
    let times = [time.event_time, time.observed_time, reception.ingest_time];
    let mut row = OwnedRow {
        event_id: event.event_id,
        schema_version: event.schema_version,
        event_class: "authentication",
        tenant_id: origin.tenant_id,
        agent_id: origin.agent_id,
        hostname: host.hostname,
        host_ip: host.ip,
        os: host.os,
        architecture: host.architecture,
        collector: collection.collector,
        source: collection.source,
        sequence: collection.sequence,
        gateway: reception.gateway,
        batch_id: reception.batch_id,
        ..payload(body)
    };
    for (millis, time) in row.times_ms.iter_mut().zip(times) {
        *millis = storable_millis(time)?;
    }
    Some(row)
}

/// Milliseconds since the epoch; none outside of what tables hold, the epoch when absent.
fn storable_millis(time: Option<Timestamp>) -> Option<i64> {
    let time = time.unwrap_or_default();
    if !(-2_208_988_800..=9_223_372_036).contains(&time.seconds) {
        return None;
    }
    Some(time.seconds * 1_000 + i64::from(time.nanos) / 1_000_000)
}

fn payload(body: Authentication) -> OwnedRow {
    let user = body.user.unwrap_or_default();
    let service = body.service.unwrap_or_default();
    let network = body.network.unwrap_or_default();
    let endpoint = |endpoint: Option<Endpoint>| {
        let endpoint = endpoint.unwrap_or_default();
        (endpoint.ip, u16::try_from(endpoint.port).unwrap_or(0))
    };
    let name = |names: [&'static str; 3], number: i32| {
        usize::try_from(number)
            .ok()
            .and_then(|number| names.get(number).copied())
            .unwrap_or("")
    };
    OwnedRow {
        activity: name(["", "logon", "logoff"], body.activity),
        outcome: name(["", "success", "failure"], body.outcome),
        outcome_reason: body.outcome_reason,
        method: body.method,
        user: [user.name, user.domain, user.uid],
        service: [service.name, service.protocol],
        source_endpoint: endpoint(network.source),
        destination_endpoint: endpoint(network.destination),
        transport: name(["", "tcp", "udp"], network.transport),
        raw_record: body.raw_record,
        ..OwnedRow::default()
    }
}

fn borrowed(row: &OwnedRow, partition: u16, offset: u64) -> SecurityEventRow<'_> {
    SecurityEventRow {
        event_id: &row.event_id,
        schema_version: row.schema_version,
        event_class: EnumName::Known(row.event_class),
        event_time: row.times_ms[0],
        observed_time: row.times_ms[1],
        ingest_time: row.times_ms[2],
        tenant_id: &row.tenant_id,
        agent_id: &row.agent_id,
        host_hostname: &row.hostname,
        host_ip: &row.host_ip,
        host_os: &row.os,
        host_architecture: &row.architecture,
        collector: &row.collector,
        source: &row.source,
        sequence: row.sequence,
        gateway: &row.gateway,
        batch_id: &row.batch_id,
        auth_activity: EnumName::Known(row.activity),
        auth_outcome: EnumName::Known(row.outcome),
        auth_outcome_reason: &row.outcome_reason,
        auth_method: &row.method,
        auth_user_name: &row.user[0],
        auth_user_domain: &row.user[1],
        auth_user_uid: &row.user[2],
        auth_service_name: &row.service[0],
        auth_service_protocol: &row.service[1],
        auth_source_ip: &row.source_endpoint.0,
        auth_source_port: row.source_endpoint.1,
        auth_destination_ip: &row.destination_endpoint.0,
        auth_destination_port: row.destination_endpoint.1,
        auth_transport: EnumName::Known(row.transport),
        auth_raw_record: &row.raw_record,
        log_partition: i32::from(partition),
        log_offset: offset as i64,
    }
}
