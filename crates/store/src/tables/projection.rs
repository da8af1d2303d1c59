//! From a record to a row: absent is the zero value, an absent time is the
//! epoch, an enum is its short name, text is stored as sent.

use fulmar_event::{
    AuthenticationView, EventView, MessageView, SchemaCheck, Timestamp, activity_name, class_name,
    outcome_name, transport_name,
};

use super::{EnumName, MessageRow, SecurityEventRow};

/// 1900-01-01T00:00:00Z in seconds since the epoch: the earliest time that the
/// tables' readers can hold.
const SECONDS_MIN: i64 = -2_208_988_800;

/// 2262-04-11T23:47:16Z in seconds since the epoch: the latest (a signed
/// 64-bit count of nanoseconds ends there).
const SECONDS_MAX: i64 = 9_223_372_036;

/// Why a record can't be a row; its neighbours can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unstorable {
    /// A time that no table can hold.
    #[error("{0} is outside of 1900-01-01 to 2262-04-11T23:47:16Z")]
    Time(&'static str),
    /// A number over what its column holds.
    #[error("{0} is over 2^63-1")]
    Number(&'static str),
    /// Text that is no UTF-8.
    #[error("{0} is not UTF-8")]
    Text(&'static str),
    /// Properties that are no flat object.
    #[error(transparent)]
    Properties(#[from] fulmar_event::FlattenError),
    /// What the door looked up can't be read.
    #[error("enrichment: {0}")]
    Enrichment(fulmar_event::Malformed),
    /// A value without which there is no row.
    #[error("{0} is missing or unknown")]
    Missing(&'static str),
}

/// The row of an authentication event.
///
/// # Errors
/// When one of its values fits no column.
#[inline]
pub fn project_security_event<'a>(
    event: &EventView<'a>,
    body: &AuthenticationView<'a>,
    partition: u16,
    offset: u64,
) -> Result<SecurityEventRow<'a>, Unstorable> {
    Ok(SecurityEventRow {
        event_id: event.event_id,
        schema_version: event.schema_version,
        event_class: enum_name(event.event_class, class_name),
        event_time: time_ms(event.event_time, "time.event_time")?,
        observed_time: time_ms(event.observed_time, "time.observed_time")?,
        ingest_time: time_ms(event.ingest_time, "reception.ingest_time")?,
        tenant_id: event.tenant_id,
        agent_id: event.agent_id,
        host_hostname: event.host_hostname,
        host_ip: event.host_ip,
        host_os: event.host_os,
        host_architecture: event.host_architecture,
        collector: event.collector,
        source: event.collection_source,
        sequence: event.sequence,
        gateway: event.gateway,
        batch_id: event.batch_id,
        auth_activity: enum_name(body.activity, activity_name),
        auth_outcome: enum_name(body.outcome, outcome_name),
        auth_outcome_reason: body.outcome_reason,
        auth_method: body.method,
        auth_user_name: body.user_name,
        auth_user_domain: body.user_domain,
        auth_user_uid: body.user_uid,
        auth_service_name: body.service_name,
        auth_service_protocol: body.service_protocol,
        auth_source_ip: body.source_ip,
        auth_source_port: port(body.source_port),
        auth_destination_ip: body.destination_ip,
        auth_destination_port: port(body.destination_port),
        auth_transport: enum_name(body.transport, transport_name),
        auth_raw_record: body.raw_record,
        log_partition: i32::from(partition),
        log_offset: offset as i64,
    })
}

/// The row of a published message.
///
/// # Errors
/// When one of its values fits no column.
#[inline]
pub fn project_message<'a>(
    event: &EventView<'a>,
    body: &MessageView<'a>,
    partition: u16,
    offset: u64,
) -> Result<MessageRow<'a>, Unstorable> {
    let control_offset = i64::try_from(event.stamp.control_offset);
    Ok(MessageRow {
        event_id: event.event_id,
        kind: body.kind,
        event_time: time_ms(event.event_time, "time.event_time")?,
        ingest_time: time_ms(event.ingest_time, "reception.ingest_time")?,
        project_id: event.stamp.project,
        client_id: event.stamp.source,
        source: body.source,
        subject: body.subject,
        key: event.stamp.key,
        consumer: body.consumer,
        data: match body.data {
            [] => None,
            data => Some(text(data, "message.data")?),
        },
        data_content_type: body.data_content_type,
        data_base64: body.data_base64,
        extensions: text(body.extensions, "message.extensions")?,
        labels: text(body.labels, "message.labels")?,
        idempotency_key: body.idempotency_key,
        schema_valid: schema_valid(body.schema),
        control_offset: control_offset.map_err(|_| Unstorable::Number("stamp.control_offset"))?,
        log_partition: i32::from(partition),
        log_offset: offset as i64,
    })
}

/// Checks a time in milliseconds since the epoch.
pub(crate) fn check_ms(time_ms: i64, field: &'static str) -> Result<(), Unstorable> {
    match (SECONDS_MIN..=SECONDS_MAX).contains(&time_ms.div_euclid(1_000)) {
        true => Ok(()),
        false => Err(Unstorable::Time(field)),
    }
}

/// Milliseconds since the epoch, rounded down; the epoch itself when absent.
#[inline]
pub(super) fn time_ms(time: Option<Timestamp>, field: &'static str) -> Result<i64, Unstorable> {
    let Some(time) = time else { return Ok(0) };
    if time.seconds < SECONDS_MIN || time.seconds > SECONDS_MAX {
        return Err(Unstorable::Time(field));
    }
    Ok(time.as_millis())
}

#[inline]
fn enum_name(number: i32, name: fn(i32) -> Option<&'static str>) -> EnumName {
    match name(number) {
        Some(name) => EnumName::Known(name),
        None => EnumName::Unknown(number),
    }
}

/// A port, or 0 for what is none.
#[inline]
fn port(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(0)
}

#[inline]
pub(super) fn text<'a>(bytes: &'a [u8], field: &'static str) -> Result<&'a str, Unstorable> {
    std::str::from_utf8(bytes).map_err(|_| Unstorable::Text(field))
}

/// Null when no schema was registered, or a newer door says something unknown.
fn schema_valid(check: i32) -> Option<bool> {
    const VALID: i32 = SchemaCheck::Valid as i32;
    const INVALID: i32 = SchemaCheck::Invalid as i32;
    match check {
        VALID => Some(true),
        INVALID => Some(false),
        _ => None,
    }
}
