//! What folds keep: versions of sessions, profiles and groups, of which the last
//! of an id counts. Compaction removes the earlier ones of a day.

use super::column;

super::declare_table! {
    super::Table::Sessions,
    /// One version, borrowed from the fold.
    row SessionRow,
    /// Rows of `sessions` under construction.
    builder SessionsBuilder,
    key: (project_id, created_at, id, log_offset),
    {
        /// The session.
        id: Text = "id",
        /// The project.
        project_id: Label = "project_id",
        /// The profile that was identified last; the device where none was.
        profile_id: Label = "profile_id",
        /// The device.
        device_id: Label = "device_id",
        /// Ids of all groups of its events.
        groups: TextList = "groups",
        /// Its first event.
        created_at: Time = "created_at",
        /// Its last event.
        ended_at: Time = "ended_at",
        /// Whether it has at most one view.
        is_bounce: Flag = "is_bounce",
        /// Scheme and host of the first page.
        entry_origin: Label = "entry_origin",
        /// Path of the first page.
        entry_path: Label = "entry_path",
        /// Scheme and host of the last page.
        exit_origin: Label = "exit_origin",
        /// Path of the last page.
        exit_path: Label = "exit_path",
        /// Views of pages.
        screen_view_count: I32 = "screen_view_count",
        /// Other events.
        event_count: I32 = "event_count",
        /// Sum of revenue, minor currency units.
        revenue: F64 = "revenue",
        /// Milliseconds from first to last event.
        duration: U32 = "duration",
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
        /// Of the first event's query.
        utm_medium: Label = "utm_medium",
        /// Of the first event's query.
        utm_source: Label = "utm_source",
        /// Of the first event's query.
        utm_campaign: Label = "utm_campaign",
        /// Of the first event's query.
        utm_content: Label = "utm_content",
        /// Of the first event's query.
        utm_term: Label = "utm_term",
        /// Where the visitor came from.
        referrer: Label = "referrer",
        /// Its name.
        referrer_name: Label = "referrer_name",
        /// Its kind.
        referrer_type: Label = "referrer_type",
        /// Always 1: rows that cancel others are made for ClickHouse alone.
        sign: I8 = "sign",
        /// Count of folded events.
        version: U64 = "version",
        /// The record's partition in the log.
        log_partition: Partition = "log_partition",
        /// The record's offset in the log.
        log_offset: Offset = "log_offset",
    }
}

super::declare_table! {
    super::Table::Profiles,
    /// One version, borrowed from the fold.
    row ProfileRow,
    /// Rows of `profiles` under construction.
    builder ProfilesBuilder,
    key: (project_id, created_at, id, log_offset),
    {
        /// The profile.
        id: Text = "id",
        /// The project.
        project_id: Label = "project_id",
        /// Whether a producer named it; else it is a device.
        is_external: Flag = "is_external",
        /// As identified last.
        first_name: Label = "first_name",
        /// As identified last.
        last_name: Label = "last_name",
        /// As identified last.
        email: Label = "email",
        /// As identified last.
        avatar: Label = "avatar",
        /// Merged, flat.
        properties: Properties = "properties",
        /// Ids of its groups.
        groups: TextList = "groups",
        /// When it was first seen.
        created_at: Time = "created_at",
        /// When it was last seen.
        last_seen_at: Time = "last_seen_at",
        /// The record's partition in the log.
        log_partition: Partition = "log_partition",
        /// The record's offset in the log.
        log_offset: Offset = "log_offset",
    }
}

super::declare_table! {
    super::Table::Groups,
    /// One version, borrowed from the fold.
    row GroupRow,
    /// Rows of `groups` under construction.
    builder GroupsBuilder,
    key: (project_id, created_at, id, log_offset),
    {
        /// The group.
        id: Text = "id",
        /// The project.
        project_id: Label = "project_id",
        /// Its type.
        kind: Label = "type",
        /// Its name.
        name: Label = "name",
        /// Merged, flat.
        properties: Properties = "properties",
        /// When it was first told of.
        created_at: Time = "created_at",
        /// When it changed last.
        updated_at: Time = "updated_at",
        /// Whether it is gone.
        deleted: Flag = "deleted",
        /// The record's partition in the log.
        log_partition: Partition = "log_partition",
        /// The record's offset in the log.
        log_offset: Offset = "log_offset",
    }
}
