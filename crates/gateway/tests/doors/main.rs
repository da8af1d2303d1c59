//! The doors over real connections: TLS, HTTP/1.1 and HTTP/2.
#![allow(clippy::unwrap_used, missing_docs)]

mod agents_statuses;
mod client;
mod drain;
mod events_repeats;
mod events_rig;
mod events_verdicts;
mod identity;
mod listener;
mod overload;
mod pki;
mod publish;
mod reload;
mod rig;
mod shelf;
mod track_any;
mod track_batches;
mod track_fixtures;
mod track_rig;
mod track_segment;
mod track_statuses;
