//! Projects, keys and agents.

use fulmar_registry::{
    AgentState, Change, DEFAULT_PROJECT, ROTATION_OVERLAP_MS_DEFAULT, Registry, RegistryError,
    Scope, SettingsChange,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::time_text;

/// `POST /v1/admin/projects`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum ProjectsRequest {
    /// Every project.
    List {},
    /// A new project.
    Create {
        /// Its id.
        project: String,
    },
    /// Some of a project's settings.
    Set {
        /// Its id.
        project: String,
        /// What changes.
        settings: SettingsChange,
    },
}

/// `POST /v1/admin/keys`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum KeysRequest {
    /// Every key, never in clear.
    List {},
    /// A new key for a client, new or known.
    Create {
        /// Project of the client.
        #[serde(default = "default_project")]
        project: String,
        /// The client, which is the source of what the key sends.
        client: String,
        /// What the key may do.
        scopes: Vec<Scope>,
    },
    /// A successor for a client's key.
    Rotate {
        /// Project of the client.
        #[serde(default = "default_project")]
        project: String,
        /// The client.
        client: String,
        /// How long the old key stays valid.
        #[serde(default = "default_overlap")]
        overlap_ms: i64,
    },
    /// The key opens nothing from now on.
    Revoke {
        /// Its public first part.
        prefix: String,
    },
}

/// `POST /v1/admin/agents`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum AgentsRequest {
    /// The roster.
    List {},
    /// A new agent, active.
    Register {
        /// Its id: the common name of its certificate.
        agent: String,
        /// Its tenant.
        #[serde(default = "default_project")]
        project: String,
    },
    /// A new state of a known agent.
    Set {
        /// Its id.
        agent: String,
        /// The state.
        state: AgentState,
    },
}

pub(super) fn default_project() -> String {
    DEFAULT_PROJECT.to_owned()
}

pub(super) fn default_overlap() -> i64 {
    ROTATION_OVERLAP_MS_DEFAULT
}

/// Answers a request about projects.
pub fn projects(
    registry: &Registry,
    request: ProjectsRequest,
    now_ms: i64,
) -> Result<Value, RegistryError> {
    match request {
        ProjectsRequest::List {} => {
            let state = registry.current();
            let list: Vec<Value> = state
                .projects
                .iter()
                .map(|(id, p)| {
                    let created = time_text(p.created_ms);
                    json!({"project": id, "created": created, "settings": p.settings})
                })
                .collect();
            Ok(json!({ "projects": list, "revision": state.revision }))
        }
        ProjectsRequest::Create { project } => {
            let change = Change::ProjectCreated {
                project: project.clone(),
            };
            let revision = registry.change(change, now_ms)?;
            Ok(json!({ "project": project, "revision": revision }))
        }
        ProjectsRequest::Set { project, settings } => {
            let change = Change::ProjectSet {
                project: project.clone(),
                settings,
            };
            let revision = registry.change(change, now_ms)?;
            let state = registry.current();
            let settings = state.projects.get(&project).map(|p| p.settings.clone());
            Ok(json!({ "project": project, "settings": settings, "revision": revision }))
        }
    }
}

/// Answers a request about keys. A new key is in the answer in clear, this once.
pub fn keys(
    registry: &Registry,
    request: KeysRequest,
    now_ms: i64,
) -> Result<Value, RegistryError> {
    let minted = match request {
        KeysRequest::List {} => return Ok(list_keys(registry, now_ms)),
        KeysRequest::Revoke { prefix } => {
            let revision = registry.revoke_key(&prefix, now_ms)?;
            return Ok(json!({ "prefix": prefix, "revision": revision }));
        }
        KeysRequest::Create {
            project,
            client,
            scopes,
        } => {
            if scopes.contains(&Scope::Admin) && project != DEFAULT_PROJECT {
                let rule = "scope: `admin` is the operator's, over all projects, and only for \
                            clients of the project `default`";
                return Err(RegistryError::Refused(rule.to_owned()));
            }
            registry.mint(&project, &client, scopes, now_ms)?
        }
        KeysRequest::Rotate {
            project,
            client,
            overlap_ms,
        } => registry.rotate(&project, &client, overlap_ms, now_ms)?,
    };
    Ok(json!({
        "key": minted.key.reveal(),
        "prefix": minted.key.prefix(),
        "project": minted.project,
        "client": minted.client,
        "revision": minted.revision,
    }))
}

