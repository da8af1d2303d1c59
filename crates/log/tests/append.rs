//! What is acknowledged is there exactly once, in order, whole (I1, I3).

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashMap;

use fulmar_log::{LogError, Records, Topic};

#[test]
fn what_was_appended_is_read_back_also_after_opening_again() {
    let dir = tempfile::tempdir().unwrap();
    let (log, journal) = support::open(dir.path(), 1 << 16);
    assert_eq!(
        journal
            .append_blocking(support::records(&["a", "b"]))
            .unwrap()
            .first_offset,
        0
    );
    assert_eq!(
        journal
            .append_blocking(support::records(&["c"]))
            .unwrap()
            .first_offset,
        2
    );
    assert_eq!(journal.end(), 3);
    assert_eq!(support::read_all(&journal), ["a", "b", "c"]);
    assert_eq!(support::read_from(&journal, 1), ["b", "c"]);
    log.close();
    let (_log, journal) = support::open(dir.path(), 1 << 16);
    assert_eq!(support::read_all(&journal), ["a", "b", "c"]);
    assert_eq!(journal.stats().torn_tail_bytes, 0);
    assert_eq!(
        journal
            .append_blocking(support::records(&["d"]))
            .unwrap()
            .first_offset,
        3
    );
    assert_eq!(support::read_all(&journal), ["a", "b", "c", "d"]);
}

#[test]
fn records_keep_their_partition_and_stamps_never_run_backwards() {
    let dir = tempfile::tempdir().unwrap();
    let (_log, journal) = support::open(dir.path(), 1 << 16);
    let first = journal
        .append_blocking(support::records(&["a", "b"]))
        .unwrap();
    let second = journal.append_blocking(support::records(&["c"])).unwrap();
    assert!(second.append_time_ms >= first.append_time_ms);
    let chunk = journal.read(0, 1).unwrap().unwrap();
    let partitions: Vec<u16> = chunk.iter().map(|record| record.partition).collect();
    assert_eq!(
        partitions,
        [0, 1],
        "one frame at least, and no more than asked for"
    );
    assert_eq!(chunk.last_time_ms(), Some(first.append_time_ms));
}

#[test]
fn appends_of_many_threads_are_there_once_in_order_and_whole() {
    const THREADS: usize = 8;
    const APPENDS: usize = 100;
    let dir = tempfile::tempdir().unwrap();
    let (log, journal) = support::open(dir.path(), 1 << 16);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let journal = &journal;
            scope.spawn(move || {
                for turn in 0..APPENDS {
                    let mut records = Records::new();
                    for part in 0..3u16 {
                        let filler = "x".repeat((turn * 37 + thread) % 900);
                        let text = format!("{thread} {turn} {part} {filler}");
                        records.push(part, text.as_bytes());
                    }
                    journal.append_blocking(records).unwrap();
                }
            });
        }
    });
    log.close();
    let (_log, journal) = support::open(dir.path(), 1 << 16);
    let texts = support::read_all(&journal);
    assert_eq!(texts.len(), THREADS * APPENDS * 3);
    let mut next: HashMap<String, usize> = HashMap::new();
    for frame in texts.chunks(3) {
        let heads: Vec<Vec<&str>> = frame
            .iter()
            .map(|text| text.split(' ').take(3).collect())
            .collect();
        let [thread, turn, _] = heads[0][..] else {
            panic!("{heads:?}")
        };
        for (part, head) in heads.iter().enumerate() {
            assert_eq!(
                head[..],
                [thread, turn, &part.to_string()],
                "an append is one run"
            );
        }
        let expected = next.entry(thread.to_owned()).or_default();
        assert_eq!(turn, expected.to_string());
        *expected += 1;
    }
    assert!(
        support::segments(dir.path(), Topic::Events).len() > 5,
        "over many segments"
    );
}

#[test]
fn a_record_larger_than_a_segment_gets_a_segment_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (log, journal) = support::open(dir.path(), 8192);
    let large = "y".repeat(3 << 20);
    for text in ["a", &large, "b"] {
        journal.append_blocking(support::records(&[text])).unwrap();
    }
    log.close();
    let (_log, journal) = support::open(dir.path(), 8192);
    assert_eq!(support::read_all(&journal), ["a", &large, "b"]);
}

#[test]
fn more_than_one_append_takes_is_appended_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (_log, journal) = support::open(dir.path(), 1 << 26);
    let texts: Vec<String> = (0..40)
        .map(|number| format!("{number} {}", "z".repeat(1 << 20)))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let records = support::records(&texts);
    assert!(records.bytes().len() > fulmar_log::APPEND_BYTES_MAX);
    journal.append_all_blocking(records).unwrap();
    assert_eq!(journal.end(), 40);
    assert_eq!(support::read_all(&journal), texts);
    journal.append_all_blocking(Records::new()).unwrap();
    assert_eq!(journal.end(), 40);
}

