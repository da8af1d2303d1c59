//! Killed at any file operation of log, writer and compaction, a folder comes
//! back with each record stored once, the exact list, and nothing besides (I2).
//!
//! A sample of kill points is run; all of them with `FULMAR_TORTURE=1`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use fulmar_event::{EventView, Records};
use fulmar_log::Topic;
use fulmar_store::{Table, quarantine};
use support::{Folder, Open, logon, message, open_at};

/// Blocks that a run writes; compaction follows every second one.
const BLOCKS: u64 = 4;

/// Kill points of a sample.
const SAMPLE: u64 = 12;

const DAY_MS: i64 = 86_400_000;

/// Names the folder that a child works in.
const FOLDER: &str = "FULMAR_CRASH_FOLDER";

/// Not a test by itself: the process that is killed.
#[test]
#[ignore = "run by the test below, as a child"]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let mut open = open_at(Path::new(&folder));
    for block in 0..BLOCKS {
        open.append(records(block));
        open.fold_all();
        if block % 2 == 1 {
            open.lake.compact_now().unwrap();
        }
    }
}

/// Two logons, one of them known from the block before, of two days; a message;
/// bytes that are no record.
fn records(block: u64) -> Records {
    let mut records = Records::new();
    // Young enough for retention, which goes by the wall clock.
    let now_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis() as i64;
    let first_day = now_ms / DAY_MS - 5;
    for number in [block + 1, block] {
        let time_ms = DAY_MS * (first_day + number as i64 % 2);
        logon(
            "agent",
            &format!("event-{number:04}"),
            time_ms,
            &mut records,
        );
    }
    message(
        "client",
        &format!("m-{block}"),
        DAY_MS * first_day,
        b"{}",
        &mut records,
    );
    records.push(0, b"\xff\xff");
    records
}

#[test]
fn a_folder_killed_anywhere_comes_back_exact() {
    let whole = Folder::new();
    let count_file = whole.path().join("count");
    let status = run_child(&whole.path().join("data"), |command| {
        command.env("FULMAR_FAULT_COUNT_FILE", &count_file);
    });
    assert!(status.success());
    let calls: u64 = std::fs::read_to_string(&count_file)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(calls > 50, "the hooks are compiled in");
    let step = match std::env::var_os("FULMAR_TORTURE") {
        Some(_) => 1,
        None => calls.div_ceil(SAMPLE),
    };
    let first = std::process::id() as u64 % step + 1;
    for kill_at in (first..=calls).step_by(step as usize) {
        let folder = Folder::new();
        let status = run_child(folder.path(), |command| {
            command.env("FULMAR_FAULT_KILL_AT", kill_at.to_string());
        });
        // The last calls are seals, which come by the clock or not at all.
        let reached = !status.success();
        assert!(
            reached || kill_at + 10 > calls,
            "killed at call {kill_at} of {calls}"
        );
        assert_exact(folder.open(), kill_at);
    }
}

fn run_child(folder: &Path, set: impl FnOnce(&mut Command)) -> std::process::ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["child", "--exact", "--ignored", "--quiet"])
        .env(FOLDER, folder);
    set(&mut command);
    command.output().unwrap().status
}

/// What the log holds is in the tables: each identity once, by its first record.
fn assert_exact(mut open: Open, kill_at: u64) {
    let before = open.lake.check();
    assert_eq!(before.problems, Vec::<String>::new(), "killed at {kill_at}");
    open.fold_all();
    open.lake.compact_now().unwrap();
    assert_eq!(
        open.lake.check().problems,
        Vec::<String>::new(),
        "killed at {kill_at}"
    );
    let (mut first_of, mut refused) = (BTreeMap::new(), BTreeSet::new());
    let events = open.log.journal(Topic::Events);
    let mut from = events.start();
    while let Some(chunk) = events.read(from, 1 << 20).unwrap() {
        for record in &chunk {
            match EventView::parse(record.bytes) {
                Ok(event) => {
                    first_of
                        .entry(event.event_id.to_owned())
                        .or_insert(record.offset);
                }
                Err(_) => {
                    refused.insert(record.offset);
                }
            }
        }
        from = chunk.end_offset();
    }
    let mut stored: Vec<u64> = Table::ALL
        .into_iter()
        .flat_map(|t| open.offsets(t))
        .collect();
    stored.sort();
    let mut expected: Vec<u64> = first_of.into_values().collect();
    expected.sort();
    assert_eq!(stored, expected, "killed at {kill_at}");
    let listed = quarantine::list(&open.log.journal(Topic::Quarantine), 100).unwrap();
    let quarantined: Vec<u64> = listed.iter().map(|record| record.offset).collect();
    assert_eq!(quarantined, Vec::from_iter(refused), "killed at {kill_at}");
    assert_folders_are_exact(&open, kill_at);
}

/// `lake/T` holds the listed files and those that wait to be unlinked, and
/// `tables/T` shows the compacted ones.
fn assert_folders_are_exact(open: &Open, kill_at: u64) {
    let folder = open.lake.files_dir().parent().unwrap();
    let mut shown = BTreeSet::new();
    for table in Table::ALL {
        for day in std::fs::read_dir(folder.join("tables").join(table.name())).unwrap() {
            for file in std::fs::read_dir(day.unwrap().path()).unwrap() {
                shown.insert((table.name(), file.unwrap().file_name()));
            }
        }
    }
    let name = |path: &str| Path::new(path).file_name().unwrap().to_owned();
    let files = open.lake.lake_files();
    let listed = files.iter().map(|file| (file.table, name(&file.path)));
    assert_eq!(shown, listed.collect(), "killed at {kill_at}");
}
