//! A running SDK door with everything around it in the test's hands.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use fulmar_event::{Body, EventView, Timestamp};
use fulmar_gateway::budgets::{BudgetLimits, Budgets};
use fulmar_gateway::capacity::{Capacity, CapacityLimits};
use fulmar_gateway::clock::Clock;
use fulmar_gateway::metrics::Metrics;
use fulmar_gateway::pool::BufferPool;
use fulmar_gateway::server::{DrainTrigger, Server, ServerLimits, drain};
use fulmar_gateway::track::{
    AgentFacts, BotFacts, FormulaAlone, Lookup, NoTables, PlaceFacts, ReferrerFacts, SaltDays,
    Salts, TrackConfig, TrackDoor, TrackParts,
};
use fulmar_registry::{
    Change, ClientKind, KeyHash, MemoryLog, Registry, SecretHash, SettingsChange,
};
use http_body_util::Full;
use hyper::Request;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::client::{self, Answer};
use crate::events_rig::json;
use crate::shelf::{OnShelf, Shelf};

/// 2026-11-30T19:05:40Z, a second after the last recorded request says it was made.
pub const NOW_MS: i64 = 1_796_065_540_000;
/// The client of the recorded requests.
pub const CLIENT: &str = "11111111-2222-4333-8444-555555555555";
/// A client that may import.
pub const ROOT: &str = "99999999-2222-4333-8444-555555555555";
/// The secret of both.
pub const SECRET: &str = "sec_abcdef";
/// A browser.
pub const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/131.0.0.0";
/// The salt of the day of `NOW_MS`.
pub const SALT: &str = "0123456789abcdef0123456789abcdef";

struct StandingClock;

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(NOW_MS)
    }

    fn monotonic_ns(&self) -> u64 {
        1_000_000_000
    }
}

/// Tables with one entry each.
struct SmallTables;

impl Lookup for SmallTables {
    fn agent<'a>(&'a self, user_agent: &'a str) -> AgentFacts<'a> {
        let facts = NoTables.agent(user_agent);
        match facts.is_server {
            true => facts,
            false => AgentFacts {
                os: Cow::Borrowed("Linux"),
                browser: Cow::Borrowed("Chrome"),
                browser_version: Cow::Borrowed("131.0"),
                device: Cow::Borrowed("desktop"),
                ..facts
            },
        }
    }

    fn place(&self, address: std::net::IpAddr) -> PlaceFacts<'_> {
        match address.to_string().as_str() {
            "203.0.113.5" => PlaceFacts {
                country: Cow::Borrowed("SE"),
                ..PlaceFacts::default()
            },
            _ => PlaceFacts::default(),
        }
    }

    fn bot<'a>(&'a self, user_agent: &'a str) -> Option<BotFacts<'a>> {
        user_agent.contains("Googlebot").then_some(BotFacts {
            name: Cow::Borrowed("Googlebot"),
            kind: Cow::Borrowed("Search bot"),
        })
    }

    fn referrer<'a>(
        &'a self,
        referrer: &'a str,
        _page: &fulmar_enrich::PageUrl<'a>,
    ) -> ReferrerFacts<'a> {
        match referrer.contains("google.com") {
            true => ReferrerFacts {
                name: Cow::Borrowed("Google"),
                kind: Cow::Borrowed("search"),
            },
            false => ReferrerFacts::default(),
        }
    }
}

pub struct TrackRig {
    pub address: SocketAddr,
    pub events: Arc<Shelf>,
    pub profiles: Arc<Shelf>,
    pub registry: Arc<Registry>,
    _drain: DrainTrigger,
}

impl TrackRig {
    pub async fn start() -> Self {
        Self::with(TrackConfig::default()).await
    }

