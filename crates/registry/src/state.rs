//! The state that the control records fold to. Pure: no clock, no I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::change::{AgentState, Change, Entry};
use crate::client::{Client, SecretRecord};
use crate::key::{KeyHash, Scope, Scopes, prefix_of};
use crate::project::ProjectSettings;
use crate::registry::DEFAULT_PROJECT;
use crate::shared;
use crate::webhook::{EventType, Subscription, Webhook};

/// A project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// Milliseconds since the epoch when it was made.
    pub created_ms: i64,
    /// What its operator set.
    #[serde(default)]
    pub settings: ProjectSettings,
}

/// What the registry knows of a key; never the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// Project of its client.
    pub project: String,
    /// The client that owns it: the source of what it sends.
    pub client: String,
    /// SHA-256 of the whole key.
    pub hash: KeyHash,
    /// What it may do.
    pub scopes: Scopes,
    /// Milliseconds since the epoch when it was made.
    pub created_ms: i64,
    /// Milliseconds since the epoch from which it opens nothing, if that was decided.
    pub expires_ms: Option<i64>,
}

impl KeyRecord {
    /// Whether the key opens anything at `now_ms`.
    #[must_use]
    pub fn live(&self, now_ms: i64) -> bool {
        self.expires_ms.is_none_or(|at_ms| now_ms < at_ms)
    }
}

/// An agent of the roster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Its tenant.
    pub project: String,
    /// Whether it is admitted.
    pub state: AgentState,
    /// Milliseconds since the epoch when it was registered.
    pub registered_ms: i64,
}

/// A range of a topic that an operator gave up (L1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedLoss {
    /// Name of the topic.
    pub topic: String,
    /// First offset.
    pub from: u64,
    /// Last offset, inclusive.
    pub to: u64,
}

/// What a presented key opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The project that it sends into.
    pub project: String,
    /// The client: the source of what it sends.
    pub client: String,
    /// What it may do.
    pub scopes: Scopes,
    /// The key's public first part.
    pub prefix: String,
}

impl Grant {
    /// Whether it is an operator's: admin is over all projects, and counts for keys of the default
    /// one alone.
    #[must_use]
    pub fn is_operator(&self) -> bool {
        self.scopes.allow(Scope::Admin) && self.project == DEFAULT_PROJECT
    }
}

/// The registry at one revision. Immutable once shared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Control records that are applied: the offset of the next one (R2).
    pub revision: u64,
    /// Projects by id.
    pub projects: BTreeMap<String, Project>,
    /// Keys by their public first part.
    pub keys: BTreeMap<String, KeyRecord>,
    /// The roster by agent id.
    pub agents: BTreeMap<String, Agent>,
    /// Clients of the SDK door by id.
    #[serde(default)]
    pub clients: BTreeMap<String, Client>,
    /// Webhooks by id. Shared, since a change copies the state.
    #[serde(default, with = "shared")]
    pub webhooks: BTreeMap<String, Arc<Webhook>>,
    /// Subscriptions by id.
    #[serde(default, with = "shared")]
    pub subscriptions: BTreeMap<String, Arc<Subscription>>,
    /// Event types by project and name, see [`Snapshot::event_type`].
    #[serde(default, with = "shared")]
    pub event_types: BTreeMap<String, Arc<EventType>>,
    /// Ranges that folds pass.
    pub losses: Vec<AcceptedLoss>,
}

impl Snapshot {
    /// What the key `text` opens at `now_ms`, or `None` for an unknown, wrong or expired one.
    #[must_use]
    pub fn grant(&self, text: &str, now_ms: i64) -> Option<Grant> {
        let prefix = prefix_of(text)?;
        let key = self.keys.get(prefix)?;
        if !key.hash.matches(text) || !key.live(now_ms) {
            return None;
        }
        Some(Grant {
            project: key.project.clone(),
            client: key.client.clone(),
            scopes: key.scopes.clone(),
            prefix: prefix.to_owned(),
        })
    }

    /// The keys of one client that open something at `now_ms`, oldest first.
    #[must_use]
    pub fn live_keys(&self, project: &str, client: &str, now_ms: i64) -> Vec<(&str, &KeyRecord)> {
        let mut keys: Vec<_> = self
            .keys
            .iter()
            .filter(|(_, key)| key.project == project && key.client == client && key.live(now_ms))
            .map(|(prefix, key)| (prefix.as_str(), key))
            .collect();
        keys.sort_by_key(|(_, key)| key.created_ms);
        keys
    }

    /// Whether an offset of a topic lies in a range that an operator gave up.
    #[must_use]
    pub fn loss_accepted(&self, topic: &str, offset: u64) -> bool {
        self.losses
            .iter()
            .any(|l| l.topic == topic && (l.from..=l.to).contains(&offset))
    }

