//! A running events door with everything around it in the test's hands.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fulmar_event::Timestamp;
use fulmar_gateway::budgets::{BudgetLimits, Budgets};
use fulmar_gateway::capacity::{Capacity, CapacityLimits};
use fulmar_gateway::events::{
    Backlog, Client, EventTypes, EventsConfig, EventsDoor, EventsParts, KeyError, KeyStore,
    KnownIds, TypeVerdict,
};
use fulmar_gateway::metrics::Metrics;
use fulmar_gateway::pool::BufferPool;
use fulmar_gateway::server::{DrainTrigger, Server, ServerLimits, drain};
use http_body_util::Full;
use hyper::Request;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::client::{self, Answer};
use crate::rig::MovedClock;
use crate::shelf::{OnShelf, Shelf};

/// Keys `alpha` and `beta` of two clients, `reader` without the scope.
struct TestKeys;

impl KeyStore for TestKeys {
    fn authenticate(&self, presented: &str, _now: Timestamp) -> Result<Client, KeyError> {
        let can_ingest = match presented {
            "alpha" | "beta" => true,
            "reader" => false,
            "busy" => return Err(KeyError::Busy),
            _ => return Err(KeyError::Unknown),
        };
        Ok(Client {
            id: format!("client-{presented}"),
            project: "blue".to_owned(),
            can_ingest,
            control_offset: 9,
        })
    }
}

/// An index that knows what the test told it.
#[derive(Default)]
pub struct TestIndex(pub Mutex<HashSet<u128>>);

impl KnownIds for TestIndex {
    fn fingerprint(&self, project: &str, client: &str, id: &str) -> u128 {
        let mut hasher = DefaultHasher::new();
        (project, client, id).hash(&mut hasher);
        let low = hasher.finish();
        1_u8.hash(&mut hasher);
        u128::from(low) << 64 | u128::from(hasher.finish())
    }

    fn contains(&self, fingerprint: u128) -> bool {
        self.0.lock().unwrap().contains(&fingerprint)
    }

    fn position(&self) -> u64 {
        0
    }
}

/// A project's backlog that tests fill.
#[derive(Default)]
pub struct TestBacklog {
    pub waiting: AtomicU64,
    pub is_full: AtomicBool,
}

impl Backlog for TestBacklog {
    fn over_full(&self, project: &str) -> Option<u64> {
        assert_eq!(project, "blue");
        let waiting = self.waiting.load(Ordering::SeqCst);
        self.is_full.load(Ordering::SeqCst).then_some(waiting)
    }

    fn publishing(&self, _: &str, events: u64) {
        self.waiting.fetch_add(events, Ordering::SeqCst);
    }

    fn not_published(&self, _: &str, events: u64) {
        self.waiting.fetch_sub(events, Ordering::SeqCst);
    }
}

/// Types whose names say what they are.
struct TestTypes;

impl EventTypes for TestTypes {
    fn judge(&self, project: &str, name: &str, payload: &[u8]) -> TypeVerdict {
        assert_eq!(project, "blue");
        match name {
            "old" => TypeVerdict::Deactivated,
            "unheard" => TypeVerdict::Unknown,
            "numbers" if payload.starts_with(b"\"") => {
                TypeVerdict::Invalid(vec!["a \"number\" is needed".to_owned()])
            }
            "numbers" => TypeVerdict::Valid,
            _ => TypeVerdict::Unchecked,
        }
    }
}

pub struct EventsRig {
    pub address: SocketAddr,
    pub shelf: Arc<Shelf>,
    pub backlog: Arc<TestBacklog>,
    pub index: Arc<TestIndex>,
    pub clock: Arc<MovedClock>,
    pub capacity: Arc<Capacity>,
    _drain: DrainTrigger,
}

impl EventsRig {
    pub async fn start() -> Self {
        Self::with(Shelf::open(), EventsConfig::default(), BudgetLimits::KEY).await
    }

    pub async fn with(shelf: Arc<Shelf>, config: EventsConfig, budgets: BudgetLimits) -> Self {
        let metrics = Arc::new(Metrics::new());
        let index = Arc::new(TestIndex::default());
        let clock = Arc::new(MovedClock::default());
        let capacity = Capacity::new(CapacityLimits::default(), Arc::clone(&metrics));
        let backlog = Arc::new(TestBacklog::default());
        let limited = |limits| Arc::new(Budgets::new("events", limits, Arc::clone(&metrics)));
        let parts = EventsParts {
            backbone: Arc::new(OnShelf(Arc::clone(&shelf))),
            keys: Arc::new(TestKeys),
            known: index.clone(),
            types: Arc::new(TestTypes),
            backlog: backlog.clone(),
            budgets: limited(budgets),
            projects: limited(BudgetLimits::UNLIMITED),
            capacity: Arc::clone(&capacity),
            pool: BufferPool::new(),
            metrics: Arc::clone(&metrics),
            clock: clock.clone(),
        };
        let door = Arc::new(EventsDoor::new(config, parts));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (trigger, listening) = drain();
        let server = Server::new("public", door, None, ServerLimits::default(), metrics);
        tokio::spawn(server.run(listener, listening));
        Self {
            address,
            shelf,
            backlog,
            index,
            clock,
            capacity,
            _drain: trigger,
        }
    }

    pub async fn client(&self) -> client::Client {
        client::Client::plain(self.address).await
    }

    /// Posts as client `alpha`; the status and the answer's JSON.
    pub async fn post(&self, content_type: &str, body: impl Into<Bytes>) -> (u16, Value) {
        let answer = self.client().await.send(request(content_type, body)).await;
        (answer.status.as_u16(), json(&answer))
    }
}

pub fn json(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

pub fn request(content_type: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    request_with(
        &[
            ("content-type", content_type),
            ("authorization", "Bearer alpha"),
        ],
        body,
    )
}

pub fn request_with(headers: &[(&str, &str)], body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let mut request = Request::post("/v1/events").header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body.into())).unwrap()
}
