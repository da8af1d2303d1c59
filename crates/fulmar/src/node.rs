//! What a process opens of a data folder, and how commands ask it or the server that holds it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use fulmar_flow::repeats::{Repeats, RepeatsConfig, RepeatsReader};
use fulmar_flow::{BlockLimits, FoldHandle, State, start_fold, synced_ends};
use fulmar_log::{BytesMax, FolderLock, Log, LogConfig, Topic, partitions_of};
use fulmar_registry::{Folded, Registry};
use fulmar_sessions::{LiveView, SessionRules};
use fulmar_store::{
    DeliveryWriter, Lake, LakeConfig, ProfileJournals, ProfileWriter, Table, Writer, WriterConfig,
    WriterJournals,
};
use serde::Serialize;
use serde_json::Value;

use crate::admin::{Desk, apply_losses, now_ms};
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::exit::{Context as _, Failure};
use crate::folds::Folds;
use crate::noted_position;
use crate::place::{Place, PlaceArgs};
use crate::saved_registry::{self, SavedRegistry};

/// Milliseconds of a day, for settings that are durations here and days there.
const DAY_MS: u64 = 86_400_000;

/// Everything of a folder that this process holds.
pub struct Node {
    /// The folder.
    pub data: DataDir,
    /// The configuration in force.
    pub config: Config,
    /// Its topics.
    pub log: Log,
    /// Committed state of the folds.
    pub state: Arc<State>,
    /// Projects, keys and agents.
    pub registry: Arc<Registry>,
    saved: Arc<SavedRegistry>,
    /// The tables' files.
    pub lake: Lake,
    /// Last, so that it goes last: nobody else may open what is above before it is closed.
    lock: FolderLock,
}

/// The folds that fill the tables, and what can be read of them.
pub struct WriterParts {
    /// The running folds.
    pub folds: Folds,
    /// The index of repeats of events, for doors (X3).
    pub repeats: RepeatsReader,
    /// The live sessions, for the SDK door (S3).
    pub sessions: Arc<LiveView>,
}

/// The tables alone of a folder that a replay has filled, whose lock the caller holds.
pub struct Tables {
    /// The configuration in force.
    pub config: Config,
    /// The tables' files.
    pub lake: Lake,
}

impl Tables {
    /// Opens them.
    pub fn open(data: &DataDir) -> Result<Self, Failure> {
        if !data.is_replayed_whole() {
            let shown = data.root().display();
            let told = format!("the replay into {shown} did not end: delete it, and replay again");
            return Err(Failure::new(told));
        }
        let file = std::env::var_os("FULMAR_CONFIG").map(PathBuf::from);
        let config = Config::load(file.as_deref(), &[])?;
        let state = Arc::new(open_state(data)?);
        let lake = Lake::open(data.root(), state, lake_config(&config))?;
        Ok(Self { config, lake })
    }
}

/// What to do about records of `control` that are lost and that nobody gave up (L1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostControl {
    /// Refuse: a revoked key must not be let in again because that can't be read any more.
    Refuse,
    /// Go on with what can be read: to look at the folder, or to give the records up.
    Pass,
}

impl Node {
    /// Opens a folder whose lock this process holds (L4): state, log, registry, lake.
    pub fn open(data: DataDir, lock: FolderLock, config: Config) -> Result<Self, Failure> {
        let log_config = log_config(&config);
        Self::open_with(data, lock, config, log_config, LostControl::Refuse)
    }

    /// As [`Node::open`], for a command beside no server: the folder itself says how many
    /// partitions it has.
    pub fn open_as_made(
        data: DataDir,
        lock: FolderLock,
        lost: LostControl,
    ) -> Result<Self, Failure> {
        let data = data.create()?;
        let file = std::env::var_os("FULMAR_CONFIG").map(PathBuf::from);
        let config = Config::load(file.as_deref(), &[])?;
        let mut log_config = log_config(&config);
        data.claim()?;
        if let Some(partitions) = partitions_of(&data.log())? {
            log_config.partitions = partitions;
        }
        Self::open_with(data, lock, config, log_config, lost)
    }

    fn open_with(
        data: DataDir,
        lock: FolderLock,
        config: Config,
        log_config: LogConfig,
        lost: LostControl,
    ) -> Result<Self, Failure> {
        data.claim()?;
        if data.is_replayed() {
            let told = "holds tables that a replay has filled, and no log: it can be queried, and \
                        its files be listed, checked, compacted and digested";
            return Err(Failure::usage(format!("{} {told}", data.root().display())));
        }
        // What queries of a killed process left behind.
        fulmar_store::query::remove_spills(data.root());
        // The state first: what folds have committed is a witness of how far the log was synced.
        let state = Arc::new(open_state(&data)?);
        let copy = saved_registry::load(&state)?;
        let mut witness = synced_ends(&state)?;
        if let Some(copy) = &copy {
            witness.raise(Topic::Control, copy.revision);
        }
        fulmar_webhooks::sender::committed_ends(&state, &mut witness)?;
        let log = Log::open_with_witness(&data.log(), log_config, &witness)?;
        let control = log.journal(Topic::Control);
        let folded = Folded::of(&control, copy)?;
        if lost == LostControl::Refuse {
            folded
                .need_whole()
                .map_err(|error| Failure::damage(error.to_string()))?;
        }
        let whole = folded.lost.is_empty();
        let registry = Arc::new(Registry::of(control, folded.state));
        if whole {
            registry.ensure_default_project(now_ms())?;
        }
        let saved = SavedRegistry::new(Arc::clone(&state), Arc::clone(&registry), whole);
        saved.save();
        let lake = Lake::open(data.root(), Arc::clone(&state), lake_config(&config))?;
        noted_position::note(&data, &state);
        let node = Self {
            data,
            config,
            log,
            state,
            registry,
            saved: Arc::new(saved),
            lake,
            lock,
        };
        apply_losses(&node.registry, &node.journals());
        Ok(node)
    }

