//! One topic: append, read, retention.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::framing::Records;
use crate::{Append, Appended, Chunk, JournalStats, LogConfig, LogError, Result, Topic};

/// The log of one folder: a journal per topic.
#[derive(Debug)]
pub struct Log {
    journals: Vec<Arc<Journal>>,
}

/// A topic's journal, shared by its partitions.
#[derive(Debug)]
pub struct Journal {
    topic: Topic,
    end: watch::Sender<u64>,
}

impl Log {
    /// Opens `DIR/log`, making what is missing.
    pub fn open(_dir: &Path, _config: LogConfig) -> Result<Log> {
        Err(LogError::Closed {
            topic: Topic::Events,
        })
    }
    /// The journal of a topic.
    pub fn journal(&self, topic: Topic) -> Arc<Journal> {
        Arc::clone(&self.journals[topic as usize])
    }
    /// Partitions of `events` and `profiles`.
    pub fn partitions(&self) -> u16 {
        16
    }
    /// Lets retention run. To be called once every fold has called
    /// [`Journal::release`] at its start: until then nothing is removed.
    pub fn start_retention(&self) {}
    /// Stops taking appends, writes what waits, seals, and ends the threads.
    pub fn close(self) {}
    /// Figures of every topic.
    pub fn stats(&self) -> Vec<JournalStats> {
        Vec::new()
    }
}

impl Journal {
    /// The topic.
    pub fn topic(&self) -> Topic {
        self.topic
    }
    /// Appends; the future resolves after the sync (I1). Blocks at most for the CRC.
    pub fn append(&self, _records: Records) -> Append {
        Append::ready(self.topic, Err(LogError::Closed { topic: self.topic }))
    }
    /// Appends and waits on this thread.
    pub fn append_blocking(&self, records: Records) -> Result<Appended> {
        self.append(records).wait()
    }
    /// First offset held.
    pub fn start(&self) -> u64 {
        0
    }
    /// One past the last synced offset.
    pub fn end(&self) -> u64 {
        *self.end.borrow()
    }
    /// Changes with every group that was synced.
    pub fn watch_end(&self) -> watch::Receiver<u64> {
        self.end.subscribe()
    }
    /// Blocks until the end is past `position`, or the time is over; gives the end.
    pub fn wait_end(&self, _position: u64, _timeout: Duration) -> u64 {
        self.end()
    }
    /// Reads from an offset, whole frames, up to about `bytes_max` (at least
    /// one frame). `None` at the end.
    pub fn read(&self, _from: u64, _bytes_max: usize) -> Result<Option<Chunk>> {
        Ok(None)
    }
    /// A fold needs nothing before `position` any more (L3).
    pub fn release(&self, _fold: &str, _position: u64) {}
    /// A fold is no more; retention does not wait for it.
    pub fn forget(&self, _fold: &str) {}
    /// The damaged ranges that an operator accepted as lost; reads pass them
    /// as gaps. Replaces the list.
    pub fn accept_loss(&self, _ranges: Vec<Range<u64>>) {}
    /// Ends the current segment; gives the paths of all ended segments.
    pub fn roll(&self) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
    /// Figures.
    pub fn stats(&self) -> JournalStats {
        unreachable!("not yet")
    }
}
