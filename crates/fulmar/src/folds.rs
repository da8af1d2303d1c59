//! The folds that fill the tables, and how a reader waits for them.

use std::time::{Duration, Instant};

use fulmar_flow::FoldHandle;
use fulmar_log::Topic;
use fulmar_store::delivery_writer::DELIVERIES;
use fulmar_store::profile_writer::PROFILES;
use fulmar_store::writer::WRITER;
use serde::{Deserialize, Serialize};

/// How long a query waits until what was durable at its start is stored.
pub const CUT_WAIT: Duration = Duration::from_secs(5);

/// The topics that tables come of, each with the name of its fold.
pub const FOLDS: [(Topic, &str); 3] = [
    (Topic::Events, WRITER),
    (Topic::Profiles, PROFILES),
    (Topic::Deliveries, DELIVERIES),
];

/// The running folds that fill the tables.
#[derive(Clone)]
pub struct Folds {
    /// Over `events`.
    pub writer: FoldHandle,
    /// Over `profiles`, which sends servers' events on to `events`.
    pub profiles: FoldHandle,
    /// Over `deliveries`.
    pub deliveries: FoldHandle,
}

/// How far a wait came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// The end of `events` when the wait began.
    pub target: u64,
    /// The committed position there now.
    pub position: u64,
    /// Whether all topics are stored as far as they went then.
    pub stored: bool,
}

impl Folds {
    /// All of them.
    pub fn all(&self) -> [&FoldHandle; 3] {
        [&self.writer, &self.profiles, &self.deliveries]
    }

    /// Cuts the open blocks and waits until what the log held at this call is stored, at most for
    /// `wait`. Tells how far it came.
    pub async fn cut_and_wait(&self, wait: Duration) -> Reached {
        let began = Instant::now();
        let of_events = async {
            // What servers sent goes on from there to `events`.
            let sent_on = reach(&self.profiles, wait).await;
            let reached = reach(&self.writer, wait.saturating_sub(began.elapsed())).await;
            Reached {
                stored: sent_on.stored && reached.stored,
                ..reached
            }
        };
        let (reached, of_deliveries) = tokio::join!(of_events, reach(&self.deliveries, wait));
        Reached {
            stored: reached.stored && of_deliveries.stored,
            ..reached
        }
    }

    /// The same, and until the profile fold has what the session fold told it by then. False when
    /// that takes too long.
    pub async fn cut_and_wait_twice(&self) -> bool {
        let there = self.cut_and_wait(CUT_WAIT).await;
        there.stored && reach(&self.profiles, CUT_WAIT).await.stored
    }
}

/// Cuts a fold's open block and waits until what its topic held at this call is committed.
pub async fn reach(fold: &FoldHandle, wait: Duration) -> Reached {
    let target = fold.cut();
    let mut position = fold.watch_position();
    let reached = position.wait_for(|position| *position >= target);
    let stored = tokio::time::timeout(wait, reached)
        .await
        .is_ok_and(|found| found.is_ok());
    Reached {
        target,
        position: fold.position(),
        stored,
    }
}
