//! Clients of the SDK door.

use fulmar_registry::{
    Change, ClientKind, Registry, RegistryError, SecretHash, SettingsChange, new_client_id,
    new_secret,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::registry::{default_overlap, default_project};
use super::time_text;

/// `POST /v1/admin/clients`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum ClientsRequest {
    /// Every client, never its secret.
    List {},
    /// A new client.
    Create {
        /// What people call it.
        name: String,
        /// Its project.
        #[serde(default = "default_project")]
        project: String,
        /// What it may do.
        #[serde(default = "write_kind")]
        kind: ClientKind,
        /// Its id alone is enough.
        #[serde(default)]
        ignore_cors_and_secret: bool,
        /// Origins to add to those that its project lets in without a secret.
        #[serde(default)]
        cors: Vec<String>,
        /// The id that it has already, from the system before this one.
        #[serde(default)]
        id: Option<String>,
        /// The scrypt hash of the secret that it has already.
        #[serde(default)]
        secret_hash: Option<String>,
    },
    /// A successor for a client's secret.
    Rotate {
        /// The client's id.
        client: String,
        /// How long the old secret stays valid.
        #[serde(default = "default_overlap")]
        overlap_ms: i64,
    },
    /// The client is refused for ever.
    Revoke {
        /// The client's id.
        client: String,
    },
}

fn write_kind() -> ClientKind {
    ClientKind::Write
}

/// Answers a request about clients. A new secret is in the answer in clear, this once.
pub fn clients(
    registry: &Registry,
    request: ClientsRequest,
    now_ms: i64,
) -> Result<Value, RegistryError> {
    match request {
        ClientsRequest::List {} => Ok(list(registry, now_ms)),
        ClientsRequest::Create {
            name,
            project,
            kind,
            ignore_cors_and_secret,
            cors,
            id,
            secret_hash,
        } => {
            let client = id.map_or_else(new_client_id, Ok)?;
            let (secret, hash) = match secret_hash {
                Some(hash) => (None, SecretHash::imported(&hash)?),
                None => new_secret().map(|(text, hash)| (Some(text), hash))?,
            };
            let change = Change::ClientCreated {
                client: client.clone(),
                project: project.clone(),
                name: name.clone(),
                access: kind,
                secret: Some(hash),
                ignore_cors_and_secret,
            };
            let mut revision = registry.change(change, now_ms)?;
            if !cors.is_empty() {
                revision = add_origins(registry, &project, cors, now_ms)?;
            }
            Ok(json!({
                "client": client,
                "name": name,
                "project": project,
                "kind": kind,
                "secret": secret,
                "revision": revision,
            }))
        }
        ClientsRequest::Rotate { client, overlap_ms } => {
            let (secret, hash) = new_secret()?;
            let change = Change::ClientSecretSet {
                client: client.clone(),
                secret: hash,
                earlier_expire_ms: now_ms.saturating_add(overlap_ms.max(0)),
            };
            let revision = registry.change(change, now_ms)?;
            Ok(json!({ "client": client, "secret": secret, "revision": revision }))
        }
        ClientsRequest::Revoke { client } => {
            let change = Change::ClientRevoked {
                client: client.clone(),
            };
            let revision = registry.change(change, now_ms)?;
            Ok(json!({ "client": client, "revision": revision }))
        }
    }
}

fn add_origins(
    registry: &Registry,
    project: &str,
    added: Vec<String>,
    now_ms: i64,
) -> Result<u64, RegistryError> {
    let state = registry.current();
    let known = state.projects.get(project);
    let mut cors = known.map_or_else(Vec::new, |known| known.settings.cors.clone());
    for origin in added {
        if !cors.contains(&origin) {
            cors.push(origin);
        }
    }
    let settings = SettingsChange {
        cors: Some(cors),
        ..SettingsChange::default()
    };
    let project = project.to_owned();
    registry.change(Change::ProjectSet { project, settings }, now_ms)
}

fn list(registry: &Registry, now_ms: i64) -> Value {
    let state = registry.current();
    let list: Vec<Value> = state
        .clients
        .iter()
        .map(|(id, client)| {
            let live = client.secrets.iter().filter(|secret| secret.live(now_ms));
            json!({
                "client": id,
                "name": client.name,
                "project": client.project,
                "kind": client.kind,
                "state": if client.revoked { "revoked" } else { "active" },
                "live_secrets": live.count(),
                "ignore_cors_and_secret": client.ignore_cors_and_secret,
                "created": time_text(client.created_ms),
            })
        })
        .collect();
    json!({ "clients": list, "revision": state.revision })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_registry::MemoryLog;

    const NOW: i64 = 1_700_000_000_000;

    fn answer(registry: &Registry, text: &str) -> Value {
        clients(registry, serde_json::from_str(text).unwrap(), NOW).unwrap()
    }

    #[test]
    fn a_secret_is_shown_once_and_its_origins_are_the_projects() {
        let registry = Registry::open(MemoryLog::default()).unwrap();
        registry.ensure_default_project(NOW).unwrap();
        let create = r#"{"op":"create","name":"shop","cors":["https://shop.example"]}"#;
        let made = answer(&registry, create);
        let secret = made["secret"].as_str().unwrap();
        assert_eq!((made["kind"].as_str(), secret.len()), (Some("write"), 68));
        let listed = answer(&registry, r#"{"op":"list"}"#);
        assert_eq!(listed["clients"][0]["state"], "active");
        assert!(!listed.to_string().contains(secret));
        let state = registry.current();
        assert_eq!(
            state.projects["default"].settings.cors,
            ["https://shop.example"]
        );
        let client = &state.clients[made["client"].as_str().unwrap()];
        let SecretHash::Ours(hash) = &client.secrets[0].hash else {
            panic!("a secret of ours");
        };
        assert!(hash.matches(secret));
    }

    #[test]
    fn rotation_overlaps_once_and_revocation_is_final() {
        let registry = Registry::open(MemoryLog::default()).unwrap();
        registry.ensure_default_project(NOW).unwrap();
        let made = answer(&registry, r#"{"op":"create","name":"shop"}"#);
        let id = made["client"].as_str().unwrap();
        let rotate = format!(r#"{{"op":"rotate","client":"{id}","overlap_ms":1000}}"#);
        assert_ne!(answer(&registry, &rotate)["secret"], made["secret"]);
        let ends: Vec<_> = registry.current().clients[id]
            .secrets
            .iter()
            .map(|secret| secret.expires_ms)
            .collect();
        assert_eq!(ends, [Some(NOW + 1_000), None]);
        let again = serde_json::from_str(&rotate).unwrap();
        assert!(clients(&registry, again, NOW).is_err(), "two are live");
        answer(&registry, &format!(r#"{{"op":"revoke","client":"{id}"}}"#));
        assert!(registry.current().clients[id].revoked);
        let again = serde_json::from_str(&rotate).unwrap();
        assert!(clients(&registry, again, NOW + 5_000).is_err(), "revoked");
    }
}