    /// The journals of all topics.
    pub fn journals(&self) -> Vec<Arc<fulmar_log::Journal>> {
        Topic::ALL
            .iter()
            .map(|topic| self.log.journal(*topic))
            .collect()
    }

    /// Starts the folds that fill the tables, from their committed positions.
    pub fn start_writer(&self) -> Result<WriterParts, Failure> {
        let config = &self.config;
        let limits = repeats_config(config);
        let index = Repeats::open(&self.data.repeats(), &self.state, limits)?;
        let repeats = index.reader();
        let profiles = self.start_profiles(limits)?;
        let journals = WriterJournals {
            quarantine: self.log.journal(Topic::Quarantine),
            profiles: self.log.journal(Topic::Profiles),
        };
        let mut writing = writer_config(config, self.log.partitions());
        let live = Arc::new(LiveView::new(writing.sessions.timeout_ms));
        writing.live = Some(Arc::clone(&live));
        let state = Arc::clone(&self.state);
        let fold = Writer::open(self.lake.clone(), index, Some(journals), state, writing)?;
        let events = self.log.journal(Topic::Events);
        let state = Arc::clone(&self.state);
        let writer = start_fold(fold, events, state, block_limits(config))?;
        Ok(WriterParts {
            folds: Folds {
                writer,
                profiles,
                deliveries: self.start_deliveries()?,
            },
            repeats,
            sessions: live,
        })
    }

    fn start_profiles(&self, limits: RepeatsConfig) -> Result<FoldHandle, Failure> {
        let limits = of_profiles(limits);
        let dir = self.data.profile_repeats();
        let journals = ProfileJournals {
            events: self.log.journal(Topic::Events),
            partitions: self.log.partitions(),
            quarantine: self.log.journal(Topic::Quarantine),
        };
        let fold = ProfileWriter::new(
            self.lake.clone(),
            Repeats::open(&dir, &self.state, limits)?,
            Some(journals),
            Arc::clone(&self.state),
        );
        let (profiles, state) = (self.log.journal(Topic::Profiles), Arc::clone(&self.state));
        Ok(start_fold(
            fold,
            profiles,
            state,
            block_limits(&self.config),
        )?)
    }

    fn start_deliveries(&self) -> Result<FoldHandle, Failure> {
        let quarantine = self.log.journal(Topic::Quarantine);
        let fold = DeliveryWriter::new(self.lake.clone(), Some(quarantine));
        let (deliveries, state) = (self.log.journal(Topic::Deliveries), Arc::clone(&self.state));
        let limits = block_limits(&self.config);
        Ok(start_fold(fold, deliveries, state, limits)?)
    }

    /// Runs the folds to the log's end; false when one could not get there.
    pub fn store_all(&self) -> Result<bool, Failure> {
        let compaction = self.lake.start_compaction()?;
        let writer = self.start_writer()?;
        // What servers sent goes on to `events` first.
        let folds = writer.folds;
        folds.profiles.stop();
        folds.writer.stop();
        folds.deliveries.stop();
        compaction.stop();
        // What the writer tells the profile fold after that is for the next start.
        Ok(folds.writer.stats().lag + folds.deliveries.stats().lag == 0)
    }

    /// What admin requests are answered from.
    pub fn desk(&self, folds: Vec<FoldHandle>) -> Desk {
        Desk {
            registry: Arc::clone(&self.registry),
            saved: Arc::clone(&self.saved),
            journals: self.journals(),
            lake: self.lake.clone(),
            data: self.data.clone(),
            state: Arc::clone(&self.state),
            keyring: None,
            folds,
        }
    }

    /// Closes the log cleanly, then gives the folder back.
    pub fn close(self) {
        self.saved.save();
        self.saved.save_uses();
        noted_position::note(&self.data, &self.state);
        self.log.close();
        drop(self.saved);
        drop(self.lake);
        drop(self.state);
        drop(self.lock);
    }
}

