//! The status document: ledger, lag, backlog, disk, rates, windows.

use fulmar_flow::Ledger;
use fulmar_log::{JournalStats, Topic, disk};
use fulmar_store::writer::WRITER;
use serde_json::{Value, json};

use super::live::{Live, disk_floor};
use crate::admin::time_text;
use crate::exit::Failure;

/// The status of a running server.
pub fn of_server(live: &Live) -> Result<Value, Failure> {
    let events = live.journal(Topic::Events);
    // The position first: the end can only have grown since, so that the ledger is never ahead.
    let writer = live.writer.stats();
    let ledger = Ledger::read(&live.state, WRITER, events.end())?;
    let topics: Vec<JournalStats> = live.desk.journals.iter().map(|journal| journal.stats()).collect();
    let lake = live.desk.lake.stats();
    let lake_bytes: u64 = lake.tables.iter().map(|table| table.bytes).sum();
    let space = disk::space(&live.folder)?;
    let log_bytes: u64 = topics.iter().map(|topic| topic.bytes).sum();
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "id": live.config.text("server.id"),
        "state": live.unready().unwrap_or("ready"),
        "started": time_text(live.started_ms),
        "ledger": ledger,
        "balanced": ledger.balances(),
        "lag": ledger.backlog,
        "backlog": ledger.backlog,
        "rates": live.rates(),
        "disk": {
            "free_bytes": space.free_bytes,
            "total_bytes": space.total_bytes,
            "floor_bytes": disk_floor(space.total_bytes),
            "log_bytes": log_bytes,
            "lake_bytes": lake_bytes,
            "state_bytes": live.state.disk_bytes()?,
        },
        "registry_revision": live.registry().current().revision,
        "folds": [writer],
        "lake": lake,
        "topics": topics,
    }))
}
