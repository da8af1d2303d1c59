//! Every leaf of the contract is stored, or named here as not stored.

use std::collections::{BTreeMap, BTreeSet};

use crate::tables::Table;

const CONTRACT: &str = include_str!("../../../../../proto/fulmar_event_v1.proto");

/// Leaves that no table holds, with the reason.
const NOT_STORED: &[(&str, &str)] = &[
    (
        "stamp.door",
        "says how an event came, which class and gateway tell",
    ),
    (
        "message.expires_ms",
        "is of its deliveries: how long one is of use",
    ),
    ("track.is_server", "its device is `server`"),
    ("profile.change", "says which of the others count"),
    ("profile.property", "names one of the properties"),
    ("profile.amount_micros", "is added to that property"),
    (
        "profile.device_id",
        "finds the session that a profile is in",
    ),
    (
        "profile.session_id",
        "finds the session that a profile is in",
    ),
    ("profile.alias", "joins two profiles"),
];

/// A table, a message of the contract, and its leaves with the columns that hold them.
type Stored = (Table, &'static str, &'static [(&'static str, &'static str)]);

const STORED: &[Stored] = &[
    (
        Table::SecurityEvents,
        "",
        &[
            ("event_id", "event_id"),
            ("schema_version", "schema_version"),
            ("event_class", "event_class"),
        ],
    ),
    (
        Table::SecurityEvents,
        "time",
        &[
            ("event_time", "event_time"),
            ("observed_time", "observed_time"),
        ],
    ),
    (
        Table::SecurityEvents,
        "origin",
        &[("tenant_id", "tenant_id"), ("agent_id", "agent_id")],
    ),
    (
        Table::SecurityEvents,
        "origin.host",
        &[
            ("hostname", "host_hostname"),
            ("ip", "host_ip"),
            ("os", "host_os"),
            ("architecture", "host_architecture"),
        ],
    ),
    (
        Table::SecurityEvents,
        "collection",
        &[
            ("collector", "collector"),
            ("source", "source"),
            ("sequence", "sequence"),
        ],
    ),
    (
        Table::SecurityEvents,
        "reception",
        &[
            ("ingest_time", "ingest_time"),
            ("gateway", "gateway"),
            ("batch_id", "batch_id"),
        ],
    ),
    (
        Table::SecurityEvents,
        "authentication",
        &[
            ("activity", "auth_activity"),
            ("outcome", "auth_outcome"),
            ("outcome_reason", "auth_outcome_reason"),
            ("method", "auth_method"),
            ("raw_record", "auth_raw_record"),
        ],
    ),
    (
        Table::SecurityEvents,
        "authentication.user",
        &[
            ("name", "auth_user_name"),
            ("domain", "auth_user_domain"),
            ("uid", "auth_user_uid"),
        ],
    ),
    (
        Table::SecurityEvents,
        "authentication.service",
        &[
            ("name", "auth_service_name"),
            ("protocol", "auth_service_protocol"),
        ],
    ),
    (
        Table::SecurityEvents,
        "authentication.network.source",
        &[("ip", "auth_source_ip"), ("port", "auth_source_port")],
    ),
    (
        Table::SecurityEvents,
        "authentication.network.destination",
        &[
            ("ip", "auth_destination_ip"),
            ("port", "auth_destination_port"),
        ],
    ),
    (
        Table::SecurityEvents,
        "authentication.network",
        &[("transport", "auth_transport")],
    ),
    (
        Table::Messages,
        "stamp",
        &[
            ("project", "project_id"),
            ("source", "client_id"),
            ("control_offset", "control_offset"),
            ("key", "key"),
        ],
    ),
    (
        Table::Messages,
        "message",
        &[
            ("type", "type"),
            ("source", "source"),
            ("subject", "subject"),
            ("consumer", "consumer"),
            ("data", "data"),
            ("data_content_type", "data_content_type"),
            ("data_base64", "data_base64"),
            ("extensions", "extensions"),
            ("labels", "labels"),
            ("idempotency_key", "idempotency_key"),
            ("schema", "schema_valid"),
        ],
    ),
    (
        Table::Events,
        "track",
        &[
            ("name", "name"),
            ("profile_id", "profile_id"),
            ("groups", "groups"),
            ("device_id", "device_id"),
            ("session_id", "session_id"),
            ("path", "path"),
            ("origin", "origin"),
            ("referrer", "referrer"),
            ("referrer_name", "referrer_name"),
            ("referrer_type", "referrer_type"),
            ("revenue", "revenue"),
            ("sdk_name", "sdk_name"),
            ("sdk_version", "sdk_version"),
            ("properties", "properties"),
            ("query", "properties"),
            ("fragment", "properties"),
            ("is_imported", "imported_at"),
        ],
    ),
    (
        Table::Events,
        "enrichment",
        &[
            ("country", "country"),
            ("city", "city"),
            ("region", "region"),
            ("longitude", "longitude"),
            ("latitude", "latitude"),
            ("os", "os"),
            ("os_version", "os_version"),
            ("browser", "browser"),
            ("browser_version", "browser_version"),
            ("device", "device"),
            ("brand", "brand"),
            ("model", "model"),
            ("bot_reasons", "properties"),
        ],
    ),
    (
        Table::EventsBots,
        "bot",
        &[("name", "name"), ("type", "type"), ("path", "path")],
    ),
    (
        Table::SessionReplayChunks,
        "replay",
        &[
            ("session_id", "session_id"),
            ("device_id", "device_id"),
            ("chunk_index", "chunk_index"),
            ("events_count", "events_count"),
            ("is_full_snapshot", "is_full_snapshot"),
            ("started_at", "started_at"),
            ("ended_at", "ended_at"),
            ("payload", "payload"),
        ],
    ),
    (
        Table::Profiles,
        "profile",
        &[
            ("profile_id", "id"),
            ("properties", "properties"),
            ("first_name", "first_name"),
            ("last_name", "last_name"),
            ("email", "email"),
            ("avatar", "avatar"),
            ("groups", "groups"),
        ],
    ),
    (
        Table::Groups,
        "profile",
        &[
            ("group_id", "id"),
            ("group_type", "type"),
            ("group_name", "name"),
        ],
    ),
];

