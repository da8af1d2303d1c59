//! The writer watched: its lag under load, and its end.

use std::time::{Duration, Instant};

use super::ops::{Ops, Samples, value};
use crate::BenchError;

/// How often the writer's lag is looked at.
const LAG_INTERVAL: Duration = Duration::from_millis(250);

/// Time for the writer to store what the log holds after the load; past it the
/// run has failed.
const DRAIN_MAX: Duration = Duration::from_secs(300);

/// Waits until the tables hold what the log does: how long that took.
pub fn drain(ops: &Ops) -> Result<Duration, BenchError> {
    let start = Instant::now();
    while lag(&ops.scrape()?) > 0 {
        if start.elapsed() > DRAIN_MAX {
            return Err(BenchError::Child {
                what: "the writer".to_owned(),
                why: format!("it did not store the log's end within {DRAIN_MAX:?}"),
            });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(start.elapsed())
}

/// Waits until the profile fold has nothing left either.
pub fn drain_all(ops: &Ops) -> Result<Duration, BenchError> {
    let start = Instant::now();
    loop {
        drain(ops)?;
        let samples = ops.scrape()?;
        let of = |fold| value(&samples, "fulmar_fold_lag_records", &[("fold", fold)]);
        if of("profiles") + of("writer") == 0.0 {
            return Ok(start.elapsed());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn lag(samples: &Samples) -> u64 {
    value(
        samples,
        "fulmar_ledger_records",
        &[("topic", "events"), ("term", "backlog")],
    ) as u64
}

/// Looks at the lag while the load lasts.
pub struct LagWatch {
    stop: std::sync::mpsc::Sender<()>,
    watching: std::thread::JoinHandle<Vec<u64>>,
}

impl LagWatch {
    /// Starts looking.
    pub fn start(ops: Ops) -> LagWatch {
        let (stop, stopped) = std::sync::mpsc::channel();
        let watching = std::thread::spawn(move || {
            let mut lags = Vec::new();
            while stopped.recv_timeout(LAG_INTERVAL).is_err() {
                lags.extend(ops.scrape().map(|samples| lag(&samples)));
            }
            lags
        });
        LagWatch { stop, watching }
    }

    /// The lags in records, in order.
    pub fn stop(self) -> Vec<u64> {
        let _ = self.stop.send(());
        self.watching.join().unwrap_or_default()
    }
}
