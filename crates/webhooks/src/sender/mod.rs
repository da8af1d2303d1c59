//! The sender: reads events, matches them with webhooks, sends, retries, and tells what became of
//! each delivery (D1, D2).
//!
//! It is a fold over `events` and its own `deliveries`: an outcome counts once its record is
//! durable, and a checkpoint, once a second, commits both positions with whatever is not decided
//! yet, as one batch. What succeeds at once touches no state but its outcome. One thread does all
//! of it, so that nothing is locked between reading, scheduling and sending.

mod again;
mod breaker;
mod checkpoint;
mod delivery;
mod dispatch;
mod fan_out;
mod lane;
mod loading;
mod outcomes;
mod rate;
mod receiver;
mod recover;
mod share;
mod sooner;
mod stats;
mod trial;
mod undecided;
pub mod verdict;
mod window;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fulmar_flow::repeats::RepeatsConfig;
use fulmar_flow::{FlowError, State};
use fulmar_log::{Journal, LogError};
use fulmar_registry::{Registry, RegistryError};
use tokio::sync::{mpsc, oneshot};

pub use again::Ended;
pub use checkpoint::committed_ends;
pub use delivery::{DeliveryId, Parked};
pub use stats::{Counts, SenderStats};
pub use trial::{Tried, Untried};
pub use undecided::each_undecided;

use crate::backlog::Backlogs;
use crate::guard::Guard;
use crate::seal::Keyring;

/// The sender's name where positions are told.
pub const WEBHOOKS: &str = "webhooks";
/// Keyspace of its index of repeats.
const REPEATS: &str = "repeats-webhooks";

/// How often it is looked whether events are read: matching takes microseconds, a checkpoint more.
const READING_PAUSE: Duration = Duration::from_millis(5);

/// What a sender works with.
pub struct SenderParts {
    /// Webhooks and subscriptions.
    pub registry: Arc<Registry>,
    /// The topic that the registry is folded from, for its earlier revisions (R2).
    pub control: Arc<Journal>,
    /// What is matched.
    pub events: Arc<Journal>,
    /// Where outcomes go.
    pub deliveries: Arc<Journal>,
    /// Committed state.
    pub state: Arc<State>,
    /// Folder of the index of repeats.
    pub repeats_dir: PathBuf,
    /// Its bounds.
    pub repeats: RepeatsConfig,
    /// Opens secrets.
    pub keyring: Arc<Keyring>,
    /// Which addresses may be reached.
    pub guard: Guard,
    /// Where it tells what is not sent yet.
    pub backlogs: Arc<Backlogs>,
    /// See [`SenderConfig`].
    pub config: SenderConfig,
}

/// Bounds of a sender.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    /// Exchanges at once, over all webhooks: each is a connection.
    pub in_flight_max: usize,
    /// Exchanges at once with one webhook that names no bound of its own.
    pub in_flight_per_webhook: u32,
    /// How long a receiver is left alone first that fails most attempts; zero is not at all.
    pub breaker_pause: Duration,
    /// How long a stop waits for what is in flight.
    pub stop_time_max: Duration,
}

impl Default for SenderConfig {
    fn default() -> Self {
        Self {
            in_flight_max: 4_096,
            in_flight_per_webhook: 64,
            breaker_pause: Duration::from_secs(30),
            stop_time_max: Duration::from_secs(10),
        }
    }
}

/// Why a sender can't start, or go on.
#[derive(Debug, thiserror::Error)]
pub enum SenderError {
    /// Committed state.
    #[error(transparent)]
    State(#[from] FlowError),
    /// The registry as it was.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A topic.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An entry of committed state is not one.
    #[error("the state of webhooks is damaged: {0}")]
    Entry(String),
    /// The thread.
    #[error("cannot start the thread of webhooks: {0}")]
    Thread(#[from] std::io::Error),
    /// It ended before it had started.
    #[error("the thread of webhooks ended with a defect")]
    Defect,
}

/// What others ask of the sender.
enum Command {
    /// Answer once all that is undecided now is in committed state.
    Checkpoint(oneshot::Sender<()>),
    /// Take deliveries up again.
    Again(again::Again),
    /// Send one now that waits for its next attempt.
    Sooner(sooner::Sooner),
    /// Send what is no delivery, once.
    Try(Box<trial::Trial>),
    /// Send nothing new, wait for what is in flight, commit, end.
    Stop,
}

/// A running sender.
pub struct SenderHandle {
    commands: mpsc::UnboundedSender<Command>,
    stats: Arc<Mutex<SenderStats>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl SenderHandle {
    /// Starts a sender: its committed state is read when this returns.
    ///
    /// # Errors
    /// [`SenderError`].
    pub fn start(parts: SenderParts) -> Result<Self, SenderError> {
        let (commands, asked) = mpsc::unbounded_channel();
        let (started, starting) = std::sync::mpsc::sync_channel(1);
        let stats = Arc::new(Mutex::new(SenderStats::default()));
        let shown = Arc::clone(&stats);
        let thread = std::thread::Builder::new()
            .name("webhooks".to_owned())
            .spawn(move || share::run(parts, asked, shown, &started))?;
        starting.recv().map_err(|_| SenderError::Defect)??;
        Ok(Self {
            commands,
            stats,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Figures of a moment ago.
    #[must_use]
    pub fn stats(&self) -> SenderStats {
        self.stats.lock().expect("no holder panics").clone()
    }

    /// Waits until all that is undecided at this call is in committed state; false when the
    /// sender has ended.
    pub async fn checkpoint(&self) -> bool {
        let (done, wait) = oneshot::channel();
        self.commands.send(Command::Checkpoint(done)).is_ok() && wait.await.is_ok()
    }

    /// Waits until all that is undecided of the events before `end` is in committed state; false
    /// when that takes longer than `wait`, or the sender has ended.
    pub async fn settled(&self, end: u64, wait: Duration) -> bool {
        let all_read = async {
            while self.checkpoint().await {
                if self.stats().position >= end {
                    return true;
                }
                tokio::time::sleep(READING_PAUSE).await;
            }
            false
        };
        tokio::time::timeout(wait, all_read).await.unwrap_or(false)
    }

    /// Stops: what is in flight may end, what is not decided is committed. Blocks.
    pub fn stop(&self) {
        let _ = self.commands.send(Command::Stop);
        if let Some(thread) = self.thread.lock().expect("no holder panics").take() {
            // A panic of the thread has been printed; the next start goes on from the log.
            let _ = thread.join();
        }
    }
}

impl Drop for SenderHandle {
    fn drop(&mut self) {
        self.stop();
    }
}
