//! The load: generators, each a thread of its own with its connections, that together send every
//! request once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::workload::Workload;
use crate::BenchError;
use crate::http::{Connection, Endpoint};

/// The longest latency that the histograms tell apart, in us.
const LATENCY_US_MAX: u64 = 120_000_000;

/// Tries of a request before its events count as never acknowledged.
const TRIES_MAX: u32 = 100;

/// Waits before a failed request goes again: the first, doubled from try to try, and the longest.
/// A server at its capacity would else be kept there by those that it refuses.
const RETRY_WAIT: Duration = Duration::from_millis(20);
const RETRY_WAIT_MAX: Duration = Duration::from_secs(1);

/// Who sends.
#[derive(Clone, Copy, Debug)]
pub struct Generators {
    /// Threads.
    pub threads: u32,
    /// Connections of each.
    pub connections: u32,
    /// Events in a request.
    pub batch: u32,
}

/// What came of a load.
pub struct Outcome {
    /// When the first request was planned.
    pub start: Instant,
    /// From there to the last answer.
    pub elapsed: Duration,
    /// Requests acknowledged.
    pub completed: u64,
    /// Events in them.
    pub events: u64,
    /// Answers that were no acknowledgement, and broken connections.
    pub failed: u64,
    /// Requests that were never acknowledged: their events may be stored or not.
    pub unsure: Vec<u64>,
    /// From planned send to the whole answer of acknowledged requests, in us.
    pub latency_us: Histogram<u64>,
    /// The same, of requests of other identities than the first alone: who a hot one may slow.
    pub others_latency_us: Histogram<u64>,
    /// Events acknowledged in each second.
    pub timeline: Vec<u64>,
    /// The first error, in words.
    pub first_error: Option<String>,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are sound")
}

impl Outcome {
    fn new(start: Instant) -> Outcome {
        Outcome {
            start,
            elapsed: Duration::ZERO,
            completed: 0,
            events: 0,
            failed: 0,
            unsure: Vec::new(),
            latency_us: histogram(),
            others_latency_us: histogram(),
            timeline: Vec::new(),
            first_error: None,
        }
    }

    fn take(&mut self, other: Outcome) {
        self.elapsed = self.elapsed.max(other.elapsed);
        self.completed += other.completed;
        self.events += other.events;
        self.failed += other.failed;
        self.unsure.extend(other.unsure);
        let same = "one shape of histogram";
        self.latency_us.add(&other.latency_us).expect(same);
        self.others_latency_us
            .add(&other.others_latency_us)
            .expect(same);
        let seconds = self.timeline.len().max(other.timeline.len());
        self.timeline.resize(seconds, 0);
        for (second, events) in other.timeline.into_iter().enumerate() {
            self.timeline[second] += events;
        }
        self.first_error = self.first_error.take().or(other.first_error);
    }

    fn note(&mut self, error: String) {
        self.failed += 1;
        self.first_error.get_or_insert(error);
    }

    fn acknowledged(&mut self, sent: Instant, events: u64, of_first: bool) {
        let latency_us = sent.elapsed().as_micros().min(u128::from(LATENCY_US_MAX)) as u64;
        self.latency_us.saturating_record(latency_us.max(1));
        if !of_first {
            self.others_latency_us.saturating_record(latency_us.max(1));
        }
        self.completed += 1;
        self.events += events;
        let second = self.start.elapsed().as_secs() as usize;
        if self.timeline.len() <= second {
            self.timeline.resize(second + 1, 0);
        }
        self.timeline[second] += events;
    }
}

/// Connects all, then sends every request of the workload.
///
/// # Errors
/// When a thread can't be started or nothing can connect.
pub fn drive(
    workload: &Arc<Workload>,
    generators: Generators,
    endpoint: &Endpoint,
) -> Result<Outcome, BenchError> {
    let next = Arc::new(AtomicU64::new(0));
    let ready = Arc::new(std::sync::Barrier::new(generators.threads as usize + 1));
    let threads: Vec<_> = (0..generators.threads)
        .map(|_| {
            let (workload, endpoint) = (Arc::clone(workload), endpoint.clone());
            let (next, ready) = (Arc::clone(&next), Arc::clone(&ready));
            std::thread::spawn(move || generate(&workload, generators, &endpoint, &next, &ready))
        })
        .collect();
    ready.wait();
    let mut outcome = Outcome::new(Instant::now());
    for thread in threads {
        outcome.take(thread.join().expect("no generator panics")?);
    }
    Ok(outcome)
}

