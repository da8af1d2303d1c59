//! The load: agents side by side, each sending its next batch when the answer
//! to the last has come (closed) or when it is due (open).

use std::time::Duration;

use fulmar_event::{decode_ack, decode_rejection};
use hdrhistogram::Histogram;
use tokio::time::Instant;

use super::batch::{Number, Template};
use super::connection::{Connection, Dialer};

/// The longest latency that the histograms tell apart, in µs.
const LATENCY_US_MAX: u64 = 120_000_000;

/// A send that starts later than this after its time counts as late: the
/// scheduler's own grain is well under it.
const LATE_MIN: Duration = Duration::from_millis(1);

/// Wait before a failed batch goes again or a broken connection is made anew.
const RETRY_WAIT: Duration = Duration::from_millis(20);

/// What the load is.
#[derive(Clone)]
pub struct Load {
    /// Random, in every id.
    pub run: u32,
    /// Events in a batch.
    pub events: u32,
    /// How long batches are begun.
    pub duration: Duration,
    /// Open loop: between the planned sends of one agent.
    pub interval: Option<Duration>,
}

/// The batches of one agent by their numbers: batch `n` is the events from
/// `n * events` on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Batches begun: 0 to this.
    pub begun: u64,
    /// Batches begun and never acknowledged, which may or may not be stored.
    pub unsure: Vec<u64>,
}

/// What came of a load.
pub struct Outcome {
    /// One for each agent.
    pub sent: Vec<Sent>,
    /// From planned send to the whole answer of acknowledged batches, in µs.
    pub latency_us: Histogram<u64>,
    /// Batches that were due in the time (open loop) or begun (closed).
    pub offered: u64,
    /// Batches begun.
    pub started: u64,
    /// Batches acknowledged.
    pub completed: u64,
    /// Batches begun over a millisecond after their time (open loop).
    pub late: u64,
    /// Batches that were due and never begun.
    pub dropped: u64,
    /// Answers that were no acknowledgement, and broken connections.
    pub failed: u64,
    /// Connections opened, handshakes done.
    pub connections: u64,
    /// Events acknowledged in each second from the start.
    pub timeline: Vec<u64>,
    /// The first error, in words.
    pub first_error: Option<String>,
    /// From the start to the last answer.
    pub elapsed: Duration,
}

impl Outcome {
    fn new() -> Outcome {
        let latency_us = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3);
        Outcome {
            sent: Vec::new(),
            latency_us: latency_us.expect("the bounds are sound"),
            offered: 0,
            started: 0,
            completed: 0,
            late: 0,
            dropped: 0,
            failed: 0,
            connections: 0,
            timeline: Vec::new(),
            first_error: None,
            elapsed: Duration::ZERO,
        }
    }

    fn take(&mut self, other: Outcome) {
        self.sent.extend(other.sent);
        self.latency_us
            .add(&other.latency_us)
            .expect("one shape of histogram");
        self.offered += other.offered;
        self.started += other.started;
        self.completed += other.completed;
        self.late += other.late;
        self.dropped += other.dropped;
        self.failed += other.failed;
        self.connections += other.connections;
        let seconds = self.timeline.len().max(other.timeline.len());
        self.timeline.resize(seconds, 0);
        for (second, events) in other.timeline.into_iter().enumerate() {
            self.timeline[second] += events;
        }
        self.first_error = self.first_error.take().or(other.first_error);
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    fn note(&mut self, error: String) {
        self.failed += 1;
        self.first_error.get_or_insert(error);
    }
}

