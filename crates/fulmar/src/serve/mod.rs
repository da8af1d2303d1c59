//! The server: an ordered list of what starts when, and the reverse of it at a stop.

mod auth;
mod doors;
mod event_types;
mod listeners;
mod live;
mod logs;
mod lookup;
mod metrics;
mod ops;
mod public;
mod roster;
mod shutdown;
mod stream;
mod supervisor;

mod wiring;

use std::collections::VecDeque;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Args;
use fulmar_enrich::Geo;
use fulmar_flow::FoldHandle;
use fulmar_log::{FolderLock, LogError, Topic, lock_folder};
use fulmar_registry::History;
use fulmar_webhooks::matching::Indexes;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::addresses::{Addresses, holder, reachable};
use crate::admin::{Desk, now_ms};
use crate::api::jobs::Jobs;
use crate::api::reading::Reading;
use crate::cli::ConfigSource;
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::exit::{Context as _, Exit, Failure, Outcome};
use crate::folds::Folds;
use crate::keys;
use crate::node::Node;
use crate::pki::Pki;
use crate::place::DataArg;
use crate::query;
use crate::salts;
use crate::sending::WebhookParts;
pub use live::{Live, disk_floor};

/// How long a start waits for the lock: commands beside no server hold it for a moment.
const LOCK_TIME_MAX: Duration = Duration::from_secs(2);

/// Run the server: doors, log, tables, operations listener.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar serve                                       # everything in ./fulmar-data\n  \
    fulmar serve --data /var/lib/fulmar --config /etc/fulmar.toml\n  \
    fulmar serve --public 127.0.0.1:0 --agents 127.0.0.1:0 --ops 127.0.0.1:0   # free ports\n\n\
    The last line of the start, on standard error: ready public=… agents=… ops=…\n\
    A first signal drains and stops; a second one ends at once.")]
pub struct ServeArgs {
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    source: ConfigSource,
    /// Public listener; sets public.address.
    #[arg(long, value_name = "ADDR")]
    public: Option<String>,
    /// Agents listener; sets agents.address.
    #[arg(long, value_name = "ADDR")]
    agents: Option<String>,
    /// Operations listener; sets ops.address.
    #[arg(long, value_name = "ADDR")]
    ops: Option<String>,
    /// Threads that share a large block of the log; sets writer.workers.
    #[arg(long, value_name = "N")]
    workers: Option<String>,
    /// Least level that is logged; sets server.log_level.
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Let the operations listener hold the writer back: for the bench, which measures the doors
    /// alone.
    #[arg(long, hide = true)]
    bench_control: bool,
    /// Shape of log lines, text or json; sets server.log_format.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

impl ServeArgs {
    /// The configuration in force.
    fn config(&self) -> Result<Config, Failure> {
        let named = [
            ("public.address", &self.public),
            ("agents.address", &self.agents),
            ("ops.address", &self.ops),
            ("writer.workers", &self.workers),
            ("server.log_level", &self.log_level),
            ("server.log_format", &self.log_format),
        ];
        let mut flags = self.source.set.clone();
        for (name, value) in named {
            flags.extend(value.clone().map(|value| (name.to_owned(), value)));
        }
        Config::load(self.source.config.as_deref(), &flags)
    }

