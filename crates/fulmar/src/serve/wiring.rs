//! The registry, the index of repeats and the live sessions, as doors ask them.

use std::sync::Arc;

use fulmar_event::Timestamp;
use fulmar_flow::FoldHandle;
use fulmar_flow::repeats::{IdHash, RepeatsReader};
use fulmar_gateway::events::{Client, KeyError, KeyStore, KnownIds};
use fulmar_gateway::track::LiveSessions;
use fulmar_registry::{Registry, Scope};
use fulmar_sessions::LiveView;

/// The registry's keys.
pub struct Keys(pub Arc<Registry>);

impl KeyStore for Keys {
    fn authenticate(&self, presented: &str, now: Timestamp) -> Result<Client, KeyError> {
        // The revision first: what is stamped must never be newer than what was asked (R2).
        let control_offset = self.0.current().revision;
        let grant = self
            .0
            .grant(presented, now.as_millis())
            .ok_or(KeyError::Unknown)?;
        Ok(Client {
            can_ingest: grant.scopes.allow(Scope::Ingest),
            id: grant.client,
            project: grant.project,
            control_offset,
        })
    }
}

/// The writer's index of repeats (X3).
pub struct Known {
    /// The committed index.
    pub repeats: RepeatsReader,
    /// The fold that feeds it.
    pub writer: FoldHandle,
}

impl KnownIds for Known {
    fn fingerprint(&self, project: &str, client: &str, id: &str) -> u128 {
        self.repeats
            .hash(project.as_bytes(), client.as_bytes(), id.as_bytes())
            .as_u128()
    }

    fn contains(&self, fingerprint: u128) -> bool {
        let found = self.repeats.contains(IdHash::from_u128(fingerprint));
        found.unwrap_or_else(|error| {
            tracing::warn!(%error, "the index of repeats cannot be read");
            false
        })
    }

    fn position(&self) -> u64 {
        self.writer.position()
    }
}

/// The session fold's view of what is open (S3).
pub struct OpenSessions(pub Arc<LiveView>);

impl LiveSessions for OpenSessions {
    fn live(&self, project: &str, device: &str, at_ms: i64) -> Option<String> {
        let live = self.0.live(project, device, at_ms)?;
        Some(live.as_str().to_owned())
    }
}
