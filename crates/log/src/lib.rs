//! The embedded log: topics, partitions, group commit, recovery, retention.
//!
//! A [`Topic`] is one journal: segments of CRC-checked frames, a frame per
//! append, so that an append is atomic over its partitions and one sync makes
//! all that wait durable. The rules L1 to L5 hold as `ARCHITECTURE.md` says.

mod append;
mod background;
mod chunk;
mod commit;
mod config;
pub mod disk;
mod ends;
mod error;
mod frame;
mod journal;
mod lock;
mod log;
mod losses;
mod parse;
mod read_only;
mod reader;
mod recover;
mod report;
mod retention;
mod scan;
mod segment;
mod shared;
mod space;
mod spares;
mod stats;
mod survey;
mod topic;

pub use append::{Append, Appended};
pub use chunk::{Chunk, Record, Records as RecordsInChunk};
pub use config::{APPEND_BYTES_MAX, BytesMax, LogConfig, TopicConfig};
pub use ends::Ends;
pub use error::{Damage, LogError, Result};
pub use fulmar_event::Records;
pub use journal::Journal;
pub use lock::{FolderLock, lock_folder};
pub use log::{Log, partitions_of};
pub use read_only::ReadOnly;
pub use reader::Reader;
pub use report::{Progress, SegmentReport, TopicReport, inspect, verify};
pub use stats::JournalStats;
pub use topic::{Topic, UnknownTopic};

#[cfg(test)]
mod tests;