/// (type, name) of each message's fields, as the contract's text says.
fn messages() -> BTreeMap<String, Vec<(String, String)>> {
    let mut messages: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    // The blocks that are open: a message's name, or none for an enum or oneof.
    let mut open: Vec<Option<String>> = Vec::new();
    for line in CONTRACT.lines() {
        let line = line.split("//").next().unwrap_or("").trim();
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["message", name, rest @ ..] = &words[..] {
            messages.entry(name.to_string()).or_default();
            if *rest != ["{}"] {
                open.push(Some(name.to_string()));
            }
        } else if line.ends_with('{') {
            // Fields of a oneof are fields of its message; values of an enum are none.
            open.push(if words[0] == "oneof" {
                open.last().cloned().flatten()
            } else {
                None
            });
        } else if line.starts_with('}') {
            open.pop();
        } else if let (Some(Some(message)), [kind, name, "=", ..]) = (open.last(), &words[..]) {
            let field = (kind.to_string(), name.to_string());
            messages.get_mut(message).unwrap().push(field);
        }
    }
    messages
}

/// The dotted paths of all leaves below a message.
fn leaves(
    messages: &BTreeMap<String, Vec<(String, String)>>,
    of: &str,
    path: &str,
    out: &mut BTreeSet<String>,
) {
    for (kind, name) in &messages[of] {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        if messages.contains_key(kind) {
            leaves(messages, kind, &path, out);
        } else {
            out.insert(path);
        }
    }
}

#[test]
fn every_leaf_is_stored_or_named_as_not_stored() {
    let messages = messages();
    let mut found = BTreeSet::new();
    leaves(&messages, "Event", "", &mut found);
    let path = |message: &str, leaf: &str| match message {
        "" => leaf.to_owned(),
        _ => format!("{message}.{leaf}"),
    };
    let mut known: BTreeSet<String> = NOT_STORED
        .iter()
        .map(|(leaf, _)| (*leaf).to_owned())
        .collect();
    for (table, message, columns) in STORED {
        for (leaf, column) in *columns {
            let place = table.column_index(column);
            assert!(place.is_some(), "{message}.{leaf} is in no column {column}");
            known.insert(path(message, leaf));
        }
    }
    assert_eq!(found, known);
}
