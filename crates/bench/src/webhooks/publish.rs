//! The load: events published one by one at a rate, or in batches as fast as they are delivered.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::receiver::{Receiver, hangs};
use crate::BenchError;
use crate::http::{Connection, Endpoint};

/// The longest latency that the histograms tell apart, in us.
pub const LATENCY_US_MAX: u64 = 600_000_000;
/// Bytes of a payload beside its filler.
const PAYLOAD_OVERHEAD: usize = 34;
/// How long a publisher waits when too much is undelivered, or the server says so.
const BACK_OFF: Duration = Duration::from_millis(2);

/// What is published.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Events a second; none is as fast as they go.
    pub rate: Option<f64>,
    /// Events in all; none is for as long as `duration`.
    pub events: Option<u64>,
    /// How long.
    pub duration: Duration,
    /// Connections.
    pub concurrency: u32,
    /// Events in a request.
    pub batch: u32,
    /// Deliveries of an event.
    pub subscribers: u64,
    /// Undelivered deliveries at which publishers wait; none does not wait.
    pub backlog_max: Option<u64>,
    /// Every so many types have a receiver that hangs; 0 is none.
    pub hangs_every: u64,
}

/// An acknowledged event.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Hash of its id.
    pub event: u64,
    /// When it was to be sent.
    pub at: Instant,
}

/// What came of a load.
pub struct Load {
    /// When the first was to be sent.
    pub start: Instant,
    /// From there to the last answer.
    pub elapsed: Duration,
    /// Acknowledged events whose receivers answer.
    pub published: Vec<Published>,
    /// Acknowledged events whose receivers hang.
    pub to_hanging: u64,
    /// Requests that were not acknowledged, by what they got: a status, or 0.
    pub rejected: BTreeMap<u16, u64>,
    /// Acknowledged requests by status.
    pub accepted: BTreeMap<u16, u64>,
    /// From the planned send to the answer, in us.
    pub latency_us: Histogram<u64>,
    /// Accepted events by second.
    pub timeline: Vec<u64>,
    /// The first error.
    pub first_error: Option<String>,
}

/// A histogram of times.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are sound")
}

/// Where the events go: an endpoint for each type when they are sent one by one, one for batches.
pub struct Doors {
    /// By type.
    pub each: Vec<Endpoint>,
    /// Of batches.
    pub all: Endpoint,
    /// Names of the types.
    pub types: Vec<String>,
}

/// Sends the load from one thread.
///
/// # Errors
/// When nothing can connect.
pub fn drive(
    doors: &Arc<Doors>,
    shape: Shape,
    payload_bytes: usize,
    receiver: &Arc<Receiver>,
) -> Result<Load, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut connections = Vec::new();
    for _ in 0..shape.concurrency {
        let connected = runtime.block_on(doors.all.connect());
        connections.push(connected.map_err(|why| BenchError::Child {
            what: "connecting to the server".to_owned(),
            why,
        })?);
    }
    let start = Instant::now();
    let run = Rc::new(Run {
        shape,
        doors: Arc::clone(doors),
        receiver: Arc::clone(receiver),
        next: Cell::new(0),
        start,
        filler: "x".repeat(payload_bytes.saturating_sub(PAYLOAD_OVERHEAD)),
        load: RefCell::new(Load {
            start,
            elapsed: Duration::ZERO,
            published: Vec::new(),
            to_hanging: 0,
            rejected: BTreeMap::new(),
            accepted: BTreeMap::new(),
            latency_us: histogram(),
            timeline: Vec::new(),
            first_error: None,
        }),
    });
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let tasks = connections.into_iter().map(|connection| {
            let run = Rc::clone(&run);
            tokio::task::spawn_local(async move { run.publish(connection).await })
        });
        let tasks: Vec<_> = tasks.collect();
        for task in tasks {
            task.await.expect("no publisher panics");
        }
    });
    let run = Rc::into_inner(run).expect("all publishers have ended");
    let mut load = run.load.into_inner();
    load.elapsed = load.start.elapsed();
    Ok(load)
}

struct Run {
    shape: Shape,
    doors: Arc<Doors>,
    receiver: Arc<Receiver>,
    /// Number of the next event.
    next: Cell<u64>,
    start: Instant,
    filler: String,
    load: RefCell<Load>,
}

impl Run {
    /// Sends events until there are no more.
    async fn publish(&self, mut connection: Connection) {
        let (mut body, mut path) = (String::new(), &self.doors.all);
        while let Some((first, planned)) = self.next_due().await {
            self.body(first, &mut body);
            if self.shape.batch == 1 {
                let kind = usize::try_from(first).unwrap_or(0) % self.doors.each.len();
                path = &self.doors.each[kind];
            }
            let answered = connection.post(path, &body).await;
            let again = match answered {
                Ok((status, answer)) => self.answered(status, answer, (first, planned)),
                Err(error) => self.failed(0, error),
            };
            if again {
                match path.connect().await {
                    Ok(fresh) => connection = fresh,
                    Err(error) => drop(self.failed(0, error)),
                }
                tokio::time::sleep(BACK_OFF).await;
            }
        }
    }

