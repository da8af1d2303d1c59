//! What the rest of the process sees of a running fold, and how it commands it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::watch;

use crate::phases::Phases;
use crate::wakeup::Wakeup;

/// What a fold is doing.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum FoldStatus {
    /// Doing blocks, or waiting for records.
    Running,
    /// Held back on request.
    Held,
    /// Trying a block again; nothing is lost.
    Retrying {
        /// Tries that failed in a row.
        tries: u32,
        /// Why the last one failed.
        error: String,
    },
    /// Stopped at damage, until `try_again` (L1) or a restart.
    Damaged {
        /// The offset that it stands at.
        position: u64,
        /// The place.
        error: String,
    },
    /// Stopped by an error that does not pass; the process has to start anew.
    Failed {
        /// The error.
        error: String,
    },
    /// Ended on request.
    Stopped,
}

/// Figures of one fold since its start; nanoseconds for the pace report, which compares shares.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FoldStats {
    /// The fold.
    pub name: &'static str,
    /// What it is doing.
    #[serde(flatten)]
    pub status: FoldStatus,
    /// Offset of the next record that is not committed.
    pub position: u64,
    /// The log's end minus the position, in records: the queue before this stage.
    pub lag: u64,
    /// Blocks committed.
    pub blocks: u64,
    /// Records in them.
    pub records: u64,
    /// Tries that failed.
    pub retries: u64,
    /// Reading, folding and committing.
    pub busy_ns: u64,
    /// Waiting for records, or for a block to be old enough.
    pub wait_ns: u64,
    /// Held back, pausing after an error, or stopped at one.
    pub blocked_ns: u64,
    /// What it was busy with, by phase; workers that share a block each add their own.
    pub phases_ns: BTreeMap<&'static str, u64>,
}

/// How the thread was told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Run,
    /// Do everything before this offset first.
    At(u64),
    Now,
}

#[derive(Debug)]
pub(crate) struct Commands {
    /// A block whose first offset is before this is closed at once.
    pub cut_to: u64,
    pub hold: bool,
    pub ending: Ending,
    /// Counts commands, so that a sleeping thread sees that there is a new one.
    pub count: u64,
}

/// Shared by the thread and all handles.
pub(crate) struct Shared {
    pub name: &'static str,
    pub end: watch::Receiver<u64>,
    pub position: watch::Sender<u64>,
    pub wakeup: OnceLock<Arc<Wakeup>>,
    commands: Mutex<Commands>,
    status: Mutex<FoldStatus>,
    pub blocks: AtomicU64,
    pub records: AtomicU64,
    pub retries: AtomicU64,
    pub busy_ns: AtomicU64,
    pub wait_ns: AtomicU64,
    pub blocked_ns: AtomicU64,
    pub phases: Arc<Phases>,
    pub thread: Mutex<Option<JoinHandle<()>>>,
}

impl Shared {
    pub fn new(
        name: &'static str,
        position: u64,
        end: watch::Receiver<u64>,
        phases: Arc<Phases>,
    ) -> Shared {
        Shared {
            name,
            end,
            position: watch::Sender::new(position),
            wakeup: OnceLock::new(),
            commands: Mutex::new(Commands {
                cut_to: 0,
                hold: false,
                ending: Ending::Run,
                count: 0,
            }),
            status: Mutex::new(FoldStatus::Running),
            blocks: AtomicU64::new(0),
            records: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
            blocked_ns: AtomicU64::new(0),
            phases,
            thread: Mutex::new(None),
        }
    }

    pub fn commands(&self) -> MutexGuard<'_, Commands> {
        // Plain data: a panic elsewhere can't leave it half changed.
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_status(&self, status: FoldStatus) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    pub fn status(&self) -> FoldStatus {
        self.status
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn command(&self, change: impl FnOnce(&mut Commands)) {
        let mut commands = self.commands();
        change(&mut commands);
        commands.count += 1;
        drop(commands);
        if let Some(wakeup) = self.wakeup.get() {
            std::task::Wake::wake_by_ref(wakeup);
        }
    }
}

/// A running fold. Clones command the same one; dropping them does not stop it.
#[derive(Clone)]
pub struct FoldHandle {
    pub(crate) shared: Arc<Shared>,
}

impl FoldHandle {
    /// The fold's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.shared.name
    }

    /// Offset of the next record that is not committed; everything before has its durable
    /// result (I6).
    #[must_use]
    pub fn position(&self) -> u64 {
        *self.shared.position.borrow()
    }

    /// Follows the position.
    #[must_use]
    pub fn watch_position(&self) -> watch::Receiver<u64> {
        self.shared.position.subscribe()
    }

    /// Closes blocks at once, whatever their size and age, until everything that the log held
    /// at this call is done. Returns the offset at which that is so, for a wait on the position.
    pub fn cut(&self) -> u64 {
        let end = *self.shared.end.borrow();
        self.shared.command(|commands| {
            commands.cut_to = commands.cut_to.max(end);
        });
        end
    }

    /// Holds the fold back before its next block, or lets it go on.
    pub fn hold(&self, hold: bool) {
        self.shared.command(|commands| commands.hold = hold);
    }

    /// Tries again now what an error or damage has stopped: after an operator gave the damaged
    /// offsets up (`Journal::accept_loss`), the fold passes them and counts them as dropped (L1).
    pub fn try_again(&self) {
        self.shared.command(|_| {});
    }

    /// What it is doing and how much of the time.
    #[must_use]
    pub fn stats(&self) -> FoldStats {
        let shared = &self.shared;
        let position = self.position();
        FoldStats {
            name: shared.name,
            status: shared.status(),
            position,
            lag: shared.end.borrow().saturating_sub(position),
            blocks: shared.blocks.load(Ordering::Relaxed),
            records: shared.records.load(Ordering::Relaxed),
            retries: shared.retries.load(Ordering::Relaxed),
            busy_ns: shared.busy_ns.load(Ordering::Relaxed),
            wait_ns: shared.wait_ns.load(Ordering::Relaxed),
            blocked_ns: shared.blocked_ns.load(Ordering::Relaxed),
            phases_ns: shared.phases.by_name(),
        }
    }

    /// Does everything that the log holds at this call, then ends; returns when the thread has
    /// ended. A fold that is held, stopped at an error or between two tries ends without that;
    /// what is left is done after the next start. Blocks the calling thread.
    pub fn stop(&self) {
        let end = self.cut();
        self.shared.command(|commands| {
            if commands.ending == Ending::Run {
                commands.ending = Ending::At(end);
            }
        });
        self.join();
    }

    /// Ends after the block in hand. Blocks the calling thread; may be called while another
    /// thread waits in `stop`, which then returns early.
    pub fn stop_now(&self) {
        self.shared
            .command(|commands| commands.ending = Ending::Now);
        self.join();
    }

    fn join(&self) {
        let thread = self
            .shared
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(thread) = thread else { return };
        if thread.join().is_err() {
            self.shared.set_status(FoldStatus::Failed {
                error: "the fold panicked".to_owned(),
            });
        }
    }
}
