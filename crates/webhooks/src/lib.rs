//! Webhooks: match, sign, guard, send, retry, and know what became of every delivery.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod backlog;
pub mod client;
mod disabling;
pub mod guard;
pub mod health;
pub mod matching;
pub mod occurrence;
pub mod outcome;
pub mod retry;
pub mod schema;
pub mod seal;
pub mod sender;
pub mod sign;
