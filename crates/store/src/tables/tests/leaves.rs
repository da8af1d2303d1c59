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
        "track.name",
        "has no table yet: such an event is quarantined",
    ),
    (
        "track.properties",
        "has no table yet: such an event is quarantined",
    ),
    (
        "profile.profile_id",
        "has no table yet: such an event is quarantined",
    ),
    (
        "profile.properties",
        "has no table yet: such an event is quarantined",
    ),
];

/// The column that holds a leaf, in one of the tables.
const STORED: &[(&str, Table, &str)] = &[
    ("event_id", Table::SecurityEvents, "event_id"),
    ("schema_version", Table::SecurityEvents, "schema_version"),
    ("event_class", Table::SecurityEvents, "event_class"),
    ("time.event_time", Table::SecurityEvents, "event_time"),
    ("time.observed_time", Table::SecurityEvents, "observed_time"),
    ("origin.tenant_id", Table::SecurityEvents, "tenant_id"),
    ("origin.agent_id", Table::SecurityEvents, "agent_id"),
    (
        "origin.host.hostname",
        Table::SecurityEvents,
        "host_hostname",
    ),
    ("origin.host.ip", Table::SecurityEvents, "host_ip"),
    ("origin.host.os", Table::SecurityEvents, "host_os"),
    (
        "origin.host.architecture",
        Table::SecurityEvents,
        "host_architecture",
    ),
    ("collection.collector", Table::SecurityEvents, "collector"),
    ("collection.source", Table::SecurityEvents, "source"),
    ("collection.sequence", Table::SecurityEvents, "sequence"),
    (
        "reception.ingest_time",
        Table::SecurityEvents,
        "ingest_time",
    ),
    ("reception.gateway", Table::SecurityEvents, "gateway"),
    ("reception.batch_id", Table::SecurityEvents, "batch_id"),
    (
        "authentication.activity",
        Table::SecurityEvents,
        "auth_activity",
    ),
    (
        "authentication.outcome",
        Table::SecurityEvents,
        "auth_outcome",
    ),
    (
        "authentication.outcome_reason",
        Table::SecurityEvents,
        "auth_outcome_reason",
    ),
    (
        "authentication.method",
        Table::SecurityEvents,
        "auth_method",
    ),
    (
        "authentication.user.name",
        Table::SecurityEvents,
        "auth_user_name",
    ),
    (
        "authentication.user.domain",
        Table::SecurityEvents,
        "auth_user_domain",
    ),
    (
        "authentication.user.uid",
        Table::SecurityEvents,
        "auth_user_uid",
    ),
    (
        "authentication.service.name",
        Table::SecurityEvents,
        "auth_service_name",
    ),
    (
        "authentication.service.protocol",
        Table::SecurityEvents,
        "auth_service_protocol",
    ),
    (
        "authentication.network.source.ip",
        Table::SecurityEvents,
        "auth_source_ip",
    ),
    (
        "authentication.network.source.port",
        Table::SecurityEvents,
        "auth_source_port",
    ),
    (
        "authentication.network.destination.ip",
        Table::SecurityEvents,
        "auth_destination_ip",
    ),
    (
        "authentication.network.destination.port",
        Table::SecurityEvents,
        "auth_destination_port",
    ),
    (
        "authentication.network.transport",
        Table::SecurityEvents,
        "auth_transport",
    ),
    (
        "authentication.raw_record",
        Table::SecurityEvents,
        "auth_raw_record",
    ),
    ("stamp.project", Table::Messages, "project_id"),
    ("stamp.source", Table::Messages, "client_id"),
    ("stamp.control_offset", Table::Messages, "control_offset"),
    ("stamp.key", Table::Messages, "key"),
    ("message.type", Table::Messages, "type"),
    ("message.source", Table::Messages, "source"),
    ("message.subject", Table::Messages, "subject"),
    ("message.consumer", Table::Messages, "consumer"),
    ("message.data", Table::Messages, "data"),
    (
        "message.data_content_type",
        Table::Messages,
        "data_content_type",
    ),
    ("message.data_base64", Table::Messages, "data_base64"),
    ("message.extensions", Table::Messages, "extensions"),
    ("message.labels", Table::Messages, "labels"),
    (
        "message.idempotency_key",
        Table::Messages,
        "idempotency_key",
    ),
    ("message.schema", Table::Messages, "schema_valid"),
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
    let stored = STORED.iter().map(|(leaf, ..)| *leaf);
    let known: BTreeSet<String> = stored
        .chain(NOT_STORED.iter().map(|(leaf, _)| *leaf))
        .map(str::to_owned)
        .collect();
    assert_eq!(found, known);
    for (leaf, table, column) in STORED {
        assert!(
            table.column_index(column).is_some(),
            "{leaf} is in no column {column}"
        );
    }
}
