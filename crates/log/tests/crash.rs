//! A process that appends is killed at random moments; nothing that it was
//! told is durable may be missing, and a reader beside it sees only that.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fulmar_log::{LogError, ReadOnly, Topic};

const CHILD_DIR: &str = "FULMAR_TEST_CHILD_DIR";
const SEGMENT_BYTES: u64 = 1 << 15;

/// Appends for ever, from several threads, and prints each answer.
#[test]
fn child_appends_for_ever() {
    let Some(dir) = std::env::var_os(CHILD_DIR).map(PathBuf::from) else {
        return;
    };
    let (_log, journal) = support::open(&dir, SEGMENT_BYTES);
    let run = std::process::id();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let journal = &journal;
            scope.spawn(move || {
                for turn in 0.. {
                    let text = format!("{run}-{thread}-{turn}-{}", "v".repeat(turn % 700));
                    let appended = journal.append_blocking(support::records(&[&text])).unwrap();
                    let line = format!("ok {} {text}\n", appended.first_offset);
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

fn spawn(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_appends_for_ever", "--nocapture"])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn after_kills_at_random_moments_every_acknowledged_record_is_there_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged: HashMap<u64, String> = HashMap::new();
    for round in 0..6 {
        let mut child = spawn(dir.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut heard = 0;
        while let Some(Ok(line)) = lines.next() {
            let Some(answer) = line.strip_prefix("ok ") else {
                continue;
            };
            let Some((offset, text)) = answer.split_once(' ') else {
                continue;
            };
            acknowledged.insert(offset.parse().unwrap(), text.to_owned());
            heard += 1;
            // What follows in the pipe was answered before the kill, too.
            if heard == 40 + round * 61 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(heard >= 40, "round {round} heard {heard}");
        check(dir.path(), &acknowledged, round);
    }
}

fn check(dir: &Path, acknowledged: &HashMap<u64, String>, round: usize) {
    let (log, journal) = support::open(dir, SEGMENT_BYTES);
    assert!(journal.stats().damages.is_empty());
    let texts = support::read_all(&journal);
    for (offset, text) in acknowledged {
        assert_eq!(
            texts.get(*offset as usize),
            Some(text),
            "round {round}, offset {offset}"
        );
    }
    let distinct: std::collections::HashSet<&String> = texts.iter().collect();
    assert_eq!(distinct.len(), texts.len(), "round {round}: none twice");
    log.close();
    let report = fulmar_log::verify(dir, Topic::Events, &mut |_| {}).unwrap();
    assert_eq!(report.end, texts.len() as u64);
    assert_eq!(
        (report.unproven_bytes, report.torn_bytes),
        (64, 0),
        "the last seal itself"
    );
}

#[test]
fn a_reader_beside_a_running_server_sees_what_is_proven_and_follows() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = spawn(dir.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut reader = None;
    let mut read = 0u64;
    let mut heard = 0;
    while read < 300 {
        let Some(Ok(line)) = lines.next() else {
            panic!("the child ended")
        };
        if !line.starts_with("ok ") {
            continue;
        }
        heard += 1;
        if heard % 50 != 0 {
            continue;
        }
        let reader = reader
            .get_or_insert_with(|| ReadOnly::open(dir.path(), Topic::Events).unwrap().reader(0));
        while let Some(chunk) = reader.next(1 << 16).unwrap() {
            assert_eq!(chunk.first_offset(), read);
            read = chunk.end_offset();
        }
    }
    let report = fulmar_log::verify(dir.path(), Topic::Events, &mut |_| {}).unwrap();
    assert!(report.damages.is_empty(), "{:?}", report.damages);
    assert!(report.end >= read);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_idle_server_proves_all_by_its_seal() {
    let dir = tempfile::tempdir().unwrap();
    let (log, journal) = support::open(dir.path(), SEGMENT_BYTES);
    for text in ["a", "b"] {
        journal.append_blocking(support::records(&[text])).unwrap();
    }
    // The seal comes by itself; how soon is not the question here.
    while journal.stats().seals == 0 {
        std::thread::yield_now();
    }
    let outside = ReadOnly::open(dir.path(), Topic::Events).unwrap();
    assert_eq!((outside.start(), outside.end()), (0, 2));
    let mut reader = outside.reader(1);
    assert_eq!(reader.next(1).unwrap().unwrap().count(), 1);
    assert!(reader.next(1).unwrap().is_none());
    assert!(matches!(
        outside.reader(9).next(1),
        Err(LogError::OutOfRange { end: 2, .. })
    ));
    log.close();
}
