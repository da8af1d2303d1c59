//! The limit: the sender's own HTTP client against the receiver, with nothing else around it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fulmar_webhooks::client::{Client, Outgoing, SystemResolver, Target, Trust};
use fulmar_webhooks::guard::Guard;
use hdrhistogram::Histogram;
use hyper::header::{HOST, HeaderValue};
use hyper::{HeaderMap, Method};

use super::publish::{LATENCY_US_MAX, histogram};
use crate::BenchError;

/// How a client is driven.
#[derive(Clone, Copy, Debug)]
pub struct ClientLoad {
    /// Requests at once.
    pub concurrency: u32,
    /// Requests a second; none is as fast as they go.
    pub rate: Option<f64>,
    /// How long.
    pub duration: Duration,
    /// Bytes of a body.
    pub payload_bytes: usize,
}

/// What came of it.
pub struct ClientOutcome {
    /// Requests.
    pub total: u64,
    /// Those that were answered as asked.
    pub successful: u64,
    /// The time that it took.
    pub elapsed: Duration,
    /// From the planned send to the answer, in us; of successes alone.
    pub latency_us: Histogram<u64>,
    /// Connections opened.
    pub connections: u64,
    /// The first error.
    pub first_error: Option<String>,
}

struct Run {
    load: ClientLoad,
    client: Client,
    target: Target,
    path: String,
    body: Bytes,
    start: Instant,
    next: Cell<u64>,
    outcome: RefCell<ClientOutcome>,
}

/// Posts to a URL from one thread.
///
/// # Errors
/// When the URL is none.
pub fn drive(url: &str, load: ClientLoad) -> Result<ClientOutcome, BenchError> {
    let url = url::Url::parse(url).map_err(|error| BenchError::Usage(format!("{url}: {error}")))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // The bench sends where its user says: what is guarded elsewhere is theirs to choose here.
    let ports = url.port().into_iter().collect();
    let guard = Guard::open(ports);
    let run = Rc::new(Run {
        load,
        client: Client::new(guard, Rc::new(SystemResolver), Trust::of_system()),
        target: Target::of(&url, None),
        path: url.path().to_owned(),
        body: Bytes::from("x".repeat(load.payload_bytes)),
        start: Instant::now(),
        next: Cell::new(0),
        outcome: RefCell::new(ClientOutcome {
            total: 0,
            successful: 0,
            elapsed: Duration::ZERO,
            latency_us: histogram(),
            connections: 0,
            first_error: None,
        }),
    });
    let host = format!(
        "{}:{}",
        url.host_str().unwrap_or_default(),
        url.port_or_known_default().unwrap_or(0)
    );
    let host =
        HeaderValue::from_str(&host).map_err(|error| BenchError::Usage(error.to_string()))?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let tasks: Vec<_> = (0..load.concurrency)
            .map(|_| tokio::task::spawn_local(post(Rc::clone(&run), host.clone())))
            .collect();
        for task in tasks {
            task.await.expect("no sender panics");
        }
    });
    let run = Rc::into_inner(run).expect("all senders have ended");
    let mut outcome = run.outcome.into_inner();
    outcome.elapsed = run.start.elapsed();
    outcome.connections = run.client.stats().opened;
    Ok(outcome)
}

async fn post(run: Rc<Run>, host: HeaderValue) {
    loop {
        let number = run.next.get();
        let planned = match run.load.rate {
            None => Instant::now(),
            Some(rate) => run.start + Duration::from_secs_f64(number as f64 / rate),
        };
        if planned.duration_since(run.start) >= run.load.duration {
            return;
        }
        run.next.set(number + 1);
        if planned > Instant::now() {
            tokio::time::sleep_until(planned.into()).await;
        }
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.clone());
        let outgoing = Outgoing {
            method: Method::POST,
            path: run.path.parse().expect("a URL's path is one"),
            headers,
            body: run.body.clone(),
            timeout: Duration::from_secs(10),
        };
        let sent = run.client.exchange(&run.target, outgoing).await;
        let mut outcome = run.outcome.borrow_mut();
        outcome.total += 1;
        match sent {
            Ok(reply) if (200..300).contains(&reply.status) => {
                outcome.successful += 1;
                let us = planned
                    .elapsed()
                    .as_micros()
                    .min(u128::from(LATENCY_US_MAX)) as u64;
                outcome.latency_us.saturating_record(us.max(1));
            }
            Ok(reply) => {
                let told = format!("status {}", reply.status);
                outcome.first_error.get_or_insert(told);
            }
            Err(fault) => {
                outcome.first_error.get_or_insert(fault.message);
            }
        }
    }
}