/// Connects every agent, then drives them all from one start.
pub async fn drive(load: &Load, template: &Template, dialers: &[Dialer]) -> Outcome {
    let mut outcome = Outcome::new();
    let mut connections = Vec::new();
    for dialer in dialers {
        match dialer.connect().await {
            Ok(connection) => {
                outcome.connections += 1;
                connections.push(Some(connection));
            }
            Err(error) => {
                outcome.note(format!("connect: {error}"));
                connections.push(None);
            }
        }
    }
    let start = Instant::now();
    let mut running = Vec::new();
    for (agent, (dialer, connection)) in dialers.iter().zip(connections).enumerate() {
        let agent = Agent {
            number: Number {
                run: load.run,
                agent: agent as u16,
                sequence: 0,
            },
            load: load.clone(),
            template: template.clone(),
            dialer: dialer.clone(),
            connection,
            start,
            phase: agent as f64 / dialers.len() as f64,
            outcome: Outcome::new(),
            sent: Sent::default(),
        };
        running.push(tokio::spawn(agent.run()));
    }
    for agent in running {
        outcome.take(agent.await.expect("no agent of the load panics"));
    }
    outcome
}

struct Agent {
    number: Number,
    load: Load,
    template: Template,
    dialer: Dialer,
    connection: Option<Connection>,
    start: Instant,
    /// Agents of an open loop start spread over one interval.
    phase: f64,
    outcome: Outcome,
    sent: Sent,
}

impl Agent {
    async fn run(mut self) -> Outcome {
        let end = self.start + self.load.duration;
        let mut due = self.start + self.load.interval.unwrap_or_default().mul_f64(self.phase);
        loop {
            let now = Instant::now();
            let planned = if self.load.interval.is_some() {
                due
            } else {
                now
            };
            if planned >= end || now >= end {
                break;
            }
            // A timer's grain is a millisecond: none is set without need.
            if planned > now {
                tokio::time::sleep_until(planned).await;
            }
            due += self.load.interval.unwrap_or_default();
            self.outcome.offered += 1;
            self.send(planned, end).await;
        }
        if let Some(interval) = self.load.interval {
            while due < end {
                self.outcome.offered += 1;
                self.outcome.dropped += 1;
                due += interval;
            }
        }
        self.outcome.elapsed = self.start.elapsed();
        self.outcome.sent.push(self.sent);
        self.outcome
    }

    /// Sends one batch until it is acknowledged or the time is over.
    async fn send(&mut self, planned: Instant, end: Instant) {
        let batch = self.sent.begun;
        self.sent.begun += 1;
        self.outcome.started += 1;
        if self.load.interval.is_some() && planned.elapsed() > LATE_MIN {
            self.outcome.late += 1;
        }
        let sequence = batch * u64::from(self.load.events);
        let body = self.template.fill(Number {
            sequence,
            ..self.number
        });
        loop {
            match self.attempt(body.clone()).await {
                Ok(()) => {
                    self.acknowledged(planned);
                    return;
                }
                Err(error) => self.outcome.note(error),
            }
            if Instant::now() >= end {
                self.sent.unsure.push(batch);
                return;
            }
            tokio::time::sleep(RETRY_WAIT).await;
        }
    }

    async fn attempt(&mut self, body: Vec<u8>) -> Result<(), String> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let connection = self.dialer.connect().await?;
                self.outcome.connections += 1;
                connection
            }
        };
        let (status, answer) = connection.post(body).await?;
        self.connection = Some(connection);
        if status != 200 {
            let refusal = decode_rejection(&answer).unwrap_or_default();
            return Err(format!(
                "status {status} {}: {}",
                refusal.code, refusal.detail
            ));
        }
        let ack = decode_ack(&answer).map_err(|e| format!("acknowledgement: {e}"))?;
        let counted = ack.received == self.load.events;
        match ack.accepted && ack.durable && counted {
            true => Ok(()),
            false => Err(format!("an acknowledgement that is none: {ack:?}")),
        }
    }

    fn acknowledged(&mut self, planned: Instant) {
        let latency_us = planned
            .elapsed()
            .as_micros()
            .min(u128::from(LATENCY_US_MAX));
        self.outcome
            .latency_us
            .saturating_record((latency_us as u64).max(1));
        self.outcome.completed += 1;
        let second = self.start.elapsed().as_secs() as usize;
        if self.outcome.timeline.len() <= second {
            self.outcome.timeline.resize(second + 1, 0);
        }
        self.outcome.timeline[second] += u64::from(self.load.events);
    }
}
