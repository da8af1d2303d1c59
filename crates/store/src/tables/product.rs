//! What SDKs send: `events`, `events_bots` and `session_replay_chunks`, with the
//! names and types that OpenPanel's store gave their columns.

use super::column;

super::declare_table! {
    super::Table::Events,
    /// One row, borrowed from the record that it came from.
    row EventRow,
    /// Rows of `events` under construction.
    builder EventsBuilder,
    key: (project_id, created_at, event_id, log_offset),
    {
        /// The item's id, or the door's; the session's with `-start` or `-end` in rows that the
        /// session fold makes.
        event_id: Text = "event_id",
        /// What happened.
        name: Label = "name",
        /// The SDK that sent it.
        sdk_name: Label = "sdk_name",
        /// Its version.
        sdk_version: Label = "sdk_version",
        /// The device; empty for a server's event without one.
        device_id: Label = "device_id",
        /// The profile; the device where none is known.
        profile_id: Label = "profile_id",
        /// The project.
        project_id: Label = "project_id",
        /// The authenticated client; empty in rows that the session fold makes.
        client_id: Label = "client_id",
        /// The session; empty outside of any.
        session_id: Label = "session_id",
        /// Ids of groups.
        groups: TextList = "groups",
        /// Path of the page, or a route's name.
        path: Label = "path",
        /// Scheme and host of the page.
        origin: Label = "origin",
        /// Where the visitor came from.
        referrer: Label = "referrer",
        /// Its name.
        referrer_name: Label = "referrer_name",
        /// Its kind.
        referrer_type: Label = "referrer_type",
        /// Minor currency units.
        revenue: U64 = "revenue",
        /// Milliseconds; only the end of a session has any.
        duration: U64 = "duration",
        /// The producer's properties, flat.
        properties: Properties = "properties",
        /// When it happened.
        created_at: Time = "created_at",
        /// ISO 3166 code of two letters.
        country: Label = "country",
        /// In English.
        city: Label = "city",
        /// In English.
        region: Label = "region",
        /// Degrees; null when unknown.
        longitude: MaybeF32 = "longitude",
        /// Degrees; null when unknown.
        latitude: MaybeF32 = "latitude",
        /// Operating system.
        os: Label = "os",
        /// Its version.
        os_version: Label = "os_version",
        /// Browser.
        browser: Label = "browser",
        /// Its version.
        browser_version: Label = "browser_version",
        /// Kind of device.
        device: Label = "device",
        /// Who makes it.
        brand: Label = "brand",
        /// What they call it.
        model: Label = "model",
        /// When it was imported; null unless it was.
        imported_at: MaybeTime = "imported_at",
        /// When the door accepted it.
        ingest_time: Time = "ingest_time",
        /// The record's partition in the log.
        log_partition: Partition = "log_partition",
        /// The record's offset in the log.
        log_offset: Offset = "log_offset",
    }
}

super::declare_table! {
    super::Table::EventsBots,
    /// One row, borrowed from the record that it came from.
    row BotRow,
    /// Rows of `events_bots` under construction.
    builder BotsBuilder,
    key: (project_id, created_at, id, log_offset),
    {
        /// The request's id.
        id: Text = "id",
        /// The project.
        project_id: Label = "project_id",
        /// The authenticated client.
        client_id: Label = "client_id",
        /// The bot.
        name: Label = "name",
        /// Its kind.
        kind: Label = "type",
        /// The page that it asked for.
        path: Label = "path",
        /// When it asked.
        created_at: Time = "created_at",
        /// The record's partition in the log.
        log_partition: Partition = "log_partition",
        /// The record's offset in the log.
        log_offset: Offset = "log_offset",
    }
}

super::declare_table! {
    super::Table::SessionReplayChunks,
    /// One row, borrowed from the record that it came from.
    row ReplayChunkRow,
    /// Rows of `session_replay_chunks` under construction.
    builder ReplayChunksBuilder,
    key: (project_id, started_at, id, log_offset),
    {
        /// The chunk's id.
        id: Text = "id",
        /// The project.
        project_id: Label = "project_id",
        /// The authenticated client.
        client_id: Label = "client_id",
        /// The session that was recorded.
        session_id: Label = "session_id",
        /// The device that recorded it.
        device_id: Label = "device_id",
        /// Its place in the recording.
        chunk_index: U32 = "chunk_index",
        /// When its first event was.
        started_at: Time = "started_at",
        /// When its last event was.
        ended_at: Time = "ended_at",
        /// Recorded events in it.
        events_count: U32 = "events_count",
        /// Whether it stands alone.
        is_full_snapshot: Flag = "is_full_snapshot",
        /// The recorder's own text.
        payload: Text = "payload",
        /// The record's partition in the log.
        log_partition: Partition = "log_partition",
        /// The record's offset in the log.
        log_offset: Offset = "log_offset",
    }
}
