//! Which changes may follow a state, and why others may not.

use crate::change::{AgentState, Change};
use crate::client::{Client, NAME_CHARS_MAX, client_id_ok};
use crate::error::RegistryError;
use crate::key::{Scope, Scopes};
use crate::registry::DEFAULT_PROJECT;
use crate::state::{KeyRecord, Snapshot};

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

impl Snapshot {
    /// Whether the change may follow this state.
    ///
    /// # Errors
    /// Why it may not, in the words of the command that asked for it.
    pub fn check(&self, change: &Change, now_ms: i64) -> Result<(), RegistryError> {
        match change {
            Change::ProjectCreated { project } => self.check_project_created(project),
            Change::ProjectDeleted { project } => self.check_project_deleted(project, now_ms),
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
            Change::WebhookSet { .. }
            | Change::WebhookDeleted { .. }
            | Change::SubscriptionSet { .. }
            | Change::SubscriptionDeleted { .. }
            | Change::EventTypeSet { .. } => self.check_webhooks(change),
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

    fn check_project_deleted(&self, project: &str, now_ms: i64) -> Result<(), RegistryError> {
        if project == DEFAULT_PROJECT {
            let rule = format!(
                "project `{project}` is the server's own and stays; its rows can be deleted alone"
            );
            return Err(RegistryError::Refused(rule));
        }
        let admin = |key: &&KeyRecord| {
            key.project == project && key.scopes.allow(Scope::Admin) && key.live(now_ms)
        };
        if let Some(key) = self.keys.values().find(admin) {
            let rule = format!(
                "project `{project}` holds the admin key of `{}`: revoke it first, so that nobody \
                 locks themselves out",
                key.client
            );
            return Err(RegistryError::Refused(rule));
        }
        self.check_project(project)
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

    pub(crate) fn check_project(&self, project: &str) -> Result<(), RegistryError> {
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
}

pub(crate) fn check_id(kind: &'static str, id: &str) -> Result<(), RegistryError> {
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

pub(crate) fn check_room(
    len: usize,
    limit: usize,
    what: &'static str,
) -> Result<(), RegistryError> {
    if len >= limit {
        return Err(RegistryError::Full { what, limit });
    }
    Ok(())
}

pub(crate) fn unknown(kind: &'static str, id: &str) -> RegistryError {
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
