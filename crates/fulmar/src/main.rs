//! The `fulmar` binary.
#![cfg_attr(test, allow(clippy::unwrap_used))]
mod config;
mod exit;
fn main() {}
