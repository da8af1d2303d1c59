//! The events door: `POST /v1/events` with JSON and an API key; and the publish door, which is the
//! same to its consumers.
//!
//! Checks in order: key, scope, request budget, content type, capacity, body,
//! envelope, each event for itself, event and byte budgets, repeats. What is
//! wrong with the whole request is a problem (RFC 9457); what is wrong with
//! one event is that event's verdict, and never costs its neighbours.
//! `accepted` means durable (I1); `duplicate` means that an event of this id
//! is durable already (X3).

mod batch;
mod cloud_event;
pub(crate) mod envelope;
pub(crate) mod event;
pub(crate) mod ids;
mod keys;
mod publish;
mod recent;
mod refuse;
mod store;
pub(crate) mod time;
pub(crate) mod verdict;

use std::sync::Arc;
use std::time::Duration;

use fulmar_event::Timestamp;
use hyper::body::{Body, Incoming};
use hyper::{HeaderMap, Method, Request, StatusCode};
use tokio::time::Instant;

pub use keys::{Client, KeyError, KeyStore, api_key};
pub use publish::{Backlog, EventTypes, TypeVerdict};
pub use recent::{KnownIds, RecentIds};
pub use verdict::{Fault, code};

use crate::backbone::Backbone;
use crate::body::{BodyLimits, declared_length, encoding_of, first_reservation, read_body};
use crate::budgets::Budgets;
use crate::capacity::{Capacity, Reservation};
use crate::clock::Clock;
use crate::http::{
    Answer, Handler, Peer, answer, close_unread, method_not_allowed, no_store, not_found,
    with_identity,
};
use crate::limits::PUBLISH_TIME_MAX;
use crate::metrics::Metrics;
use crate::pool::{BufferPool, PooledBuffer};
use batch::{Batch, Judge, Publishing};
use envelope::{Shape, shape_of};
use ids::IdMint;
use publish::{Checked, Publication};
use refuse::Refusal;
use store::Storing;
use verdict::Verdict;

/// The door's name in metrics and budgets.
const DOOR: &str = "events";

/// The one path.
const PATH: &str = "/v1/events";

/// What the events door may be told.
#[derive(Debug, Clone)]
pub struct EventsConfig {
    /// The gateway's name, written into receptions.
    pub gateway: String,
    /// Partitions of the topic `events`.
    pub partitions: u16,
    /// Seconds that an event may be old.
    pub age_max_seconds: i64,
    /// Seconds that an event may lie ahead.
    pub skew_max_seconds: i64,
    /// Distinct days in one request: each becomes a file of the lake.
    pub days_max: usize,
    /// Events of one request.
    pub events_max: u32,
    /// Bytes of one event.
    pub event_bytes_max: u32,
    /// Bounds of one body.
    pub body: BodyLimits,
    /// From the end of the body to the answer.
    pub publish_time_max: Duration,
}

impl Default for EventsConfig {
    fn default() -> Self {
        use fulmar_event::limits;
        Self {
            gateway: "gateway".to_owned(),
            partitions: 16,
            age_max_seconds: 3_660 * 86_400,
            skew_max_seconds: limits::CLOCK_SKEW_MAX_SECONDS,
            days_max: 64,
            events_max: limits::EVENTS_PER_BATCH_MAX,
            event_bytes_max: limits::EVENT_BYTES_MAX,
            body: BodyLimits::default(),
            publish_time_max: PUBLISH_TIME_MAX,
        }
    }
}

