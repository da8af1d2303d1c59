//! From what SDKs sent to rows: events, bot hits, replay chunks.

use fulmar_event::{
    BotView, Enrichment, EventView, ReplayView, TrackView, flatten_properties, query_pairs,
};

use fulmar_sessions::Placed;

use super::projection::{text, time_ms};
use super::{BotRow, EventRow, Pairs, ReplayChunkRow, Unstorable};

/// Properties that only the server makes: what a client sends under these names is no property.
const SERVER_MADE: &str = "__bot";

/// Sets `pairs` to the flat properties of an event: the producer's, then the page's query and
/// fragment and the signs of a bot.
///
/// # Errors
/// When the properties are no flat object within the limits.
pub fn flat_properties(
    track: &TrackView<'_>,
    enrichment: &Enrichment<'_>,
    pairs: &mut Pairs,
) -> Result<(), Unstorable> {
    pairs.clear();
    if !track.properties.is_empty() {
        let json = text(track.properties, "track.properties")?;
        flatten_properties(json, |key, value| {
            if !key.starts_with(SERVER_MADE) {
                pairs.set(key, value);
            }
        })?;
    }
    let mut key = String::new();
    for (name, value) in query_pairs(track.query) {
        if !value.is_empty() {
            key.clear();
            key.push_str("__query.");
            key.push_str(&name);
            pairs.set(&key, &value);
        }
    }
    if !track.fragment.is_empty() {
        // With its sign, as a browser's `location.hash` has it.
        key.clear();
        key.push('#');
        key.push_str(track.fragment);
        pairs.set("__hash", &key);
    }
    let reasons = enrichment.bot_reasons;
    if !reasons.is_empty() {
        pairs.set("__bot_reasons", reasons);
        if is_bot(reasons) {
            pairs.set("__bot", "1");
        }
    }
    Ok(())
}

/// An address of a data centre or a missing header alone may be a person's.
fn is_bot(reasons: &str) -> bool {
    let any = |of: &str| reasons.split(',').any(|reason| reason.starts_with(of));
    any("datacenter_ip") && any("header")
}

/// A product event that is known to fit its table.
#[derive(Clone, Copy, Debug)]
pub struct Track<'a> {
    /// The event.
    pub event: &'a EventView<'a>,
    /// Its payload.
    pub track: &'a TrackView<'a>,
    /// What the door looked up.
    pub enrichment: Enrichment<'a>,
    /// Its time, ms since the epoch.
    pub time_ms: i64,
    ingest_ms: i64,
}

impl<'a> Track<'a> {
    /// Looks whether all of the event's values fit, and sets `properties` to its flat ones.
    ///
    /// # Errors
    /// When one does not.
    pub fn check(
        event: &'a EventView<'a>,
        track: &'a TrackView<'a>,
        properties: &mut Pairs,
    ) -> Result<Track<'a>, Unstorable> {
        let enrichment = Enrichment::parse(event.enrichment).map_err(Unstorable::Enrichment)?;
        flat_properties(track, &enrichment, properties)?;
        Ok(Track {
            event,
            track,
            enrichment,
            time_ms: time_ms(event.event_time, "time.event_time")?,
            ingest_ms: time_ms(event.ingest_time, "reception.ingest_time")?,
        })
    }

    /// Its row, where the session fold has placed it.
    pub fn row(
        &self,
        placed: &Placed<'a>,
        properties: &'a Pairs,
        (partition, offset): (u16, u64),
    ) -> EventRow<'a> {
        let (event, track, found) = (self.event, self.track, &self.enrichment);
        let [latitude, longitude] = degrees(found);
        EventRow {
            event_id: event.event_id,
            name: track.name,
            sdk_name: track.sdk_name,
            sdk_version: track.sdk_version,
            device_id: placed.device_id,
            profile_id: match track.profile_id {
                "" => placed.device_id,
                named => named,
            },
            project_id: event.stamp.project,
            client_id: event.stamp.source,
            session_id: placed.session_id,
            groups: track.groups,
            path: track.path,
            origin: track.origin,
            referrer: placed.referrer,
            referrer_name: placed.referrer_name,
            referrer_type: placed.referrer_type,
            revenue: track.revenue,
            duration: 0,
            properties,
            created_at: self.time_ms,
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
            imported_at: track.is_imported.then_some(self.ingest_ms),
            ingest_time: self.ingest_ms,
            log_partition: i32::from(partition),
            log_offset: offset as i64,
        }
    }
}