#[test]
fn limits_are_named_errors() {
    let dir = tempfile::tempdir().unwrap();
    let (log, journal) = support::open(dir.path(), 1 << 16);
    let mut records = Records::new();
    records.push(0, &vec![0; fulmar_log::APPEND_BYTES_MAX]);
    let refused = journal.append_blocking(records).unwrap_err();
    assert!(matches!(refused, LogError::TooLarge { .. }), "{refused}");
    let refused = journal.read(1, 1).unwrap_err();
    assert!(
        matches!(
            refused,
            LogError::OutOfRange {
                start: 0,
                end: 0,
                ..
            }
        ),
        "{refused}"
    );
    log.close();
    let refused = journal
        .append_blocking(support::records(&["late"]))
        .unwrap_err();
    assert!(
        matches!(
            refused,
            LogError::Closed {
                topic: Topic::Events
            }
        ),
        "{refused}"
    );
    let mut other = support::config(1 << 16);
    other.partitions = 8;
    let refused = fulmar_log::Log::open(dir.path(), other).unwrap_err();
    let LogError::Partitions {
        found: 16,
        configured: 8,
        ..
    } = refused
    else {
        panic!()
    };
}

#[test]
fn the_end_wakes_who_waits_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let (_log, journal) = support::open(dir.path(), 1 << 16);
    let watch = journal.watch_end();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| journal.wait_end(1, std::time::Duration::from_secs(3600)));
        journal.append_blocking(support::records(&["a"])).unwrap();
        journal.append_blocking(support::records(&["b"])).unwrap();
        assert_eq!(waiter.join().unwrap(), 2);
    });
    assert_eq!(*watch.borrow(), 2);
}

#[test]
fn rolling_ends_a_segment_that_never_changes_again() {
    let dir = tempfile::tempdir().unwrap();
    let (log, journal) = support::open(dir.path(), 1 << 16);
    assert!(journal.roll().unwrap().is_empty(), "nothing to end");
    journal.append_blocking(support::records(&["a"])).unwrap();
    let ended = journal.roll().unwrap();
    assert_eq!(ended.len(), 1);
    let content = std::fs::read(&ended[0]).unwrap();
    journal.append_blocking(support::records(&["b"])).unwrap();
    assert_eq!(std::fs::read(&ended[0]).unwrap(), content);
    drop(log);
    // A backup holds ended segments only, and opens as a log of its own.
    let restored = tempfile::tempdir().unwrap();
    let folder = restored.path().join("events");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(&ended[0], folder.join(ended[0].file_name().unwrap())).unwrap();
    let (_log, journal) = support::open(restored.path(), 1 << 16);
    assert_eq!(support::read_all(&journal), ["a"]);
    assert_eq!(
        journal
            .append_blocking(support::records(&["c"]))
            .unwrap()
            .first_offset,
        1
    );
    assert!(journal.stats().damages.is_empty());
}

#[test]
fn the_future_of_an_append_resolves_when_it_is_synced() {
    let dir = tempfile::tempdir().unwrap();
    let (_log, journal) = support::open(dir.path(), 1 << 16);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let first = journal.append(support::records(&["a"]));
        let dropped = journal.append(support::records(&["b"]));
        drop(dropped);
        let third = journal.append(support::records(&["c"]));
        assert_eq!(first.await.unwrap().first_offset, 0);
        assert_eq!(third.await.unwrap().first_offset, 2);
        assert_eq!(
            journal.append(Records::new()).await.unwrap().first_offset,
            3
        );
    });
    assert_eq!(
        support::read_all(&journal),
        ["a", "b", "c"],
        "dropping takes nothing back"
    );
}

#[test]
fn damage_in_an_older_segment_is_found_in_the_background() {
    let dir = tempfile::tempdir().unwrap();
    let (log, journal) = support::open(dir.path(), 1 << 16);
    for text in ["a", "b", "c"] {
        journal.append_blocking(support::records(&[text])).unwrap();
        journal.roll().unwrap();
    }
    drop(journal);
    log.close();
    let path = support::segments(dir.path(), Topic::Events).remove(1);
    let mut content = std::fs::read(&path).unwrap();
    content[4096 + 66] ^= 1;
    std::fs::write(&path, content).unwrap();
    let (_log, journal) = support::open(dir.path(), 1 << 16);
    while journal.stats().segments_verified < 3 {
        std::thread::yield_now();
    }
    let damages = journal.stats().damages;
    assert_eq!(damages.len(), 1);
    assert_eq!(
        (
            damages[0].first_offset,
            damages[0].end_offset,
            damages[0].byte
        ),
        (1, 2, 4096)
    );
}