    /// Runs the server until a signal.
    pub fn run(self) -> Outcome {
        // 1. The configuration: nothing is touched before it is sound.
        let config = self.config()?;
        let level = logs::start(
            config.text("server.log_level"),
            config.text("server.log_format"),
        )?;
        let started_ms = now_ms();
        raise_open_files();

        // 2. The folder: its lock before anything in it is read (L4), then its version.
        let data = self.data.dir().create()?;
        let lock = take_lock(&data)?;
        data.claim()?;
        Addresses::remove(&data);

        // 3. Certificates, made for a start when there are none and none are configured.
        let pki = Pki::new(data.pki());
        let mut told = Told::default();
        if config.path("agents.tls_cert").is_none() && pki.init()? {
            told.pki = Some(data.pki());
        }

        // 4. Log, registry, state, lake; the keys of a first start.
        let node = Node::open(data.clone(), lock, config)?;
        let geo = geo(&node.config)?;
        let salts = salts::open(&data, now_ms())?;
        told.keys = keys::ensure(&data, &node.registry, &node.config, now_ms())?;

        // 5. Compaction, then the writer and the webhooks from their committed positions, then
        //    retention: it may remove nothing before each has said where it stands (L3).
        let compaction = node.lake.start_compaction()?;
        let writer = node.start_writer()?;
        let webhooks = node.start_webhooks()?;
        node.log.start_retention();
        // 6. The listeners, and the word that they are there.
        let live = Arc::new(Live {
            config: node.config.clone(),
            folder: data.root().to_path_buf(),
            reading: Arc::new(reading(&node, &writer.folds, &webhooks)),
            desk: desk(&node, &writer.folds, &webhooks),
            state: Arc::clone(&node.state),
            folds: writer.folds,
            repeats: writer.repeats,
            sessions: writer.sessions,
            webhooks,
            salts,
            geo,
            jobs: Arc::new(Jobs::new(Arc::clone(&node.state))),
            level,
            bench_control: self.bench_control,
            started_ms,
            draining: AtomicBool::new(false),
            samples: Mutex::new(VecDeque::new()),
        });
        let runtime = runtime()?;
        let complete = runtime.block_on(listeners::run(Arc::clone(&live), &data, &pki, &told))?;

        // 7. All doors are closed and everything is stored: close the log, give the folder back.
        drop(runtime);
        drop(live);
        compaction.stop();
        node.close();
        if !complete {
            let told = "the stop was cut short; the next start goes on from the log";
            return Err(Failure::new(told));
        }
        tracing::info!("stopped");
        Ok(Exit::Done)
    }
}

/// What rows are read with.
fn reading(node: &Node, folds: &Folds, webhooks: &WebhookParts) -> Reading {
    Reading {
        lake: node.lake.clone(),
        runner: query::runner(node.data.root(), &node.config).map_err(|e| e.to_string()),
        folds: folds.clone(),
        sender: Arc::clone(&webhooks.sender),
        health: webhooks.health.clone(),
        state: Arc::clone(&node.state),
        events: node.log.journal(Topic::Events),
        listeners: Arc::default(),
        matched: Mutex::new(Indexes::new(History::new(
            node.log.journal(Topic::Control) as _
        ))),
    }
}

/// What admin requests are answered from.
fn desk(node: &Node, folds: &Folds, webhooks: &WebhookParts) -> Desk {
    Desk {
        keyring: Some(Arc::clone(&webhooks.keyring)),
        ..node.desk(running(folds, webhooks))
    }
}

/// Every fold that runs.
fn running(folds: &Folds, webhooks: &WebhookParts) -> Vec<FoldHandle> {
    let of_webhooks = [&webhooks.health, &webhooks.states];
    folds
        .all()
        .into_iter()
        .chain(of_webhooks)
        .cloned()
        .collect()
}

/// The databases of places, where the configuration names any.
fn geo(config: &Config) -> Result<Arc<Geo>, Failure> {
    let opened = Geo::open(
        config.path("enrich.geo_city").as_deref(),
        config.path("enrich.geo_asn").as_deref(),
    );
    Ok(Arc::new(
        opened.map_err(|error| Failure::usage(error.to_string()))?,
    ))
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("fulmar")
        .build()
        .context("cannot start the runtime")
}

/// What a first start made, for the hint before ready.
#[derive(Debug, Default)]
pub struct Told {
    pki: Option<PathBuf>,
    keys: Vec<PathBuf>,
}

impl Told {
    /// Tells a person what was made and where to send and look, then the one line for machines.
    pub fn print(&self, data: &DataDir, addresses: &Addresses) {
        let mut out = std::io::stderr().lock();
        let mut line = |text: String| {
            let _ = writeln!(out, "{text}");
        };
        if let Some(pki) = &self.pki {
            line(format!(
                "made a development set of certificates in {}",
                pki.display()
            ));
        }
        for path in &self.keys {
            line(format!("made the key {}", path.display()));
            // A key in clear is for eyes only: never into a file or a log.
            if std::io::stderr().is_terminal()
                && let Ok(key) = keys::read_file(path)
            {
                line(format!("  {key}"));
            }
        }
        let folder = data.root().display();
        line(format!(
            "send   fulmar send --data {folder} --door agents --format sshd --rebase FILE"
        ));
        line(format!(
            "       curl -H \"Authorization: Bearer $(cat {folder}/keys/ingest.key)\" \
             -d '{{\"type\":\"hello\"}}' {}://{}/v1/events",
            if addresses.public_tls {
                "https"
            } else {
                "http"
            },
            reachable(&addresses.public)
        ));
        line(format!(
            "look   fulmar query --data {folder} \"select * from security_events limit 10\""
        ));
        line(format!("       fulmar status --data {folder}"));
        line(format!(
            "ready public={} agents={} ops={}",
            addresses.public, addresses.agents, addresses.ops
        ));
    }
}

/// Lets the process open as many files as the system allows it: the usual soft limit of 1,024 is
/// below the bound of connections, and would be met as failed accepts.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

fn take_lock(data: &DataDir) -> Result<FolderLock, Failure> {
    let began = Instant::now();
    loop {
        match lock_folder(data.root()) {
            Ok(lock) => return Ok(lock),
            Err(LogError::Locked { .. }) if began.elapsed() > LOCK_TIME_MAX => {
                return Err(holder(data));
            }
            Err(LogError::Locked { .. }) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => return Err(error.into()),
        }
    }
}