/// Latitude and longitude in degrees.
pub(crate) fn degrees(enrichment: &Enrichment<'_>) -> [Option<f32>; 2] {
    let degrees = |micros: i32| Some((f64::from(micros) / 1e6) as f32);
    match enrichment.place_micros {
        Some((latitude, longitude)) => [degrees(latitude), degrees(longitude)],
        None => [None, None],
    }
}

/// The row of a bot's request.
///
/// # Errors
/// When one of its values fits no column.
pub fn project_bot<'a>(
    event: &EventView<'a>,
    bot: &BotView<'a>,
    (partition, offset): (u16, u64),
) -> Result<BotRow<'a>, Unstorable> {
    Ok(BotRow {
        id: event.event_id,
        project_id: event.stamp.project,
        client_id: event.stamp.source,
        name: bot.name,
        kind: bot.kind,
        path: bot.path,
        created_at: time_ms(event.event_time, "time.event_time")?,
        log_partition: i32::from(partition),
        log_offset: offset as i64,
    })
}

/// The row of a part of a recorded session.
///
/// # Errors
/// When one of its values fits no column.
pub fn project_replay_chunk<'a>(
    event: &EventView<'a>,
    replay: &ReplayView<'a>,
    (partition, offset): (u16, u64),
) -> Result<ReplayChunkRow<'a>, Unstorable> {
    let started_at = replay.started_at.or(event.event_time);
    Ok(ReplayChunkRow {
        id: event.event_id,
        project_id: event.stamp.project,
        client_id: event.stamp.source,
        session_id: replay.session_id,
        device_id: replay.device_id,
        chunk_index: replay.chunk_index,
        started_at: time_ms(started_at, "replay.started_at")?,
        ended_at: time_ms(replay.ended_at.or(started_at), "replay.ended_at")?,
        events_count: replay.events_count,
        is_full_snapshot: replay.is_full_snapshot,
        payload: text(replay.payload, "replay.payload")?,
        log_partition: i32::from(partition),
        log_offset: offset as i64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(track: TrackView<'_>, bot_reasons: &str) -> String {
        let enrichment = Enrichment {
            bot_reasons,
            ..Enrichment::default()
        };
        let mut pairs = Pairs::default();
        pairs.set("of the row before", "1");
        flat_properties(&track, &enrichment, &mut pairs).unwrap();
        let pairs: Vec<String> = pairs
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        pairs.join(" ")
    }

    #[test]
    fn properties_are_what_was_sent_and_what_the_page_says() {
        let track = TrackView {
            properties: br#"{"plan":"pro","nested":{"a":1},"__bot":"no","__path":"/x"}"#,
            query: "utm_source=google&empty=&q=a%20b",
            fragment: "top",
            ..TrackView::default()
        };
        let page = "__query.utm_source=google __query.q=a b __hash=#top";
        assert_eq!(flat(track, ""), format!("plan=pro nested.a=1 {page}"));
        assert_eq!(flat(TrackView::default(), ""), "");
    }

    #[test]
    fn two_kinds_of_signs_make_a_bot() {
        let signs = "datacenter_ip:AS16509,header:missing_sec_fetch";
        let both = format!("__bot_reasons={signs} __bot=1");
        assert_eq!(flat(TrackView::default(), signs), both);
        let headers = "header:missing_sec_fetch,header:missing_accept_language";
        let one = format!("__bot_reasons={headers}");
        assert_eq!(flat(TrackView::default(), headers), one);
    }

    #[test]
    fn properties_that_are_none_are_named() {
        let track = TrackView {
            properties: b"[1]",
            ..TrackView::default()
        };
        let refused = flat_properties(&track, &Enrichment::default(), &mut Pairs::default());
        assert!(refused.unwrap_err().to_string().starts_with("properties: "));
    }
}
