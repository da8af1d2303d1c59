//! The records of the control topic.

use serde::{Deserialize, Serialize};

use crate::client::{ClientKind, SecretHash};
use crate::error::RegistryError;
use crate::key::{KeyHash, Scopes};
use crate::project::SettingsChange;
use crate::webhook::{EventType, Subscription, Webhook};

/// Newest format of a control record that this build reads and the one that it writes.
pub const FORMAT: u32 = 1;

/// One record of the control topic: a change and when it was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Format of this record; a newer one is refused by name.
    pub format: u32,
    /// Milliseconds since the epoch when the change was decided.
    pub at_ms: i64,
    /// What changed.
    pub change: Change,
}

/// A change of the registry. Kinds and fields are only ever added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// A project, the one unit of isolation.
    ProjectCreated {
        /// Its id.
        project: String,
    },
    /// A project that is gone, with its clients, keys and agents.
    ProjectDeleted {
        /// Its id.
        project: String,
    },
    /// A key, and its client when that is new. The client is the source of what the key sends.
    KeyCreated {
        /// Project of the client.
        project: String,
        /// The client's id.
        client: String,
        /// Public first part of the key.
        prefix: String,
        /// SHA-256 of the whole key (G4).
        hash: KeyHash,
        /// What the key may do.
        scopes: Scopes,
    },
    /// From this time on the key opens nothing: rotation with overlap, or a revocation.
    KeyExpires {
        /// Public first part of the key.
        prefix: String,
        /// Milliseconds since the epoch.
        at_ms: i64,
    },
    /// An agent of the roster, active.
    AgentRegistered {
        /// The agent's id: the common name of its certificate.
        agent: String,
        /// Its tenant.
        project: String,
    },
    /// An agent's new state.
    AgentStateSet {
        /// The agent's id.
        agent: String,
        /// The new state.
        state: AgentState,
    },
    /// Settings of a project.
    ProjectSet {
        /// The project.
        project: String,
        /// What changes.
        settings: SettingsChange,
    },
    /// A client of the SDK door.
    ClientCreated {
        /// Its id, a UUID.
        client: String,
        /// Its project.
        project: String,
        /// What people call it.
        name: String,
        /// What it may do.
        access: ClientKind,
        /// What it proves itself with; none for one that only CORS lets in.
        secret: Option<SecretHash>,
        /// Its id alone is enough.
        ignore_cors_and_secret: bool,
    },
    /// A client's further secret; those before it expire.
    ClientSecretSet {
        /// The client's id.
        client: String,
        /// The new secret.
        secret: SecretHash,
        /// Milliseconds since the epoch from which earlier secrets prove nothing.
        earlier_expire_ms: i64,
    },
    /// A client that is refused for ever.
    ClientRevoked {
        /// The client's id.
        client: String,
    },
    /// A webhook, new or as it is from now on.
    WebhookSet {
        /// Its id.
        id: String,
        /// All of it.
        webhook: Box<Webhook>,
    },
    /// A webhook that is gone, with its subscriptions.
    WebhookDeleted {
        /// Its id.
        id: String,
    },
    /// A subscription, new or as it is from now on.
    SubscriptionSet {
        /// Its id.
        id: String,
        /// All of it.
        subscription: Box<Subscription>,
    },
    /// A subscription that is gone.
    SubscriptionDeleted {
        /// Its id.
        id: String,
    },
    /// An event type, new or as it is from now on.
    EventTypeSet {
        /// All of it, with its project and name.
        event_type: Box<EventType>,
    },
    /// An operator's decision to pass a damaged range (L1).
    LossAccepted {
        /// Name of the topic.
        topic: String,
        /// First offset of the range.
        from: u64,
        /// Last offset of the range, inclusive.
        to: u64,
    },
}

/// Where an agent stands in the roster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// Admitted.
    Active,
    /// Refused until enabled again.
    Disabled,
    /// Refused for ever.
    Revoked,
}

impl AgentState {
    /// The word that commands and answers use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
            Self::Revoked => "revoked",
        }
    }
}

impl Entry {
    /// The bytes of the record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers always serialise")
    }

    /// Reads a record.
    ///
    /// # Errors
    /// `NewerFormat` by name; `Unreadable` for anything else that is not a known change, since a
    /// change that is skipped would leave doors with another registry than the log tells.
    pub fn decode(offset: u64, bytes: &[u8]) -> Result<Self, RegistryError> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let unreadable = |e: serde_json::Error| RegistryError::Unreadable {
            offset,
            reason: e.to_string(),
        };
        let head: Head = serde_json::from_slice(bytes).map_err(unreadable)?;
        if head.format > FORMAT {
            return Err(RegistryError::NewerFormat {
                offset,
                found: head.format,
                known: FORMAT,
            });
        }
        serde_json::from_slice(bytes).map_err(unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_bytes() {
        let entry = Entry {
            format: FORMAT,
            at_ms: 1_700_000_000_000,
            change: Change::AgentStateSet {
                agent: "web-1".into(),
                state: AgentState::Disabled,
            },
        };
        let bytes = entry.encode();
        let text = r#"{"format":1,"at_ms":1700000000000,"change":{"kind":"agent_state_set","agent":"web-1","state":"disabled"}}"#;
        assert_eq!(std::str::from_utf8(&bytes).unwrap(), text);
        assert_eq!(Entry::decode(7, &bytes).unwrap(), entry);
    }

    #[test]
    fn a_newer_format_is_refused_by_name_even_when_its_change_is_unknown() {
        let bytes = br#"{"format":2,"at_ms":1,"change":{"kind":"moon_landed"}}"#;
        let error = Entry::decode(3, bytes).unwrap_err().to_string();
        assert_eq!(
            error,
            "control record 3 has format 2; this version reads up to 1"
        );
    }

    #[test]
    fn an_unknown_change_or_field_of_the_known_format_is_no_silent_skip() {
        for bytes in [
            &br#"{"format":1,"at_ms":1,"change":{"kind":"moon_landed"}}"#[..],
            br#"{"format":1,"at_ms":1,"change":{"kind":"project_created","project":"a","x":1}}"#,
            b"{",
        ] {
            let error = Entry::decode(3, bytes).unwrap_err();
            assert!(
                matches!(error, RegistryError::Unreadable { offset: 3, .. }),
                "{error}"
            );
        }
    }
}
