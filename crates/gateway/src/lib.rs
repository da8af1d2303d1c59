//! The doors: authenticate, admit, answer.
//!
//! [`server`] is the loop under every listener, [`tls`] its certificates and
//! the identity that they give. [`agents`] takes protobuf batches over mutual
//! TLS, [`events`] takes JSON events with an API key, [`track`] takes what
//! SDKs send, [`public`] answers what
//! needs no key. What all doors share: [`capacity`] and [`body`] bound memory,
//! [`budgets`] bound what one sender may ask for, [`metrics`] counts.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod agents;
pub mod backbone;
pub mod body;
pub mod budgets;
pub mod capacity;
pub mod clock;
pub mod error;
pub mod events;
pub mod http;
pub mod json;
pub mod limits;
pub mod metrics;
pub mod pool;
pub mod problem;
pub mod public;
mod publishing;
pub mod roster;
pub mod server;
pub mod tls;
pub mod track;

pub use error::GatewayError;
pub use fulmar_enrich::Network;
