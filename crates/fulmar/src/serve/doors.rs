//! The doors, built from the configuration.

use std::sync::Arc;

use fulmar_enrich::Agents;
use fulmar_gateway::GatewayError;
use fulmar_gateway::agents::{AgentsConfig, AgentsDoor, AgentsParts};
use fulmar_gateway::body::BodyLimits;
use fulmar_gateway::budgets::{BudgetLimits, Budgets, Rate};
use fulmar_gateway::capacity::{Capacity, CapacityLimits};
use fulmar_gateway::clock::SystemClock;
use fulmar_gateway::events::{Backlog, EventsConfig, EventsDoor, EventsParts};
use fulmar_gateway::limits::BUDGET_TRACKED_MAX;
use fulmar_gateway::metrics::Metrics;
use fulmar_gateway::pool::BufferPool;
use fulmar_gateway::server::ServerLimits;
use fulmar_gateway::tls::{Tls, TlsPaths};
use fulmar_gateway::track::{TrackConfig, TrackDoor, TrackParts};
use fulmar_log::Topic;
use fulmar_webhooks::backlog::Backlogs;

use super::event_types::Types;
use super::live::Live;
use super::lookup::Tables;
use super::roster::RegistryRoster;
use super::wiring::{Keys, Known, OpenSessions};
use crate::config::{Config, Rates};
use crate::pki::Pki;

/// What all doors share.
pub struct Shared {
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What is in flight.
    pub capacity: Arc<Capacity>,
    /// Buffers for bodies.
    pub pool: Arc<BufferPool>,
    /// Budgets per project, over all doors (G6).
    pub projects: Arc<Budgets>,
}

impl Shared {
    /// Bounds out of the configuration.
    pub fn new(config: &Config) -> Self {
        let metrics = Arc::new(Metrics::new());
        let limits = CapacityLimits::new(
            config.number("gateway.in_flight_bytes_max"),
            number_u32(config, "gateway.in_flight_requests_max"),
            config.number("gateway.body_max"),
        );
        let rates = budget_limits(config.rates("projects"));
        let projects = Arc::new(Budgets::new("projects", rates, Arc::clone(&metrics)));
        let capacity = Capacity::new(limits, Arc::clone(&metrics));
        Self {
            metrics,
            capacity,
            pool: BufferPool::new(),
            projects,
        }
    }
}

/// The agents door.
pub fn agents(live: &Live, shared: &Shared) -> AgentsDoor {
    let config = &live.config;
    let door = AgentsConfig {
        gateway: config.text("server.id").to_owned(),
        partitions: u16::try_from(config.number("log.partitions")).unwrap_or(u16::MAX),
        age_max_seconds: seconds(config, "gateway.age_max"),
        skew_max_seconds: seconds(config, "gateway.skew_max"),
        events_max: number_u32(config, "gateway.events_max"),
        event_bytes_max: number_u32(config, "gateway.event_bytes_max"),
        body: body_limits(config),
        publish_time_max: config.duration("gateway.append_timeout"),
    };
    let admission = config.text("agents.admission");
    let limits = budget_limits(config.rates("agents"));
    let parts = AgentsParts {
        backbone: Arc::new(Arc::clone(live.journal(Topic::Events))),
        roster: Arc::new(RegistryRoster::new(Arc::clone(live.registry()), admission)),
        budgets: Arc::new(Budgets::new("agents", limits, Arc::clone(&shared.metrics))),
        capacity: Arc::clone(&shared.capacity),
        pool: Arc::clone(&shared.pool),
        metrics: Arc::clone(&shared.metrics),
        clock: Arc::new(SystemClock),
    };
    AgentsDoor::new(door, parts).with_project_budgets(Arc::clone(&shared.projects))
}

/// The events door.
pub fn events(live: &Live, shared: &Shared) -> EventsDoor {
    let config = &live.config;
    let door = EventsConfig {
        gateway: config.text("server.id").to_owned(),
        partitions: u16::try_from(config.number("log.partitions")).unwrap_or(u16::MAX),
        skew_max_seconds: seconds(config, "gateway.skew_max"),
        events_max: number_u32(config, "gateway.events_max"),
        event_bytes_max: number_u32(config, "gateway.event_bytes_max"),
        body: body_limits(config),
        publish_time_max: config.duration("gateway.append_timeout"),
        ..EventsConfig::default()
    };
    let rates = budget_limits(config.rates("keys"));
    let parts = EventsParts {
        backbone: Arc::new(Arc::clone(live.journal(Topic::Events))),
        keys: Arc::new(Keys(Arc::clone(live.registry()))),
        known: Arc::new(Known {
            repeats: live.repeats.clone(),
            writer: live.folds.writer.clone(),
        }),
        types: Arc::new(Types::new(
            Arc::clone(live.registry()),
            config.flag("webhooks.auto_register_event_types"),
        )),
        backlog: Arc::new(Waiting {
            backlogs: Arc::clone(&live.webhooks.backlogs),
            max: config.number("webhooks.backlog_max"),
        }),
        budgets: Arc::new(Budgets::new("events", rates, Arc::clone(&shared.metrics))),
        projects: Arc::clone(&shared.projects),
        capacity: Arc::clone(&shared.capacity),
        pool: Arc::clone(&shared.pool),
        metrics: Arc::clone(&shared.metrics),
        clock: Arc::new(SystemClock),
    };
    EventsDoor::new(door, parts)
}

