//! The `fulmar` binary.
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![allow(dead_code)]
mod addresses;
mod client;
mod config;
mod data_dir;
mod exit;
mod keys;
mod pki;
mod place;
fn main() {}
