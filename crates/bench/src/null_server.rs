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

/// Whose requests it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Agents' batches over mutual TLS.
    Agents,
    /// SDKs' events without TLS.
    Track,
}

/// What a null server needs.
#[derive(Clone, Debug)]
pub struct NullServerOptions {
    /// What it does.
    pub mode: Mode,
    /// Whose requests it takes.
    pub door: Door,
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
    path: &'static str,
    content_type: &'static str,
    acknowledgement: Vec<u8>,
}

impl Handler for Null {
    async fn handle(&self, request: Request<Incoming>, _peer: &Arc<Peer>) -> Answer {
        if request.uri().path() != self.path {
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
            self.content_type,
            self.acknowledgement.clone(),
        )
    }

    fn route(&self, _path: &str) -> &'static str {
        self.path
    }
}

/// What the SDK door answers to one event, or to a batch of them: ids of the real length.
fn track_answer(events: u32) -> Vec<u8> {
    let (device, session) = ("device-00000", "AAAAAAAAAAAAAAAAAAAAAA");
    if events == 1 {
        return format!("{{\"deviceId\":\"{device}\",\"sessionId\":\"{session}\"}}").into_bytes();
    }
    let verdict = |index| {
        format!(
            "{{\"index\":{index},\"id\":\"bench-00000000-00000000\",\"status\":\"accepted\",\
             \"deviceId\":\"{device}\",\"sessionId\":\"{session}\"}}"
        )
    };
    let verdicts: Vec<String> = (0..events).map(verdict).collect();
    let head = format!(
        "{{\"accepted\":{events},\"duplicates\":0,\"dropped\":0,\"retry\":0,\"refused\":0,\"events\":["
    );
    (head + &verdicts.join(",") + "]}").into_bytes()
}

/// Serves until the process ends or is told to; prints `ready agents=ADDR` or `ready public=ADDR`.
pub fn run(options: &NullServerOptions) -> Result<(), BenchError> {
    let log = match options.mode {
        Mode::Discard => None,
        Mode::Append => Some(Log::open(&options.dir.join("log"), LogConfig::default())?),
    };
    let journal = log.as_ref().map(|log| log.journal(Topic::Events));
    let handler = Arc::new(match options.door {
        Door::Agents => Null {
            journal,
            path: "/v1/events",
            content_type: "application/x-protobuf",
            acknowledgement: encode_ack(options.events),
        },
        Door::Track => Null {
            journal,
            path: "/track",
            content_type: "application/json",
            acknowledgement: track_answer(options.events),
        },
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
    let (name, tls) = match options.door {
        Door::Agents => {
            let paths = tls_paths(&options.dir.join("pki"));
            let tls = Tls::open(paths, Arc::new(SystemClock), Arc::clone(&metrics))?;
            ("agents", Some(tls))
        }
        Door::Track => ("public", None),
    };
    let listener = TcpListener::bind(&options.address).await?;
    eprintln!("ready {name}={}", listener.local_addr()?);
    let (trigger, drain) = drain();
    let server = Server::new(name, handler, tls, ServerLimits::default(), metrics);
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
