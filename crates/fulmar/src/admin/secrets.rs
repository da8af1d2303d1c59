//! The keyring that secrets of webhooks are sealed with.

use std::sync::Arc;

use fulmar_registry::{Change, Webhook};
use fulmar_webhooks::seal::{Keyring, SealError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AdminError, Desk};
use crate::data_dir::write_private;
use crate::{keyring, keys};

/// `POST /v1/admin/secrets`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum SecretsRequest {
    /// Reads the keyring's file anew, and seals every secret with its first key.
    Rewrap {
        /// First puts a new key there.
        #[serde(default)]
        new_key: bool,
    },
}

/// Answers a request. What can't be opened with the new keyring keeps it from being taken.
pub fn answer(desk: &Desk, request: &SecretsRequest, now_ms: i64) -> Result<Value, AdminError> {
    let SecretsRequest::Rewrap { new_key } = request;
    let live = match &desk.keyring {
        Some(live) => Arc::clone(live),
        None => keyring::open(&desk.data, &desk.registry).map_err(failed)?,
    };
    let path = desk.data.keyring();
    let mut text = keys::read_file(&path).map_err(failed)?;
    if *new_key {
        let id = live
            .unused_id()
            .ok_or_else(|| AdminError::Refused(FULL.to_owned()))?;
        text = Keyring::generate(&id).map_err(failed)? + &text + "\n";
    }
    let next = Keyring::parse(&text).map_err(failed)?;
    let snapshot = desk.registry.current();
    for (id, webhook) in &snapshot.webhooks {
        for sealed in all_sealed(webhook) {
            let refused = |error| AdminError::Refused(format!("webhook `{id}`: {error}"));
            next.open(sealed).map_err(refused)?;
        }
    }
    if *new_key {
        write_private(&path, text.as_bytes()).map_err(failed)?;
    }
    let key = next.primary();
    live.replace(next);
    let (mut webhooks, mut secrets) = (0, 0);
    // Again until none is left: one may have been changed meanwhile with the key of before.
    loop {
        let snapshot = desk.registry.current();
        let stale = snapshot.webhooks.iter().filter(|(_, webhook)| {
            let mut sealed = all_sealed(webhook);
            sealed.any(|sealed| !live.is_current(sealed))
        });
        let stale: Vec<&String> = stale.map(|(id, _)| id).collect();
        if stale.is_empty() {
            return Ok(json!({ "key": key, "webhooks": webhooks, "secrets": secrets }));
        }
        for id in stale {
            secrets += seal_again(desk, &live, id, now_ms)?;
            webhooks += 1;
        }
    }
}

/// Why there is no place for a further key.
const FULL: &str = "the keyring has a key of every name that it would get: delete old ones";

fn all_sealed(webhook: &Webhook) -> impl Iterator<Item = &str> {
    let secrets = webhook.secrets.iter().map(|secret| &*secret.sealed);
    secrets.chain(webhook.secret_headers.values().map(String::as_str))
}

/// How many of a webhook's secrets were sealed again. One that is gone by now has none.
fn seal_again(desk: &Desk, ring: &Keyring, id: &str, now_ms: i64) -> Result<usize, AdminError> {
    let mut count = 0;
    let changed = desk.registry.change_from(now_ms, |state| {
        let known = state.webhooks.get(id);
        let known = known.ok_or_else(|| AdminError::NotFound(format!("no webhook `{id}`")))?;
        let mut webhook = (**known).clone();
        let secrets = webhook.secrets.iter_mut().map(|secret| &mut secret.sealed);
        for sealed in secrets.chain(webhook.secret_headers.values_mut()) {
            if !ring.is_current(sealed) {
                *sealed = again(ring, sealed).map_err(failed)?;
                count += 1;
            }
        }
        let webhook = Box::new(webhook);
        let id = id.to_owned();
        Ok::<_, AdminError>(Change::WebhookSet { id, webhook })
    });
    match changed {
        Ok(_) => Ok(count),
        Err(AdminError::NotFound(_)) => Ok(0),
        Err(error) => Err(error),
    }
}

fn again(ring: &Keyring, sealed: &str) -> Result<String, SealError> {
    ring.seal(&ring.open(sealed)?)
}

fn failed(error: impl std::fmt::Display) -> AdminError {
    AdminError::Failed(error.to_string())
}
