//! What a journal's callers, its commit thread and its readers share.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};

use crate::error::{LogError, Result};
use crate::segment::SegmentFile;
use crate::space::DiskGuard;
use crate::spares::Spares;
use crate::stats::Counters;
use crate::{Appended, Damage, LogConfig, Topic};

/// Most damaged places that are remembered; the first ones tell the story.
const DAMAGES_MAX: usize = 256;

/// One append on its way to the disk.
pub(crate) struct Pending {
    pub payload: Vec<u8>,
    /// Computed on the caller's thread, so that the commit thread only copies.
    pub crc: u32,
    pub count: u32,
    pub queued_at: Instant,
    pub answer: oneshot::Sender<Result<Appended>>,
}

/// What waits for the commit thread.
#[derive(Default)]
pub(crate) struct Queue {
    pub waiting: Vec<Pending>,
    /// Payload bytes queued and in the group that is being written.
    pub bytes: usize,
    pub rolls: Vec<oneshot::Sender<Result<()>>>,
    pub closing: bool,
    /// The commit thread sleeps and wants a wake-up.
    pub idle: bool,
}

/// Which segments there are, and how far the last one is synced.
#[derive(Debug)]
pub(crate) struct View {
    pub segments: Vec<Arc<SegmentFile>>,
    pub end_bytes: u64,
    pub end_offset: u64,
}

impl View {
    pub(crate) fn start(&self) -> u64 {
        self.segments
            .first()
            .map_or(self.end_offset, |segment| segment.first_offset)
    }

    /// Where a segment ends: in bytes, if that is known, and in offsets.
    pub(crate) fn limit(&self, index: usize) -> (Option<u64>, u64) {
        limit(&self.segments, index).unwrap_or((Some(self.end_bytes), self.end_offset))
    }
}

/// Where a segment ends, told by the next one; `None` for the last.
pub(crate) fn limit<S: std::borrow::Borrow<SegmentFile>>(
    segments: &[S],
    index: usize,
) -> Option<(Option<u64>, u64)> {
    let segment = segments[index].borrow();
    let next = segments.get(index + 1)?.borrow();
    let is_neighbour = next.sequence == segment.sequence + 1;
    let end = next
        .header
        .filter(|_| is_neighbour)
        .map(|header| header.previous_end_bytes);
    Some((end, next.first_offset))
}

/// The state of one journal.
pub(crate) struct Shared {
    pub topic: Topic,
    pub dir: PathBuf,
    pub config: LogConfig,
    pub disk: Arc<DiskGuard>,
    pub queue: Mutex<Queue>,
    pub work: Condvar,
    pub view: RwLock<View>,
    pub end: watch::Sender<u64>,
    pub end_now: Mutex<u64>,
    pub end_moved: Condvar,
    pub folds: Mutex<BTreeMap<String, u64>>,
    pub accepted: RwLock<Arc<[Range<u64>]>>,
    pub damages: Mutex<Vec<Damage>>,
    pub counters: Counters,
    pub spares: Spares,
    pub broken: std::sync::atomic::AtomicBool,
}

/// Takes a lock. A panic elsewhere does not make these plain values wrong: each
/// critical section leaves them whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    pub(crate) fn read_view<T>(&self, read: impl FnOnce(&View) -> T) -> T {
        read(
            &self
                .view
                .read()
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
        )
    }

    pub(crate) fn write_view<T>(&self, write: impl FnOnce(&mut View) -> T) -> T {
        write(
            &mut self
                .view
                .write()
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
        )
    }

    /// Moves the synced end; readers and waiters see it from here on.
    pub(crate) fn advance(&self, end_bytes: u64, end_offset: u64) {
        self.write_view(|view| {
            view.end_bytes = end_bytes;
            view.end_offset = end_offset;
        });
        let moved = {
            let mut end_now = lock(&self.end_now);
            let moved = *end_now != end_offset;
            *end_now = end_offset;
            moved
        };
        if moved {
            self.end_moved.notify_all();
            self.end.send_replace(end_offset);
        }
    }

    pub(crate) fn wait_end(&self, position: u64, timeout: Duration) -> u64 {
        let end_now = lock(&self.end_now);
        let (end_now, _) = self
            .end_moved
            .wait_timeout_while(end_now, timeout, |end| *end <= position)
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        *end_now
    }

    pub(crate) fn accepted(&self) -> Arc<[Range<u64>]> {
        Arc::clone(
            &self
                .accepted
                .read()
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
        )
    }

    /// Remembers and names a damaged place, once.
    pub(crate) fn note_damage(&self, damage: &Damage) {
        let mut damages = lock(&self.damages);
        let is_known = damages
            .iter()
            .any(|known| known.segment == damage.segment && known.byte == damage.byte);
        if is_known || damages.len() >= DAMAGES_MAX {
            return;
        }
        tracing::error!(%damage, "the log is damaged");
        damages.push(damage.clone());
    }

    pub(crate) fn closed(&self) -> LogError {
        LogError::Closed { topic: self.topic }
    }
}
