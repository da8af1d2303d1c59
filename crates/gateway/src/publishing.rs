//! Waiting for the log, with the reservation in the right hands.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fulmar_event::Records;

use crate::backbone::{Backbone, Placed};

/// 503: the log refused, failed, or did not answer in time. The cause is
/// logged, never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotDurable;

/// Appends `records` and waits for at most `time_max`. `done` is called when
/// the log has let the records go, with where they lie if they are durable.
///
/// A task of its own waits for the log, so that neither the end of the time
/// nor a client that goes away gives the reservation back while the log still
/// holds the records.
pub(crate) async fn publish(
    backbone: &dyn Backbone,
    records: Records,
    done: impl FnOnce(Option<Placed>) + Send + 'static,
    time_max: Duration,
) -> Result<Placed, NotDurable> {
    let appending = backbone.append(records);
    let waiting = tokio::spawn(async move {
        let appended = appending.await;
        done(appended.as_ref().ok().copied());
        appended
    });
    match tokio::time::timeout(time_max, waiting).await {
        Ok(Ok(Ok(placed))) => Ok(placed),
        Ok(Ok(Err(error))) => {
            warn_once_a_second(&error);
            Err(NotDurable)
        }
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
