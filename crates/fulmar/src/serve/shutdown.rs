//! The stop, in its order: not ready, settle, doors, writer, ops. A second signal ends at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fulmar_flow::FoldHandle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, timeout_at};

use super::listeners::{Listeners, Listening};
use super::live::Live;
use super::supervisor;
use crate::addresses::Addresses;
use crate::data_dir::DataDir;
use crate::exit::{Context as _, Failure};

/// What is kept of the bound for the writer, when the doors use up their share.
const WRITER_SHARE_MIN: Duration = Duration::from_secs(2);

/// SIGINT and SIGTERM.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From now on signals no longer end the process by themselves.
    pub fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// The next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Waits for a signal, then stops everything in order. True when nothing was cut short and
/// everything logged has its durable result (S5).
pub async fn run(
    live: &Arc<Live>,
    data: &DataDir,
    listeners: Listeners,
    mut signals: Signals,
) -> bool {
    signals.next().await;
    // Readiness first, so that whoever balances load sees it before a door closes.
    live.draining.store(true, Ordering::SeqCst);
    supervisor::tell(supervisor::STOPPING);
    tracing::info!("draining");
    tokio::spawn(async move {
        signals.next().await;
        eprintln!("fulmar: second signal, ending at once");
        std::process::exit(1);
    });
    tokio::time::sleep(live.config.duration("server.settle")).await;

    let bound = live.config.duration("server.shutdown_timeout");
    let end = Instant::now() + bound;
    let Listeners {
        public,
        agents,
        ops,
    } = listeners;
    public.drain.start();
    agents.drain.start();
    let doors_end = end - WRITER_SHARE_MIN.min(bound / 2);
    let public = finish("public", public, doors_end).await;
    let agents = finish("agents", agents, doors_end).await;

    let jobs = Arc::clone(&live.jobs);
    let jobs = tokio::task::spawn_blocking(move || jobs.stop());
    let _ = timeout_at(end, jobs).await;
    // What these would tell now is told after the next start: the writer is to end where `events`
    // does.
    for fold in [&live.webhooks.health, &live.webhooks.states] {
        let stopping = fold.clone();
        let stopping = tokio::task::spawn_blocking(move || stopping.stop_now());
        let _ = timeout_at(end, stopping).await;
    }
    // Nobody can append any more: what the log holds now is all that there is to store.
    let of_webhooks = async {
        let sent = stop_webhooks(live, end).await;
        // What it told last is stored as well.
        let stopped = stop_fold(live, &live.folds.deliveries, end).await;
        sent && stopped && is_drained(&live.folds.deliveries)
    };
    let (stored, sent) = tokio::join!(stop_writer(live, end), of_webhooks);
    Addresses::remove(data);
    ops.drain.start();
    let ops = finish("ops", ops, end).await;
    public && agents && stored && sent && ops
}

/// Waits for a listener's requests in flight; false when some were cut.
async fn finish(name: &str, listening: Listening, end: Instant) -> bool {
    match timeout_at(end, listening.task).await {
        Ok(Ok(report)) if report.connections_cut == 0 => true,
        Ok(Ok(report)) => {
            tracing::warn!(
                listener = name,
                cut = report.connections_cut,
                "connections were cut"
            );
            false
        }
        Ok(Err(error)) => {
            tracing::error!(listener = name, %error, "the listener failed");
            false
        }
        Err(_) => {
            tracing::warn!(listener = name, "requests in flight were cut");
            false
        }
    }
}

/// What is in flight may end; the rest is committed, and sent after the next start.
async fn stop_webhooks(live: &Arc<Live>, end: Instant) -> bool {
    let stopping = Arc::clone(live);
    let stopping = tokio::task::spawn_blocking(move || stopping.webhooks.sender.stop());
    let stopped = timeout_at(end, stopping).await.is_ok();
    if !stopped {
        tracing::warn!("deliveries in flight were cut");
    }
    stopped
}

async fn stop_writer(live: &Arc<Live>, end: Instant) -> bool {
    // The profile fold first: it sends on to what the writer reads. What the writer tells it after
    // that is for the next start.
    stop_fold(live, &live.folds.profiles, end).await
        && stop_fold(live, &live.folds.writer, end).await
        && is_drained(&live.folds.writer)
}

/// Stops a fold where its topic ends now; false when it did not get there in time.
async fn stop_fold(live: &Arc<Live>, fold: &FoldHandle, end: Instant) -> bool {
    let stopping = fold.clone();
    let stopping = tokio::task::spawn_blocking(move || stopping.stop());
    let stopped = timeout_at(end, stopping).await.is_ok();
    if !stopped {
        let (fold_name, lag) = (fold.name(), fold.stats().lag);
        tracing::warn!(fold = fold_name, lag, "stopped before the log's end");
        for fold in live.folds.all().map(FoldHandle::clone) {
            let _ = tokio::task::spawn_blocking(move || fold.stop_now()).await;
        }
    }
    stopped
}

/// Whether a fold that has stopped has stored all of its topic.
fn is_drained(fold: &FoldHandle) -> bool {
    let stats = fold.stats();
    if stats.lag > 0 {
        tracing::warn!(?stats, "a fold did not reach the log's end");
    }
    stats.lag == 0
}
