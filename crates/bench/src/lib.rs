//! Load, control, limit, reconciliation and reports.

pub mod allocation;
pub mod hotpath;
pub mod report;
