//! The agents door: `POST /v1/events` with a protobuf batch over mutual TLS.
//!
//! The checks stand in the contract's order; the first that fails answers:
//! identity, roster, request budget, content type, capacity, body, walk, event
//! and byte budgets. A body that could not be afforded is refused before it is
//! read. Nothing of a request is kept before all have passed, and the answer
//! is 200 only when every record is durable (I1).

mod answer;
mod publish;

use std::sync::Arc;
use std::time::Duration;

use fulmar_event::{BatchRules, Code, Records, Rejection, Timestamp, admit_batch, partition_of};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, Request, Version};

use crate::backbone::Backbone;
use crate::body::{
    BodyFault, BodyLimits, declared_length, encoding_of, first_reservation, read_body,
};
use crate::budgets::Budgets;
use crate::capacity::{Capacity, Reservation};
use crate::clock::Clock;
use crate::http::{
    Answer, Handler, Peer, close_unread, method_not_allowed, not_found, with_identity,
};
use crate::limits::PUBLISH_TIME_MAX;
use crate::metrics::Metrics;
use crate::pool::{BufferPool, PooledBuffer};
use crate::roster::{DEFAULT_PROJECT, Roster, RosterVerdict};
use crate::tls::Unauthenticated;

/// The door's name in metrics and budgets.
const DOOR: &str = "agents";

/// The one path.
const PATH: &str = "/v1/events";

/// What the agents door may be told.
#[derive(Debug, Clone)]
pub struct AgentsConfig {
    /// The gateway's name, written into receptions.
    pub gateway: String,
    /// Partitions of the topic `events`.
    pub partitions: u16,
    /// Seconds that an event may be old.
    pub age_max_seconds: i64,
    /// Seconds that an event may lie ahead.
    pub skew_max_seconds: i64,
    /// Events of one batch.
    pub events_max: u32,
    /// Bytes of one event.
    pub event_bytes_max: u32,
    /// Bounds of one body.
    pub body: BodyLimits,
    /// From the end of the body to the answer.
    pub publish_time_max: Duration,
}

impl Default for AgentsConfig {
    fn default() -> Self {
        use fulmar_event::limits;
        Self {
            gateway: "gateway".to_owned(),
            partitions: 16,
            age_max_seconds: limits::EVENT_AGE_MAX_SECONDS,
            skew_max_seconds: limits::CLOCK_SKEW_MAX_SECONDS,
            events_max: limits::EVENTS_PER_BATCH_MAX,
            event_bytes_max: limits::EVENT_BYTES_MAX,
            body: BodyLimits::default(),
            publish_time_max: PUBLISH_TIME_MAX,
        }
    }
}

/// What the door works with.
pub struct AgentsParts {
    /// The log's topic `events`.
    pub backbone: Arc<dyn Backbone>,
    /// Which agents are admitted.
    pub roster: Arc<dyn Roster>,
    /// Budgets per agent.
    pub budgets: Arc<Budgets>,
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
pub struct AgentsDoor {
    config: AgentsConfig,
    parts: AgentsParts,
    /// Unlimited unless set (G6).
    projects: Option<Arc<Budgets>>,
}

/// Who sends, as the door observed it (I9).
struct Sender<'a> {
    agent_id: &'a str,
    project: Arc<str>,
    control_offset: u64,
}

impl AgentsDoor {
    /// A door that is ready to serve.
    pub fn new(config: AgentsConfig, parts: AgentsParts) -> Self {
        Self {
            config,
            parts,
            projects: None,
        }
    }

    /// Holds each project to budgets of its own too, over all of its agents;
    /// the same value at every door holds it over all doors.
    #[must_use]
    pub fn with_project_budgets(mut self, projects: Arc<Budgets>) -> Self {
        self.projects = Some(projects);
        self
    }

    async fn ingest(&self, request: Request<Incoming>, peer: &Peer) -> Answer {
        let version = request.version();
        let mut body_read = request.body().is_end_stream();
        let result = self.admit(request, peer, &mut body_read).await;
        match result {
            Ok(answer) => answer,
            Err(rejection) => self.refuse(&rejection, version, !body_read),
        }
    }

