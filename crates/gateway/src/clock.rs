//! The doors' clock, injected so that budgets and time rules can be proved.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use fulmar_event::Timestamp;

/// Where a door takes the time from.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock: goes into records and decides windows.
    fn now(&self) -> Timestamp;
    /// Nanoseconds of a clock that never runs backwards: decides budgets.
    fn monotonic_ns(&self) -> u64;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp {
            seconds: i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX),
            nanos: since_epoch.subsec_nanos(),
        }
    }

    fn monotonic_ns(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        let start = *START.get_or_init(Instant::now);
        // 584 years fit.
        u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
