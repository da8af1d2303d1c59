//! Jobs as they are kept in committed state.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use fulmar_flow::{State, StateBatch};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::super::ApiError;

/// Keyspace of jobs, by project and id.
const KEYSPACE: &str = "webhook-jobs";
/// Jobs of one project that run or wait.
const RUNNING_MAX: usize = 100;
/// How long one is kept that has ended.
const KEPT_MS: i64 = 30 * 86_400_000;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Sends deliveries again.
    Retry,
    /// Pushes events anew.
    Repush,
}

/// Whether it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each is what its word says")]
pub enum Status {
    Running,
    Completed,
    Cancelled,
    Failed,
}

impl Status {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// A job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub id: String,
    pub kind: Kind,
    pub project: String,
    pub consumer: Option<String>,
    /// The filters of a list.
    pub query: BTreeMap<String, String>,
    /// Events are pushed to it alone.
    pub webhook: Option<String>,
    pub force: bool,
    /// What has an outcome at or after this offset of `deliveries` is left alone.
    pub before: u64,
    /// Of the page that is next.
    pub cursor: Option<String>,
    pub sent: u64,
    pub skipped: u64,
    pub status: Status,
    pub error: Option<String>,
    pub created_ms: i64,
    pub updated_ms: i64,
}

/// All jobs, and who waits for one.
pub struct Jobs {
    state: Arc<State>,
    changing: Mutex<()>,
    /// One was added, or the thread is to stop.
    changed: Notify,
    stopping: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Jobs {
    /// Those of committed state.
    pub fn new(state: Arc<State>) -> Self {
        Self {
            state,
            changing: Mutex::default(),
            changed: Notify::new(),
            stopping: AtomicBool::new(false),
            thread: Mutex::default(),
        }
    }

    /// Adds one, durable when this returns; those that ended long ago go.
    pub fn add(&self, job: &Job) -> Result<(), ApiError> {
        let _changing = self.changing.lock().expect("no holder panics");
        let known = self.all()?;
        let running = known.iter().filter(|one| one.project == job.project);
        let running = running.filter(|one| one.status == Status::Running);
        if running.count() >= RUNNING_MAX {
            let told = format!("{RUNNING_MAX} jobs of the project have not ended");
            return Err(ApiError::Busy(told));
        }
        let mut batch = StateBatch::new();
        let is_old =
            |one: &&Job| one.status != Status::Running && one.updated_ms + KEPT_MS < job.created_ms;
        for old in known.iter().filter(is_old) {
            batch.delete(KEYSPACE, key(&old.project, &old.id));
        }
        put(job, &mut batch);
        self.state.commit(batch).map_err(failed)?;
        self.changed.notify_one();
        Ok(())
    }

    /// One of a project.
    pub fn get(&self, project: &str, id: &str) -> Result<Option<Job>, ApiError> {
        let bytes = self
            .state
            .get(KEYSPACE, &key(project, id))
            .map_err(failed)?;
        bytes.map(|bytes| read(&bytes)).transpose()
    }

    /// Changes one, if it is there, durable when this returns.
    pub fn change(
        &self,
        project: &str,
        id: &str,
        change: impl FnOnce(&mut Job) -> Result<(), ApiError>,
    ) -> Result<Option<Job>, ApiError> {
        let _changing = self.changing.lock().expect("no holder panics");
        let Some(mut job) = self.get(project, id)? else {
            return Ok(None);
        };
        change(&mut job)?;
        let mut batch = StateBatch::new();
        put(&job, &mut batch);
        self.state.commit(batch).map_err(failed)?;
        Ok(Some(job))
    }

    /// The oldest one that has not ended.
    pub fn next(&self) -> Result<Option<Job>, ApiError> {
        let running = self.all()?.into_iter();
        let running = running.filter(|job| job.status == Status::Running);
        Ok(running.min_by_key(|job| (job.created_ms, job.id.clone())))
    }

    /// Waits until one is added, or the thread is to stop.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The thread that does them.
    pub fn runs_on(&self, thread: JoinHandle<()>) {
        *self.thread.lock().expect("no holder panics") = Some(thread);
    }

    /// Whether the thread is to stop.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Stops after the page that is under way. Blocks.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.changed.notify_one();
        if let Some(thread) = self.thread.lock().expect("no holder panics").take() {
            // A panic of it has been printed; the job goes on after the next start.
            let _ = thread.join();
        }
    }

    fn all(&self) -> Result<Vec<Job>, ApiError> {
        let entries = self.state.prefix(KEYSPACE, &[]).map_err(failed)?;
        entries.iter().map(|(_, value)| read(value)).collect()
    }
}

fn key(project: &str, id: &str) -> Vec<u8> {
    format!("{project}\0{id}").into_bytes()
}

fn put(job: &Job, batch: &mut StateBatch) {
    let value = serde_json::to_vec(job).expect("texts and numbers always encode");
    batch.put(KEYSPACE, key(&job.project, &job.id), value);
}

fn read(bytes: &[u8]) -> Result<Job, ApiError> {
    serde_json::from_slice(bytes).map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> ApiError {
    ApiError::Failed(error.to_string())
}
