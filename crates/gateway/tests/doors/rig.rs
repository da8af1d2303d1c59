//! A running agents door with everything around it in the test's hands.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fulmar_event::{AuthenticationDraft, BatchBuilder, Timestamp};
use fulmar_gateway::agents::{AgentsConfig, AgentsDoor, AgentsParts};
use fulmar_gateway::budgets::{BudgetLimits, Budgets};
use fulmar_gateway::capacity::{Capacity, CapacityLimits};
use fulmar_gateway::clock::{Clock, SystemClock};
use fulmar_gateway::metrics::Metrics;
use fulmar_gateway::pool::BufferPool;
use fulmar_gateway::roster::{Roster, RosterVerdict};
use fulmar_gateway::server::{DrainReport, DrainTrigger, Server, ServerLimits, drain};
use fulmar_gateway::tls::{Tls, TlsPaths};
use http_body_util::Full;
use hyper::Request;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::client::{Client, tls_config};
use crate::pki::{Authority, Leaf};
use crate::shelf::{OnShelf, Shelf};

pub const HTTP1: &str = "http/1.1";
pub const HTTP2: &str = "h2";

/// The system's clock, moved ahead by the test.
#[derive(Default)]
pub struct MovedClock {
    ahead_seconds: AtomicI64,
}

impl MovedClock {
    pub fn move_ahead(&self, seconds: i64) {
        self.ahead_seconds.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        SystemClock
            .now()
            .plus_seconds(self.ahead_seconds.load(Ordering::SeqCst))
    }

    fn monotonic_ns(&self) -> u64 {
        let ahead = self.ahead_seconds.load(Ordering::SeqCst) as u64;
        SystemClock.monotonic_ns() + ahead * 1_000_000_000
    }
}

/// A roster that says what the test told it.
pub struct TestRoster(pub Mutex<RosterVerdict>);

impl Roster for TestRoster {
    fn admit(&self, _agent_id: &str) -> RosterVerdict {
        self.0.lock().unwrap().clone()
    }

    fn control_offset(&self) -> u64 {
        7
    }
}

pub struct Setup {
    pub config: AgentsConfig,
    pub budgets: BudgetLimits,
    pub projects: BudgetLimits,
    pub capacity: CapacityLimits,
    pub limits: ServerLimits,
    pub shelf: Arc<Shelf>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            config: AgentsConfig {
                gateway: "gw-test".to_owned(),
                ..AgentsConfig::default()
            },
            budgets: BudgetLimits::AGENT,
            projects: BudgetLimits::UNLIMITED,
            capacity: CapacityLimits::default(),
            limits: ServerLimits::default(),
            shelf: Shelf::open(),
        }
    }
}

pub struct Rig {
    pub agents_ca: Authority,
    pub servers_ca: Authority,
    pub address: SocketAddr,
    pub shelf: Arc<Shelf>,
    pub clock: Arc<MovedClock>,
    pub roster: Arc<TestRoster>,
    pub capacity: Arc<Capacity>,
    pub paths: TlsPaths,
    pub drain: DrainTrigger,
    pub server: JoinHandle<DrainReport>,
    metrics: Arc<Metrics>,
    _files: tempfile::TempDir,
}

impl Rig {
    pub async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    pub async fn with(setup: Setup) -> Self {
        let agents_ca = Authority::new("agents");
        let servers_ca = Authority::new("servers");
        let files = tempfile::tempdir().unwrap();
        let paths = write_files(
            files.path().to_owned(),
            &servers_ca.server(),
            &agents_ca.pem,
        );
        let metrics = Arc::new(Metrics::new());
        let clock = Arc::new(MovedClock::default());
        let roster = Arc::new(TestRoster(Mutex::new(RosterVerdict::Open)));
        let capacity = Capacity::new(setup.capacity, Arc::clone(&metrics));
        let tls = Tls::open(paths.clone(), clock.clone(), Arc::clone(&metrics)).unwrap();
        let parts = AgentsParts {
            backbone: Arc::new(OnShelf(Arc::clone(&setup.shelf))),
            roster: roster.clone(),
            budgets: Arc::new(Budgets::new("agents", setup.budgets, Arc::clone(&metrics))),
            capacity: Arc::clone(&capacity),
            pool: BufferPool::new(),
            metrics: Arc::clone(&metrics),
            clock: clock.clone(),
        };
        let projects = Budgets::new("projects", setup.projects, Arc::clone(&metrics));
        let door = AgentsDoor::new(setup.config, parts).with_project_budgets(Arc::new(projects));
        let door = Arc::new(door);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (trigger, listening) = drain();
        let server = Server::new(
            "agents",
            door,
            Some(tls),
            setup.limits,
            Arc::clone(&metrics),
        );
        let server = tokio::spawn(server.run(listener, listening));
        Self {
            agents_ca,
            servers_ca,
            address,
            shelf: setup.shelf,
            clock,
            roster,
            capacity,
            paths,
            drain: trigger,
            server,
            metrics,
            _files: files,
        }
    }

    pub async fn client(&self, leaf: &Leaf, alpn: &str) -> Client {
        let config = tls_config(&self.servers_ca, Some(leaf), alpn);
        Client::over_tls(self.address, config).await.unwrap()
    }

    /// A client of the agent `name`.
    pub async fn agent(&self, name: &'static str) -> Client {
        self.client(&self.agents_ca.agent(name), HTTP1).await
    }

    /// True if the exposition has this line.
    pub fn counted(&self, line: &str) -> bool {
        let mut registry = Registry::default();
        self.metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text.lines().any(|have| have == line)
    }
}

fn write_files(folder: PathBuf, server: &Leaf, clients: &str) -> TlsPaths {
    let paths = TlsPaths {
        certificate: folder.join("server.pem"),
        key: folder.join("server.key"),
        clients_ca: Some(folder.join("agents-ca.pem")),
    };
    std::fs::write(&paths.certificate, &server.pem).unwrap();
    std::fs::write(&paths.key, &server.key_pem).unwrap();
    std::fs::write(folder.join("agents-ca.pem"), clients).unwrap();
    paths
}

/// A valid event, ids `event-00000000` and so on.
pub fn batch(events: u32) -> Vec<u8> {
    batch_named("batch-1", events)
}

pub fn batch_named(batch_id: &str, events: u32) -> Vec<u8> {
    let mut builder = BatchBuilder::new(batch_id);
    for n in 0..events {
        builder.push(&AuthenticationDraft {
            event_id: &format!("event-{n:08}"),
            event_time: SystemClock.now(),
            observed_time: SystemClock.now(),
            collector: "sshd",
            activity: 1,
            outcome: 2,
            user_name: "root",
            ..AuthenticationDraft::default()
        });
    }
    builder.into_bytes()
}

pub fn post(body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    post_with(body, &[("content-type", "application/x-protobuf")])
}

pub fn post_with(body: impl Into<Bytes>, headers: &[(&str, &str)]) -> Request<Full<Bytes>> {
    let mut request = Request::post("https://localhost/v1/events");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body.into())).unwrap()
}

/// Waits for what is bound to come, without a clock of the test's own.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(20), waited).await;
    assert!(in_time.is_ok(), "never: {what}");
}