    pub async fn with(config: TrackConfig) -> Self {
        let metrics = Arc::new(Metrics::new());
        let (events, profiles) = (Shelf::open(), Shelf::open());
        let registry = registry();
        let limited = |limits| Arc::new(Budgets::new("track", limits, Arc::clone(&metrics)));
        let salts = Arc::new(Salts::default());
        let days = format!(r#"{{"days":{{"{}":"{SALT}"}}}}"#, NOW_MS / 86_400_000);
        salts.set(serde_json::from_str::<SaltDays>(&days).unwrap());
        let parts = TrackParts {
            events: Arc::new(OnShelf(Arc::clone(&events))),
            profiles: Arc::new(OnShelf(Arc::clone(&profiles))),
            registry: Arc::clone(&registry),
            salts,
            lookup: Arc::new(SmallTables),
            sessions: Arc::new(FormulaAlone),
            budgets: limited(BudgetLimits::KEY),
            projects: limited(BudgetLimits::UNLIMITED),
            capacity: Capacity::new(CapacityLimits::default(), Arc::clone(&metrics)),
            pool: BufferPool::new(),
            metrics: Arc::clone(&metrics),
            clock: Arc::new(StandingClock),
        };
        let door = Arc::new(TrackDoor::new(config, parts));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (trigger, listening) = drain();
        let server = Server::new("public", door, None, ServerLimits::default(), metrics);
        tokio::spawn(server.run(listener, listening));
        Self {
            address,
            events,
            profiles,
            registry,
            _drain: trigger,
        }
    }

    pub async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        client::Client::plain(self.address)
            .await
            .send(request)
            .await
    }

    /// Posts as the recorded server SDK does; the status and the answer's JSON.
    pub async fn post(&self, path: &str, body: impl Into<Bytes>) -> (u16, Value) {
        self.post_with(path, &NODE, body).await
    }

    pub async fn post_with(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> (u16, Value) {
        let answer = self.send(request(path, headers, body)).await;
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(answer.header("access-control-allow-origin"), "*");
        (answer.status.as_u16(), json(&answer))
    }

    /// Changes the project's settings.
    pub fn set(&self, settings: SettingsChange) {
        let project = "shop".to_owned();
        let change = Change::ProjectSet { project, settings };
        self.registry.change(change, NOW_MS).unwrap();
    }
}

/// The headers of every recorded request of the server SDK.
pub const NODE: [(&str, &str); 9] = [
    ("content-type", "application/json"),
    ("openpanel-client-id", CLIENT),
    ("openpanel-client-secret", SECRET),
    ("openpanel-sdk-name", "node"),
    ("openpanel-sdk-version", "1.3.1"),
    ("user-agent", "node"),
    ("accept", "*/*"),
    ("accept-language", "*"),
    ("sec-fetch-mode", "cors"),
];

/// Those of the browser SDK.
pub const WEB: [(&str, &str); 6] = [
    ("content-type", "application/json"),
    ("openpanel-client-id", CLIENT),
    ("openpanel-sdk-name", "web"),
    ("openpanel-sdk-version", "1.4.1"),
    ("user-agent", BROWSER),
    ("origin", "https://shop.example.com"),
];

fn registry() -> Arc<Registry> {
    let registry = Registry::open(MemoryLog::default()).unwrap();
    let project = "shop".to_owned();
    let settings = SettingsChange {
        cors: Some(vec!["https://shop.example.com".to_owned()]),
        ..SettingsChange::default()
    };
    let client = |id: &str, access| Change::ClientCreated {
        client: id.to_owned(),
        project: "shop".to_owned(),
        name: "sdk".to_owned(),
        access,
        secret: Some(SecretHash::Ours(KeyHash::of(SECRET))),
        ignore_cors_and_secret: false,
    };
    for change in [
        Change::ProjectCreated {
            project: project.clone(),
        },
        Change::ProjectSet { project, settings },
        client(CLIENT, ClientKind::Write),
        client(ROOT, ClientKind::Root),
    ] {
        registry.change(change, NOW_MS).unwrap();
    }
    Arc::new(registry)
}

pub fn request(
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Request<Full<Bytes>> {
    let mut request = Request::post(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body.into())).unwrap()
}

/// The one record of a shelf, whose stamp is what the door observed.
pub fn only(records: &[Vec<u8>]) -> EventView<'_> {
    let [record] = records else {
        panic!("{} records", records.len());
    };
    let view = EventView::parse(record).unwrap();
    assert_eq!(view.check_contract(), Ok(()));
    assert_eq!((view.stamp.project, view.stamp.source), ("shop", CLIENT));
    assert_eq!(view.stamp.control_offset, 4);
    assert_eq!(view.ingest_time, Some(Timestamp::from_millis(NOW_MS)));
    view
}

pub fn track_of<'a>(view: &EventView<'a>) -> fulmar_event::TrackView<'a> {
    match view.body {
        Body::Track(track) => track,
        other => panic!("{other:?}"),
    }
}

pub fn profile_of<'a>(view: &EventView<'a>) -> fulmar_event::ProfileView<'a> {
    match view.body {
        Body::Profile(profile) => profile,
        other => panic!("{other:?}"),
    }
}
