//! What one connection is doing, as its time-outs see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// No head is being read.
const NO_HEAD: u64 = u64::MAX;

pub(super) struct Activity {
    start: Instant,
    in_flight: AtomicU32,
    /// Milliseconds after `start` at which the last request ended.
    waiting_since_ms: AtomicU64,
    /// Milliseconds after `start` of the first byte of the head being read.
    head_since_ms: AtomicU64,
    /// An answer left its body unread: linger before the close.
    unread: AtomicBool,
}

impl Activity {
    /// A new connection: its first head has to come at once.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            in_flight: AtomicU32::new(0),
            waiting_since_ms: AtomicU64::new(0),
            head_since_ms: AtomicU64::new(0),
            unread: AtomicBool::new(false),
        })
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX - 1)
    }

    /// Bytes came in.
    pub(super) fn bytes_read(&self) {
        if self.in_flight.load(Ordering::Relaxed) == 0
            && self.head_since_ms.load(Ordering::Relaxed) == NO_HEAD
        {
            self.head_since_ms.store(self.now_ms(), Ordering::Relaxed);
        }
    }

    /// A request's headers are whole; it is in flight until the guard is gone.
    pub(super) fn request(self: &Arc<Self>) -> RequestGuard {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.head_since_ms.store(NO_HEAD, Ordering::Relaxed);
        RequestGuard(Arc::clone(self))
    }

    pub(super) fn mark_unread(&self) {
        self.unread.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    /// When the connection runs out of time, unless something happens first:
    /// by the header time (not on HTTP/2, whose control frames come between
    /// requests too) or by the idle time. `None` while requests are in flight.
    pub(super) fn expires(&self, header_max: Option<Duration>, idle_max: Duration) -> Expiry {
        if self.in_flight.load(Ordering::Relaxed) > 0 {
            return Expiry::Busy;
        }
        let head_since_ms = self.head_since_ms.load(Ordering::Relaxed);
        if let (Some(header_max), true) = (header_max, head_since_ms != NO_HEAD) {
            return Expiry::Head(self.start + Duration::from_millis(head_since_ms) + header_max);
        }
        let waiting_since_ms = self.waiting_since_ms.load(Ordering::Relaxed);
        Expiry::Idle(self.start + Duration::from_millis(waiting_since_ms) + idle_max)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expiry {
    Busy,
    Head(Instant),
    Idle(Instant),
}

/// A request in flight: from its headers to the last byte of its answer.
pub(super) struct RequestGuard(Arc<Activity>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0
            .waiting_since_ms
            .store(self.0.now_ms(), Ordering::Relaxed);
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Option<Duration> = Some(Duration::from_secs(5));
    const IDLE: Duration = Duration::from_secs(90);

    #[test]
    fn a_new_connection_owes_a_head() {
        let activity = Activity::new();
        let deadline = activity.start + Duration::from_secs(5);
        assert_eq!(activity.expires(HEADER, IDLE), Expiry::Head(deadline));
        let deadline = activity.start + Duration::from_secs(90);
        assert_eq!(activity.expires(None, IDLE), Expiry::Idle(deadline));
    }

    #[test]
    fn a_request_stops_the_clocks_and_its_end_starts_the_idle_one() {
        let activity = Activity::new();
        let request = activity.request();
        activity.bytes_read();
        assert_eq!(activity.expires(HEADER, IDLE), Expiry::Busy);
        drop(request);
        assert!(matches!(activity.expires(HEADER, IDLE), Expiry::Idle(_)));
        activity.bytes_read();
        assert!(matches!(activity.expires(HEADER, IDLE), Expiry::Head(_)));
    }
}
