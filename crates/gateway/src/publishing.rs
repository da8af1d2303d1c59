//! Waiting for the log, with the reservation in the right hands.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fulmar_event::Records;
use tokio::runtime::Handle;

use crate::backbone::{Appending, Backbone, BackboneError, Placed};

/// 503: the log refused, failed, or did not answer in time. The cause is
/// logged, never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotDurable;

/// Appends `records` and waits for at most `time_max`. `done` is called when
/// the log has let the records go, with where they lie if they are durable.
///
/// If the time ends or the client goes away before, a task of its own waits on, so that
/// the reservation is not given back while the log still holds the records.
pub(crate) async fn publish(
    backbone: &dyn Backbone,
    records: Records,
    done: impl FnOnce(Option<Placed>) + Send + 'static,
    time_max: Duration,
) -> Result<Placed, NotDurable> {
    let mut held = Held {
        appending: Some((backbone.append(records), done)),
    };
    match tokio::time::timeout(time_max, poll_fn(|context| held.poll(context))).await {
        Ok(Ok(placed)) => Ok(placed),
        Ok(Err(error)) => {
            warn_once_a_second(&error);
            Err(NotDurable)
        }
        Err(_) => {
            warn_once_a_second(&"the log did not answer in time");
            Err(NotDurable)
        }
    }
}

/// An append that is waited for to its end, by whoever asked for it or by a task.
struct Held<F: FnOnce(Option<Placed>) + Send + 'static> {
    appending: Option<(Appending, F)>,
}

impl<F: FnOnce(Option<Placed>) + Send + 'static> Held<F> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Placed, BackboneError>> {
        let (appending, _) = self.appending.as_mut().expect("polled until it is ready");
        let appended = ready!(appending.as_mut().poll(context));
        if let Some((_, done)) = self.appending.take() {
            done(appended.as_ref().ok().copied());
        }
        Poll::Ready(appended)
    }
}

impl<F: FnOnce(Option<Placed>) + Send + 'static> Drop for Held<F> {
    fn drop(&mut self) {
        let Some((appending, done)) = self.appending.take() else {
            return;
        };
        // Without a runtime the process ends, and the reservation with it.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { done(appending.await.ok()) });
        }
    }
}

/// A log that is down fails thousands of requests alike.
fn warn_once_a_second(cause: &dyn std::fmt::Display) {
    static LAST_SECOND: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    if LAST_SECOND.swap(now, Ordering::Relaxed) != now {
        tracing::error!(cause = %cause, "a batch could not be made durable");
    }
}
