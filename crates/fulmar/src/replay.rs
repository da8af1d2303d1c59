//! Tables made anew from the log: the folds of a server, over what a log holds, into a folder of
//! their own (I4).
//!
//! The log is only read, so that this may run beside a server. The new folder holds state, files
//! and tables, and no log: it can be queried, and not be served from.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_flow::repeats::Repeats;
use fulmar_flow::{BlockLimits, Fold, Ledger, ReplayInput, State, replay};
use fulmar_log::{ReadOnly, Topic, lock_folder, partitions_of};
use fulmar_registry::{Folded, Snapshot};
use fulmar_store::writer::WRITER;
use fulmar_store::{
    DeliveryWriter, Lake, ProfileWriter, StoreError, Table, Writer, scan_identities,
};
use serde_json::{Value, json};

use crate::config::Config;
use crate::data_dir::DataDir;
use crate::exit::{Context as _, Failure};
use crate::folds::FOLDS;
use crate::node;

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// What to make anew.
pub struct ReplayRequest {
    /// The folder whose log is read.
    pub source: DataDir,
    /// The folder to fill; empty, or made.
    pub into: PathBuf,
    /// Which topics, each with the first offset wanted.
    pub topics: Vec<(Topic, u64)>,
    /// Whether files are merged on the way and at the end.
    pub compact: bool,
    /// The configuration in force.
    pub config: Config,
}

/// One topic's part of the work.
struct Part {
    topic: Topic,
    fold: &'static str,
    input: ReplayInput,
}

/// Where it ended.
struct Target {
    data: DataDir,
    state: Arc<State>,
    lake: Lake,
}

impl ReplayRequest {
    /// Does it; `tell` is given a line on how far it is about once a second.
    ///
    /// # Errors
    /// When the folder to fill is not empty, when the log is damaged, and what stops a fold.
    pub fn run(&self, tell: &(dyn Fn(String) + Sync)) -> Result<Value, Failure> {
        let began = Instant::now();
        let losses = given_up(&self.source)?;
        let log = self.source.log();
        let part = |&(topic, from): &(Topic, u64)| -> Result<Part, Failure> {
            let given_up = losses
                .losses
                .iter()
                .filter(|loss| loss.topic == topic.name());
            let given_up = given_up
                .map(|loss| loss.from..loss.to.saturating_add(1))
                .collect();
            let mut folds = FOLDS.into_iter();
            let fold = folds
                .find(|(of, _)| *of == topic)
                .map_or(WRITER, |(_, fold)| fold);
            let input = ReplayInput::new(topic, &ReadOnly::open(&log, topic)?, from, given_up);
            Ok(Part { topic, fold, input })
        };
        let parts: Vec<Part> = self.topics.iter().map(part).collect::<Result<_, _>>()?;
        let ends: Vec<(Topic, &str, u64, u64)> = parts
            .iter()
            .map(|part| (part.topic, part.fold, part.input.from(), part.input.end()))
            .collect();
        // Held until the end: nobody queries a half of it.
        let data = empty_folder(&self.into)?;
        let _lock = lock_folder(data.root())?;
        data.claim()?;
        data.mark_replayed(false)?;
        let target = self.open(data)?;
        let opened = began.elapsed();
        // Beside the folds, so that the files do not become too many.
        let merging = self
            .compact
            .then(|| target.lake.start_compaction())
            .transpose()?;
        self.fold(parts, &target, tell)?;
        let folded = began.elapsed();
        if let Some(merging) = merging {
            tell("merging files".to_owned());
            target.lake.compact_now()?;
            merging.stop();
        }
        let seconds = json!({
            "open": opened.as_secs_f64(),
            "fold": (folded - opened).as_secs_f64(),
            "compact": (began.elapsed() - folded).as_secs_f64(),
        });
        target.data.mark_replayed(true)?;
        self.report(&target, &ends, seconds)
    }

    fn open(&self, data: DataDir) -> Result<Target, Failure> {
        let state = Arc::new(State::open(&data.state())?);
        let mut config = node::lake_config(&self.config);
        if !self.compact {
            config.uncompacted_files_max = usize::MAX;
        }
        let lake = Lake::open(data.root(), Arc::clone(&state), config)?;
        Ok(Target { data, state, lake })
    }

    /// Runs the folds side by side, as a server does.
    fn fold(
        &self,
        parts: Vec<Part>,
        target: &Target,
        tell: &(dyn Fn(String) + Sync),
    ) -> Result<(), Failure> {
        let done: Result<Vec<()>, Failure> = std::thread::scope(|scope| {
            let running: Vec<_> = parts
                .into_iter()
                .map(|part| scope.spawn(move || self.fold_topic(part, target, tell)))
                .collect();
            let joined = running.into_iter().map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            joined.collect()
        });
        done.map(drop)
    }

