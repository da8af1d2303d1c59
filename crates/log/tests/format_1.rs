//! A folder of format 1 is opened by every later build.
//!
//! Two segments of `events` (made with 16 partitions): records `one`, `two`,
//! `three` in two appends, then `four`, then a clean stop.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;

use fulmar_log::{Log, Topic};

const TEXTS: [&str; 4] = ["one", "two", "three", "four"];

fn fixture() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1")
}

#[test]
fn a_folder_of_format_1_opens_reads_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    support::copy(&fixture(), dir.path());
    let log = Log::open(dir.path(), support::config(1 << 16)).unwrap();
    let journal = log.journal(Topic::Events);
    assert_eq!(support::read_all(&journal), TEXTS);
    let stats = journal.stats();
    assert_eq!((stats.start, stats.end, stats.segments), (0, 4, 2));
    assert!(stats.damages.is_empty());
    assert_eq!(stats.torn_tail_bytes, 0);
    let appended = journal
        .append_blocking(support::records(&["five"]))
        .unwrap();
    assert_eq!(appended.first_offset, 4);
    assert_eq!(support::read_all(&journal).len(), 5);
}

#[test]
fn a_folder_of_format_1_verifies() {
    let report = fulmar_log::verify(&fixture(), Topic::Events, &mut |_| {}).unwrap();
    assert!(report.damages.is_empty());
    assert_eq!((report.start, report.end, report.records), (0, 4, 4));
    assert_eq!(report.segments.len(), 2);
    assert_eq!(report.segments[1].first_offset, 3);
}

/// Writes the fixture anew; only for a new format's own fixture.
#[test]
#[ignore = "writes into the source folder"]
fn write_the_fixture() {
    let (log, journal) = support::open(&fixture(), 8192);
    journal
        .append_blocking(support::records(&TEXTS[..2]))
        .unwrap();
    journal
        .append_blocking(support::records(&TEXTS[2..3]))
        .unwrap();
    journal.roll().unwrap();
    journal
        .append_blocking(support::records(&TEXTS[3..]))
        .unwrap();
    log.close();
    let others = Topic::ALL
        .into_iter()
        .filter(|topic| *topic != Topic::Events);
    for topic in others {
        std::fs::remove_dir_all(fixture().join(topic.name())).unwrap();
    }
}
