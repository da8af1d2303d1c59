//! One round: the limit, then a server set up, published to, drained, stopped.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::limit::{self, ClientOutcome};
use super::matched::Matched;
use super::publish::{Load, Shape, drive};
use super::receiver::Receiver;
use super::setup::{Server, address_of};
use super::{Mode, WebhooksOptions};
use crate::BenchError;
use crate::server::child::{self, ChildServer};
use crate::server::folder::Folder;
use crate::track::phase::BUDGETS;

/// How long the limit is measured at most.
const LIMIT_TIME: Duration = Duration::from_secs(5);
/// The same, where it is no figure of the run.
const MOMENT: Duration = Duration::from_millis(50);
/// How often the receiver is looked at while it drains.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// One round's measurements.
pub struct Round {
    /// Client and receiver alone.
    pub client: ClientOutcome,
    /// The whole; none in the mode client.
    pub whole: Option<Whole>,
    /// The same with receivers that hang, where that was asked for.
    pub hanging: Option<Whole>,
}

/// What the whole did.
pub struct Whole {
    /// The publishing.
    pub load: Load,
    /// What came of it.
    pub matched: Matched,
    /// From the first planned send to the last receipt, or the end of the wait.
    pub total: Duration,
    /// From the last answer of a publish on.
    pub drain: Duration,
    /// Whether all came in time.
    pub drained: bool,
    /// Connections that the receiver saw.
    pub connections: u64,
    /// Processor time of the server, of one that was started here.
    pub server_cpu_ns: Option<u64>,
    /// Its highest resident memory in bytes.
    pub server_resident_bytes_max: Option<u64>,
    /// Share of the processors that publisher and receiver took.
    pub generator_share: f64,
}

impl Round {
    /// Measures one.
    pub fn measure(options: &WebhooksOptions, number: u32) -> Result<Round, BenchError> {
        let receiver = Receiver::start(&options.receiver_address, options.receiver_delay)?;
        let receiver = Arc::new(receiver);
        let say = |phase: &str| {
            if !options.quiet {
                eprintln!("round {number} of {}: {phase}", options.rounds);
            }
        };
        say("client");
        let url = match &options.url {
            Some(url) => url.clone(),
            None => format!("http://{}/hook/0", receiver.address),
        };
        let time = match options.mode {
            Mode::Client => options.duration,
            Mode::E2e => options.duration.min(LIMIT_TIME),
        };
        // Where it is not wanted a moment shows that the receiver answers.
        let time = if options.limit { time } else { MOMENT };
        let client = limit::drive(&url, options.client_load(time))?;
        receiver.take();
        if options.mode == Mode::Client {
            return Ok(Round {
                client,
                whole: None,
                hanging: None,
            });
        }
        say("whole");
        let whole = || match &options.target {
            None => own_server(options, &receiver, number),
            Some(target) => {
                let server = Server {
                    url: target.url.clone(),
                    key: target.key.clone(),
                    publish_key: target.key.clone(),
                    consumer: options.consumer.clone(),
                };
                publish_and_drain(options, &receiver, &server, None)
            }
        };
        let well = Some(whole()?);
        let mut hanging = None;
        if options.hang > 0 {
            say("whole, with receivers that hang");
            receiver.hang_every(options.hangs_every());
            hanging = Some(whole()?);
        }
        Ok(Round {
            client,
            whole: well,
            hanging,
        })
    }
}

/// A server that was started here, and how it is started again where it stood.
struct Own {
    child: Mutex<ChildServer>,
    executable: PathBuf,
    args: Vec<OsString>,
    /// Processor time of those that were killed, in ns.
    dead_cpu_ns: AtomicU64,
}

impl Own {
    fn start(executable: &Path, folder: &Path) -> Result<Own, BenchError> {
        let mut args = child::serve_args(folder, &BUDGETS);
        let local = "webhooks.allowed_networks=127.0.0.1/32";
        args.extend(["--set".into(), local.into()]);
        let child = ChildServer::start(executable, &args)?;
        // Once more it listens where it does now.
        for (listener, address) in &child.addresses {
            args.extend([format!("--set={listener}.address={address}").into()]);
        }
        let args = args.into_iter().filter(|arg| arg != "127.0.0.1:0");
        let flags = ["--public", "--agents", "--ops"];
        let args = args.filter(|arg| !flags.iter().any(|flag| arg == flag));
        Ok(Own {
            child: Mutex::new(child),
            executable: executable.to_path_buf(),
            args: args.collect(),
            dead_cpu_ns: AtomicU64::new(0),
        })
    }

    fn child(&self) -> MutexGuard<'_, ChildServer> {
        self.child.lock().expect("no holder panics")
    }

    /// Kills it, and starts it again.
    fn kill(&self) -> Result<(), BenchError> {
        let mut child = self.child();
        self.dead_cpu_ns
            .fetch_add(child.cpu_ns(), Ordering::Relaxed);
        child.kill()?;
        *child = ChildServer::start(&self.executable, &self.args)?;
        Ok(())
    }

    fn cpu_ns(&self) -> u64 {
        self.dead_cpu_ns.load(Ordering::Relaxed) + self.child().cpu_ns()
    }

    fn resident_bytes(&self) -> u64 {
        self.child().resident_bytes()
    }
}