/// What waits for webhooks, as the publish door asks it.
struct Waiting {
    backlogs: Arc<Backlogs>,
    max: u64,
}

impl Backlog for Waiting {
    fn over_full(&self, project: &str) -> Option<u64> {
        Some(self.backlogs.of(project).waiting()).filter(|waiting| *waiting >= self.max)
    }

    fn publishing(&self, project: &str, events: u64) {
        self.backlogs.of(project).publishing(events);
    }

    fn not_published(&self, project: &str, events: u64) {
        self.backlogs.of(project).read(events);
    }
}

/// The SDK door. Its tables and the sessions that are live are not wired yet: it knows servers
/// from people, and answers the session that every door derives (S3).
pub fn track(live: &Live, shared: &Shared) -> TrackDoor {
    let config = &live.config;
    let door = TrackConfig {
        gateway: config.text("server.id").to_owned(),
        partitions: u16::try_from(config.number("log.partitions")).unwrap_or(u16::MAX),
        events_max: number_u32(config, "gateway.events_max"),
        event_bytes_max: number_u32(config, "gateway.event_bytes_max"),
        body: body_limits(config),
        publish_time_max: config.duration("gateway.append_timeout"),
        session_timeout_ms: config.number("sessions.timeout"),
        trusted_proxies: config.networks("public.trusted_proxies"),
    };
    let rates = budget_limits(config.rates("keys"));
    let parts = TrackParts {
        events: Arc::new(Arc::clone(live.journal(Topic::Events))),
        profiles: Arc::new(Arc::clone(live.journal(Topic::Profiles))),
        registry: Arc::clone(live.registry()),
        salts: Arc::clone(&live.salts),
        lookup: Arc::new(Tables {
            geo: Arc::clone(&live.geo),
            agents: Agents::default(),
        }),
        sessions: Arc::new(OpenSessions(Arc::clone(&live.sessions))),
        budgets: Arc::new(Budgets::new("track", rates, Arc::clone(&shared.metrics))),
        projects: Arc::clone(&shared.projects),
        capacity: Arc::clone(&shared.capacity),
        pool: Arc::clone(&shared.pool),
        metrics: Arc::clone(&shared.metrics),
        clock: Arc::new(SystemClock),
    };
    TrackDoor::new(door, parts)
}

/// TLS of the agents listener: the configured files, else those of the folder.
pub fn agents_tls(config: &Config, pki: &Pki, shared: &Shared) -> Result<Arc<Tls>, GatewayError> {
    let own = pki.pair("server");
    let paths = TlsPaths {
        certificate: config.path("agents.tls_cert").unwrap_or(own.cert),
        key: config.path("agents.tls_key").unwrap_or(own.key),
        clients_ca: Some(
            config
                .path("agents.ca")
                .unwrap_or(pki.pair("agents-ca").cert),
        ),
    };
    Tls::open(paths, Arc::new(SystemClock), Arc::clone(&shared.metrics))
}

/// TLS of the public listener, when it is configured.
pub fn public_tls(config: &Config, shared: &Shared) -> Result<Option<Arc<Tls>>, GatewayError> {
    let (Some(certificate), Some(key)) = (
        config.path("public.tls_cert"),
        config.path("public.tls_key"),
    ) else {
        return Ok(None);
    };
    let paths = TlsPaths {
        certificate,
        key,
        clients_ca: None,
    };
    Tls::open(paths, Arc::new(SystemClock), Arc::clone(&shared.metrics)).map(Some)
}

/// Bounds of every listener.
pub fn server_limits(config: &Config) -> ServerLimits {
    ServerLimits {
        connections_max: usize::try_from(config.number("gateway.connections_max"))
            .unwrap_or(usize::MAX),
        idle_time_max: config.duration("gateway.idle_timeout"),
        drain_time_max: config.duration("server.shutdown_timeout"),
        ..ServerLimits::default()
    }
}

/// Bounds of one request's body.
pub fn body_limits(config: &Config) -> BodyLimits {
    BodyLimits {
        bytes_max: config.number("gateway.body_max"),
        stall_max: config.duration("gateway.read_timeout"),
        ..BodyLimits::default()
    }
}

/// Budgets of one kind of sender, with bursts of two seconds (G6).
pub fn budget_limits(rates: Rates) -> BudgetLimits {
    let rate = |per_second| match per_second {
        0 => Rate::UNLIMITED,
        per_second => Rate::two_seconds(per_second),
    };
    BudgetLimits {
        requests: rate(rates.requests),
        events: rate(rates.events),
        bytes: rate(rates.bytes),
        tracked_max: BUDGET_TRACKED_MAX,
    }
}

fn seconds(config: &Config, name: &str) -> i64 {
    i64::try_from(config.number(name) / 1_000).unwrap_or(i64::MAX)
}

fn number_u32(config: &Config, name: &str) -> u32 {
    u32::try_from(config.number(name)).unwrap_or(u32::MAX)
}
