//! Load, control, limit, reconciliation and reports.

pub mod allocation;
mod error;
pub mod hotpath;
pub mod ingest;
pub mod null_server;
pub mod report;

pub use error::BenchError;
