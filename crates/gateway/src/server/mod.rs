//! One loop for every listener: accept, shake hands, speak HTTP, drain.

mod activity;
mod connection;
mod io;
mod panics;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::http::{AnyHandler, Handler};
use crate::limits;
use crate::metrics::Metrics;
use crate::tls::Tls;
use connection::Connections;

/// Bounds of one listener. The default is that of `limits`.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Connections at once; further ones are closed as they come, and counted.
    pub connections_max: usize,
    /// Time for a TLS handshake.
    pub handshake_time_max: Duration,
    /// Time for the headers of a request (HTTP/1.1).
    pub header_time_max: Duration,
    /// Time that a write may make no progress.
    pub write_stall_max: Duration,
    /// Time that a connection may have no request.
    pub idle_time_max: Duration,
    /// Time that a drain waits for requests in flight.
    pub drain_time_max: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections_max: limits::CONNECTIONS_MAX,
            handshake_time_max: limits::HANDSHAKE_TIME_MAX,
            header_time_max: limits::HEADER_TIME_MAX,
            write_stall_max: limits::WRITE_STALL_MAX,
            idle_time_max: limits::IDLE_TIME_MAX,
            drain_time_max: Duration::from_secs(20),
        }
    }
}

/// Starts the drain of every listener that holds its [`Drain`]. Dropping it
/// starts the drain too.
#[derive(Debug)]
pub struct DrainTrigger(watch::Sender<bool>);

/// A listener's end of a [`DrainTrigger`].
#[derive(Debug, Clone)]
pub struct Drain(watch::Receiver<bool>);

/// A trigger and its listeners' end.
pub fn drain() -> (DrainTrigger, Drain) {
    let (sender, receiver) = watch::channel(false);
    (DrainTrigger(sender), Drain(receiver))
}

impl DrainTrigger {
    /// Stops accepting; requests in flight finish.
    pub fn start(&self) {
        self.0.send_replace(true);
    }
}

impl Drain {
    /// Resolves when the drain has started.
    pub async fn started(&mut self) {
        // An error means that the trigger is gone: nobody could start it later.
        let _ = self.0.wait_for(|started| *started).await;
    }
}

/// How a listener ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainReport {
    /// Connections that had to be cut at the bound. Zero is a clean drain.
    pub connections_cut: usize,
}

/// One listener's loop and all that its connections share.
pub struct Server {
    name: &'static str,
    handler: Arc<dyn AnyHandler>,
    tls: Option<Arc<Tls>>,
    limits: ServerLimits,
    metrics: Arc<Metrics>,
}

impl Server {
    /// A listener called `name` in metrics. With `tls` it speaks HTTP/1.1 or
    /// HTTP/2 as ALPN says, without it HTTP/1.1 in the clear.
    pub fn new<H: Handler>(
        name: &'static str,
        handler: Arc<H>,
        tls: Option<Arc<Tls>>,
        limits: ServerLimits,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            name,
            handler,
            tls,
            limits,
            metrics,
        }
    }

    /// Serves until the drain starts, then finishes what is in flight, at
    /// most for `drain_time_max`.
    pub async fn run(self, listener: TcpListener, mut drain: Drain) -> DrainReport {
        let slots = Arc::new(Semaphore::new(self.limits.connections_max));
        let shared = Arc::new(Connections {
            name: self.name,
            handler: self.handler,
            tls: self.tls,
            limits: self.limits,
            metrics: Arc::clone(&self.metrics),
        });
        let mut tasks = JoinSet::new();
        let connection_drain = drain.clone();
        loop {
            tokio::select! {
                biased;
                () = drain.started() => break,
                Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, remote)) => {
                        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                            self.metrics.connection_refused(self.name);
                            continue;
                        };
                        let (shared, drain) = (Arc::clone(&shared), connection_drain.clone());
                        tasks.spawn(one(shared, stream, remote, drain, slot));
                    }
                    Err(error) => pause_after(self.name, &error).await,
                },
            }
        }
        drop(listener);
        finish(tasks, self.limits.drain_time_max).await
    }
}

async fn one(
    shared: Arc<Connections>,
    stream: TcpStream,
    remote: SocketAddr,
    drain: Drain,
    slot: OwnedSemaphorePermit,
) {
    let open = shared.metrics.connection_open(shared.name);
    shared.serve(stream, remote, drain).await;
    drop(open);
    drop(slot);
}

/// An accept that failed because of the other end is nothing; one that failed
/// for want of descriptors would spin, so it waits a little.
async fn pause_after(name: &'static str, error: &std::io::Error) {
    let of_the_peer = matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    );
    if !of_the_peer {
        tracing::warn!(listener = name, %error, "can't accept a connection");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn finish(mut tasks: JoinSet<()>, time_max: Duration) -> DrainReport {
    let all = async { while tasks.join_next().await.is_some() {} };
    let in_time = tokio::time::timeout(time_max, all).await.is_ok();
    let connections_cut = if in_time { 0 } else { tasks.len() };
    tasks.shutdown().await;
    DrainReport { connections_cut }
}
