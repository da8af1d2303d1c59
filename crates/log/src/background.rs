//! What happens beside appends and reads: retention (L3) and the check of
//! older segments (L1).

use std::fs::File;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::shared::{Shared, lock};
use crate::space::DiskGuard;
use crate::stats::add;
use crate::survey::{Bound, Depth, survey};

/// Retention runs this often: small against the days that records are kept,
/// and soon enough when the disk is low.
const KEEP_EVERY: Duration = Duration::from_secs(15);

/// All older segments are checked again after this.
const CHECK_EVERY: Duration = Duration::from_secs(24 * 3600);

/// The check rests after so many bytes, as long as its rate asks.
const CHECK_PIECE_BYTES: u64 = 1 << 20;

const STACK_BYTES: usize = 256 << 10;

/// The threads, and the way to end them.
#[derive(Debug)]
pub(crate) struct Background {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Inner {
    journals: Vec<Arc<Shared>>,
    disk: Arc<DiskGuard>,
    is_stopping: Mutex<bool>,
    stops: Condvar,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Inner").finish_non_exhaustive()
    }
}

impl Background {
    pub(crate) fn start(journals: Vec<Arc<Shared>>, disk: Arc<DiskGuard>) -> Background {
        let inner = Inner {
            journals,
            disk,
            is_stopping: Mutex::new(false),
            stops: Condvar::new(),
        };
        let background = Background {
            inner: Arc::new(inner),
            threads: Mutex::default(),
        };
        background.spawn("log-check", Inner::check_for_ever);
        background
    }

    pub(crate) fn start_retention(&self) {
        self.spawn("log-keep", Inner::keep_for_ever);
    }

    fn spawn(&self, name: &str, work: fn(&Inner)) {
        let inner = Arc::clone(&self.inner);
        let spawned = std::thread::Builder::new()
            .name(name.to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || work(&inner));
        match spawned {
            Ok(thread) => lock(&self.threads).push(thread),
            Err(error) => tracing::error!(name, %error, "no thread could be started"),
        }
    }

    pub(crate) fn stop(&self) {
        *lock(&self.inner.is_stopping) = true;
        self.inner.stops.notify_all();
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Inner {
    /// Rests; false when it is time to stop.
    fn rest(&self, time: Duration) -> bool {
        let is_stopping = lock(&self.is_stopping);
        let waited = self
            .stops
            .wait_timeout_while(is_stopping, time, |stopping| !*stopping);
        !*waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }

    fn keep_for_ever(&self) {
        loop {
            let since = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or(Duration::ZERO);
            for journal in &self.journals {
                journal.expire(since.as_millis() as i64, &|| self.disk.look());
            }
            if !self.rest(KEEP_EVERY) {
                return;
            }
        }
    }

    fn check_for_ever(&self) {
        loop {
            for journal in &self.journals {
                if !self.check(journal) {
                    return;
                }
            }
            if !self.rest(CHECK_EVERY) {
                return;
            }
        }
    }

    /// Checks every frame of the older segments; false when it is time to stop.
    fn check(&self, journal: &Shared) -> bool {
        let older = journal.read_view(|view| {
            let ended = view.segments.len().saturating_sub(1);
            let bounds =
                (0..ended).map(|index| (Arc::clone(&view.segments[index]), view.limit(index)));
            bounds.collect::<Vec<_>>()
        });
        journal
            .counters
            .segments_verified
            .store(0, std::sync::atomic::Ordering::Relaxed);
        for (segment, (bytes, offset)) in older {
            // What can't be opened was taken by retention; what can't be read
            // will tell whoever reads it.
            let Ok(file) = File::open(&segment.path) else {
                continue;
            };
            let mut pace = Pace::new(journal.config.verify_bytes_per_second);
            let mut goes_on = true;
            let mut visit = |at: u64, header: &crate::frame::FrameHeader| {
                if let Some(rest) = pace.rest_at(at + header.frame_bytes()) {
                    goes_on = self.rest(rest);
                }
                goes_on
            };
            let bound = Bound::Closed { bytes, offset };
            match survey(
                journal.topic,
                &segment,
                &file,
                bound,
                Depth::Whole,
                &mut visit,
            ) {
                Ok(found) => found.damages.iter().for_each(|it| journal.note_damage(it)),
                Err(error) => tracing::error!(segment = segment.name(), %error, "check failed"),
            }
            if !goes_on {
                return false;
            }
            add(&journal.counters.segments_verified, 1);
        }
        true
    }
}

/// Keeps a walk through a file at a rate.
struct Pace {
    started: Instant,
    bytes_per_second: u64,
    rested_at: u64,
}

impl Pace {
    fn new(bytes_per_second: u64) -> Pace {
        let bytes_per_second = bytes_per_second.max(1);
        Pace {
            started: Instant::now(),
            bytes_per_second,
            rested_at: 0,
        }
    }

    /// How long to rest now, having come to this byte.
    fn rest_at(&mut self, byte: u64) -> Option<Duration> {
        if byte < self.rested_at + CHECK_PIECE_BYTES {
            return None;
        }
        self.rested_at = byte;
        let due = Duration::from_secs_f64(byte as f64 / self.bytes_per_second as f64);
        due.checked_sub(self.started.elapsed())
    }
}
