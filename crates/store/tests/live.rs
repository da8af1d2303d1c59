//! The session that a door answers is the one that the fold keeps (S3).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use fulmar_event::{Records, TrackView, session_id};
use fulmar_flow::{Block, BlockName};
use fulmar_log::Chunk;
use fulmar_store::Table;
use support::{Folder, Open, rows, track};

const MINUTE_MS: i64 = 60_000;
const TIMEOUT_MS: i64 = 30 * MINUTE_MS;
/// In the middle of a bucket of the time-out.
const START_MS: i64 = 900_000 * TIMEOUT_MS + 15 * MINUTE_MS;

/// One event of the device, in a block of its own, appended at its time.
fn view(open: &mut Open, offset: u64, time_ms: i64) {
    let event = TrackView {
        name: "screen_view",
        device_id: "device-1",
        ..TrackView::default()
    };
    let mut records = Records::new();
    track(&format!("event-{offset}"), time_ms, &event, &mut records);
    fold(open, offset, time_ms, records);
}

fn fold(open: &mut Open, offset: u64, log_ms: i64, records: Records) {
    let name = BlockName {
        stream: "events".to_owned(),
        first: offset,
        last: offset,
    };
    open.fold_block(&Block::new(
        name,
        vec![Chunk::of_frame(records, offset, log_ms)],
    ));
}

fn live(open: &Open, at_ms: i64) -> Option<String> {
    let found = open.live.live("shop", "device-1", at_ms);
    found.map(|id| id.as_str().to_owned())
}

#[test]
fn a_visit_that_outlasts_the_bucket_of_its_start_keeps_its_id() {
    let folder = Folder::new();
    let mut open = folder.open();
    assert_eq!(live(&open, START_MS), None);
    view(&mut open, 0, START_MS);
    let id = rows(&open, Table::Sessions)[0]["id"].clone();
    let formula = |at_ms| {
        session_id("shop", "device-1", at_ms, TIMEOUT_MS as u64)
            .as_str()
            .to_owned()
    };
    let later_ms = START_MS + 25 * MINUTE_MS;
    assert_eq!(formula(START_MS), id);
    assert_ne!(
        formula(later_ms),
        id,
        "the formula alone would answer another"
    );
    assert_eq!(live(&open, later_ms), Some(id.clone()));
    assert_eq!(live(&open, START_MS + 31 * MINUTE_MS), None, "over by then");
    view(&mut open, 1, later_ms);
    let at_ms = later_ms + 29 * MINUTE_MS;
    assert_eq!(
        live(&open, at_ms),
        Some(id.clone()),
        "each event extends it"
    );

    drop(open);
    let mut open = folder.open();
    assert_eq!(live(&open, at_ms), Some(id), "taken up from the state");
    let mut tick = Records::new();
    tick.push(0, b"");
    fold(&mut open, 2, later_ms + 31 * MINUTE_MS, tick);
    assert_eq!(live(&open, at_ms), None, "it has ended");
    assert!(open.live.is_empty());
}
