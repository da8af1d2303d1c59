//! A folder with a log, a registry and a sender in it, and receivers that do as they are told.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fulmar_event::{AttemptRecord, Door, MessageDraft, SchemaCheck, Timestamp};
use fulmar_flow::State;
use fulmar_flow::repeats::RepeatsConfig;
use fulmar_log::{Log, LogConfig, Records, Topic};
use fulmar_registry::{Change, Registry, SigningSecret, Webhook};
use fulmar_webhooks::guard::Guard;
use fulmar_webhooks::seal::Keyring;
use fulmar_webhooks::sender::{SenderConfig, SenderHandle, SenderParts};

/// Long enough for whatever is to happen.
pub const PATIENT: Duration = Duration::from_secs(20);
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A request that a receiver got.
#[derive(Clone, Debug)]
pub struct Got {
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Got {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub fn id(&self) -> &str {
        self.header("webhook-id")
    }
}

type Answers = Arc<Mutex<dyn FnMut(&Got) -> String + Send>>;

/// A receiver that answers as a function says.
pub struct Receiving {
    pub address: SocketAddr,
    pub got: Receiver<Got>,
}

impl Receiving {
    pub fn new(answer: impl FnMut(&Got) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer: Answers = Arc::new(Mutex::new(answer));
        let (tell, got) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, tell) = (Arc::clone(&answer), tell.clone());
                std::thread::spawn(move || serve(&stream.unwrap(), &answer, &tell));
            }
        });
        Self { address, got }
    }

    /// Takes everything.
    pub fn taking() -> Self {
        Self::new(|_| status(200))
    }

    /// Answers with the status that stands in a place, which can be changed.
    pub fn turning(first: u16) -> (Arc<AtomicU16>, Self) {
        let answer = Arc::new(AtomicU16::new(first));
        let seen = Arc::clone(&answer);
        let receiving = Self::new(move |_| status(seen.load(Ordering::SeqCst)));
        (answer, receiving)
    }

    /// Accepts connections and never answers.
    pub fn hanging() -> Self {
        Self::new(|_| {
            loop {
                std::thread::park();
            }
        })
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub fn next(&self) -> Got {
        self.got
            .recv_timeout(PATIENT)
            .expect("nothing was received")
    }
}

/// Outcomes as the topic holds them.
pub fn outcome_records(outcomes: &[AttemptRecord<'_>]) -> Records {
    let mut records = Records::new();
    for outcome in outcomes {
        let mark = records.begin(0);
        outcome.encode(records.buffer());
        records.end(mark);
    }
    records
}

/// An answer without a body.
pub fn status(status: u16) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n")
}

fn serve(stream: &TcpStream, answer: &Answers, tell: &Sender<Got>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut headers = BTreeMap::new();
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        loop {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length").map_or("0", String::as_str);
        let mut body = vec![0; length.parse().unwrap()];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let got = Got { headers, body };
        let _ = tell.send(got.clone());
        let text = (answer.lock().unwrap())(&got);
        if (&*stream).write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

/// A folder with all that a sender works with.
pub struct Bed {
    pub dir: PathBuf,
    pub log: Log,
    pub state: Arc<State>,
    pub registry: Arc<Registry>,
    pub keyring: Arc<Keyring>,
}

pub fn open(dir: &Path) -> Bed {
    let ring = dir.join("ring");
    if !ring.exists() {
        std::fs::write(&ring, Keyring::generate("a").unwrap()).unwrap();
    }
    let config = LogConfig {
        disk_floor_bytes: Some(0),
        ..LogConfig::default()
    };
    let log = Log::open(&dir.join("log"), config).unwrap();
    let registry = Arc::new(Registry::open(log.journal(Topic::Control)).unwrap());
    registry.ensure_default_project(1).unwrap();
    Bed {
        dir: dir.to_owned(),
        state: Arc::new(State::open(&dir.join("state")).unwrap()),
        registry,
        keyring: Arc::new(Keyring::parse(&std::fs::read_to_string(ring).unwrap()).unwrap()),
        log,
    }
}

impl Bed {
    pub fn start(&self) -> SenderHandle {
        self.start_with(SenderConfig {
            stop_time_max: Duration::from_millis(200),
            ..SenderConfig::default()
        })
    }

    pub fn start_with(&self, config: SenderConfig) -> SenderHandle {
        SenderHandle::start(SenderParts {
            backlogs: Arc::default(),
            registry: Arc::clone(&self.registry),
            control: self.log.journal(Topic::Control),
            events: self.log.journal(Topic::Events),
            deliveries: self.log.journal(Topic::Deliveries),
            state: Arc::clone(&self.state),
            repeats_dir: self.dir.join("repeats"),
            repeats: RepeatsConfig::default(),
            keyring: Arc::clone(&self.keyring),
            guard: Guard::new(vec!["127.0.0.1/32".parse().unwrap()], Vec::new()),
            config,
        })
        .unwrap()
    }

    pub fn change(&self, change: Change) {
        self.registry.change(change, 1).unwrap();
    }

    /// A webhook of the consumer `acme` for all events.
    pub fn webhook(&self, id: &str, url: &str, change: impl FnOnce(&mut Webhook)) {
        let mut webhook = Webhook {
            project: "default".to_owned(),
            consumer: "acme".to_owned(),
            url: url.to_owned(),
            events: vec!["*".to_owned()],
            timeout_s: 30,
            secrets: vec![SigningSecret {
                sealed: self.keyring.seal(SECRET).unwrap(),
                expires_ms: None,
                public_key: None,
            }],
            ..Webhook::default()
        };
        change(&mut webhook);
        self.change(Change::WebhookSet {
            id: id.to_owned(),
            webhook: Box::new(webhook),
        });
    }

    /// Publishes events of the consumer `acme`, stamped with the registry as it is.
    pub fn publish(&self, ids: impl IntoIterator<Item = String>) {
        self.publish_until(0, ids);
    }

    pub fn publish_until(&self, expires_ms: i64, ids: impl IntoIterator<Item = String>) {
        let mut records = Records::new();
        for id in ids {
            let data = format!("{{\"id\":\"{id}\",\"n\":1.10}}");
            let draft = MessageDraft {
                event_id: &id,
                time: None,
                ingest_time: Timestamp::from_millis(1_700_000_000_000),
                gateway: "g",
                batch_id: "b",
                project: "default",
                client: "ingest",
                key: "acme",
                door: Door::Publish,
                control_offset: self.registry.current().revision,
                kind: "order.paid",
                source: "",
                subject: "",
                consumer: "acme",
                data: data.as_bytes(),
                data_content_type: "application/json",
                data_base64: false,
                extensions: b"",
                labels: b"",
                idempotency_key: "",
                schema: SchemaCheck::None,
                expires_ms,
            };
            draft.append_to(0, &mut records);
        }
        let events = self.log.journal(Topic::Events);
        events.append_blocking(records).unwrap();
    }
}

/// Waits until what is committed is as wanted.
pub fn settle(
    sender: &SenderHandle,
    wanted: impl Fn(&fulmar_webhooks::sender::SenderStats) -> bool,
) -> fulmar_webhooks::sender::SenderStats {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let began = std::time::Instant::now();
    loop {
        assert!(
            runtime.block_on(sender.checkpoint()),
            "the sender has ended"
        );
        let stats = sender.stats();
        if wanted(&stats) {
            return stats;
        }
        assert!(began.elapsed() < PATIENT, "never: {stats:?}");
    }
}
