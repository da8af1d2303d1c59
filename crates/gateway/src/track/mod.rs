//! The SDK door: `POST /track` and its relatives, as the published SDKs call them.
//!
//! Checks in order: client, request budget, content type, capacity, body, item, secret or
//! origin, the project's filters, event and byte budgets. Every answer is JSON. What was
//! answered is durable (I1): an item of the topics `events` and `profiles` waits for both.

mod answers;
mod batch;
mod caller;
mod compose;
mod cors;
mod credentials;
mod duplicates;
mod filter;
mod form;
mod import;
mod lookup;
mod members;
mod origin;
mod payload;
mod receive;
mod refuse;
mod reserved;
mod route;
mod salts;
mod secrets;
mod segment;
mod sessions;
mod single;
mod store;
mod visitor;

use std::sync::Arc;
use std::time::Duration;

use fulmar_enrich::Network;
use fulmar_registry::Registry;
use hyper::body::{Body, Incoming};
use hyper::{Method, Request};

pub use lookup::{AgentFacts, BotFacts, Lookup, NoTables, PlaceFacts, ReferrerFacts};
pub use salts::{SaltDays, Salts};
pub use sessions::{FormulaAlone, LiveSessions};

use crate::backbone::Backbone;
use crate::body::BodyLimits;
use crate::budgets::Budgets;
use crate::capacity::Capacity;
use crate::clock::Clock;
use crate::events::ids::IdMint;
use crate::http::{Answer, Handler, Peer, close_unread};
use crate::limits::PUBLISH_TIME_MAX;
use crate::metrics::Metrics;
use crate::pool::BufferPool;
use caller::Caller;
use credentials::Gate;
use duplicates::Duplicates;
use filter::Patterns;
use refuse::Refusal;
use route::Route;
use secrets::SecretChecks;

/// The door's name in metrics and budgets.
const DOOR: &str = "track";

/// What the SDK door may be told.
#[derive(Debug, Clone)]
pub struct TrackConfig {
    /// The gateway's name, written into receptions.
    pub gateway: String,
    /// Partitions of the topics `events` and `profiles`.
    pub partitions: u16,
    /// Items of one request.
    pub events_max: u32,
    /// Bytes of one item.
    pub event_bytes_max: u32,
    /// Bounds of one body.
    pub body: BodyLimits,
    /// From the end of the body to the answer.
    pub publish_time_max: Duration,
    /// Idle time, in milliseconds, that ends a session.
    pub session_timeout_ms: u64,
    /// Proxies whose forwarding headers are believed (G1).
    pub trusted_proxies: Vec<Network>,
}

impl Default for TrackConfig {
    fn default() -> Self {
        use fulmar_event::limits;
        Self {
            gateway: "gateway".to_owned(),
            partitions: 16,
            events_max: limits::EVENTS_PER_BATCH_MAX,
            event_bytes_max: limits::EVENT_BYTES_MAX,
            body: BodyLimits::default(),
            publish_time_max: PUBLISH_TIME_MAX,
            session_timeout_ms: 30 * 60 * 1_000,
            trusted_proxies: Vec::new(),
        }
    }
}

/// What the door works with.
pub struct TrackParts {
    /// The log's topic `events`.
    pub events: Arc<dyn Backbone>,
    /// The log's topic `profiles`.
    pub profiles: Arc<dyn Backbone>,
    /// Projects and their clients.
    pub registry: Arc<Registry>,
    /// The salts of device ids.
    pub salts: Arc<Salts>,
    /// The tables that requests are looked up in.
    pub lookup: Arc<dyn Lookup>,
    /// Sessions that are live.
    pub sessions: Arc<dyn LiveSessions>,
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
pub struct TrackDoor {
    config: TrackConfig,
    parts: TrackParts,
    mint: IdMint,
    secrets: SecretChecks,
    duplicates: Arc<Duplicates>,
    patterns: Patterns,
}

impl TrackDoor {
    /// A door that is ready to serve.
    pub fn new(config: TrackConfig, parts: TrackParts) -> Self {
        Self {
            config,
            parts,
            mint: IdMint::new(),
            secrets: SecretChecks::default(),
            duplicates: Duplicates::new(),
            patterns: Patterns::default(),
        }
    }

    /// Whether the path is this door's.
    pub fn serves(path: &str) -> bool {
        Route::of(path).is_some()
    }

    fn gate(&self) -> Gate<'_> {
        Gate {
            registry: &self.parts.registry,
            secrets: &self.secrets,
        }
    }

    async fn answer(
        &self,
        route: Route,
        request: Request<Incoming>,
        peer: &Peer,
        body_read: &mut bool,
    ) -> Result<Answer, Refusal> {
        if route == Route::NotSupported {
            return Err(Refusal::NotSupported);
        }
        if request.method() != route.method() {
            return Err(Refusal::Method(route.allowed()));
        }
        if route == Route::DeviceId {
            let trusted = &self.config.trusted_proxies;
            let caller = Caller::of(request.headers(), peer.remote.ip(), trusted);
            return self.device_id(&caller);
        }
        let (received, reservation) = self.receive(request, peer, body_read).await?;
        // Requests of many items are boxed: every request's future is as large as the largest.
        match route {
            Route::Batch => Box::pin(self.batch(&received, reservation)).await,
            Route::Segment(kind) => Box::pin(self.segment(&received, reservation, kind)).await,
            Route::Import => Box::pin(self.import(&received, reservation)).await,
            Route::Legacy(kind) => self.single(&received, reservation, Some(kind)).await,
            _ => self.single(&received, reservation, None).await,
        }
    }
}

impl Handler for TrackDoor {
    async fn handle(&self, request: Request<Incoming>, peer: &Arc<Peer>) -> Answer {
        let version = request.version();
        let mut body_read = request.body().is_end_stream();
        let answered = match Route::of(request.uri().path()) {
            Some(_) if request.method() == Method::OPTIONS => Ok(cors::preflight()),
            Some(route) => self.answer(route, request, peer, &mut body_read).await,
            None => Err(Refusal::NotFound),
        };
        let response = answered.unwrap_or_else(|refusal| {
            let metrics = &self.parts.metrics;
            metrics.refused(DOOR, refusal.code());
            metrics.batch(DOOR, refusal.outcome());
            refusal.answer()
        });
        close_unread(cors::readable(response), version, !body_read)
    }

    fn route(&self, path: &str) -> &'static str {
        Route::of(path).map_or("other", Route::label)
    }
}
