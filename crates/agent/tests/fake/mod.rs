//! A door in this process: it stores what it takes, and fails as told.
#![allow(dead_code, reason = "each test file uses its part of it")]
#![allow(
    clippy::unwrap_used,
    reason = "a test's own server fails with its test"
)]

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fulmar_agent::{Address, CertificateFiles, Credentials, Door, Format, SendOptions, Source};
use fulmar_event::{BatchRules, EventView, RecordIter, Records, admit_batch, encode_ack};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub type Reply = Response<Full<Bytes>>;

/// What the door does with one request instead of taking it.
pub enum Act {
    /// As if nothing were amiss.
    Take,
    /// Stores the events, then closes the connection without an answer.
    TakeAndHangUp,
    /// Closes the connection at once.
    HangUp,
    /// Answers with a status, a `Retry-After` of 0 and a body.
    Say(u16, Vec<u8>),
}

#[derive(Default)]
pub struct Stored {
    /// How often each id was taken.
    pub times: BTreeMap<String, u32>,
    /// Ids in the order in which they were first taken.
    pub order: Vec<String>,
    /// Users or data, for a look inside.
    pub bodies: Vec<Vec<u8>>,
    pub requests: usize,
}

pub struct FakeDoor {
    pub door: Door,
    pub body_bytes_max: usize,
    pub script: Mutex<VecDeque<Act>>,
    /// Once the script is through: this status for ever, or none.
    pub down: Mutex<Option<u16>>,
    pub stored: Mutex<Stored>,
    pub changed: watch::Sender<usize>,
    pub port: u16,
    pki: Option<tempfile::TempDir>,
}

impl FakeDoor {
    pub async fn start(door: Door, body_bytes_max: usize, script: Vec<Act>) -> Arc<FakeDoor> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pki = (door == Door::Agents).then(mint);
        let tls = pki.as_ref().map(|dir| acceptor(dir.path()));
        let fake = Arc::new(FakeDoor {
            door,
            body_bytes_max,
            script: Mutex::new(script.into()),
            down: Mutex::new(None),
            stored: Mutex::default(),
            changed: watch::channel(0).0,
            port: listener.local_addr().unwrap().port(),
            pki,
        });
        let served = Arc::clone(&fake);
        tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                tokio::spawn(Arc::clone(&served).connection(tcp, tls.clone()));
            }
        });
        fake
    }

    async fn connection(
        self: Arc<FakeDoor>,
        tcp: TcpStream,
        tls: Option<tokio_rustls::TlsAcceptor>,
    ) {
        match tls {
            None => self.serve(tcp).await,
            Some(tls) => {
                if let Ok(stream) = tls.accept(tcp).await {
                    self.serve(stream).await;
                }
            }
        }
    }

    async fn serve<S>(self: Arc<FakeDoor>, stream: S)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let service = service_fn(|request: Request<hyper::body::Incoming>| {
            let door = Arc::clone(&self);
            async move {
                let authorization = request.headers().get("authorization").cloned();
                let Ok(body) = request.into_body().collect().await else {
                    return Err("the sender went away".to_owned());
                };
                let key = authorization.map(|value| value.to_str().unwrap().to_owned());
                door.answer(key, body.to_bytes())
                    .ok_or_else(|| "hang up".to_owned())
            }
        });
        let server = hyper::server::conn::http1::Builder::new();
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
    }

    fn answer(&self, key: Option<String>, body: Bytes) -> Option<Reply> {
        self.stored.lock().unwrap().requests += 1;
        let act = self.script.lock().unwrap().pop_front();
        let down = *self.down.lock().unwrap();
        let reply = match (act, down) {
            (None, Some(status)) => Some(say(status, Vec::new())),
            (None | Some(Act::Take), _) => Some(self.take(key, &body)),
            (Some(Act::TakeAndHangUp), _) => {
                self.take(key, &body);
                None
            }
            (Some(Act::HangUp), _) => None,
            (Some(Act::Say(status, body)), _) => Some(say(status, body)),
        };
        let requests = self.stored.lock().unwrap().requests;
        self.changed.send_replace(requests);
        reply
    }

    fn take(&self, key: Option<String>, body: &[u8]) -> Reply {
        if body.len() > self.body_bytes_max {
            return say(413, Vec::new());
        }
        match self.door {
            Door::Agents => self.take_batch(body),
            Door::Events if key.as_deref() != Some("Bearer good") => say(401, Vec::new()),
            Door::Events => self.take_lines(body),
            Door::Track => say(404, Vec::new()),
        }
    }

    fn take_batch(&self, body: &[u8]) -> Reply {
        let rules = BatchRules {
            agent_id: "web-1",
            project: "default",
            gateway: "fake",
            now: fulmar_event::Timestamp::from_millis(jiff::Timestamp::now().as_millisecond()),
            age_max_seconds: 168 * 3_600,
            skew_max_seconds: 300,
            events_max: 10_000,
            event_bytes_max: 65_536,
            control_offset: 0,
            partition: 0,
        };
        let mut records = Records::new();
        match admit_batch(body, &rules, &mut records) {
            Err(rejection) => say(rejection.code.status(), rejection.encode()),
            Ok(admitted) => {
                for record in RecordIter::new(records.bytes()) {
                    let bytes = record.unwrap().bytes;
                    let event = EventView::parse(bytes).unwrap();
                    self.store(event.event_id, bytes);
                }
                say(200, encode_ack(admitted.events))
            }
        }
    }

    /// A line whose data says "bad" is refused; one taken before is a repeat.
    fn take_lines(&self, body: &[u8]) -> Reply {
        let mut events = Vec::new();
        for (index, line) in body
            .split(|b| *b == b'\n')
            .filter(|l| !l.is_empty())
            .enumerate()
        {
            let json: serde_json::Value = serde_json::from_slice(line).unwrap();
            let id = json["id"].as_str().unwrap();
            let status = match json["data"] == "bad" {
                true => "refused",
                false if self.stored.lock().unwrap().times.contains_key(id) => "duplicate",
                false => "accepted",
            };
            if status == "accepted" {
                self.store(id, line);
            }
            events.push(
                serde_json::json!({"index": index, "id": id, "status": status,
                "code": (status == "refused").then_some("invalid")}),
            );
        }
        let refused = events.iter().all(|event| event["status"] == "refused");
        let body = serde_json::json!({ "events": events });
        say(
            if refused { 422 } else { 200 },
            body.to_string().into_bytes(),
        )
    }

    fn store(&self, id: &str, bytes: &[u8]) {
        let mut stored = self.stored.lock().unwrap();
        let times = stored.times.entry(id.to_owned()).or_default();
        *times += 1;
        if *times == 1 {
            stored.order.push(id.to_owned());
            stored.bodies.push(bytes.to_vec());
        }
    }

    pub fn count(&self) -> usize {
        self.stored.lock().unwrap().times.len()
    }

    pub fn requests(&self) -> usize {
        self.stored.lock().unwrap().requests
    }

    /// Waits until what is stored meets `enough`.
    pub async fn wait(&self, enough: impl Fn(&Stored) -> bool) {
        let mut changes = self.changed.subscribe();
        while !enough(&self.stored.lock().unwrap()) {
            changes.changed().await.unwrap();
        }
    }

    /// Options to send `file` here, with the spool beside it.
    pub fn options(&self, format: Format, file: &Path) -> SendOptions {
        let scheme = if self.door == Door::Agents {
            "https"
        } else {
            "http"
        };
        let address = Address::Url(format!("{scheme}://127.0.0.1:{}", self.port));
        let mut options = SendOptions::new(self.door, format, address);
        options.sources = vec![Source::File(file.to_owned())];
        options.timezone = Some("UTC".to_owned());
        options.spool = Some(file.with_extension("spool"));
        options.receipts = Some(file.with_extension("receipts"));
        options.quiet = true;
        options.retry_wait_max = std::time::Duration::from_millis(2);
        options.credentials = Credentials {
            certificate: self.pki.as_ref().map(|dir| CertificateFiles {
                certificate: dir.path().join("agent.pem"),
                key: dir.path().join("agent.key"),
                authorities: dir.path().join("ca.pem"),
            }),
            api_key: Some("good".to_owned()),
            authorities: None,
        };
        options
    }
}

