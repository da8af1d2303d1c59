//! Rows that the session fold makes: starts and ends in `events`, versions in `sessions`.

use fulmar_sessions::SessionView;

use super::product_rows::degrees;
use super::{EventRow, Pairs, SessionRow};

/// Names of the rows that the fold adds to `events`; doors refuse events of these names.
pub const SESSION_START: &str = "session_start";
/// As [`SESSION_START`].
pub const SESSION_END: &str = "session_end";

/// How long before its first event a session's start stands, so that it comes first.
const START_BEFORE_MS: i64 = 100;

/// How long after its last event a session's end stands.
const END_AFTER_MS: i64 = 1_000;

/// The start of a session: a copy of the event that started it. `id` is its own.
pub fn session_start<'a>(event: &EventRow<'a>, id: &'a str) -> EventRow<'a> {
    EventRow {
        event_id: id,
        name: SESSION_START,
        // No client sent it: it stands in no ledger.
        client_id: "",
        created_at: event.created_at.saturating_sub(START_BEFORE_MS),
        revenue: 0,
        ..*event
    }
}

/// The end of a session, with the session's own values. `at` is the record that ended it;
/// `properties` hold whether it bounced.
pub fn session_end<'a>(
    session: &SessionView<'a>,
    id: &'a str,
    properties: &'a Pairs,
    (partition, offset): (u16, u64),
) -> EventRow<'a> {
    let found = &session.surroundings;
    let [latitude, longitude] = degrees(found);
    let [referrer, referrer_name, referrer_type] = session.referrer;
    let created_at = session.ended_ms.saturating_add(END_AFTER_MS);
    EventRow {
        event_id: id,
        name: SESSION_END,
        sdk_name: "",
        sdk_version: "",
        device_id: session.device_id,
        profile_id: session.profile_id,
        project_id: session.project,
        client_id: "",
        session_id: session.id,
        groups: session.groups,
        path: session.exit_path,
        origin: session.exit_origin,
        referrer,
        referrer_name,
        referrer_type,
        revenue: 0,
        duration: session.duration_ms(),
        properties,
        created_at,
        country: found.country,
        city: found.city,
        region: found.region,
        longitude,
        latitude,
        os: found.os,
        os_version: found.os_version,
        browser: found.browser,
        browser_version: found.browser_version,
        device: found.device,
        brand: found.brand,
        model: found.model,
        imported_at: None,
        ingest_time: created_at,
        log_partition: i32::from(partition),
        log_offset: offset as i64,
    }
}

/// A version of a session.
pub fn session_row<'a>(session: &SessionView<'a>) -> SessionRow<'a> {
    let found = &session.surroundings;
    let [latitude, longitude] = degrees(found);
    let [referrer, referrer_name, referrer_type] = session.referrer;
    let [utm_medium, utm_source, utm_campaign, utm_content, utm_term] = session.campaign;
    SessionRow {
        id: session.id,
        project_id: session.project,
        profile_id: session.profile_id,
        device_id: session.device_id,
        groups: session.groups,
        created_at: session.created_ms,
        ended_at: session.ended_ms,
        is_bounce: session.is_bounce(),
        entry_origin: session.entry_origin,
        entry_path: session.entry_path,
        exit_origin: session.exit_origin,
        exit_path: session.exit_path,
        screen_view_count: count(session.screen_views),
        event_count: count(session.events),
        revenue: session.revenue as f64,
        duration: u32::try_from(session.duration_ms()).unwrap_or(u32::MAX),
        country: found.country,
        city: found.city,
        region: found.region,
        longitude,
        latitude,
        os: found.os,
        os_version: found.os_version,
        browser: found.browser,
        browser_version: found.browser_version,
        device: found.device,
        brand: found.brand,
        model: found.model,
        utm_medium,
        utm_source,
        utm_campaign,
        utm_content,
        utm_term,
        referrer,
        referrer_name,
        referrer_type,
        sign: 1,
        version: session.version,
        log_partition: i32::from(session.partition),
        log_offset: session.offset as i64,
    }
}

fn count(events: u32) -> i32 {
    i32::try_from(events).unwrap_or(i32::MAX)
}
