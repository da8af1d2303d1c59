//! What an operator asks: one shape for HTTP and for the folder itself.

pub mod clients;
mod delete;
pub mod lake;
mod log;
mod quarantine;
pub mod registry;
mod secrets;

use std::sync::Arc;

use fulmar_flow::{FoldHandle, State};
use fulmar_log::{Journal, LogError, Topic};
use fulmar_registry::{Registry, RegistryError};
use fulmar_store::{Lake, StoreError};
use fulmar_webhooks::seal::Keyring;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::backup;
use crate::data_dir::DataDir;
use crate::saved_registry::SavedRegistry;

pub use clients::ClientsRequest;
pub use delete::DeleteRequest;
pub use lake::LakeRequest;
pub use log::{LogRequest, apply_losses};
pub use quarantine::QuarantineRequest;
pub use registry::{AgentsRequest, KeysRequest, ProjectsRequest};
pub use secrets::SecretsRequest;

/// What requests are answered from.
#[derive(Clone)]
pub struct Desk {
    /// Projects, keys and agents.
    pub registry: Arc<Registry>,
    /// The copy of the registry.
    pub saved: Arc<SavedRegistry>,
    /// The journals of all topics.
    pub journals: Vec<Arc<Journal>>,
    /// The tables' files.
    pub lake: Lake,
    /// The folder.
    pub data: DataDir,
    /// Committed state of the folds.
    pub state: Arc<State>,
    /// The keyring of a server that runs.
    pub keyring: Option<Arc<Keyring>>,
    /// Every fold that runs.
    pub folds: Vec<FoldHandle>,
}

impl Desk {
    /// The journal of a topic.
    pub fn journal(&self, topic: Topic) -> &Arc<Journal> {
        self.journals
            .iter()
            .find(|journal| journal.topic() == topic)
            .expect("every topic has a journal from the start")
    }

    /// Answers a request. Blocks on the disk.
    pub fn answer(&self, area: &str, body: Value) -> Result<Value, AdminError> {
        let answer = self.answer_only(area, body);
        self.saved.follow();
        answer
    }

    fn answer_only(&self, area: &str, body: Value) -> Result<Value, AdminError> {
        fn read<T: DeserializeOwned>(body: Value) -> Result<T, AdminError> {
            Ok(serde_json::from_value(body)?)
        }
        let now_ms = now_ms();
        match area {
            "projects" => Ok(registry::projects(&self.registry, read(body)?, now_ms)?),
            "keys" => Ok(registry::keys(&self.registry, read(body)?, now_ms)?),
            "clients" => Ok(clients::clients(&self.registry, read(body)?, now_ms)?),
            "agents" => Ok(registry::agents(&self.registry, read(body)?, now_ms)?),
            "delete" => delete::answer(self, read(body)?, now_ms),
            "quarantine" => quarantine::answer(self, read(body)?),
            "lake" => lake::answer(&self.lake, read(body)?),
            "backup" => backup::take(self, &self.data, &read(body)?)
                .map_err(|failure| AdminError::Failed(failure.to_string())),
            "secrets" => secrets::answer(self, &read(body)?, now_ms),
            "log" => log::answer(self, read(body)?, now_ms),
            other => Err(AdminError::NotFound(format!("no admin area `{other}`"))),
        }
    }
}

/// Why an admin request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// The request is not one.
    #[error("the request cannot be read: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It may not be done, and why.
    #[error("{0}")]
    Refused(String),
    /// It could not be done.
    #[error("{0}")]
    Failed(String),
    /// The registry refused.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The log refused or failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The tables cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// RFC 3339 with milliseconds and Z.
pub fn time_text(ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => format!("{ms} ms"),
    }
}

/// Milliseconds since the epoch by the machine's clock.
pub fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_with_milliseconds() {
        assert_eq!(time_text(1_700_000_000_000), "2023-11-14T22:13:20.000Z");
        assert_eq!(time_text(1_700_000_000_007), "2023-11-14T22:13:20.007Z");
    }
}
