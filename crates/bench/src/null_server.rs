//! Servers that do only what no design can avoid, on the door's own stack.
//!
//! `discard` reads a body and answers; `append` also writes it to one file with
//! the log's own group commit before it answers: the **limit** of this machine.
//! Frozen (M1): a change here is a commit of its own, as every figure of the
//! bench is a fraction of what this measures.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulmar_event::{Records, encode_ack};
use fulmar_gateway::clock::SystemClock;
use fulmar_gateway::http::{Answer, Handler, Peer, answer, not_found, plain};
use fulmar_gateway::metrics::Metrics;
use fulmar_gateway::server::{Server, ServerLimits, drain};
use fulmar_gateway::tls::{Tls, TlsPaths};
use fulmar_log::{Journal, Log, LogConfig, Topic};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::{Request, StatusCode};
use tokio::net::TcpListener;

use crate::BenchError;

/// What a null server does with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reads it.
    Discard,
    /// Reads it, writes it and waits for the sync.
    Append,
}

impl Mode {
    /// The mode's name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Discard => "discard",
            Mode::Append => "append",
        }
    }
}

/// What a null server needs.
#[derive(Clone, Debug)]
pub struct NullServerOptions {
    /// What it does.
    pub mode: Mode,
    /// Folder with `pki/`; the file of `append` goes to `log/` in it.
    pub dir: PathBuf,
    /// Where to listen; port 0 picks a free one.
    pub address: String,
    /// The count that every acknowledgement bears, so that its size is that of
    /// the real one. Bodies are not parsed.
    pub events: u32,
}

struct Null {
    journal: Option<Arc<Journal>>,
    acknowledgement: Vec<u8>,
}

impl Handler for Null {
    async fn handle(&self, request: Request<Incoming>, _peer: &Arc<Peer>) -> Answer {
        if request.uri().path() != "/v1/events" {
            return not_found();
        }
        let mut body = request.into_body();
        let bytes = usize::try_from(body.size_hint().lower()).unwrap_or(0);
        let mut records = Records::with_capacity(bytes + 64);
        let mark = records.begin(0);
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return plain(StatusCode::BAD_REQUEST, "unreadable\n");
            };
            if let Some(data) = frame.data_ref() {
                records.buffer().extend_from_slice(data);
            }
        }
        records.end(mark);
        if let Some(journal) = &self.journal
            && journal.append(records).await.is_err()
        {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "not written\n");
        }
        answer(
            StatusCode::OK,
            "application/x-protobuf",
            self.acknowledgement.clone(),
        )
    }

    fn route(&self, _path: &str) -> &'static str {
        "/v1/events"
    }
}

/// Serves until the process ends or is told to; prints `ready agents=ADDR`.
pub fn run(options: &NullServerOptions) -> Result<(), BenchError> {
    let log = match options.mode {
        Mode::Discard => None,
        Mode::Append => Some(Log::open(&options.dir.join("log"), LogConfig::default())?),
    };
    let handler = Arc::new(Null {
        journal: log.as_ref().map(|log| log.journal(Topic::Events)),
        acknowledgement: encode_ack(options.events),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(options, handler))?;
    drop(runtime);
    if let Some(log) = log {
        log.close();
    }
    Ok(())
}

async fn serve(options: &NullServerOptions, handler: Arc<Null>) -> Result<(), BenchError> {
    let metrics = Arc::new(Metrics::new());
    let pki = options.dir.join("pki");
    let tls = Tls::open(tls_paths(&pki), Arc::new(SystemClock), Arc::clone(&metrics))?;
    let listener = TcpListener::bind(&options.address).await?;
    eprintln!("ready agents={}", listener.local_addr()?);
    let (trigger, drain) = drain();
    let server = Server::new(
        "agents",
        handler,
        Some(tls),
        ServerLimits::default(),
        metrics,
    );
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        _ = server.run(listener, drain) => {}
        _ = terminate.recv() => trigger.start(),
    }
    Ok(())
}

fn tls_paths(pki: &Path) -> TlsPaths {
    TlsPaths {
        certificate: pki.join("server.pem"),
        key: pki.join("server.key"),
        clients_ca: Some(pki.join("agents-ca.pem")),
    }
}
