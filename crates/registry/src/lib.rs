//! Projects, clients, keys, agents and webhooks: versioned state over the control topic.
//!
//! The topic `control` is append-only and kept for ever (R1): the state is what comes out of
//! folding it from its first record. Readers take an immutable [`Snapshot`], whose revision is
//! the control offset that a door stamps into each record (R2).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod change;
mod check;
mod check_webhook;
mod client;
mod control;
mod error;
mod filter;
mod folded;
mod history;
mod key;
mod project;
mod registry;
mod shared;
mod state;
mod webhook;

pub use change::{AgentState, Change, Entry, FORMAT};
pub use check_webhook::{CLASSES, SYSTEM_CONSUMER};
pub use client::{
    Client, ClientKind, SecretHash, SecretRecord, client_id_ok, new_client_id, new_salt, new_secret,
};
pub use control::{ControlLog, ControlRecords, EachRecord, LostRecords, MemoryLog};
pub use error::RegistryError;
pub use filter::{Condition, ConditionalFilter, EventFilter, Operator, pattern};
pub use folded::Folded;
pub use history::History;
pub use key::{ApiKey, KeyHash, Scope, Scopes, prefix_of};
pub use project::{ProjectSettings, SettingsChange};
pub use registry::{DEFAULT_PROJECT, Minted, ROTATION_OVERLAP_MS_DEFAULT, Registry};
pub use state::{AcceptedLoss, Agent, Grant, KeyRecord, Project, Snapshot};
pub use webhook::{
    BodyShape, Comparison, EventType, PayloadFilter, RetryPolicy, SigningSecret, Subscription,
    TypeVersion, Webhook, WebhookState,
};
