//! The status document: ledger, lag, backlog, disk, rates, windows.

use std::collections::BTreeMap;
use std::path::Path;

use fulmar_flow::{FoldHandle, Ledger, State};
use fulmar_log::{JournalStats, Topic, disk};
use fulmar_store::delivery_writer::DELIVERIES;
use fulmar_store::profile_writer::PROFILES;
use fulmar_store::writer::WRITER;
use fulmar_webhooks::sender::SenderStats;
use serde_json::{Value, json};

use crate::admin::{Desk, time_text};
use crate::config::Config;
use crate::exit::Failure;
use crate::node::{self, Node};
use crate::serve::{Live, disk_floor};

/// The status of a running server.
pub fn of_server(live: &Live) -> Result<Value, Failure> {
    let mut status = of_parts(&live.desk, &live.state, &live.folder, &live.config)?;
    status["state"] = json!(live.unready().unwrap_or("ready"));
    status["started"] = json!(time_text(live.started_ms));
    status["rates"] = json!(live.rates());
    let mut repeats = json!(live.repeats.stats());
    repeats["window_ms"] = json!(live.config.number("repeats.window"));
    status["repeats"] = repeats;
    status["webhooks"] = webhooks(&live.webhooks.sender.stats());
    Ok(status)
}

/// The status of a folder beside no server.
pub fn of_node(node: &Node) -> Result<Value, Failure> {
    of_parts(
        &node.desk(Vec::new()),
        &node.state,
        node.data.root(),
        &node.config,
    )
}

fn of_parts(desk: &Desk, state: &State, folder: &Path, config: &Config) -> Result<Value, Failure> {
    // The writer's counts are read before the log's end is: the end only grows, so that the
    // ledger, which is read last, never finds the position ahead of it.
    let folds: Vec<_> = desk.folds.iter().map(FoldHandle::stats).collect();
    let topics: Vec<JournalStats> = desk
        .journals
        .iter()
        .map(|journal| journal.stats())
        .collect();
    let ledger = ledger(desk, state)?;
    let of_profiles = ledger_of(desk, state, Topic::Profiles, PROFILES)?;
    let of_deliveries = ledger_of(desk, state, Topic::Deliveries, DELIVERIES)?;
    let ledgers = [&ledger, &of_profiles, &of_deliveries];
    let lake = desk.lake.stats();
    let space = disk::space(folder)?;
    let registry = desk.registry.current();
    let retention = node::retention_ms(config).into_iter();
    let retention: BTreeMap<&str, u64> = retention.map(|(t, ms)| (t.name(), ms)).collect();
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "id": config.text("server.id"),
        "state": "stopped",
        "balanced": ledgers.iter().all(|ledger| ledger.balances()),
        "lag": ledger.backlog,
        "backlog": ledger.backlog,
        "ledger": ledger,
        "ledger_of_profiles": of_profiles,
        "ledger_of_deliveries": of_deliveries,
        "disk": {
            "free_bytes": space.free_bytes,
            "total_bytes": space.total_bytes,
            "floor_bytes": disk_floor(space.total_bytes),
            "log_bytes": topics.iter().map(|topic| topic.bytes).sum::<u64>(),
            "lake_bytes": lake.tables.iter().map(|table| table.bytes).sum::<u64>(),
            "state_bytes": state.disk_bytes()?,
        },
        "retention_ms": retention,
        "repeats": { "window_ms": config.number("repeats.window") },
        "registry_revision": registry.revision,
        "losses": registry.losses,
        "folds": folds,
        "lake": lake,
        "topics": topics,
    }))
}

/// The ledger of deliveries, and what the sender is doing. Counts are of the last checkpoint.
fn webhooks(stats: &SenderStats) -> Value {
    let counts = stats.counts;
    json!({
        "ledger": {
            "matched": counts.matched,
            "reopened": counts.reopened,
            "delivered": counts.delivered,
            "failed": counts.failed,
            "expired": counts.expired,
            "cancelled": counts.cancelled,
            "undecided": counts.undecided(),
        },
        "repeats": counts.repeats,
        "position": stats.position,
        "outcomes_from": stats.outcomes_from,
        "on_disk": stats.parked,
        "in_memory": stats.in_memory,
        "in_flight": stats.in_flight,
        "connections_opened": stats.connections_opened,
        "attempts": stats.attempts,
        "trouble": stats.trouble,
    })
}

/// The ledger of I8.
pub fn ledger(desk: &Desk, state: &State) -> Result<Ledger, Failure> {
    ledger_of(desk, state, Topic::Events, WRITER)
}

/// That of a topic and its fold. The position may move on while the end is looked up, so that it is
/// tried again when the two do not fit.
fn ledger_of(desk: &Desk, state: &State, topic: Topic, fold: &str) -> Result<Ledger, Failure> {
    let journal = desk.journal(topic);
    let mut tries = 0;
    loop {
        match Ledger::read(state, fold, journal.end()) {
            Err(_) if tries < 3 => tries += 1,
            found => return Ok(found?),
        }
    }
}
