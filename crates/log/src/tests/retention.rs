//! Retention goes by age and bytes and never past a fold (L3).

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::BytesMax;

const DAY_MS: i64 = 24 * 3600 * 1000;

/// One segment per record, and the append time of the last.
fn journal(dir: &Path, config: &LogConfig) -> (Journal, i64) {
    let journal = open_with(dir, config);
    let mut time_ms = 0;
    for text in TEXTS {
        time_ms = journal.append_blocking(one(text)).unwrap().append_time_ms;
        journal.roll().unwrap();
    }
    (journal, time_ms)
}

fn never_low() -> bool {
    false
}

#[test]
fn segments_go_by_age_only_when_every_fold_has_passed_them() {
    let dir = scratch();
    let (journal, time_ms) = journal(dir.path(), &config(1 << 16));
    journal.release("fast", 6);
    journal.release("slow", 2);
    journal.shared.expire(time_ms + 6 * DAY_MS, &never_low);
    assert_eq!(journal.start(), 0, "seven days are kept");
    journal.shared.expire(time_ms + 8 * DAY_MS, &never_low);
    assert_eq!(journal.start(), 2, "the slow fold holds the rest");
    assert_eq!(read_all(&journal), TEXTS[2..]);
    let gone = journal.read(0, 1).unwrap_err();
    assert!(
        matches!(
            gone,
            LogError::OutOfRange {
                start: 2,
                end: 6,
                ..
            }
        ),
        "{gone}"
    );
    journal.forget("slow");
    journal.shared.expire(time_ms + 8 * DAY_MS, &never_low);
    assert_eq!(journal.start(), 6);
    assert_eq!(journal.stats().segments_expired, 6);
    assert_eq!(segments(dir.path()).len(), 1, "the last one stays");
    drop(journal);
    let journal = open(dir.path());
    assert_eq!((journal.start(), journal.end()), (6, 6));
    assert!(journal.stats().damages.is_empty());
    assert_eq!(append(&journal, "next"), 6);
}

#[test]
fn segments_go_by_bytes_oldest_first() {
    let dir = scratch();
    let mut config = config(1 << 16);
    // A segment here is a header of 4,096 bytes, a frame of 128 and a seal of
    // 64; the last one is a header. Three and the last fit.
    config.events.bytes_max = BytesMax::Bytes(3 * 4288 + 4096);
    let (journal, time_ms) = journal(dir.path(), &config);
    assert_eq!(journal.stats().bytes, 6 * 4288 + 4096);
    journal.release("writer", 2);
    journal.shared.expire(time_ms, &never_low);
    assert_eq!(journal.start(), 2, "not past the fold");
    journal.release("writer", 6);
    journal.shared.expire(time_ms, &never_low);
    assert_eq!(journal.start(), 3);
    assert_eq!(read_all(&journal), TEXTS[3..]);
}

#[test]
fn on_a_low_disk_what_every_fold_has_passed_goes_early_until_there_is_space() {
    let dir = scratch();
    let (journal, time_ms) = journal(dir.path(), &config(1 << 16));
    journal.shared.expire(time_ms, &|| true);
    assert_eq!(journal.start(), 0, "no fold has told its position");
    journal.release("writer", 4);
    let looks = AtomicBool::new(true);
    // Low at the first look only.
    journal
        .shared
        .expire(time_ms, &|| looks.swap(false, Ordering::Relaxed));
    assert_eq!(journal.start(), 1);
    journal.shared.expire(time_ms, &|| true);
    assert_eq!(journal.start(), 4);
    assert_eq!(journal.stats().segments_expired_early, 4);
    assert_eq!(journal.stats().segments_expired, 0);
}

#[test]
fn a_reader_that_retention_overtook_is_told_what_is_still_held() {
    let dir = scratch();
    let journal = open(dir.path());
    for text in TEXTS {
        append(&journal, text);
    }
    let mut reader = journal.reader(0);
    assert_eq!(reader.next(1).unwrap().unwrap().end_offset(), 1);
    journal.roll().unwrap();
    journal.release("other", 6);
    journal.shared.expire(i64::MAX, &never_low);
    let refused = reader.next(1).unwrap_err();
    assert!(
        matches!(refused, LogError::OutOfRange { start: 6, .. }),
        "{refused}"
    );
}