/// Opens the state store. One that is gone is not made anew over tables: without its list their
/// files would be taken for leftovers, and removed.
fn open_state(data: &DataDir) -> Result<State, Failure> {
    let dir = data.state();
    let what_to_do = format!(
        "it holds the positions of folds, the list of the tables' files and the index of repeats: \
         restore the folder from a backup (`fulmar restore`), or move {dir}, {lake} and {tables} \
         away, and the next start fills the tables anew from what the log still holds",
        dir = dir.display(),
        lake = data.lake().display(),
        tables = data.tables().display(),
    );
    let damage = |told: String| Failure::damage(format!("{told}; {what_to_do}"));
    let shown = dir.display();
    if !dir.exists() && data.holds_tables() {
        return Err(damage(format!(
            "the state store {shown} is missing, and tables are there"
        )));
    }
    let state = State::open(&dir).map_err(|error| {
        let told = format!("cannot open the state store {shown}: {error}");
        match error.is_damage() {
            true => damage(told),
            false => Failure::new(told),
        }
    })?;
    if let Some((noted, position)) = noted_position::lost(data, &state)? {
        return Err(damage(format!(
            "the state store {shown} has lost what it had committed: it knows of the writer's \
             position {position}, and {noted} was noted"
        )));
    }
    Ok(state)
}

/// The log's settings out of the configuration.
fn log_config(config: &Config) -> LogConfig {
    let partitions = u16::try_from(config.number("log.partitions")).unwrap_or(u16::MAX);
    let mut log = LogConfig {
        partitions,
        ..LogConfig::default()
    };
    log.events.age_max = Some(config.duration("log.events_age_max"));
    log.profiles.age_max = Some(config.duration("log.events_age_max"));
    match config.number("log.events_bytes_max") {
        0 => {}
        bytes => log.events.bytes_max = BytesMax::Bytes(bytes),
    }
    log.quarantine.age_max = Some(config.duration("log.quarantine_age_max"));
    log.events.segment_bytes = config.number("log.segment_bytes");
    log
}

/// Milliseconds that each table's rows are kept, for the tables whose rows expire.
pub fn retention_ms(config: &Config) -> BTreeMap<Table, u64> {
    Table::ALL
        .into_iter()
        .filter(|table| table.expires())
        .map(|table| {
            let key = format!("lake.{}_age_max", table.name());
            (table, config.number(&key))
        })
        .collect()
}

/// What the lake is to do.
pub fn lake_config(config: &Config) -> LakeConfig {
    let days = |ms: u64| u32::try_from(ms / DAY_MS).unwrap_or(u32::MAX);
    let kept = retention_ms(config).into_iter();
    LakeConfig {
        retention_days: kept.map(|(table, ms)| (table, days(ms))).collect(),
        file_bytes_max: config.number("lake.file_bytes_max"),
        ..LakeConfig::default()
    }
}

/// The bounds of the index of repeats.
pub fn repeats_config(config: &Config) -> RepeatsConfig {
    RepeatsConfig {
        window_ms: i64::try_from(config.number("repeats.window")).unwrap_or(i64::MAX),
        disk_bytes_max: config.number("repeats.disk_max"),
        memory_bytes_max: config.number("repeats.memory_max"),
        ..RepeatsConfig::default()
    }
}

/// The same, of the fold of profiles.
pub fn of_profiles(limits: RepeatsConfig) -> RepeatsConfig {
    RepeatsConfig {
        keyspace: "repeats-profiles",
        ..limits
    }
}

/// What the writer is to do, in a log of so many partitions.
pub fn writer_config(config: &Config, partitions: u16) -> WriterConfig {
    WriterConfig {
        sessions: SessionRules {
            timeout_ms: i64::try_from(config.number("sessions.timeout")).unwrap_or(i64::MAX),
            late_ms: i64::try_from(config.number("sessions.late_max")).unwrap_or(i64::MAX),
        },
        partitions,
        workers: usize::try_from(config.number("writer.workers")).unwrap_or(1),
        live: None,
    }
}

/// When blocks are closed.
pub fn block_limits(config: &Config) -> BlockLimits {
    BlockLimits {
        rows: config.number("writer.block_rows"),
        bytes: config.number("writer.block_bytes"),
        age_ms: i64::try_from(config.number("writer.block_age")).unwrap_or(i64::MAX),
    }
}

/// Asks for something of the admin interface: of the running server, or of the folder itself.
pub fn ask<T: Serialize>(place: &PlaceArgs, area: &str, request: &T) -> Result<Value, Failure> {
    let body = serde_json::to_value(request)?;
    match place.resolve()? {
        Place::Server(client) => block_on(client.post_json(&format!("/v1/admin/{area}"), &body))?,
        Place::Folder(data, _lock) if area == "lake" && data.is_replayed() => {
            let tables = Tables::open(&data)?;
            let request = serde_json::from_value(body)?;
            Ok(crate::admin::lake::answer(&tables.lake, request)?)
        }
        Place::Folder(data, lock) => {
            // A decision about damage must be possible where damage keeps the rest from it.
            let lost = match area {
                "log" => LostControl::Pass,
                _ => LostControl::Refuse,
            };
            let node = Node::open_as_made(data, lock, lost)?;
            let answer = node.desk(Vec::new()).answer(area, body);
            node.close();
            Ok(answer?)
        }
    }
}

/// Runs one future to its end on a small runtime of its own.
pub fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    Ok(runtime.block_on(future))
}
