//! All topics of one folder, opened together.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::background::Background;
use crate::error::Result;
use crate::journal::Journal;
use crate::space::DiskGuard;
use crate::{Ends, JournalStats, LogConfig, Topic, disk, ends, read_only};

/// The log of one data folder: a journal per topic.
#[derive(Debug)]
pub struct Log {
    dir: PathBuf,
    journals: Vec<Arc<Journal>>,
    partitions: u16,
    background: Background,
    is_keeping: AtomicBool,
    is_shut: AtomicBool,
}

impl Log {
    /// Opens `DIR/log`, making what is missing, and starts the check of older
    /// segments in the background. The caller holds the folder's lock (L4).
    ///
    /// Blocks: reads each segment's header and the last segment of each topic.
    ///
    /// # Errors
    /// `NewerFormat`, `Partitions`, `Io`. Damage is no error here: it is in
    /// [`Log::stats`], and whoever reads there is told (L1).
    pub fn open(dir: &Path, config: LogConfig) -> Result<Log> {
        Log::open_with_witness(dir, config, &Ends::default())
    }

    /// As [`Log::open`], with what others know to have been synced: positions
    /// that folds committed, which never pass the synced end. A journal that
    /// ends before is damaged there, and its next append comes behind (L1).
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn open_with_witness(dir: &Path, config: LogConfig, witness: &Ends) -> Result<Log> {
        disk::create_dir_all(dir).map_err(|error| crate::LogError::io(dir, error))?;
        let guard = Arc::new(DiskGuard::new(dir.to_path_buf(), config.clone()));
        let mut known = ends::read(dir)?;
        let mut journals = Vec::with_capacity(Topic::ALL.len());
        for topic in Topic::ALL {
            let folder = dir.join(topic.name());
            known.raise(topic, witness.get(topic));
            let guard = Arc::clone(&guard);
            let journal = Journal::open(&folder, topic, &config, guard, known.get(topic))?;
            known.raise(topic, journal.end());
            journals.push(Arc::new(journal));
        }
        ends::write(dir, &known);
        let shared = journals
            .iter()
            .map(|journal| Arc::clone(&journal.shared))
            .collect();
        let background = Background::start(shared, guard);
        let partitions = config.partitions;
        Ok(Log {
            dir: dir.to_path_buf(),
            journals,
            partitions,
            background,
            is_keeping: AtomicBool::new(false),
            is_shut: AtomicBool::new(false),
        })
    }

    /// A topic's journal.
    pub fn journal(&self, topic: Topic) -> Arc<Journal> {
        Arc::clone(&self.journals[topic as usize])
    }

    /// Partitions of `events` and `profiles`.
    pub fn partitions(&self) -> u16 {
        self.partitions
    }

    /// Lets retention run. To be called once every fold has told its position
    /// by [`Journal::release`]: until then nothing is removed (L3).
    pub fn start_retention(&self) {
        if !self.is_keeping.swap(true, Ordering::Relaxed) {
            self.background.start_retention();
        }
    }

    /// Figures of every topic, in the order of [`Topic::ALL`].
    pub fn stats(&self) -> Vec<JournalStats> {
        self.journals
            .iter()
            .map(|journal| journal.stats())
            .collect()
    }

    /// Stops taking appends, writes and syncs what waits, seals every topic
    /// and ends the threads. Appends and rolls answer `Closed` from here on;
    /// reads go on.
    pub fn close(self) {
        self.shut();
    }

    fn shut(&self) {
        self.background.stop();
        for journal in &self.journals {
            journal.close();
        }
        if !self.is_shut.swap(true, Ordering::Relaxed) {
            let mut ends = Ends::default();
            for journal in &self.journals {
                ends.raise(journal.topic(), journal.end());
            }
            ends::write(&self.dir, &ends);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.shut();
    }
}

/// The number of partitions that `dir` (`DIR/log`) was made with; `None` when
/// there is no segment to ask.
///
/// # Errors
/// `NewerFormat`, `Io`.
pub fn partitions_of(dir: &Path) -> Result<Option<u16>> {
    for topic in Topic::ALL {
        let segments = read_only::list(&dir.join(topic.name()), topic)?;
        if let Some(header) = segments.iter().find_map(|segment| segment.header) {
            return Ok(Some(header.partitions));
        }
    }
    Ok(None)
}