fn own_server(
    options: &WebhooksOptions,
    receiver: &Arc<Receiver>,
    number: u32,
) -> Result<Whole, BenchError> {
    let folder = Folder::make(options.folder.as_deref(), "webhooks", number)?;
    let own = Own::start(&options.executable, &folder.path)?;
    let key = |name: &str| -> Result<String, BenchError> {
        let file = folder.path.join("keys").join(name);
        Ok(std::fs::read_to_string(file)?.trim().to_owned())
    };
    let address = own.child().addresses.get("public").cloned();
    let server = Server {
        url: format!("http://{}", address.unwrap_or_default()),
        key: key("admin.key")?,
        publish_key: key("ingest.key")?,
        consumer: options.consumer.clone(),
    };
    let whole = publish_and_drain(options, receiver, &server, Some(&own))?;
    let child = own.child.into_inner().expect("no holder panics");
    child.stop()?;
    Ok(whole)
}

fn publish_and_drain(
    options: &WebhooksOptions,
    receiver: &Arc<Receiver>,
    server: &Server,
    own: Option<&Own>,
) -> Result<Whole, BenchError> {
    let run = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap_or_default();
    let event = format!("{}.{:x}", options.event, run.as_micros());
    let address = address_of(receiver, options.receiver_url.as_deref());
    let types = (&*event, options.webhooks, options.subscribers);
    let setup = server.set_up(types, &address)?;
    warm_up(options, receiver, &setup.doors)?;
    let cpu_ns = own.map(Own::cpu_ns);
    let own_ns = child::own_cpu_ns();
    let subscribers = u64::from(options.subscribers);
    let shape = Shape {
        rate: options.rate.filter(|_| options.burst == 0),
        events: (options.burst > 0).then_some(options.burst),
        duration: options.duration,
        concurrency: options.concurrency,
        batch: options.batch,
        subscribers,
        backlog_max: options.backlog_max,
        hangs_every: receiver.hangs_every(),
    };
    let (load, killed) = std::thread::scope(|scope| {
        let killing = own.filter(|_| options.kill).map(|own| {
            scope.spawn(|| {
                std::thread::sleep(options.duration / 2);
                own.kill()
            })
        });
        let load = drive(&setup.doors, shape, options.payload_bytes, receiver);
        let killed = killing.map_or(Ok(()), |killing| killing.join().expect("it does not panic"));
        (load, killed)
    });
    killed?;
    let load = load?;
    let expected = load.published.len() as u64 * subscribers;
    let published = Instant::now();
    while receiver.count() < expected && published.elapsed() < options.drain_timeout {
        std::thread::sleep(LOOK_EVERY);
    }
    let drained = receiver.count() >= expected;
    let seen = Instant::now();
    let server_cpu_ns = own.zip(cpu_ns).map(|(own, before)| own.cpu_ns() - before);
    let own_seconds = (child::own_cpu_ns() - own_ns) as f64 / 1e9;
    let connections = receiver.connections();
    let matched = Matched::of(&load, &receiver.take(), subscribers);
    let last = matched.last.filter(|_| drained).unwrap_or(seen);
    let total = last.saturating_duration_since(load.start);
    let drain = last.saturating_duration_since(load.start + load.elapsed);
    if !options.keep_webhooks {
        server.clean_up(&setup)?;
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    Ok(Whole {
        matched,
        total,
        drain,
        drained,
        connections,
        server_cpu_ns,
        server_resident_bytes_max: own.map(Own::resident_bytes),
        generator_share: own_seconds / total.as_secs_f64().max(0.001) / processors,
        load,
    })
}

/// One event of the first type, until it is there.
fn warm_up(
    options: &WebhooksOptions,
    receiver: &Arc<Receiver>,
    doors: &Arc<super::publish::Doors>,
) -> Result<(), BenchError> {
    /// How long a first event may take.
    const WARM_UP_MAX: Duration = Duration::from_secs(30);
    let one = Shape {
        rate: None,
        events: Some(1),
        duration: WARM_UP_MAX,
        concurrency: 1,
        batch: 1,
        subscribers: 1,
        backlog_max: None,
        hangs_every: 0,
    };
    let load = drive(doors, one, options.payload_bytes, receiver)?;
    let began = Instant::now();
    while receiver.count() < u64::from(options.subscribers) {
        if began.elapsed() > WARM_UP_MAX {
            let why = load
                .first_error
                .unwrap_or_else(|| format!("nothing came in {WARM_UP_MAX:?}"));
            let what = "the first event".to_owned();
            return Err(BenchError::Child { what, why });
        }
        std::thread::sleep(LOOK_EVERY);
    }
    receiver.take();
    Ok(())
}
