//! What the agents door allocates for one event, TLS, HTTP and log included:
//! under 512 bytes, as everything that grows with the events is used again.
#![allow(clippy::unwrap_used, missing_docs)]
#![allow(unsafe_code, reason = "a counting allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use fulmar_event::{AuthenticationDraft, BatchBuilder, decode_ack};
use fulmar_gateway::agents::{AgentsConfig, AgentsDoor, AgentsParts};
use fulmar_gateway::budgets::{BudgetLimits, Budgets};
use fulmar_gateway::capacity::{Capacity, CapacityLimits};
use fulmar_gateway::clock::{Clock, SystemClock};
use fulmar_gateway::metrics::Metrics;
use fulmar_gateway::pool::BufferPool;
use fulmar_gateway::roster::OpenRoster;
use fulmar_gateway::server::{Server, ServerLimits, drain};
use fulmar_gateway::tls::{Tls, TlsPaths};
use fulmar_log::{Log, LogConfig, Topic};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;

#[path = "../doors/pki.rs"]
mod pki;

struct Counting;

static BYTES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Set on the client's thread, which is not the server.
    static NOT_COUNTED: Cell<bool> = const { Cell::new(false) };
}

fn count(bytes: usize) {
    if !NOT_COUNTED.try_with(Cell::get).unwrap_or(true) {
        BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // What a block grows by is what is allocated.
        count(size.saturating_sub(layout.size()));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const EVENTS: u32 = 500;

fn batch() -> Bytes {
    let mut builder = BatchBuilder::new("batch-1");
    let now = SystemClock.now();
    for n in 0..EVENTS {
        builder.push(&AuthenticationDraft {
            event_id: &format!("0123456789abcdef0123456789ab{n:08}"),
            event_time: now,
            observed_time: now,
            host_hostname: "web-7.example.org",
            collector: "sshd",
            collection_source: "/var/log/remote/web-7/auth.log",
            host_os: "Debian GNU/Linux 13",
            service_name: "sshd",
            activity: 1,
            outcome: 2,
            user_name: "root",
            source_ip: "203.0.113.7",
            raw_record: "Nov 30 21:56:06 web-7 sshd[811]: Failed password for root from \
                         203.0.113.7 port 50522 ssh2",
            ..AuthenticationDraft::default()
        });
    }
    builder.into_bytes().into()
}

/// Agents at once, as in the load that the bound is stated for.
const AGENTS: u32 = 16;

/// Sends `requests` batches from each agent, from this thread, uncounted.
fn send(address: SocketAddr, config: &Arc<ClientConfig>, requests: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let body = batch();
    runtime.block_on(async {
        let mut agents = tokio::task::JoinSet::new();
        for _ in 0..AGENTS {
            agents.spawn(send_as_one(
                address,
                Arc::clone(config),
                requests,
                body.clone(),
            ));
        }
        while let Some(agent) = agents.join_next().await {
            agent.unwrap();
        }
    });
}

async fn send_as_one(address: SocketAddr, config: Arc<ClientConfig>, requests: u32, body: Bytes) {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let connector = tokio_rustls::TlsConnector::from(config);
    let stream = connector.connect(name, stream).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..requests {
        let request = Request::post("https://localhost/v1/events")
            .header("content-type", "application/x-protobuf")
            .body(Full::new(body.clone()))
            .unwrap();
        sender.ready().await.unwrap();
        let answer = sender.send_request(request).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(decode_ack(&body).unwrap().received, EVENTS);
    }
}

fn door(log: &Log, metrics: &Arc<Metrics>) -> AgentsDoor {
    let parts = AgentsParts {
        backbone: Arc::new(log.journal(Topic::Events)),
        roster: Arc::new(OpenRoster),
        budgets: Arc::new(Budgets::new(
            "agents",
            BudgetLimits::UNLIMITED,
            Arc::clone(metrics),
        )),
        capacity: Capacity::new(CapacityLimits::default(), Arc::clone(metrics)),
        pool: BufferPool::new(),
        metrics: Arc::clone(metrics),
        clock: Arc::new(SystemClock),
    };
    AgentsDoor::new(AgentsConfig::default(), parts)
}

#[test]
fn an_event_costs_under_512_bytes_of_allocations() {
    let folder = tempfile::tempdir().unwrap();
    let (agents_ca, servers_ca) = (
        pki::Authority::new("agents"),
        pki::Authority::new("servers"),
    );
    let server = servers_ca.server();
    let paths = TlsPaths {
        certificate: folder.path().join("server.pem"),
        key: folder.path().join("server.key"),
        clients_ca: Some(folder.path().join("ca.pem")),
    };
    std::fs::write(&paths.certificate, &server.pem).unwrap();
    std::fs::write(&paths.key, &server.key_pem).unwrap();
    std::fs::write(folder.path().join("ca.pem"), &agents_ca.pem).unwrap();
    let log = Log::open(folder.path(), LogConfig::default()).unwrap();
    let metrics = Arc::new(Metrics::new());
    let tls = Tls::open(paths, Arc::new(SystemClock), Arc::clone(&metrics)).unwrap();
    let handler = Arc::new(door(&log, &metrics));

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .unwrap();
    let address = listener.local_addr().unwrap();
    let (_trigger, listening) = drain();
    let limits = ServerLimits::default();
    let server = Server::new("agents", handler, Some(tls), limits, metrics);
    runtime.spawn(server.run(listener, listening));

    let agent = agents_ca.agent("agent-1");
    let client = std::thread::spawn(move || {
        NOT_COUNTED.set(true);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(servers_ca.der.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![agent.der.clone()], agent.key())
            .unwrap();
        let config = Arc::new(config);
        // Buffers find their size first.
        send(address, &config, 20);
        let before = BYTES.load(Ordering::Relaxed);
        let started = std::time::Instant::now();
        send(address, &config, 50);
        let seconds = started.elapsed().as_secs_f64();
        println!("{:.0} events/s", f64::from(50 * AGENTS * EVENTS) / seconds);
        BYTES.load(Ordering::Relaxed) - before
    });
    let bytes_per_event = client.join().unwrap() / u64::from(50 * AGENTS * EVENTS);
    let body_bytes_per_event = batch().len() / EVENTS as usize;
    println!("{bytes_per_event} bytes allocated per event of {body_bytes_per_event} bytes");
    assert!(bytes_per_event < 512, "{bytes_per_event} bytes per event");
}