fn list_keys(registry: &Registry, now_ms: i64) -> Value {
    let state = registry.current();
    let list: Vec<Value> = state
        .keys
        .iter()
        .map(|(prefix, key)| {
            json!({
                "prefix": prefix,
                "project": key.project,
                "client": key.client,
                "scopes": key.scopes,
                "created": time_text(key.created_ms),
                "expires": key.expires_ms.map(time_text),
                "live": key.live(now_ms),
                "last_used": registry.last_used_ms(prefix).map(time_text),
            })
        })
        .collect();
    json!({ "keys": list, "revision": state.revision })
}

/// Answers a request about agents.
pub fn agents(
    registry: &Registry,
    request: AgentsRequest,
    now_ms: i64,
) -> Result<Value, RegistryError> {
    match request {
        AgentsRequest::List {} => {
            let state = registry.current();
            let list: Vec<Value> = state
                .agents
                .iter()
                .map(|(id, agent)| {
                    json!({
                        "agent": id,
                        "project": agent.project,
                        "state": agent.state.as_str(),
                        "registered": time_text(agent.registered_ms),
                    })
                })
                .collect();
            Ok(json!({ "agents": list, "revision": state.revision }))
        }
        AgentsRequest::Register { agent, project } => {
            let revision = registry.register_agent(&agent, &project, now_ms)?;
            Ok(json!({"agent": agent, "project": project, "state": "active", "revision": revision}))
        }
        AgentsRequest::Set { agent, state } => {
            let revision = registry.set_agent(&agent, state, now_ms)?;
            Ok(json!({ "agent": agent, "state": state.as_str(), "revision": revision }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_registry::MemoryLog;

    const NOW: i64 = 1_700_000_000_000;

    fn registry() -> Registry {
        let registry = Registry::open(MemoryLog::default()).unwrap();
        registry.ensure_default_project(NOW).unwrap();
        registry
    }

    fn request<T: serde::de::DeserializeOwned>(text: &str) -> T {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_new_key_is_shown_once_and_never_listed() {
        let registry = registry();
        let create = r#"{"op":"create","client":"shop","scopes":["ingest"]}"#;
        let made = keys(&registry, request(create), NOW).unwrap();
        let secret = made["key"].as_str().unwrap().to_owned();
        assert_eq!(made["project"], "default");
        let listed = keys(&registry, request(r#"{"op":"list"}"#), NOW).unwrap();
        assert_eq!(listed["keys"][0]["client"], "shop");
        assert_eq!(listed["keys"][0]["scopes"], json!(["ingest"]));
        assert_eq!(listed["keys"][0]["live"], true);
        assert!(!listed.to_string().contains(&secret));
    }

    #[test]
    fn agents_go_through_their_states() {
        let registry = registry();
        let register = r#"{"op":"register","agent":"web-1"}"#;
        assert_eq!(
            agents(&registry, request(register), NOW).unwrap()["state"],
            "active"
        );
        let set = r#"{"op":"set","agent":"web-1","state":"revoked"}"#;
        agents(&registry, request(set), NOW).unwrap();
        let listed = agents(&registry, request(r#"{"op":"list"}"#), NOW).unwrap();
        assert_eq!(listed["agents"][0]["state"], "revoked");
    }

    #[test]
    fn unknown_members_are_refused() {
        let wrong = r#"{"op":"create","client":"a","scopes":["ingest"],"projct":"b"}"#;
        assert!(serde_json::from_str::<KeysRequest>(wrong).is_err());
        assert!(serde_json::from_str::<ProjectsRequest>(r#"{"op":"drop"}"#).is_err());
    }
}