    fn refuse(&self, rejection: &Rejection, version: Version, unread: bool) -> Answer {
        let metrics = &self.parts.metrics;
        metrics.refused(DOOR, rejection.code.as_str());
        let unavailable = rejection.code == Code::BackboneUnavailable;
        metrics.batch(
            DOOR,
            if unavailable {
                "unavailable"
            } else {
                "rejected"
            },
        );
        tracing::debug!(
            code = rejection.code.as_str(),
            detail = rejection.detail,
            "refused"
        );
        close_unread(answer::refusal(rejection), version, unread)
    }

    /// The column of checks.
    async fn admit(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
        body_read: &mut bool,
    ) -> Result<Answer, Rejection> {
        let parts = &self.parts;
        // One instant for the whole batch: its window and its ingest time.
        let now = parts.clock.now();
        // Identity first: nothing is spent, and nobody charged, without it.
        let agent_id = agent_of(peer, now)?;
        let sender = self.admitted(agent_id)?;
        // Bad requests spend too.
        let now_ns = parts.clock.monotonic_ns();
        self.afford(parts.budgets.spend_request(agent_id, now_ns))?;
        if let Some(projects) = &self.projects {
            self.afford(projects.spend_request(&sender.project, now_ns))?;
        }
        let (head, body) = request.into_parts();
        check_content_type(&head.headers)?;
        let encoding = encoding_of(&head.headers)
            .map_err(|error| refusal(Code::UnsupportedMediaType, error.to_string()))?;
        let declared = declared_length(&head.headers);
        if declared.is_some_and(|bytes| bytes > self.config.body.bytes_max) {
            return Err(of_body(BodyFault::TooLarge));
        }
        let first_bytes = first_reservation(declared, encoding);
        let mut reservation = parts
            .capacity
            .reserve(DOOR, agent_id, first_bytes)
            .map_err(|_| of_body(BodyFault::AtCapacity))?;
        if let Some(bytes) = declared {
            let now_ns = parts.clock.monotonic_ns();
            self.afford(parts.budgets.affords_bytes(agent_id, bytes, now_ns))?;
        }
        // The headers stand in the connection's read buffer, which can't be used
        // again while they do.
        drop(head);
        let mut buffer = parts.pool.take();
        read_body(
            body,
            encoding,
            &self.config.body,
            &mut reservation,
            &mut buffer,
        )
        .await
        .map_err(of_body)?;
        *body_read = true;
        let records = self.walk(&sender, now, buffer, &mut reservation)?;
        let received = records.count();
        self.publish(records, reservation).await?;
        parts.metrics.batch(DOOR, "accepted");
        parts.metrics.events(DOOR, "accepted", u64::from(received));
        parts.metrics.accepted_events(received);
        Ok(with_identity(
            answer::ack(received),
            &sender.project,
            agent_id,
        ))
    }

