//! What the listeners of a running server share.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use fulmar_enrich::Geo;
use fulmar_flow::State;
use fulmar_flow::repeats::RepeatsReader;
use fulmar_gateway::track::Salts;
use fulmar_log::{Journal, Topic, disk};
use fulmar_registry::Registry;
use fulmar_sessions::LiveView;
use tokio::runtime::Handle;

use super::logs::LevelSwitch;
use crate::admin::Desk;
use crate::api::Api;
use crate::api::jobs::Jobs;
use crate::api::reading::Reading;
use crate::config::Config;
use crate::exit::{Context as _, Failure};
use crate::folds::Folds;
use crate::sending::WebhookParts;

/// Seconds over which rates are taken: long enough to be calm, short enough to be of now.
const RATE_SECONDS: usize = 10;

/// What the listeners of a running server share.
pub struct Live {
    /// The configuration in force.
    pub config: Config,
    /// The data folder.
    pub folder: PathBuf,
    /// What admin requests are answered from.
    pub desk: Desk,
    /// Committed state.
    pub state: Arc<State>,
    /// The folds that fill the tables.
    pub folds: Folds,
    /// The writer's index of repeats, for the events door (X3).
    pub repeats: RepeatsReader,
    /// The session fold's live sessions, for the SDK door (S3).
    pub sessions: Arc<LiveView>,
    /// What sends webhooks.
    pub webhooks: WebhookParts,
    /// Salts of device ids, for the SDK door.
    pub salts: Arc<Salts>,
    /// Where addresses are, for the SDK door.
    pub geo: Arc<Geo>,
    /// Reads the tables.
    pub reading: Arc<Reading>,
    /// What is done in the background.
    pub jobs: Arc<Jobs>,
    /// Changes the log level.
    pub level: LevelSwitch,
    /// Whether the operations listener may hold the writer back.
    pub bench_control: bool,
    /// Milliseconds since the epoch when the server began.
    pub started_ms: i64,
    /// Set first at a stop, so that it is seen before any door closes.
    pub draining: AtomicBool,
    /// Positions of the last seconds.
    pub samples: Mutex<VecDeque<Sample>>,
}

/// Where the log and the writer stood at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    at: Instant,
    logged: u64,
    position: u64,
    /// Nanoseconds that each of [`STAGES`] was busy since the start.
    busy_ns: [u64; STAGES.len()],
}

/// The stages that a record goes through after its door.
const STAGES: [&str; 5] = ["log", "writer", "profiles", "deliveries", "compaction"];

/// Records a second over the last seconds.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Rates {
    /// Made durable in the log.
    pub logged_per_second: f64,
    /// Given their durable result by the writer.
    pub written_per_second: f64,
    /// Share of the time that each stage was busy.
    pub busy: BTreeMap<&'static str, f64>,
    /// The stage that was busy most.
    pub slowest: Option<&'static str>,
}

impl Live {
    /// The journal of a topic.
    pub fn journal(&self, topic: Topic) -> &Arc<Journal> {
        self.desk.journal(topic)
    }

    /// What calls of the API are answered from.
    pub fn api(&self) -> Api {
        Api {
            registry: Arc::clone(self.registry()),
            keyring: Arc::clone(&self.webhooks.keyring),
            guard: self.webhooks.guard.clone(),
            reading: Arc::clone(&self.reading),
            jobs: Arc::clone(&self.jobs),
        }
    }

    /// Goes on with what is done in the background.
    pub fn start_jobs(&self, runtime: &Handle) -> Result<(), Failure> {
        let started = self.jobs.start(self.api(), runtime);
        started.context("cannot start the thread of jobs")
    }

    /// Projects, keys and agents.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.desk.registry
    }

    /// Why the server cannot accept durably now; `None` when it can.
    pub fn unready(&self) -> Option<&'static str> {
        if self.draining.load(Ordering::SeqCst) {
            return Some("draining");
        }
        // The topics that doors append to.
        let doors = [Topic::Events, Topic::Profiles];
        if doors
            .iter()
            .any(|topic| self.journal(*topic).stats().broken)
        {
            return Some("degraded");
        }
        match disk::space(&self.folder) {
            Ok(space) if space.free_bytes >= disk_floor(space.total_bytes) => None,
            _ => Some("degraded"),
        }
    }

    /// Takes a sample; called once a second.
    pub fn sample(&self) {
        let sample = Sample {
            at: Instant::now(),
            logged: self.journal(Topic::Events).end(),
            position: self.folds.writer.position(),
            busy_ns: [
                self.journal(Topic::Events).stats().busy_us * 1_000,
                self.folds.writer.stats().busy_ns,
                self.folds.profiles.stats().busy_ns,
                self.folds.deliveries.stats().busy_ns,
                self.desk.lake.stats().merge_busy_ns,
            ],
        };
        let mut samples = self.samples.lock().expect("no holder panics");
        samples.push_back(sample);
        while samples.len() > RATE_SECONDS + 1 {
            samples.pop_front();
        }
    }

    /// Rates over the samples.
    pub fn rates(&self) -> Rates {
        let samples = self.samples.lock().expect("no holder panics");
        let (Some(first), Some(last)) = (samples.front(), samples.back()) else {
            return Rates::default();
        };
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        if seconds <= 0.0 {
            return Rates::default();
        }
        let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        let busy = |place: usize| rate(first.busy_ns[place], last.busy_ns[place]) / 1e9;
        let busy: BTreeMap<_, _> = (0..STAGES.len())
            .map(|place| (STAGES[place], busy(place).min(1.0)))
            .collect();
        let slowest = busy.iter().max_by(|a, b| a.1.total_cmp(b.1));
        Rates {
            logged_per_second: rate(first.logged, last.logged),
            written_per_second: rate(first.position, last.position),
            slowest: slowest
                .filter(|(_, share)| **share > 0.0)
                .map(|(stage, _)| *stage),
            busy,
        }
    }
}

/// Free bytes below which doors refuse: the larger of 512 MiB and 3 % of the disk (L3).
pub fn disk_floor(total_bytes: u64) -> u64 {
    (512 << 20).max(total_bytes / 100 * 3)
}