    /// The next events to be sent, once their time has come.
    async fn next_due(&self) -> Option<(u64, Instant)> {
        let shape = &self.shape;
        while shape
            .backlog_max
            .is_some_and(|most| self.undelivered() >= most)
        {
            tokio::time::sleep(BACK_OFF).await;
        }
        let first = self.next.get();
        let is_over = match shape.events {
            Some(events) => first >= events,
            None => match shape.rate {
                Some(rate) => first as f64 / rate >= shape.duration.as_secs_f64(),
                None => self.start.elapsed() >= shape.duration,
            },
        };
        if is_over {
            return None;
        }
        self.next.set(first + u64::from(shape.batch));
        let Some(rate) = shape.rate else {
            return Some((first, Instant::now()));
        };
        let planned = self.start + Duration::from_secs_f64(first as f64 / rate);
        if planned > Instant::now() {
            tokio::time::sleep_until(planned.into()).await;
        }
        Some((first, planned))
    }

    fn undelivered(&self) -> u64 {
        let published = self.load.borrow().published.len() as u64;
        (published * self.shape.subscribers).saturating_sub(self.receiver.count())
    }

    fn body(&self, first: u64, body: &mut String) {
        use std::fmt::Write as _;
        body.clear();
        let filler = &self.filler;
        if self.shape.batch == 1 {
            let _ = write!(
                body,
                "{{\"ttl_seconds\":600,\"payload\":{{\"n\":\"{first:012}\",\"filler\":\"{filler}\"}}}}"
            );
            return;
        }
        for number in first..first + u64::from(self.shape.batch) {
            let kind = usize::try_from(number).unwrap_or(0) % self.doors.types.len();
            let name = &self.doors.types[kind];
            body.push(if number == first { '[' } else { ',' });
            let _ = write!(
                body,
                "{{\"event\":\"{name}\",\"ttl_seconds\":600,\
                 \"payload\":{{\"n\":\"{number:012}\",\"filler\":\"{filler}\"}}}}"
            );
        }
        body.push(']');
    }

    /// Notes an answer; true where the connection is to be made anew.
    fn answered(&self, status: u16, answer: &[u8], (first, planned): (u64, Instant)) -> bool {
        let ids = ids_of(answer);
        let is_whole = ids.len() == self.shape.batch as usize;
        if !(200..300).contains(&status) || !is_whole {
            let told = String::from_utf8_lossy(&answer[..answer.len().min(200)]).into_owned();
            self.failed(status, format!("status {status}: {told}"));
            return status == 429;
        }
        let mut load = self.load.borrow_mut();
        let latency_us = planned
            .elapsed()
            .as_micros()
            .min(u128::from(LATENCY_US_MAX)) as u64;
        load.latency_us.saturating_record(latency_us.max(1));
        *load.accepted.entry(status).or_default() += 1;
        let second = self.start.elapsed().as_secs() as usize;
        if load.timeline.len() <= second {
            load.timeline.resize(second + 1, 0);
        }
        load.timeline[second] += ids.len() as u64;
        let types = self.doors.types.len() as u64;
        for (number, id) in (first..).zip(ids) {
            if hangs(number % types, self.shape.hangs_every) {
                load.to_hanging += 1;
                continue;
            }
            let event = self.receiver.hash(id);
            load.published.push(Published { event, at: planned });
        }
        false
    }

    fn failed(&self, status: u16, error: String) -> bool {
        let mut load = self.load.borrow_mut();
        *load.rejected.entry(status).or_default() += 1;
        load.first_error.get_or_insert(error);
        status == 0
    }
}

/// The ids that an answer gives, in order.
fn ids_of(answer: &[u8]) -> Vec<&[u8]> {
    const NAME: &[u8] = b"\"event_id\":\"";
    let mut ids = Vec::new();
    let mut rest = answer;
    while let Some(at) = rest.windows(NAME.len()).position(|window| window == NAME) {
        rest = &rest[at + NAME.len()..];
        let end = rest
            .iter()
            .position(|byte| *byte == b'"')
            .unwrap_or(rest.len());
        ids.push(&rest[..end]);
        rest = &rest[end..];
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_from_one_answer_and_from_many() {
        let one = br#"{"event_id":"e-1","duplicate":false}"#;
        assert_eq!(ids_of(one), [b"e-1"]);
        let many = br#"{"events":[{"index":0,"event_id":"e-1"},{"index":1,"event_id":"e-22"}]}"#;
        assert_eq!(ids_of(many), [&b"e-1"[..], &b"e-22"[..]]);
        assert!(ids_of(b"{}").is_empty());
    }
}
