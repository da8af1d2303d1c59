//! Chunks in, batches into the spool: closed by count, bytes, age or days.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::error::SendError;
use crate::item::Item;
use crate::options::BatchLimits;
use crate::read::Chunk;
use crate::spool::Spool;
use crate::spool::entry::{Entry, Position};

/// Distinct UTC days that the events door takes in one request.
const DAYS_MAX: usize = 64;

const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// How often a batcher without input looks whether it should stop.
const STOP_CHECK: Duration = Duration::from_millis(200);

/// What was read so far, for the progress line and the summary.
#[derive(Default)]
pub struct ReadCounts {
    /// Lines that were no event.
    pub skipped: AtomicU64,
    /// Bytes of lines.
    pub bytes: AtomicU64,
    /// Events.
    pub events: AtomicU64,
}

/// Gathers what the readers hand on.
pub struct Batcher {
    /// Where batches go.
    pub spool: Arc<Spool>,
    /// When they are closed.
    pub limits: BatchLimits,
    /// Counted as chunks come.
    pub counts: Arc<ReadCounts>,
    /// Set when the caller wants no more.
    pub stop: Arc<AtomicBool>,
    /// The open batch.
    pub open: OpenBatch,
}

/// A batch that is not yet closed.
#[derive(Default)]
pub struct OpenBatch {
    entry: Entry,
    bytes: usize,
    days: BTreeSet<i64>,
    since: Option<Instant>,
}

impl Batcher {
    /// Runs until every reader is through or the caller stops; then closes the
    /// spool. What was read is in the spool by then, but for what a full spool
    /// did not take.
    pub fn run(mut self, chunks: Receiver<Result<Chunk, SendError>>) -> Result<(), SendError> {
        let result = self.gather(chunks).and_then(|()| self.flush());
        self.spool.close();
        result
    }

    fn gather(&mut self, chunks: Receiver<Result<Chunk, SendError>>) -> Result<(), SendError> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return self.gather_rest(&chunks);
            }
            match chunks.recv_timeout(self.patience()) {
                Ok(chunk) => self.take(chunk?)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if self
                .open
                .since
                .is_some_and(|since| since.elapsed() >= self.limits.age_max)
            {
                self.flush()?;
            }
        }
    }

    /// What the readers have in hand: of standard input it can't be read again.
    fn gather_rest(
        &mut self,
        chunks: &Receiver<Result<Chunk, SendError>>,
    ) -> Result<(), SendError> {
        while let Ok(chunk) = chunks.recv_timeout(STOP_CHECK) {
            self.take(chunk?)?;
        }
        Ok(())
    }

    fn patience(&self) -> Duration {
        match self.open.since {
            Some(since) => self
                .limits
                .age_max
                .saturating_sub(since.elapsed())
                .min(STOP_CHECK),
            None => STOP_CHECK,
        }
    }

    fn take(&mut self, chunk: Chunk) -> Result<(), SendError> {
        self.counts
            .skipped
            .fetch_add(chunk.skipped, Ordering::Relaxed);
        self.counts.bytes.fetch_add(chunk.bytes, Ordering::Relaxed);
        self.counts
            .events
            .fetch_add(chunk.items.len() as u64, Ordering::Relaxed);
        for (item, offset) in chunk.items {
            if self.open.would_overflow(&item, &self.limits) {
                self.flush()?;
            }
            self.open.push(item, chunk.position.as_ref(), offset);
        }
        if let Some(position) = chunk.position {
            // Lines behind the last event are passed with it.
            self.open.pass(position);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SendError> {
        let batch = std::mem::take(&mut self.open);
        if batch.entry.items.is_empty() {
            // Positions alone wait for the next events.
            self.open.entry.positions = batch.entry.positions;
            return Ok(());
        }
        self.spool.append(&batch.entry, &self.stop).map(|_| ())
    }
}

impl OpenBatch {
    fn would_overflow(&self, item: &Item, limits: &BatchLimits) -> bool {
        let new_day = day(item).is_some_and(|day| !self.days.contains(&day));
        !self.entry.items.is_empty()
            && (self.entry.items.len() >= limits.events_max
                || self.bytes + item.bytes.len() > limits.bytes_max
                || (new_day && self.days.len() >= DAYS_MAX))
    }

    fn push(&mut self, item: Item, position: Option<&Position>, offset: u64) {
        self.since.get_or_insert_with(Instant::now);
        self.bytes += item.bytes.len();
        self.days.extend(day(&item));
        self.entry.items.push(item);
        if let Some(position) = position {
            self.pass(Position {
                offset,
                ..position.clone()
            });
        }
    }

    fn pass(&mut self, position: Position) {
        let known = self
            .entry
            .positions
            .iter_mut()
            .find(|old| old.path == position.path);
        match known {
            Some(old) => *old = position,
            None => self.entry.positions.push(position),
        }
    }
}

fn day(item: &Item) -> Option<i64> {
    item.time_ms.map(|time| time.div_euclid(DAY_MS))
}
