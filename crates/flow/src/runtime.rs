//! The thread of a fold: waits, retries, and lets the engine do one step after another.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tracing::{error, warn};

use crate::backoff::Backoff;
use crate::block::BlockLimits;
use crate::engine::{Engine, Step};
use crate::error::{FlowError, Result};
use crate::fold::{Fold, FoldError};
use crate::handle::{Ending, FoldHandle, FoldStatus, Shared};
use crate::input::Input;
use crate::state::State;
use crate::wakeup::{Wakeup, after};
use fulmar_log::Journal;

/// Starts `fold` on a thread of its own, where its committed state says.
///
/// # Errors
/// When state cannot be read, does not belong to this log, or no thread can be started.
pub fn start_fold(
    fold: impl Fold,
    journal: Arc<Journal>,
    state: Arc<State>,
    limits: BlockLimits,
) -> Result<FoldHandle> {
    // Jitter must differ between processes that fail together; it decides no result.
    let seed = RandomState::new().hash_one(fold.name());
    start(Box::new(fold), journal, state, limits, seed)
}

pub(crate) fn start(
    fold: Box<dyn Fold>,
    input: Arc<dyn Input>,
    state: Arc<State>,
    limits: BlockLimits,
    seed: u64,
) -> Result<FoldHandle> {
    let end = input.watch_end();
    let engine = Engine::new(fold, input, state, limits)?;
    let name = format!("fold-{}", engine.name());
    let phases = engine.phases();
    let shared = Shared::new(engine.name(), engine.position(), end.clone(), phases);
    let shared = Arc::new(shared);
    let runner = Arc::clone(&shared);
    let thread = thread::Builder::new()
        .name(name.clone())
        .spawn(move || {
            let guard = Guard(runner);
            Runner::new(engine, Arc::clone(&guard.0), end, seed).run();
            guard.0.set_status(ended(guard.0.status()));
        })
        .map_err(|source| FlowError::Thread { name, source })?;
    *shared.thread.lock().expect("no one else has it yet") = Some(thread);
    Ok(FoldHandle { shared })
}

/// An error stays visible after the end.
fn ended(status: FoldStatus) -> FoldStatus {
    match status {
        FoldStatus::Damaged { .. } | FoldStatus::Failed { .. } => status,
        _ => FoldStatus::Stopped,
    }
}

/// Makes a panic of the fold visible at once.
struct Guard(Arc<Shared>);

impl Drop for Guard {
    fn drop(&mut self) {
        if thread::panicking() {
            error!(fold = self.0.name, "the fold panicked");
            self.0.set_status(FoldStatus::Failed {
                error: "the fold panicked".to_owned(),
            });
        }
    }
}

struct Runner {
    engine: Engine,
    shared: Arc<Shared>,
    end: watch::Receiver<u64>,
    wakeup: Arc<Wakeup>,
    backoff: Backoff,
}

/// What the commands say at one moment.
struct Seen {
    cut_to: u64,
    hold: bool,
    ending: Ending,
    count: u64,
}

impl Runner {
    fn new(engine: Engine, shared: Arc<Shared>, end: watch::Receiver<u64>, seed: u64) -> Runner {
        let wakeup = Wakeup::of_this_thread();
        let wakeup = Arc::clone(shared.wakeup.get_or_init(|| wakeup));
        Runner {
            engine,
            shared,
            end,
            wakeup,
            backoff: Backoff::new(seed),
        }
    }

    fn run(mut self) {
        loop {
            let seen = self.see();
            let ends = match seen.ending {
                Ending::Run => false,
                Ending::At(position) => seen.hold || self.engine.position() >= position,
                Ending::Now => true,
            };
            if ends {
                return;
            }
            if seen.hold {
                self.shared.set_status(FoldStatus::Held);
                self.blocked(&seen, None);
                continue;
            }
            let began = Instant::now();
            let before = self.engine.position();
            let step = self.engine.step(now_ms(), seen.cut_to);
            add_ns(&self.shared.busy_ns, began);
            match step {
                Ok(Step::Moved) => self.moved(before),
                Ok(Step::Waiting { end, due_ms }) => self.wait(&seen, end, due_ms),
                Err(error) => {
                    self.failed(&seen, error);
                    if self.see().ending != Ending::Run {
                        return;
                    }
                }
            }
        }
    }

    fn see(&self) -> Seen {
        let commands = self.shared.commands();
        let (hold, ending, count) = (commands.hold, commands.ending, commands.count);
        Seen {
            cut_to: commands.cut_to,
            hold,
            ending,
            count,
        }
    }

    fn moved(&mut self, before: u64) {
        let position = self.engine.position();
        self.backoff.reset();
        self.shared.set_status(FoldStatus::Running);
        self.shared.blocks.fetch_add(1, Ordering::Relaxed);
        self.shared
            .records
            .fetch_add(position - before, Ordering::Relaxed);
        self.shared.position.send_replace(position);
    }

    fn wait(&mut self, seen: &Seen, end: u64, due_ms: Option<i64>) {
        self.shared.set_status(FoldStatus::Running);
        let began = Instant::now();
        // The wall clock may have been set back since the append: never wait a block's full age
        // more than once.
        let until = due_ms.and_then(|due_ms| {
            let left_ms = due_ms.saturating_sub(now_ms()).clamp(0, LONGEST_WAIT_MS);
            after(Duration::from_millis(left_ms.unsigned_abs()))
        });
        let shared = &self.shared;
        let commanded = || shared.commands().count != seen.count;
        self.wakeup
            .sleep_until_at_least(&mut self.end, end, commanded, until);
        add_ns(&self.shared.wait_ns, began);
    }

    fn failed(&mut self, seen: &Seen, error: FoldError) {
        self.shared.retries.fetch_add(1, Ordering::Relaxed);
        let name = self.shared.name;
        match error {
            FoldError::Transient(error) => {
                let pause = self.backoff.next_pause();
                let tries = self.backoff.tries();
                warn!(fold = name, tries, pause_ms = pause.as_millis(), %error, "trying again");
                self.shared
                    .set_status(FoldStatus::Retrying { tries, error });
                self.blocked(seen, after(pause));
            }
            FoldError::Damaged(error) => {
                let position = self.engine.position();
                error!(fold = name, position, %error, "stopped at damage");
                self.shared
                    .set_status(FoldStatus::Damaged { position, error });
                self.blocked(seen, None);
            }
            FoldError::Fatal(error) => {
                error!(fold = name, %error, "stopped");
                self.shared.set_status(FoldStatus::Failed { error });
                self.blocked_for_good();
            }
        }
    }

    /// Sleeps until there is a new command or the time has come.
    fn blocked(&self, seen: &Seen, until: Option<Instant>) {
        let began = Instant::now();
        while self.shared.commands().count == seen.count && self.wakeup.sleep(until) {}
        add_ns(&self.shared.blocked_ns, began);
    }

    /// Sleeps until the end is asked for: trying on could only make it worse.
    fn blocked_for_good(&self) {
        let began = Instant::now();
        while self.shared.commands().ending == Ending::Run {
            self.wakeup.sleep(None);
        }
        add_ns(&self.shared.blocked_ns, began);
    }
}

/// Longest sleep on an open block, whatever the clocks say.
const LONGEST_WAIT_MS: i64 = 60_000;

fn add_ns(counter: &AtomicU64, began: Instant) {
    let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    counter.fetch_add(ns, Ordering::Relaxed);
}

fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