fn generate(
    workload: &Arc<Workload>,
    generators: Generators,
    endpoint: &Endpoint,
    next: &Arc<AtomicU64>,
    ready: &std::sync::Barrier,
) -> Result<Outcome, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let mut connections = Vec::new();
    if let Ok(runtime) = &runtime {
        for _ in 0..generators.connections {
            connections.push(runtime.block_on(endpoint.connect()));
        }
    }
    // Whatever happened: the others wait for this one.
    ready.wait();
    let start = Instant::now();
    let mut outcome = Outcome::new(start);
    let local = tokio::task::LocalSet::new();
    let sent = local.block_on(&runtime?, async {
        let running: Vec<_> = connections
            .into_iter()
            .map(|connection| {
                let sender = Sender {
                    workload: Arc::clone(workload),
                    endpoint: endpoint.clone(),
                    batch: generators.batch,
                    outcome: Outcome::new(start),
                    connection: None,
                };
                tokio::task::spawn_local(sender.run(connection, Arc::clone(next)))
            })
            .collect();
        let mut sent = Vec::new();
        for sender in running {
            sent.push(sender.await.expect("no sender panics"));
        }
        sent
    });
    sent.into_iter().for_each(|sent| outcome.take(sent));
    Ok(outcome)
}

struct Sender {
    workload: Arc<Workload>,
    endpoint: Endpoint,
    batch: u32,
    outcome: Outcome,
    connection: Option<Connection>,
}

impl Sender {
    /// Takes the next request until none is left.
    async fn run(mut self, first: Result<Connection, String>, next: Arc<AtomicU64>) -> Outcome {
        match first {
            Ok(connection) => self.connection = Some(connection),
            Err(error) => self.outcome.note(format!("connect: {error}")),
        }
        let mut body = String::new();
        loop {
            let request = next.fetch_add(1, Ordering::Relaxed);
            let events = self.workload.numbers(request, self.batch);
            if events.is_empty() {
                break;
            }
            let sent = Instant::now();
            let of_first = self.batch == 1 && self.workload.identity(request) == 0;
            self.workload.body(request, self.batch, &mut body);
            if self.send(&body).await {
                self.outcome
                    .acknowledged(sent, events.end - events.start, of_first);
            } else {
                self.outcome.unsure.push(request);
            }
        }
        self.outcome.elapsed = self.outcome.start.elapsed();
        self.outcome
    }

    /// Sends a request until it is acknowledged.
    async fn send(&mut self, body: &str) -> bool {
        let mut wait = RETRY_WAIT;
        for _ in 0..TRIES_MAX {
            match self.attempt(body).await {
                Ok(()) => return true,
                Err(error) => self.outcome.note(error),
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY_WAIT_MAX);
        }
        false
    }

    async fn attempt(&mut self, body: &str) -> Result<(), String> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.endpoint.connect().await?,
        };
        let (status, answer) = connection.post(&self.endpoint, body).await?;
        let refused = || {
            let text = String::from_utf8_lossy(&answer[..answer.len().min(200)]).into_owned();
            format!("status {status}: {text}")
        };
        let kept = match (status, self.batch) {
            (200 | 202, 1) => Ok(()),
            (200 | 202, _) if accepts_all(answer) => Ok(()),
            _ => Err(refused()),
        };
        self.connection = Some(connection);
        kept
    }
}

/// A batch's counts say that nothing of it was refused, dropped or is to be sent again.
fn accepts_all(answer: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&answer[..answer.len().min(200)]);
    !head.contains("\"refused\":")
        || ["refused", "retry", "dropped"]
            .iter()
            .all(|name| head.contains(&format!("\"{name}\":0,")))
}
