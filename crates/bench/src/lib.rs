//! Load, control, limit, reconciliation and reports.