    fn fold_topic(
        &self,
        part: Part,
        target: &Target,
        tell: &(dyn Fn(String) + Sync),
    ) -> Result<(), Failure> {
        let (topic, from, end) = (part.topic, part.input.from(), part.input.end());
        let limits = node::repeats_config(&self.config);
        let (lake, state) = (target.lake.clone(), Arc::clone(&target.state));
        if topic == Topic::Deliveries {
            let fold = DeliveryWriter::new(lake, None);
            return self.run_fold(fold, part, target, &|_| {});
        }
        if topic == Topic::Profiles {
            let dir = target.data.profile_repeats();
            let repeats = Repeats::open(&dir, &state, node::of_profiles(limits))?;
            let fold = ProfileWriter::new(lake, repeats, None, state);
            return self.run_fold(fold, part, target, &|_| {});
        }
        let repeats = Repeats::open(&target.data.repeats(), &state, limits)?;
        let partitions = partitions_of(&self.source.log())?.unwrap_or(1);
        let config = node::writer_config(&self.config, partitions);
        let fold = Writer::open(lake, repeats, None, state, config)?;
        let began = Instant::now();
        let told = std::sync::Mutex::new(began);
        self.run_fold(fold, part, target, &|position| {
            let mut told = told.lock().expect("no holder panics");
            if told.elapsed() >= TELL_EVERY {
                *told = Instant::now();
                let (done, all) = (position - from, (end - from).max(1));
                let a_second = done as f64 / began.elapsed().as_secs_f64();
                let percent = done * 100 / all;
                tell(format!(
                    "{topic}: {done} of {all} records ({percent} %), {a_second:.0}/s"
                ));
            }
        })
    }

    fn run_fold(
        &self,
        fold: impl Fold,
        part: Part,
        target: &Target,
        at: &dyn Fn(u64),
    ) -> Result<(), Failure> {
        let state = Arc::clone(&target.state);
        replay(fold, part.input, state, BlockLimits::default(), at)
            .context(format!("the replay of {} stopped", part.topic))
    }

    /// The final reconciliation: each topic's ledger, and the rows that are really there.
    fn report(
        &self,
        target: &Target,
        ends: &[(Topic, &str, u64, u64)],
        seconds: Value,
    ) -> Result<Value, Failure> {
        let snapshot = target.lake.snapshot();
        let mut topics = Vec::new();
        let mut exact = true;
        for &(topic, fold, from, end) in ends {
            let ledger = Ledger::read(&target.state, fold, end)?;
            let settled = ledger.balances() && ledger.backlog == 0;
            // Profiles are not one row a record: their ledger is all there is to say.
            let rows = match topic {
                Topic::Events => Some(rows_of_records(&snapshot)?),
                _ => None,
            };
            let forgotten = target.lake.stats().records_forgotten;
            exact &= settled && rows.is_none_or(|rows| rows + forgotten == ledger.stored);
            topics.push(json!({
                "topic": topic.name(), "from": from, "end": end, "ledger": ledger, "rows": rows,
            }));
        }
        let tables = target.lake.stats().tables;
        Ok(json!({
            "into": target.data.root(), "topics": topics, "tables": tables, "exact": exact,
            "seconds": seconds, "resident_bytes_max": resident_bytes_max(),
            "block_records_max": BlockLimits::default().rows,
        }))
    }
}

/// Rows that came of a record each: what a session fold adds bears no client.
fn rows_of_records(snapshot: &fulmar_store::Snapshot) -> Result<u64, StoreError> {
    let mut rows = 0;
    for table in Table::ALL.iter().filter(|table| !table.is_versioned()) {
        scan_identities(snapshot, *table, |identity| {
            rows += u64::from(!identity.source.is_empty());
            Ok::<(), StoreError>(())
        })?;
    }
    Ok(rows)
}

/// This process's highest resident memory so far.
fn resident_bytes_max() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1_024
}

/// What operators gave up, as `control` says.
fn given_up(source: &DataDir) -> Result<Snapshot, Failure> {
    let control = ReadOnly::open(&source.log(), Topic::Control)?;
    Ok(Folded::of(&control, None)?.state)
}

/// The first offset of a topic at or after a time: append times never run backwards (L5).
///
/// # Errors
/// When the log can't be read.
pub fn offset_at(source: &DataDir, topic: Topic, time_ms: i64) -> Result<u64, Failure> {
    let log = ReadOnly::open(&source.log(), topic)?;
    let (mut low, mut high) = (log.start(), log.end());
    while low < high {
        let middle = low + (high - low) / 2;
        let chunk = log.reader(middle).next(1)?;
        let found = chunk.as_ref().and_then(fulmar_log::Chunk::first_time_ms);
        match found {
            Some(at_ms) if at_ms < time_ms => low = middle + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// The folder to fill.
fn empty_folder(path: &std::path::Path) -> Result<DataDir, Failure> {
    let data = DataDir::new(path).create()?;
    let mut names = std::fs::read_dir(data.root())?;
    if names.next().is_some() {
        let told = format!(
            "{} is not empty: a replay fills a new folder",
            path.display()
        );
        return Err(Failure::usage(told));
    }
    Ok(data)
}
