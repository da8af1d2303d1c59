//! The state that the control records fold to. Pure: no clock, no I/O.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::change::{AgentState, Change, Entry};
use crate::client::{Client, NAME_CHARS_MAX, SecretRecord, client_id_ok};
use crate::error::RegistryError;
use crate::key::{KeyHash, Scope, Scopes, prefix_of};
use crate::project::ProjectSettings;

/// A client owns at most two live keys: the one in use and its successor.
const LIVE_KEYS_PER_CLIENT_MAX: usize = 2;
/// Projects of one server: each has its own budgets, which are held in memory.
const PROJECTS_MAX: usize = 10_000;
/// Key records, live and dead, of one server: 200 bytes each, so at most 2 MB.
const KEYS_MAX: usize = 10_000;
/// Agents of the roster: 150 bytes each, and a change copies the state: 15 MB, some ms.
const AGENTS_MAX: usize = 100_000;
/// Clients of the SDK door: 300 bytes each, so at most 3 MB.
const CLIENTS_MAX: usize = 10_000;
/// A client has at most two live secrets: the one in use and its successor.
const LIVE_SECRETS_PER_CLIENT_MAX: usize = 2;
/// Longest id of a project, client or agent, in bytes.
const ID_BYTES_MAX: usize = 64;

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

    /// Whether the change may follow this state.
    ///
    /// # Errors
    /// Why it may not, in the words of the command that asked for it.
    pub fn check(&self, change: &Change, now_ms: i64) -> Result<(), RegistryError> {
        match change {
            Change::ProjectCreated { project } => self.check_project_created(project),
            Change::KeyCreated {
                project,
                client,
                prefix,
                scopes,
                ..
            } => self.check_key_created(project, client, prefix, scopes, now_ms),
            Change::KeyExpires { prefix, .. } => match self.keys.contains_key(prefix) {
                true => Ok(()),
                false => Err(unknown("key", prefix)),
            },
            Change::AgentRegistered { agent, project } => {
                self.check_agent_registered(agent, project)
            }
            Change::AgentStateSet { agent, state } => self.check_agent_state(agent, *state),
            Change::ProjectSet { project, settings } => {
                self.check_project(project)?;
                settings.check()
            }
            Change::ClientCreated {
                client,
                project,
                name,
                ..
            } => self.check_client_created(client, project, name),
            Change::ClientSecretSet { client, .. } => self.check_client_secret(client, now_ms),
            Change::ClientRevoked { client } => self.check_client(client).map(drop),
            Change::LossAccepted { from, to, .. } if from > to => Err(RegistryError::Refused(
                format!("the range {from}-{to} runs backwards"),
            )),
            Change::LossAccepted { .. } => Ok(()),
        }
    }

    fn check_project_created(&self, project: &str) -> Result<(), RegistryError> {
        check_id("project", project)?;
        if self.projects.contains_key(project) {
            return Err(exists("project", project));
        }
        check_room(self.projects.len(), PROJECTS_MAX, "projects")
    }

    fn check_key_created(
        &self,
        project: &str,
        client: &str,
        prefix: &str,
        scopes: &Scopes,
        now_ms: i64,
    ) -> Result<(), RegistryError> {
        check_id("client", client)?;
        if !self.projects.contains_key(project) {
            return Err(unknown("project", project));
        }
        if self.keys.contains_key(prefix) {
            return Err(exists("key", prefix));
        }
        if scopes.as_slice().is_empty() {
            return Err(RegistryError::Refused("a key needs a scope".to_owned()));
        }
        // The source is the identity of an event: an agent of the same name in the same project
        // would share it, and the one's event would be taken for a repeat of the other's.
        if self
            .agents
            .get(client)
            .is_some_and(|agent| agent.project == project)
        {
            return Err(exists("agent", client));
        }
        if self.clients.contains_key(client) {
            return Err(exists("client", client));
        }
        if self.live_keys(project, client, now_ms).len() >= LIVE_KEYS_PER_CLIENT_MAX {
            return Err(RegistryError::Full {
                what: "live keys a client: revoke one first",
                limit: LIVE_KEYS_PER_CLIENT_MAX,
            });
        }
        check_room(self.keys.len(), KEYS_MAX, "keys")
    }

    fn check_agent_registered(&self, agent: &str, project: &str) -> Result<(), RegistryError> {
        check_id("agent", agent)?;
        if !self.projects.contains_key(project) {
            return Err(unknown("project", project));
        }
        if self.agents.contains_key(agent) {
            return Err(exists("agent", agent));
        }
        if self.clients.contains_key(agent) {
            return Err(exists("client", agent));
        }
        if self
            .keys
            .values()
            .any(|key| key.project == project && key.client == agent)
        {
            return Err(exists("client", agent));
        }
        check_room(self.agents.len(), AGENTS_MAX, "agents")
    }

    fn check_agent_state(&self, agent: &str, state: AgentState) -> Result<(), RegistryError> {
        let Some(known) = self.agents.get(agent) else {
            return Err(unknown("agent", agent));
        };
        if known.state == AgentState::Revoked && state != AgentState::Revoked {
            return Err(RegistryError::Refused(format!(
                "agent `{agent}` is revoked, which is final; register another id"
            )));
        }
        Ok(())
    }

    fn check_project(&self, project: &str) -> Result<(), RegistryError> {
        match self.projects.contains_key(project) {
            true => Ok(()),
            false => Err(unknown("project", project)),
        }
    }

    fn check_client(&self, client: &str) -> Result<&Client, RegistryError> {
        self.clients
            .get(client)
            .ok_or_else(|| unknown("client", client))
    }

    fn check_client_created(
        &self,
        client: &str,
        project: &str,
        name: &str,
    ) -> Result<(), RegistryError> {
        if !client_id_ok(client) {
            let rule = format!("client id `{client}` must be a UUID in lower-case hexadecimal");
            return Err(RegistryError::Refused(rule));
        }
        self.check_project(project)?;
        if self.clients.contains_key(client) {
            return Err(exists("client", client));
        }
        // The source is the identity of an event: a key's client or an agent of that name would
        // share it.
        if self.keys.values().any(|key| key.client == client) || self.agents.contains_key(client) {
            return Err(exists("sender", client));
        }
        let chars = name.chars().count();
        if !(1..=NAME_CHARS_MAX).contains(&chars) || name.chars().any(char::is_control) {
            let rule = format!("name takes 1 to {NAME_CHARS_MAX} characters, none a control one");
            return Err(RegistryError::Refused(rule));
        }
        check_room(self.clients.len(), CLIENTS_MAX, "clients")
    }

    fn check_client_secret(&self, client: &str, now_ms: i64) -> Result<(), RegistryError> {
        let known = self.check_client(client)?;
        if known.revoked {
            let rule = format!("client `{client}` is revoked, which is final; create another");
            return Err(RegistryError::Refused(rule));
        }
        let live = known.secrets.iter().filter(|secret| secret.live(now_ms));
        if live.count() >= LIVE_SECRETS_PER_CLIENT_MAX {
            return Err(RegistryError::Full {
                what: "live secrets a client: wait until the overlap of the last rotation ends",
                limit: LIVE_SECRETS_PER_CLIENT_MAX,
            });
        }
        Ok(())
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
            Change::ProjectSet { project, settings } => {
                if let Some(known) = self.projects.get_mut(&project) {
                    settings.apply_to(&mut known.settings);
                }
            }
            change @ (Change::ClientCreated { .. }
            | Change::ClientSecretSet { .. }
            | Change::ClientRevoked { .. }) => self.apply_client(change, at_ms),
            Change::LossAccepted { topic, from, to } => {
                self.losses.push(AcceptedLoss { topic, from, to });
            }
        }
        self.revision = offset + 1;
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

    /// Whether any key with the scope is live.
    #[must_use]
    pub fn has_live(&self, scope: Scope, now_ms: i64) -> bool {
        self.keys
            .values()
            .any(|key| key.scopes.allow(scope) && key.live(now_ms))
    }
}

fn check_id(kind: &'static str, id: &str) -> Result<(), RegistryError> {
    let bytes = id.as_bytes();
    let first_ok = bytes.first().is_some_and(u8::is_ascii_alphanumeric);
    let rest_ok = bytes
        .iter()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if !first_ok || !rest_ok || bytes.len() > ID_BYTES_MAX {
        return Err(RegistryError::BadId {
            kind,
            id: id.to_owned(),
        });
    }
    Ok(())
}

fn check_room(len: usize, limit: usize, what: &'static str) -> Result<(), RegistryError> {
    if len >= limit {
        return Err(RegistryError::Full { what, limit });
    }
    Ok(())
}

fn unknown(kind: &'static str, id: &str) -> RegistryError {
    RegistryError::Unknown {
        kind,
        id: id.to_owned(),
    }
}

fn exists(kind: &'static str, id: &str) -> RegistryError {
    RegistryError::Exists {
        kind,
        id: id.to_owned(),
    }
}
