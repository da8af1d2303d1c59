//! Lets a plain thread sleep until a watched number moves, a command comes or time is up.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Wakes one thread; a wake that comes before the sleep is not lost.
#[derive(Debug)]
pub(crate) struct Wakeup {
    woken: AtomicBool,
    thread: Thread,
}

impl Wakeup {
    /// For the calling thread.
    pub fn of_this_thread() -> Arc<Wakeup> {
        Arc::new(Wakeup {
            woken: AtomicBool::new(false),
            thread: thread::current(),
        })
    }

    /// Sleeps until woken (true) or until `until` has passed (false); without it, for ever.
    pub fn sleep(&self, until: Option<Instant>) -> bool {
        loop {
            if self.woken.swap(false, Ordering::AcqRel) {
                return true;
            }
            let Some(until) = until else {
                thread::park();
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            thread::park_timeout(left);
        }
    }

    /// Sleeps until `watched` is at least `target`, `commanded` says yes, or `until` has passed.
    pub fn sleep_until_at_least(
        self: &Arc<Wakeup>,
        watched: &mut watch::Receiver<u64>,
        target: u64,
        commanded: impl Fn() -> bool,
        until: Option<Instant>,
    ) {
        let waker = Waker::from(Arc::clone(self));
        loop {
            if *watched.borrow_and_update() >= target || commanded() {
                return;
            }
            let changed = {
                let mut changed = pin!(watched.changed());
                match changed.as_mut().poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(Ok(())) => continue,
                    // The journal is gone: only a command or the time can end this sleep.
                    Poll::Ready(Err(_)) => self.sleep(until),
                    Poll::Pending => self.sleep(until),
                }
            };
            if !changed {
                return;
            }
        }
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Wakeup>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Wakeup>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// A point in time `wait` from now; none when that is beyond reckoning.
pub(crate) fn after(wait: Duration) -> Option<Instant> {
    Instant::now().checked_add(wait)
}