/// What the door works with.
pub struct EventsParts {
    /// The log's topic `events`.
    pub backbone: Arc<dyn Backbone>,
    /// The registry's keys.
    pub keys: Arc<dyn KeyStore>,
    /// The index of repeats.
    pub known: Arc<dyn KnownIds>,
    /// Event types, for the publish door.
    pub types: Arc<dyn EventTypes>,
    /// What waits for webhooks, for the publish door.
    pub backlog: Arc<dyn Backlog>,
    /// Budgets per client.
    pub budgets: Arc<Budgets>,
    /// Budgets per project.
    pub projects: Arc<Budgets>,
    /// What is in flight, shared with the other doors.
    pub capacity: Arc<Capacity>,
    /// Buffers for bodies, shared with the other doors.
    pub pool: Arc<BufferPool>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// The door.
pub struct EventsDoor {
    config: EventsConfig,
    parts: EventsParts,
    recent: Arc<RecentIds>,
    mint: IdMint,
}

/// A request whose body is read, with all that its judging needs.
struct Read {
    now: Timestamp,
    client: Client,
    /// Names the client in budgets: clients of two projects may share a name.
    owner: String,
    shape: Shape,
    /// Those of a CloudEvent in binary mode. Others are let go before the body is
    /// read: they stand in the connection's read buffer.
    headers: HeaderMap,
    body: PooledBuffer,
    reservation: Reservation,
}

/// A request whose events have their verdicts.
struct Admitted {
    verdicts: Vec<Verdict>,
    checked: Vec<Checked>,
    client: Client,
    /// One object was sent, and not a list.
    is_single: bool,
}

impl EventsDoor {
    /// A door that is ready to serve.
    pub fn new(config: EventsConfig, parts: EventsParts) -> Self {
        Self {
            config,
            parts,
            recent: RecentIds::new(),
            mint: IdMint::new(),
        }
    }

    async fn ingest(&self, request: Request<Incoming>, publication: Option<Publication>) -> Answer {
        let version = request.version();
        let mut body_read = request.body().is_end_stream();
        let publishes = publication.is_some();
        let admitted = match self.read(request, publishes, &mut body_read).await {
            Ok(read) => self.admit(read, publication.as_ref()).await,
            Err(refusal) => Err(refusal),
        };
        match admitted {
            Ok(admitted) => {
                let answer = self.answer(&admitted, publishes);
                with_identity(answer, &admitted.client.project, &admitted.client.id)
            }
            Err(refusal) => {
                let metrics = &self.parts.metrics;
                metrics.refused(DOOR, refusal.code());
                let unavailable = refusal == Refusal::NotDurable;
                metrics.batch(
                    DOOR,
                    if unavailable {
                        "unavailable"
                    } else {
                        "rejected"
                    },
                );
                close_unread(refusal.answer(), version, !body_read)
            }
        }
    }

    /// All checks up to and including the body.
    async fn read(
        &self,
        request: Request<Incoming>,
        publishes: bool,
        body_read: &mut bool,
    ) -> Result<Read, Refusal> {
        let parts = &self.parts;
        let now = parts.clock.now();
        let (head, incoming) = request.into_parts();
        let presented = keys::api_key(&head.headers).ok_or(Refusal::NoKey)?;
        let client = parts
            .keys
            .authenticate(presented, now)
            .map_err(Refusal::of_key)?;
        if !client.can_ingest {
            return Err(Refusal::NoScope);
        }
        if publishes && let Some(waiting) = parts.backlog.over_full(&client.project) {
            return Err(Refusal::BacklogFull(waiting));
        }
        let owner = format!("{}/{}", client.project, client.id);
        let now_ns = parts.clock.monotonic_ns();
        parts.budgets.spend_request(&owner, now_ns)?;
        parts.projects.spend_request(&client.project, now_ns)?;
        let shape = shape_of(&head.headers)?;
        let encoding = encoding_of(&head.headers).map_err(|_| Refusal::ContentEncoding)?;
        let declared = declared_length(&head.headers);
        if declared.is_some_and(|bytes| bytes > self.config.body.bytes_max) {
            return Err(Refusal::BodyTooLarge);
        }
        let first_bytes = first_reservation(declared, encoding);
        let mut reservation = parts.capacity.reserve(DOOR, &owner, first_bytes)?;
        if let Some(bytes) = declared {
            parts.budgets.affords_bytes(&owner, bytes, now_ns)?;
            parts
                .projects
                .affords_bytes(&client.project, bytes, now_ns)?;
        }
        let headers = match shape {
            Shape::CloudEventBinary => head.headers,
            _ => {
                drop(head);
                HeaderMap::new()
            }
        };
        let mut body = parts.pool.take();
        read_body(
            incoming,
            encoding,
            &self.config.body,
            &mut reservation,
            &mut body,
        )
        .await?;
        *body_read = true;
        Ok(Read {
            now,
            client,
            owner,
            shape,
            headers,
            body,
            reservation,
        })
    }

