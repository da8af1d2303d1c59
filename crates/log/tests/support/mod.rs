//! What the proofs share: a small log, records that say what they are.
#![allow(dead_code, clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulmar_log::{Journal, Log, LogConfig, Records, Topic};

/// A log with small segments and no floor.
pub fn config(segment_bytes: u64) -> LogConfig {
    let mut config = LogConfig {
        disk_floor_bytes: Some(0),
        ..LogConfig::default()
    };
    for topic in [
        &mut config.events,
        &mut config.profiles,
        &mut config.quarantine,
        &mut config.control,
        &mut config.deliveries,
    ] {
        topic.segment_bytes = segment_bytes;
    }
    config
}

pub fn open(dir: &Path, segment_bytes: u64) -> (Log, Arc<Journal>) {
    let log = Log::open(dir, config(segment_bytes)).unwrap();
    let journal = log.journal(Topic::Events);
    (log, journal)
}

pub fn records(texts: &[&str]) -> Records {
    let mut records = Records::new();
    for (index, text) in texts.iter().enumerate() {
        records.push(index as u16, text.as_bytes());
    }
    records
}

/// All records from an offset on, as text; their offsets are checked.
pub fn read_from(journal: &Journal, mut from: u64) -> Vec<String> {
    let mut texts = Vec::new();
    while let Some(chunk) = journal.read(from, 4096).unwrap() {
        assert_eq!(chunk.first_offset(), from);
        for record in &chunk {
            assert_eq!(record.offset, from);
            from += 1;
            texts.push(String::from_utf8(record.bytes.to_vec()).unwrap());
        }
        assert_eq!(chunk.end_offset(), from);
    }
    texts
}

pub fn read_all(journal: &Journal) -> Vec<String> {
    read_from(journal, journal.start())
}

/// Segment files of a topic, oldest first.
pub fn segments(dir: &Path, topic: Topic) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir.join(topic.name()))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
        .collect();
    paths.sort();
    paths
}

/// A copy of a log's folder to do harm to.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
