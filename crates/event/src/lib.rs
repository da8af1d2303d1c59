//! The contract: a view over wire bytes, validation, verdicts, stamping, limits, ids.
