//! What a block comes to does not depend on how many workers share it (I4).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;

use fulmar_event::{Records, TrackView};
use fulmar_flow::{Block, BlockCounts, BlockName};
use fulmar_log::Chunk;
use fulmar_store::Table;
use support::{Folder, forget, logon, message, open_with_workers, rows, track};

const MINUTE_MS: i64 = 60_000;

/// Blocks that are shared among workers, and one that is too small for that. Devices are in all
/// partitions; ids come again at the same device and at others; sessions end within a block, as
/// its time goes on, and by a tick.
fn blocks() -> Vec<Block> {
    let mut number = 0_u64;
    let mut next = 0;
    let mut blocks = Vec::new();
    for (frames, records_of_frame) in [(4, 4_000), (3, 5_000), (2, 50)] {
        let first = next;
        let mut chunks = Vec::new();
        for _ in 0..frames {
            // Forty minutes from frame to frame: every session of the last one has ended.
            let time_ms = 1_700_000_000_000
                + chunks.len() as i64 * 40 * MINUTE_MS
                + blocks.len() as i64 * 600 * MINUTE_MS;
            let mut records = Records::new();
            for _ in 0..records_of_frame {
                number += 1;
                record(number, time_ms, &mut records);
            }
            records.push(0, b"");
            let count = u64::from(records.count());
            chunks.push(Chunk::of_frame(records, next, time_ms));
            next += count;
        }
        let stream = "events".to_owned();
        let last = next - 1;
        blocks.push(Block::new(
            BlockName {
                stream,
                first,
                last,
            },
            chunks,
        ));
    }
    blocks
}

fn record(number: u64, time_ms: i64, out: &mut Records) {
    // A generator of the test's own, so that every run is of the same records.
    let random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let repeats = random.is_multiple_of(10);
    if number.is_multiple_of(911) {
        // Some of them, with sessions in every partition before and after.
        let device = format!("device-{}", random % 300);
        return forget(&format!("forget-{number}"), "shop", &device, out);
    }
    let id = format!(
        "event-{:06}",
        if repeats {
            random % 200
        } else {
            1_000 + number
        }
    );
    match random % 7 {
        0 => logon(&format!("agent-{}", random % 5), &id, time_ms, out),
        1 => message("client", &id, time_ms, b"{}", out),
        _ => {
            let device = format!("device-{}", random % 300);
            let bad = random.is_multiple_of(97);
            let event = TrackView {
                name: "seen",
                device_id: &device,
                properties: if bad { b"[1]" } else { br#"{"a":{"b":"c"}}"# },
                ..TrackView::default()
            };
            track(&id, time_ms - (random % 1_000) as i64, &event, out);
        }
    }
}

type TableRows = Vec<BTreeMap<&'static str, String>>;

fn outcome(workers: usize) -> (Vec<BlockCounts>, Vec<(&'static str, TableRows)>) {
    let folder = Folder::new();
    let mut open = open_with_workers(folder.path(), workers);
    let mut counts = Vec::new();
    for block in blocks() {
        counts.push(open.fold_block(&block));
        // Whoever is there next takes up the sessions, each worker those of its partitions.
        drop(open);
        open = open_with_workers(folder.path(), workers);
    }
    let tables = Table::ALL.into_iter().map(|table| {
        let mut rows = rows(&open, table);
        rows.sort();
        (table.name(), rows)
    });
    let tables = tables.collect();
    (counts, tables)
}

#[test]
fn workers_share_a_block_and_change_nothing() {
    let (counts, tables) = outcome(1);
    let rows_of = |name: &str| {
        tables
            .iter()
            .find(|(table, _)| *table == name)
            .unwrap()
            .1
            .len()
    };
    let stored: u64 = counts.iter().map(|counts| counts.stored).sum();
    assert!(counts.iter().all(|counts| counts.ticks > 0));
    assert!(
        counts[..2]
            .iter()
            .all(|counts| counts.repeats > 0 && counts.quarantined > 0)
    );
    assert!(
        rows_of("events") as u64 > stored / 2,
        "with starts and ends of sessions"
    );
    assert!(rows_of("sessions") > 300 && rows_of("security_events") > 0 && rows_of("messages") > 0);
    for workers in [2, 3, 16] {
        let (counts_of_many, tables_of_many) = outcome(workers);
        assert_eq!(counts_of_many, counts, "{workers} workers");
        for ((table, one), (_, many)) in tables.iter().zip(&tables_of_many) {
            assert_eq!(many.len(), one.len(), "{table}, {workers} workers");
            let differing = one.iter().zip(many).find(|(one, many)| one != many);
            assert_eq!(differing, None, "{table}, {workers} workers");
        }
    }
}
