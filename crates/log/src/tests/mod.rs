//! Proofs that need the inside: damage, torn tails, faults, retention.
// Lists of one range are what an operator accepts.
#![allow(clippy::single_range_in_vec_init)]

mod damage;
mod disk_low;
mod faults;
mod fuzz;
mod lost_tail;
mod model;
mod retention;
mod torn_tail;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::journal::Journal;
use crate::space::DiskGuard;
use crate::{LogConfig, LogError, Records, Topic};

/// A folder in memory where there is one: thousands of opens would wait for a
/// disk's syncs, and the proofs here don't depend on what a sync really does.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    made.unwrap()
}

/// Never seals by itself, so that a proof knows each frame.
fn config(segment_bytes: u64) -> LogConfig {
    let mut config = LogConfig {
        disk_floor_bytes: Some(0),
        seal_after: Duration::from_secs(3600),
        ..LogConfig::default()
    };
    config.events.segment_bytes = segment_bytes;
    config
}

fn open_with(dir: &Path, config: &LogConfig) -> Journal {
    open_knowing(dir, config, 0)
}

/// Opens as one who knows that the journal was synced up to `synced_end`.
fn open_knowing(dir: &Path, config: &LogConfig, synced_end: u64) -> Journal {
    let guard = Arc::new(DiskGuard::new(PathBuf::from("/"), config.clone()));
    Journal::open(dir, Topic::Events, config, guard, synced_end).unwrap()
}

fn open(dir: &Path) -> Journal {
    open_with(dir, &config(1 << 16))
}

fn one(text: &str) -> Records {
    let mut records = Records::new();
    records.push(3, text.as_bytes());
    records
}

fn append(journal: &Journal, text: &str) -> u64 {
    journal.append_blocking(one(text)).unwrap().first_offset
}

/// Texts up to the end or the first error.
fn read_until_error(journal: &Journal, mut from: u64) -> (Vec<String>, Option<LogError>) {
    let mut texts = Vec::new();
    loop {
        match journal.read(from, 4096) {
            Ok(Some(chunk)) => {
                if let Some(gap) = chunk.gap() {
                    texts.push(format!("gap {gap:?}"));
                }
                for record in &chunk {
                    texts.push(String::from_utf8(record.bytes.to_vec()).unwrap());
                }
                from = chunk.end_offset();
            }
            Ok(None) => return (texts, None),
            Err(error) => return (texts, Some(error)),
        }
    }
}

fn read_all(journal: &Journal) -> Vec<String> {
    let (texts, error) = read_until_error(journal, journal.start());
    assert!(error.is_none(), "{error:?}");
    texts
}

/// The segment files, oldest first.
fn segments(dir: &Path) -> Vec<PathBuf> {
    let listed = crate::segment::list(dir, Topic::Events).unwrap();
    listed.into_iter().map(|segment| segment.path).collect()
}

/// A folder that holds a copy of one file.
fn folder_with(name: &Path, content: &[u8]) -> tempfile::TempDir {
    let dir = scratch();
    std::fs::write(dir.path().join(name.file_name().unwrap()), content).unwrap();
    dir
}

/// Six frames of one record each, as a kill left them (no seal) and as a
/// clean stop did, and where each frame starts and the last one ends.
struct Sample {
    name: PathBuf,
    killed: Vec<u8>,
    closed: Vec<u8>,
    starts: Vec<usize>,
}

const TEXTS: [&str; 6] = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"];

fn sample() -> Sample {
    let dir = scratch();
    let journal = open(dir.path());
    let mut starts = vec![4096];
    for text in TEXTS {
        append(&journal, text);
        starts.push(journal.shared.read_view(|view| view.end_bytes) as usize);
    }
    let path = segments(dir.path()).remove(0);
    let killed = std::fs::read(&path).unwrap();
    drop(journal);
    let closed = std::fs::read(&path).unwrap();
    Sample {
        name: path,
        killed,
        closed,
        starts,
    }
}
