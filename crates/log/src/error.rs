//! What can go wrong in the log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Topic;

/// A bad place at or below the synced position (L1): never cut, never skipped
/// by itself.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
#[error(
    "damage in {topic}, segment {segment}, byte {byte}: {reason}; \
     records {first_offset} to {end_offset} (exclusive) can't be read"
)]
pub struct Damage {
    /// The topic.
    pub topic: Topic,
    /// The segment's file name.
    pub segment: String,
    /// Where in the file the first bad frame (or header) starts.
    pub byte: u64,
    /// Offset of the first record that can't be read.
    pub first_offset: u64,
    /// Offset of the next record that can; equal to `first_offset` when no
    /// record is lost (a seal or a segment's header is bad).
    pub end_offset: u64,
    /// What is wrong there.
    pub reason: String,
}

/// An error of the log. Cheap to clone: one failed sync answers many appends.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    /// Another process holds the folder (L4).
    #[error("the folder is in use by another process: {} is locked", path.display())]
    Locked {
        /// The lock's file.
        path: PathBuf,
    },
    /// The disk is below its floor (L3). Passes when there is space again.
    #[error("disk low: {free_bytes} bytes are free, appends go on at {floor_bytes}")]
    DiskLow {
        /// Free when last looked.
        free_bytes: u64,
        /// Appends go on at this many.
        floor_bytes: u64,
    },
    /// Too many bytes wait for the disk already. Passes when they are written.
    #[error("the queue of {topic} is full: {queued_bytes} bytes wait for the disk")]
    Full {
        /// The topic.
        topic: Topic,
        /// Bytes waiting.
        queued_bytes: usize,
    },
    /// One append is larger than a frame may be.
    #[error("an append of {bytes} bytes is over the limit of {bytes_max}")]
    TooLarge {
        /// Size of the append.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The write or its sync failed: these records are not in the log (L2).
    #[error("{topic} could not be written or synced: {source}")]
    SyncFailed {
        /// The topic.
        topic: Topic,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Damage stands where a read wanted to go.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The offset was removed by retention, or is not written yet.
    #[error("offset {offset} of {topic} is out of range: it holds {start} to {end} (exclusive)")]
    OutOfRange {
        /// The topic.
        topic: Topic,
        /// The offset asked for.
        offset: u64,
        /// First offset held.
        start: u64,
        /// One past the last synced offset.
        end: u64,
    },
    /// A newer version wrote the folder.
    #[error("{} has format {version}, newer than {known}, the newest known here", path.display())]
    NewerFormat {
        /// The segment.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// The newest version that this build reads.
        known: u32,
    },
    /// The folder was made with another number of partitions, which would
    /// send a key's records to another partition (I3).
    #[error("{} was made with {found} partitions, not {configured}", path.display())]
    Partitions {
        /// The segment.
        path: PathBuf,
        /// Partitions in its header.
        found: u16,
        /// Partitions asked for.
        configured: u16,
    },
    /// The log is closing.
    #[error("{topic} is closed")]
    Closed {
        /// The topic.
        topic: Topic,
    },
    /// The system refused something else.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was worked on.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
}

/// Result of the log's functions.
pub type Result<T> = std::result::Result<T, LogError>;

impl LogError {
    pub(crate) fn io(path: &Path, source: io::Error) -> LogError {
        LogError::Io {
            path: path.to_path_buf(),
            source: Arc::new(source),
        }
    }
}

/// Adds the path to an I/O error.
pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T> {
        self.map_err(|source| LogError::io(path, source))
    }
}
