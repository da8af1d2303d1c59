//! The disk's floor (L3): refuse before the disk is full, recover by itself.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::disk::{self, Space};
use crate::error::{LogError, Result};
use crate::{LogConfig, Topic};

/// The disk is looked at no more often than this. In that time a disk of
/// 1 GB/s takes 200 MB, less than the smallest floor of 512 MiB.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Watches the file system of the log's folder. It has no thread: appends
/// look when the last look is old, so an idle server does nothing.
#[derive(Debug)]
pub(crate) struct DiskGuard {
    dir: PathBuf,
    config: LogConfig,
    born: Instant,
    looked_ms: AtomicU64,
    free_bytes: AtomicU64,
    floor_bytes: AtomicU64,
    low: AtomicBool,
    /// Below half the floor: the topics that the way out needs are refused too.
    very_low: AtomicBool,
}

impl DiskGuard {
    pub(crate) fn new(dir: PathBuf, config: LogConfig) -> DiskGuard {
        let guard = DiskGuard {
            dir,
            config,
            born: Instant::now(),
            looked_ms: AtomicU64::new(0),
            free_bytes: AtomicU64::new(u64::MAX),
            floor_bytes: AtomicU64::new(0),
            low: AtomicBool::new(false),
            very_low: AtomicBool::new(false),
        };
        guard.look();
        guard
    }

    /// Whether an append to the topic is allowed now.
    ///
    /// The writer must be able to quarantine what keeps it from going on, an
    /// operator to change things, and what was sent to be told, when the doors
    /// are shut already: these topics go on to half the floor.
    pub(crate) fn admit(&self, topic: Topic) -> Result<()> {
        let now_ms = self.born.elapsed().as_millis() as u64;
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        let is_old = now_ms.saturating_sub(looked_ms) >= LOOK_EVERY.as_millis() as u64;
        let is_mine = is_old
            && self
                .looked_ms
                .compare_exchange(looked_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_mine {
            self.look();
        }
        let refused = match topic {
            Topic::Events | Topic::Profiles => self.low.load(Ordering::Relaxed),
            Topic::Quarantine | Topic::Control | Topic::Deliveries => {
                self.very_low.load(Ordering::Relaxed)
            }
        };
        if refused { Err(self.error()) } else { Ok(()) }
    }

    /// Looks at the disk now; true when it is low.
    pub(crate) fn look(&self) -> bool {
        let Ok(space) = disk::space(&self.dir) else {
            return self.low.load(Ordering::Relaxed);
        };
        self.note(space)
    }

    fn note(&self, space: Space) -> bool {
        let floor = self.config.floor_bytes(space);
        self.free_bytes.store(space.free_bytes, Ordering::Relaxed);
        self.floor_bytes.store(floor, Ordering::Relaxed);
        let step = |was_low: bool, floor: u64| {
            let bound = if was_low {
                floor.saturating_mul(2)
            } else {
                floor
            };
            space.free_bytes < bound
        };
        let was_low = self.low.load(Ordering::Relaxed);
        let is_low = step(was_low, floor);
        let very_low = step(self.very_low.load(Ordering::Relaxed), floor / 2);
        self.low.store(is_low, Ordering::Relaxed);
        self.very_low.store(very_low, Ordering::Relaxed);
        if is_low != was_low {
            let free_bytes = space.free_bytes;
            if is_low {
                tracing::warn!(
                    free_bytes,
                    floor_bytes = floor,
                    "disk low, appends are refused"
                );
            } else {
                tracing::info!(free_bytes, "disk has space again, appends go on");
            }
        }
        is_low
    }

    /// The error that names the figures of the last look.
    pub(crate) fn error(&self) -> LogError {
        LogError::DiskLow {
            free_bytes: self.free_bytes.load(Ordering::Relaxed),
            floor_bytes: self.floor_bytes.load(Ordering::Relaxed).saturating_mul(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shuts_below_the_floor_and_opens_at_twice_that() {
        let config = LogConfig {
            disk_floor_bytes: Some(1000),
            ..LogConfig::default()
        };
        let guard = DiskGuard::new(PathBuf::from("/"), config);
        let at = |free_bytes| Space {
            free_bytes,
            total_bytes: 1 << 40,
        };
        assert!(!guard.note(at(1000)));
        assert!(guard.note(at(999)));
        assert!(guard.note(at(1999)), "not before twice the floor");
        let refused = guard.admit(Topic::Events).unwrap_err();
        assert!(
            matches!(
                refused,
                LogError::DiskLow {
                    free_bytes: 1999,
                    floor_bytes: 2000
                }
            ),
            "{refused}"
        );
        assert!(
            guard.admit(Topic::Quarantine).is_ok(),
            "goes on to half the floor"
        );
        assert!(!guard.note(at(2000)));
        assert!(guard.admit(Topic::Events).is_ok());
        guard.note(at(499));
        assert!(guard.admit(Topic::Control).is_err());
    }
}
