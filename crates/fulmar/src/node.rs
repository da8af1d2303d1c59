//! What a process opens of a data folder, and how commands ask it or the server that holds it.

use std::path::PathBuf;
use std::sync::Arc;

use fulmar_flow::State;
use fulmar_log::{BytesMax, FolderLock, Log, LogConfig, LogError, Topic};
use fulmar_registry::{Registry, RegistryError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::admin::{self, now_ms};
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::exit::{Context as _, Failure};
use crate::place::{Place, PlaceArgs};

/// The log, the state and the registry of a folder that this process holds.
pub struct Node {
    /// The folder.
    pub data: DataDir,
    /// Its topics.
    pub log: Log,
    /// Committed state of the folds.
    pub state: Arc<State>,
    /// Projects, keys and agents.
    pub registry: Arc<Registry>,
    /// Last, so that it goes last: nobody else may open what is above before it is closed.
    lock: FolderLock,
}

impl Node {
    /// Opens a folder whose lock this process holds (L4): log, registry, state.
    pub fn open(data: DataDir, lock: FolderLock, config: LogConfig) -> Result<Self, Failure> {
        data.claim()?;
        let log = Log::open(&data.log(), config)?;
        let registry = Registry::open(log.journal(Topic::Control))?;
        registry.ensure_default_project(now_ms())?;
        let state = State::open(&data.state())
            .context(format!("cannot open {}", data.state().display()))?;
        Ok(Self { data, log, state: Arc::new(state), registry: Arc::new(registry), lock })
    }

    /// As [`Node::open`], for a command beside no server: the folder itself says how many
    /// partitions it has.
    pub fn open_as_made(data: DataDir, lock: FolderLock) -> Result<Self, Failure> {
        let file = std::env::var_os("FULMAR_CONFIG").map(PathBuf::from);
        let config = Config::load(file.as_deref(), &[])?;
        let mut log_config = log_config(&config);
        data.claim()?;
        if let Some(partitions) = partitions_of(&data, &log_config)? {
            log_config.partitions = partitions;
        }
        Self::open(data, lock, log_config)
    }

    /// Closes the log cleanly, then gives the folder back.
    pub fn close(self) {
        self.log.close();
        drop(self.state);
        drop(self.lock);
    }
}

/// The partitions that the folder was made with, when they are not those of `config`.
fn partitions_of(data: &DataDir, config: &LogConfig) -> Result<Option<u16>, Failure> {
    match Log::open(&data.log(), config.clone()) {
        Ok(log) => {
            log.close();
            Ok(None)
        }
        Err(LogError::Partitions { found, .. }) => Ok(Some(found)),
        Err(error) => Err(error.into()),
    }
}

/// The log's settings out of the configuration.
pub fn log_config(config: &Config) -> LogConfig {
    let mut log = LogConfig::default();
    log.partitions = u16::try_from(config.number("log.partitions")).unwrap_or(u16::MAX);
    log.events.age_max = Some(config.duration("log.events_age_max"));
    log.profiles.age_max = Some(config.duration("log.events_age_max"));
    match config.number("log.events_bytes_max") {
        0 => {}
        bytes => log.events.bytes_max = BytesMax::Bytes(bytes),
    }
    log.quarantine.age_max = Some(config.duration("log.quarantine_age_max"));
    log.events.segment_bytes = config.number("log.segment_bytes");
    log
}

/// Asks for something of the admin interface: of the running server, or of the folder itself.
pub fn ask<T: Serialize>(place: &PlaceArgs, area: &str, request: &T) -> Result<Value, Failure> {
    let body = serde_json::to_value(request)?;
    match place.resolve()? {
        Place::Server(client) => {
            block_on(client.post_json(&format!("/v1/admin/{area}"), &body))?
        }
        Place::Folder(data, lock) => {
            let node = Node::open_as_made(data, lock)?;
            let answer = answer_admin(&node.registry, area, body);
            node.close();
            answer.map_err(|error| Failure::new(error.to_string()))
        }
    }
}

/// Why an admin request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// There is no such area.
    #[error("no admin area `{0}`")]
    NoSuchArea(String),
    /// The request is not one.
    #[error("the request cannot be read: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The registry refused.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

/// Answers a request of the admin interface.
pub fn answer_admin(registry: &Registry, area: &str, body: Value) -> Result<Value, AdminError> {
    fn read<T: DeserializeOwned>(body: Value) -> Result<T, AdminError> {
        Ok(serde_json::from_value(body)?)
    }
    match area {
        "projects" => Ok(admin::projects(registry, read(body)?, now_ms())?),
        "keys" => Ok(admin::keys(registry, read(body)?, now_ms())?),
        "agents" => Ok(admin::agents(registry, read(body)?, now_ms())?),
        other => Err(AdminError::NoSuchArea(other.to_owned())),
    }
}

/// Runs one future to its end on a small runtime of its own.
pub fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    Ok(runtime.block_on(future))
}