    /// The roster's verdict, and the registry version that it was made with.
    fn admitted<'a>(&self, agent_id: &'a str) -> Result<Sender<'a>, Rejection> {
        let control_offset = self.parts.roster.control_offset();
        let project = match self.parts.roster.admit(agent_id) {
            RosterVerdict::Project(project) => project,
            RosterVerdict::Open => DEFAULT_PROJECT.into(),
            RosterVerdict::NotRegistered => {
                return Err(refusal(
                    Code::AgentNotRegistered,
                    "the agent is not registered",
                ));
            }
            RosterVerdict::NotAdmitted => {
                return Err(refusal(Code::AgentNotAdmitted, "the agent is not admitted"));
            }
        };
        Ok(Sender {
            agent_id,
            project,
            control_offset,
        })
    }

    /// Walks the body once and makes its records. On the task itself: 500
    /// events take about 0.15 ms, and moving to another thread costs a wake-up.
    fn walk(
        &self,
        sender: &Sender<'_>,
        now: Timestamp,
        body: PooledBuffer,
        reservation: &mut Reservation,
    ) -> Result<Records, Rejection> {
        let parts = &self.parts;
        let started_ns = parts.clock.monotonic_ns();
        let rules = BatchRules {
            agent_id: sender.agent_id,
            project: &sender.project,
            gateway: &self.config.gateway,
            now,
            age_max_seconds: self.config.age_max_seconds,
            skew_max_seconds: self.config.skew_max_seconds,
            events_max: self.config.events_max,
            event_bytes_max: self.config.event_bytes_max,
            control_offset: sender.control_offset,
            partition: partition_of(sender.agent_id.as_bytes(), self.config.partitions),
        };
        let mut records = parts.backbone.buffer(records_bytes(body.len()));
        let admitted = admit_batch(&body, &rules, &mut records)?;
        let now_ns = parts.clock.monotonic_ns();
        parts
            .metrics
            .admitted_in(Duration::from_nanos(now_ns.saturating_sub(started_ns)));
        parts
            .metrics
            .event_lag(lag_seconds(now, admitted.event_time_min));
        parts
            .metrics
            .event_lag(lag_seconds(now, admitted.event_time_max));
        let (events, bytes) = (u64::from(admitted.events), body.len() as u64);
        // The body goes back now: from here on the records are what is held.
        drop(body);
        reservation
            .resize(records.bytes().len() as u64)
            .map_err(|_| of_body(BodyFault::AtCapacity))?;
        // Last, so that what is refused for want of room costs no budget.
        let spent = parts
            .budgets
            .spend_batch(sender.agent_id, events, bytes, now_ns);
        self.afford(spent)?;
        if let Some(projects) = &self.projects {
            self.afford(projects.spend_batch(&sender.project, events, bytes, now_ns))?;
        }
        Ok(records)
    }

    fn afford(&self, spent: Result<(), crate::budgets::OverBudget>) -> Result<(), Rejection> {
        spent.map_err(|over| refusal(Code::RateLimited, over.to_string()))
    }
}

impl Handler for AgentsDoor {
    async fn handle(&self, request: Request<Incoming>, peer: &Arc<Peer>) -> Answer {
        if request.uri().path() != PATH {
            return close_unread(not_found(), request.version(), has_body(&request));
        }
        if request.method() != Method::POST {
            let answer = method_not_allowed("POST");
            return close_unread(answer, request.version(), has_body(&request));
        }
        self.ingest(request, peer).await
    }

    fn route(&self, path: &str) -> &'static str {
        if path == PATH { PATH } else { "other" }
    }
}

/// About how many bytes the records of a body take: the stamp and the framing
/// come to each event.
fn records_bytes(body_bytes: usize) -> usize {
    body_bytes + body_bytes / 2
}

fn lag_seconds(now: Timestamp, event_time: Timestamp) -> f64 {
    now.as_millis().saturating_sub(event_time.as_millis()) as f64 / 1_000.0
}

fn has_body(request: &Request<Incoming>) -> bool {
    !request.body().is_end_stream()
}

fn refusal(code: Code, detail: impl Into<String>) -> Rejection {
    Rejection {
        code,
        detail: detail.into(),
        field: String::new(),
        event_index: -1,
    }
}

fn agent_of(peer: &Peer, now: Timestamp) -> Result<&str, Rejection> {
    let identity = match &peer.certificate {
        Some(certificate) => certificate.agent_id(now),
        None => Err(Unauthenticated::NoCertificate),
    };
    identity.map_err(|error| refusal(Code::UnauthenticatedAgent, error.to_string()))
}

/// Parameters are ignored, and case.
fn check_content_type(headers: &HeaderMap) -> Result<(), Rejection> {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value: &HeaderValue| value.to_str().ok());
    let essence = value.unwrap_or("").split(';').next().unwrap_or("").trim();
    let known = ["application/x-protobuf", "application/protobuf"];
    if known
        .iter()
        .any(|known| essence.eq_ignore_ascii_case(known))
    {
        return Ok(());
    }
    Err(refusal(
        Code::UnsupportedMediaType,
        "the content type must be application/x-protobuf or application/protobuf",
    ))
}

fn of_body(fault: BodyFault) -> Rejection {
    let code = match fault {
        BodyFault::TooLarge => Code::BatchBodyTooLarge,
        BodyFault::Broken | BodyFault::Stalled | BodyFault::Corrupt => Code::UnreadableBody,
        BodyFault::AtCapacity => Code::GatewayAtCapacity,
    };
    refusal(code, fault.to_string())
}
