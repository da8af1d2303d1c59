//! For tests: a log in memory that can be damaged, and a fold that writes a file per block.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use fulmar_log::{Chunk, Damage, LogError, Records, Topic};
use tokio::sync::watch;

use crate::block::{Block, BlockName};
use crate::fold::{BlockCounts, Fold, FoldError};
use crate::input::Input;
use crate::ledger::committed_position;
use crate::progress::Boundary;
use crate::state::{State, StateBatch};

/// A log in memory, as readers see one.
pub(crate) struct Tape {
    frames: Mutex<Vec<(u64, i64, Records)>>,
    pub end: watch::Sender<u64>,
    pub start: u64,
    /// Offsets that cannot be read, and whether an operator gave them up.
    pub damage: Mutex<Option<(Range<u64>, bool)>>,
    /// Reads that still fail in a way that passes.
    pub failing_reads: Mutex<u32>,
    /// When ticks are appended.
    pub ticks_at_ms: Mutex<i64>,
    state: Arc<State>,
}

impl Tape {
    pub fn new(state: &Arc<State>) -> Arc<Tape> {
        Tape::from(state, 0)
    }

    /// One whose records before `start` are gone.
    pub fn from(state: &Arc<State>, start: u64) -> Arc<Tape> {
        Arc::new(Tape {
            frames: Mutex::new(Vec::new()),
            end: watch::Sender::new(start),
            start,
            damage: Mutex::new(None),
            failing_reads: Mutex::new(0),
            ticks_at_ms: Mutex::new(0),
            state: Arc::clone(state),
        })
    }

    /// Appends one frame with a record per word.
    pub fn append(&self, time_ms: i64, words: &[&str]) {
        let mut records = Records::new();
        for word in words {
            records.push(0, word.as_bytes());
        }
        let first = *self.end.borrow();
        self.frames.lock().unwrap().push((first, time_ms, records));
        self.end.send_replace(first + words.len() as u64);
    }
}

impl Input for Tape {
    fn stream(&self) -> &'static str {
        "events"
    }

    fn start(&self) -> u64 {
        self.start
    }

    fn end(&self) -> u64 {
        *self.end.borrow()
    }

    fn watch_end(&self) -> watch::Receiver<u64> {
        self.end.subscribe()
    }

    fn read(&self, from: u64, _bytes_max: usize) -> Result<Option<Chunk>, LogError> {
        let mut failing = self.failing_reads.lock().unwrap();
        if *failing > 0 {
            *failing -= 1;
            let source = Arc::new(std::io::Error::other("planted"));
            return Err(LogError::Io {
                path: PathBuf::from("tape"),
                source,
            });
        }
        let damage = self.damage.lock().unwrap().clone();
        if let Some((range, given_up)) = damage.filter(|(range, _)| range.contains(&from)) {
            if given_up {
                return Ok(Some(Chunk::of_gap(from..range.end)));
            }
            return Err(LogError::Damaged(Damage {
                topic: Topic::Events,
                segment: "tape".to_owned(),
                byte: 7,
                first_offset: range.start,
                end_offset: range.end,
                reason: "planted".to_owned(),
            }));
        }
        if from < self.start {
            return Err(LogError::OutOfRange {
                topic: Topic::Events,
                offset: from,
                start: self.start,
                end: self.end(),
            });
        }
        let frames = self.frames.lock().unwrap();
        let holds = |(first, _, records): &&(u64, i64, Records)| {
            (*first..*first + u64::from(records.count())).contains(&from)
        };
        let Some((first, time_ms, records)) = frames.iter().find(holds) else {
            return Ok(None);
        };
        let mut rest = Records::new();
        for record in records.iter().skip((from - first) as usize) {
            let record = record.unwrap();
            rest.push(record.partition, record.bytes);
        }
        Ok(Some(Chunk::of_frame(rest, from, *time_ms)))
    }

    fn tick(&self) -> Result<(), LogError> {
        let time_ms = *self.ticks_at_ms.lock().unwrap();
        self.append(time_ms, &[""]);
        Ok(())
    }

    fn release(&self, fold: &str, position: u64) {
        let committed = committed_position(&self.state, fold).unwrap();
        assert!(
            position <= committed.max(self.start),
            "released before committed (I6)"
        );
    }
}

/// Writes each block to a file of its name and lists the file in state. Of the words, `quarantine`
/// is quarantined, `repeat` is a repeat, `bot` is dropped as one, and any other is stored.
pub(crate) struct Scribe {
    pub dir: PathBuf,
    pub state: Arc<State>,
    /// What the next tries of a block do instead.
    pub mishaps: Arc<Mutex<Vec<Mishap>>>,
}

pub(crate) enum Mishap {
    /// Fails after its output is written.
    Error(FoldError),
    /// Gives counts that leave a record out.
    Miscount,
    Panic,
}

pub(crate) const SCRIBE_FILES: &str = "scribe";

impl Fold for Scribe {
    fn name(&self) -> &'static str {
        "scribe"
    }

    fn version(&self) -> u32 {
        3
    }

    fn fold(&mut self, block: &Block, batch: &mut StateBatch) -> Result<BlockCounts, FoldError> {
        let (first, last) = (block.name().first, block.name().last);
        let begun = Boundary::load(&self.state, "scribe").unwrap();
        assert_eq!(
            begun,
            Some(Boundary {
                first,
                last,
                version: 3
            }),
            "durable before (F4)"
        );
        let mut counts = BlockCounts::default();
        let mut text = String::new();
        for record in block.records() {
            let word = std::str::from_utf8(record.bytes).unwrap();
            text.push_str(&format!("{} {word}\n", record.offset));
            match word {
                "quarantine" => counts.quarantined += 1,
                "repeat" => counts.repeats += 1,
                "bot" => *counts.dropped.entry("bot").or_default() += 1,
                _ => counts.stored += 1,
            }
        }
        fs::write(self.dir.join(block.name().to_string()), &text).unwrap();
        batch.put(SCRIBE_FILES, block.name().to_string(), text);
        match self.mishaps.lock().unwrap().pop() {
            Some(Mishap::Error(error)) => return Err(error),
            Some(Mishap::Miscount) => counts.stored += 1,
            Some(Mishap::Panic) => panic!("planted"),
            None => {}
        }
        Ok(counts)
    }

    fn committed(&mut self, name: &BlockName) {
        let listed = self
            .state
            .get(SCRIBE_FILES, name.to_string().as_bytes())
            .unwrap();
        assert!(listed.is_some(), "memory follows the commit");
    }
}

/// Everything that is committed, block by block, each equal to its file.
pub(crate) fn committed_text(state: &State, dir: &std::path::Path) -> String {
    let mut text = String::new();
    for (name, listed) in state.prefix(SCRIBE_FILES, b"").unwrap() {
        let name = String::from_utf8(name).unwrap();
        assert_eq!(fs::read(dir.join(&name)).unwrap(), listed, "{name}");
        text.push_str(std::str::from_utf8(&listed).unwrap());
    }
    text
}
