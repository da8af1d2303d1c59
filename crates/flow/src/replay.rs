//! A fold run over what a log holds, to its end: a table made anew.
//!
//! The log is only read, beside a running server too. The fold has a state of its own, and blocks
//! cut where it likes; what it writes must not depend on either (I4).

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::watch;

use crate::backoff::Backoff;
use crate::block::BlockLimits;
use crate::engine::{Engine, Step};
use crate::fold::{Fold, FoldError};
use crate::input::Input;
use crate::state::State;
use fulmar_log::{Chunk, LogError, ReadOnly, Reader, Topic};

/// Tries of one block before a replay gives up: with the pauses between them about a minute.
const TRIES_MAX: u32 = 12;

/// The name under which offsets are counted that a replay was told to leave out.
const NOT_ASKED: &str = "not_asked";

/// Part of a topic, from an offset to the end that is proven synced when it is opened.
pub struct ReplayInput {
    topic: Topic,
    from: u64,
    end: watch::Sender<u64>,
    reader: Mutex<Reader>,
}

impl ReplayInput {
    /// Of `log`, from `from` on or from what it still holds; `losses` are ranges that an operator
    /// gave up (L1).
    pub fn new(topic: Topic, log: &ReadOnly, from: u64, losses: Vec<Range<u64>>) -> ReplayInput {
        let end = log.end();
        let from = from.clamp(log.start().min(end), end);
        let mut reader = log.reader(from);
        reader.accept_loss(losses);
        ReplayInput {
            topic,
            from,
            end: watch::Sender::new(end),
            reader: Mutex::new(reader),
        }
    }

    /// The first offset that is read.
    #[must_use]
    pub fn from(&self) -> u64 {
        self.from
    }

    /// One past the last.
    #[must_use]
    pub fn end(&self) -> u64 {
        *self.end.borrow()
    }
}

impl Input for ReplayInput {
    fn stream(&self) -> &'static str {
        self.topic.name()
    }

    fn start(&self) -> u64 {
        self.from
    }

    fn end(&self) -> u64 {
        ReplayInput::end(self)
    }

    fn before_start(&self) -> &'static str {
        NOT_ASKED
    }

    fn watch_end(&self) -> watch::Receiver<u64> {
        self.end.subscribe()
    }

    fn read(&self, from: u64, bytes_max: usize) -> std::result::Result<Option<Chunk>, LogError> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if reader.position() != from {
            reader.seek(from);
        }
        reader.next(bytes_max)
    }

    fn tick(&self) -> std::result::Result<(), LogError> {
        // The log that was is read, not written: its ticks are in it (F1).
        Ok(())
    }

    fn release(&self, _fold: &str, _position: u64) {}
}

/// Runs `fold` over `input` to its end, on this thread, with its commits in `state`; `at` is told
/// each position that it reaches.
///
/// # Errors
/// What stops the fold: at damage, at a defect, and at what did not pass within a minute.
pub fn replay(
    fold: impl Fold,
    input: ReplayInput,
    state: Arc<State>,
    limits: BlockLimits,
    mut at: impl FnMut(u64),
) -> std::result::Result<(), FoldError> {
    let end = input.end();
    let mut engine = Engine::new(Box::new(fold), Arc::new(input), state, limits)?;
    let mut backoff = Backoff::new(0);
    // Blocks are cut when they are full; only the last one may be small.
    let mut cut_to = 0;
    while engine.position() < end {
        match engine.step(i64::MIN, cut_to) {
            Ok(Step::Moved) => {
                backoff.reset();
                at(engine.position());
            }
            Ok(Step::Waiting { .. }) => cut_to = end,
            Err(FoldError::Transient(_)) if backoff.tries() < TRIES_MAX => {
                thread::sleep(backoff.next_pause());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
