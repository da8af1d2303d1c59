//! Load, control, limit, reconciliation and reports.

pub mod allocation;
mod error;
pub mod hotpath;
mod http;
pub mod ingest;
mod latency;
pub mod null_server;
pub mod replay;
pub mod report;
mod server;
pub mod track;
pub mod webhooks;

pub use error::BenchError;

/// The tests of this crate count allocations as the program does.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: allocation::Counting<std::alloc::System> =
    allocation::Counting(std::alloc::System);
