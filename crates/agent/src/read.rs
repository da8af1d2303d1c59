//! Sources on their own threads: lines, rotation, truncation, positions.

mod file;
mod lines;
mod rebase;
mod source;

pub use rebase::newest_time;
pub use source::{Chunk, Job, Reader};