    /// Judges, spends and stores.
    async fn admit(
        &self,
        read: Read,
        publication: Option<&Publication>,
    ) -> Result<Admitted, Refusal> {
        let Read {
            now,
            client,
            owner,
            shape,
            headers,
            body,
            reservation,
        } = read;
        let parts = &self.parts;
        let started_ns = parts.clock.monotonic_ns();
        let judge = Judge {
            config: &self.config,
            mint: &self.mint,
            now,
            publishing: publication.map(|publication| Publishing {
                publication,
                project: &client.project,
                types: &*parts.types,
            }),
        };
        if publication.is_some() && shape.is_cloud_event() {
            return Err(Refusal::MediaType);
        }
        let is_single = publish::is_single(shape, &body);
        let fingerprint = |id: &str| parts.known.fingerprint(&client.project, &client.id, id);
        let batch = judge.judge(&body, shape, &headers, fingerprint)?;
        let now_ns = parts.clock.monotonic_ns();
        parts
            .metrics
            .admitted_in(Duration::from_nanos(now_ns.saturating_sub(started_ns)));
        let (events, bytes) = (batch.verdicts.len() as u64, body.len() as u64);
        parts.budgets.spend_batch(&owner, events, bytes, now_ns)?;
        parts
            .projects
            .spend_batch(&client.project, events, bytes, now_ns)?;
        let Batch {
            mut verdicts,
            candidates,
            echoes,
            checked,
        } = batch;
        self.note_lags(&candidates, now);
        let storing = Storing {
            door: self,
            client: &client,
            now,
            request_id: &self.mint.uuid(now).unwrap_or_default(),
            deadline: Instant::now() + self.config.publish_time_max,
            consumer: publication.map_or("", |publication| &publication.consumer),
        };
        storing
            .store(&candidates, bytes, reservation, &mut verdicts)
            .await?;
        for (index, id) in echoes {
            verdicts[index] = Some(Verdict::Duplicate(id));
        }
        let verdicts = verdicts.into_iter().flatten().collect();
        Ok(Admitted {
            verdicts,
            checked,
            client,
            is_single,
        })
    }

    fn note_lags(&self, candidates: &[batch::Candidate<'_>], now: Timestamp) {
        for candidate in candidates {
            let lag_ms = now.as_millis().saturating_sub(candidate.time.as_millis());
            self.parts.metrics.event_lag(lag_ms as f64 / 1_000.0);
        }
    }

    fn answer(&self, admitted: &Admitted, publishes: bool) -> Answer {
        let Admitted {
            verdicts, checked, ..
        } = admitted;
        let metrics = &self.parts.metrics;
        let counts = verdict::count(verdicts);
        metrics.events(DOOR, "accepted", counts.accepted);
        metrics.events(DOOR, "duplicate", counts.duplicates);
        metrics.events(DOOR, "rejected", counts.refused);
        for verdict in verdicts {
            if let Verdict::Refused(_, fault) = verdict {
                metrics.refused(DOOR, fault.code);
            }
        }
        let all_refused = counts.refused == verdicts.len() as u64;
        metrics.batch(DOOR, if all_refused { "rejected" } else { "accepted" });
        metrics.accepted_events(u32::try_from(counts.accepted).unwrap_or(u32::MAX));
        if publishes {
            return match (&verdicts[..], &checked[..]) {
                ([verdict], [checked]) if admitted.is_single => {
                    publish::answer_one(verdict, checked)
                }
                (verdicts, checked) => publish::answer_all(verdicts, checked),
            };
        }
        let status = if all_refused {
            StatusCode::UNPROCESSABLE_ENTITY
        } else {
            StatusCode::OK
        };
        no_store(answer(
            status,
            "application/json",
            verdict::to_json(verdicts),
        ))
    }
}

impl Handler for EventsDoor {
    async fn handle(&self, request: Request<Incoming>, _peer: &Arc<Peer>) -> Answer {
        let version = request.version();
        let unread = !request.body().is_end_stream();
        let publishes = publish::consumer_of(request.uri().path()).is_some();
        if request.uri().path() != PATH && !publishes {
            return close_unread(not_found(), version, unread);
        }
        if request.method() != Method::POST {
            return close_unread(method_not_allowed("POST"), version, unread);
        }
        let publication = match publishes.then(|| publish::publication_of(request.uri())) {
            Some(Err(fault)) => return close_unread(publish::refused(&fault), version, unread),
            Some(Ok(publication)) => Some(publication),
            None => None,
        };
        self.ingest(request, publication).await
    }

    fn route(&self, path: &str) -> &'static str {
        match path {
            PATH => PATH,
            path if publish::consumer_of(path).is_some() => publish::ROUTE,
            _ => "other",
        }
    }
}