fn say(status: u16, body: Vec<u8>) -> Reply {
    let response = Response::builder()
        .status(status)
        .header("retry-after", "0");
    response.body(Full::new(Bytes::from(body))).unwrap()
}

/// One authority, a server for 127.0.0.1 and the agent web-1.
fn mint() -> tempfile::TempDir {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| std::fs::write(dir.path().join(name), text).unwrap();
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(vec![]).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    write("ca.pem", ca.self_signed(&ca_key).unwrap().pem());
    let issuer = Issuer::new(ca, ca_key);
    for (name, san, common_name) in [
        ("server", "127.0.0.1", "server"),
        ("agent", "web-1", "web-1"),
    ] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![san.to_owned()]).unwrap();
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        write(
            &format!("{name}.pem"),
            params.signed_by(&key, &issuer).unwrap().pem(),
        );
        write(&format!("{name}.key"), key.serialize_pem());
    }
    dir
}

fn acceptor(dir: &Path) -> tokio_rustls::TlsAcceptor {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let pem = |name: &str| {
        CertificateDer::pem_file_iter(dir.join(name))
            .unwrap()
            .collect::<Result<Vec<_>, _>>()
            .unwrap()
    };
    let mut roots = rustls::RootCertStore::empty();
    roots.add(pem("ca.pem").remove(0)).unwrap();
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
        Arc::new(roots),
        Arc::clone(&provider),
    );
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            pem("server.pem"),
            PrivateKeyDer::from_pem_file(dir.join("server.key")).unwrap(),
        )
        .unwrap();
    tokio_rustls::TlsAcceptor::from(Arc::new(config))
}

/// A log of `count` failed logons, a second apart, the last a minute ago.
pub fn sshd_log(dir: &Path, count: i64) -> PathBuf {
    let path = dir.join("auth.log");
    std::fs::write(&path, sshd_lines(0, count, -60 - count)).unwrap();
    path
}

/// Lines `from..to`, the first `first_s` seconds from now.
pub fn sshd_lines(from: i64, to: i64, first_s: i64) -> String {
    let now = jiff::Timestamp::now();
    let line = |n: i64| {
        let time = now
            .checked_add(jiff::SignedDuration::from_secs(first_s + n - from))
            .unwrap();
        format!("{time} web sshd[9]: Failed password for u{n} from 203.0.113.7 port 22 ssh2\n")
    };
    (from..to).map(line).collect()
}

/// The ids in a receipts file, as often as they stand there.
pub fn receipts(file: &Path) -> Vec<(String, String, String)> {
    let text = std::fs::read_to_string(file.with_extension("receipts")).unwrap();
    let read = |line: &str| {
        let json: serde_json::Value = serde_json::from_str(line).unwrap();
        let part = |name: &str| json[name].as_str().unwrap().to_owned();
        (part("project"), part("source"), part("id"))
    };
    text.lines().map(read).collect()
}

/// Never resolves.
pub async fn never() {
    std::future::pending::<Infallible>().await;
}
