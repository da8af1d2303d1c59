//! What a fold reads: the part of a journal that the runtime needs.

use tokio::sync::watch;

use fulmar_log::{Chunk, Journal, LogError, Records};

/// Offsets that retention took before the fold existed.
const EXPIRED: &str = "expired";

/// One topic of the log, as its readers see it: only what is synced (L2).
pub(crate) trait Input: Send + Sync + 'static {
    /// The topic.
    fn stream(&self) -> &'static str;
    /// First offset still held.
    fn start(&self) -> u64;
    /// The name under which a new fold counts the offsets before the start.
    fn before_start(&self) -> &'static str {
        EXPIRED
    }
    /// Offset after the last synced record.
    fn end(&self) -> u64;
    /// Wakes whenever the end moves.
    fn watch_end(&self) -> watch::Receiver<u64>;
    /// Records from `from` on, about `bytes_max` bytes of them, or a gap that an operator gave
    /// up (L1); none at the end.
    fn read(&self, from: u64, bytes_max: usize) -> Result<Option<Chunk>, LogError>;
    /// Appends an empty record, so that the log's time moves on (F2); returns once it is synced.
    fn tick(&self) -> Result<(), LogError>;
    /// Everything before `position` has its durable result in this fold (L3, I6).
    fn release(&self, fold: &str, position: u64);
}

impl Input for Journal {
    fn stream(&self) -> &'static str {
        self.topic().name()
    }

    fn start(&self) -> u64 {
        Journal::start(self)
    }

    fn end(&self) -> u64 {
        Journal::end(self)
    }

    fn watch_end(&self) -> watch::Receiver<u64> {
        Journal::watch_end(self)
    }

    fn read(&self, from: u64, bytes_max: usize) -> Result<Option<Chunk>, LogError> {
        Journal::read(self, from, bytes_max)
    }

    fn tick(&self) -> Result<(), LogError> {
        let mut tick = Records::new();
        tick.push(0, b"");
        self.append_blocking(tick).map(drop)
    }

    fn release(&self, fold: &str, position: u64) {
        Journal::release(self, fold, position);
    }
}