    /// Applies a record that is in the log. It was checked before it was written, so it is not
    /// checked again: rules may become stricter, the log stays as it is.
    pub(crate) fn apply(&mut self, offset: u64, entry: Entry) {
        let at_ms = entry.at_ms;
        match entry.change {
            Change::ProjectCreated { project } => {
                self.projects.entry(project).or_insert(Project {
                    created_ms: at_ms,
                    settings: ProjectSettings::default(),
                });
            }
            Change::ProjectDeleted { project } => {
                self.projects.remove(&project);
                self.keys.retain(|_, key| key.project != project);
                self.agents.retain(|_, agent| agent.project != project);
                self.clients.retain(|_, client| client.project != project);
                self.webhooks
                    .retain(|_, webhook| webhook.project != project);
                self.subscriptions.retain(|_, one| one.project != project);
                self.event_types.retain(|_, one| one.project != project);
            }
            Change::KeyCreated {
                project,
                client,
                prefix,
                hash,
                scopes,
            } => {
                let key = KeyRecord {
                    project,
                    client,
                    hash,
                    scopes,
                    created_ms: at_ms,
                    expires_ms: None,
                };
                self.keys.insert(prefix, key);
            }
            Change::KeyExpires { prefix, at_ms } => {
                if let Some(key) = self.keys.get_mut(&prefix) {
                    // A later decision never brings a key back to life.
                    key.expires_ms = Some(key.expires_ms.map_or(at_ms, |old| old.min(at_ms)));
                }
            }
            change @ (Change::AgentRegistered { .. } | Change::AgentStateSet { .. }) => {
                self.apply_agent(change, at_ms);
            }
            Change::ProjectSet { project, settings } => {
                if let Some(known) = self.projects.get_mut(&project) {
                    settings.apply_to(&mut known.settings);
                }
            }
            change @ (Change::ClientCreated { .. }
            | Change::ClientSecretSet { .. }
            | Change::ClientRevoked { .. }) => self.apply_client(change, at_ms),
            change @ (Change::WebhookSet { .. }
            | Change::WebhookDeleted { .. }
            | Change::SubscriptionSet { .. }
            | Change::SubscriptionDeleted { .. }
            | Change::EventTypeSet { .. }) => self.apply_webhooks(change),
            Change::LossAccepted { topic, from, to } => {
                self.losses.push(AcceptedLoss { topic, from, to });
            }
        }
        self.revision = offset + 1;
    }

    fn apply_agent(&mut self, change: Change, at_ms: i64) {
        match change {
            Change::AgentRegistered { agent, project } => {
                let record = Agent {
                    project,
                    state: AgentState::Active,
                    registered_ms: at_ms,
                };
                self.agents.insert(agent, record);
            }
            Change::AgentStateSet { agent, state } => {
                if let Some(known) = self.agents.get_mut(&agent) {
                    known.state = state;
                }
            }
            _ => {}
        }
    }

    fn apply_client(&mut self, change: Change, at_ms: i64) {
        match change {
            Change::ClientCreated {
                client,
                project,
                name,
                access,
                secret,
                ignore_cors_and_secret,
            } => {
                let secret = secret.map(|hash| SecretRecord {
                    hash,
                    expires_ms: None,
                });
                let made = Client {
                    project,
                    name,
                    kind: access,
                    secrets: secret.into_iter().collect(),
                    ignore_cors_and_secret,
                    revoked: false,
                    created_ms: at_ms,
                };
                self.clients.insert(client, made);
            }
            Change::ClientSecretSet {
                client,
                secret,
                earlier_expire_ms,
            } => {
                let Some(known) = self.clients.get_mut(&client) else {
                    return;
                };
                // The dead ones are of no use any more: at most two stay.
                known.secrets.retain(|earlier| earlier.live(at_ms));
                for earlier in &mut known.secrets {
                    let at_ms = earlier.expires_ms.unwrap_or(i64::MAX);
                    earlier.expires_ms = Some(at_ms.min(earlier_expire_ms));
                }
                known.secrets.push(SecretRecord {
                    hash: secret,
                    expires_ms: None,
                });
            }
            Change::ClientRevoked { client } => {
                if let Some(known) = self.clients.get_mut(&client) {
                    known.revoked = true;
                    known.secrets.clear();
                }
            }
            _ => {}
        }
    }

    fn apply_webhooks(&mut self, change: Change) {
        match change {
            Change::WebhookSet { id, webhook } => {
                self.webhooks.insert(id, Arc::from(webhook));
            }
            Change::WebhookDeleted { id } => {
                self.webhooks.remove(&id);
                self.subscriptions.retain(|_, one| one.webhook != id);
            }
            Change::SubscriptionSet { id, subscription } => {
                self.subscriptions.insert(id, Arc::from(subscription));
            }
            Change::SubscriptionDeleted { id } => {
                self.subscriptions.remove(&id);
            }
            Change::EventTypeSet { event_type } => {
                let key = type_key(&event_type.project, &event_type.name);
                self.event_types.insert(key, Arc::from(event_type));
            }
            _ => {}
        }
    }

    /// The event type of a project by its name.
    #[must_use]
    pub fn event_type(&self, project: &str, name: &str) -> Option<&Arc<EventType>> {
        self.event_types.get(&type_key(project, name))
    }

    /// The webhook of a project by its id.
    #[must_use]
    pub fn webhook(&self, project: &str, id: &str) -> Option<&Arc<Webhook>> {
        self.webhooks
            .get(id)
            .filter(|webhook| webhook.project == project)
    }

    /// The subscription of a project by its id.
    #[must_use]
    pub fn subscription(&self, project: &str, id: &str) -> Option<&Arc<Subscription>> {
        self.subscriptions
            .get(id)
            .filter(|subscription| subscription.project == project)
    }

    /// Whether any key with the scope is live.
    #[must_use]
    pub fn has_live(&self, scope: Scope, now_ms: i64) -> bool {
        self.keys
            .values()
            .any(|key| key.scopes.allow(scope) && key.live(now_ms))
    }
}

/// The key of an event type: ids of projects hold no control characters.
fn type_key(project: &str, name: &str) -> String {
    format!("{project}\n{name}")
}
