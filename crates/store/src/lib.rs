//! Tables: projection to Arrow, the Parquet lake, compaction, SQL over it.

mod disk;
mod error;
pub mod parquet_file;
pub mod tables;

pub use error::{Result, StoreError};
