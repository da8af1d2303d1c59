//! A data folder with log, state, lake and writer, opened and crashed at will.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type, Int64Type, TimestampMillisecondType, UInt64Type};
use fulmar_event::{
    AuthenticationDraft, BatchBuilder, BatchRules, Door, Enrichment, Head, MessageDraft,
    ProfileChange, ProfileView, Records, SchemaCheck, Timestamp, TrackView, admit_batch, limits,
    partition_of,
};
use fulmar_flow::repeats::{Repeats, RepeatsConfig};
use fulmar_flow::{
    Block, BlockCounts, BlockLimits, BlockName, Fold, State, StateBatch, start_fold,
};
use fulmar_log::{Journal, Log, LogConfig, Topic};
use fulmar_sessions::{LiveView, SessionRules};
use fulmar_store::{
    Lake, LakeConfig, Table, TableReader, Writer, WriterConfig, WriterJournals, scan_identities,
};
use tempfile::TempDir;

pub struct Folder {
    dir: TempDir,
}

/// Opens what stands in a folder.
pub fn open_at(path: &Path) -> Open {
    open_with_workers(path, 1)
}

/// The same, with a writer of so many workers.
pub fn open_with_workers(path: &Path, workers: usize) -> Open {
    let config = LogConfig {
        disk_floor_bytes: Some(0),
        ..LogConfig::default()
    };
    let log = Log::open(&path.join("log"), config).unwrap();
    let state = Arc::new(State::open(&path.join("state")).unwrap());
    let repeats_dir = path.join("repeats");
    let config = RepeatsConfig::default();
    let repeats = Repeats::open(&repeats_dir, &state, config).unwrap();
    let lake = Lake::open(path, Arc::clone(&state), LakeConfig::default()).unwrap();
    let live = Arc::new(LiveView::new(SessionRules::default().timeout_ms));
    let writer = open_writer(&lake, repeats, &log, &state, workers, &live);
    let events = log.journal(Topic::Events);
    let folded = position(&state);
    Open {
        log,
        state,
        lake,
        writer,
        live,
        events,
        folded,
        repeats_dir,
    }
}

fn open_writer(
    lake: &Lake,
    repeats: Repeats,
    log: &Log,
    state: &Arc<State>,
    workers: usize,
    live: &Arc<LiveView>,
) -> Writer {
    let journals = WriterJournals {
        quarantine: log.journal(Topic::Quarantine),
        profiles: log.journal(Topic::Profiles),
    };
    let config = WriterConfig {
        sessions: SessionRules::default(),
        partitions: 16,
        workers,
        live: Some(Arc::clone(live)),
    };
    let state = Arc::clone(state);
    Writer::open(lake.clone(), repeats, Some(journals), state, config).unwrap()
}

pub struct Open {
    pub log: Log,
    pub state: Arc<State>,
    pub lake: Lake,
    pub writer: Writer,
    pub live: Arc<LiveView>,
    events: Arc<Journal>,
    folded: u64,
    repeats_dir: PathBuf,
}

/// Keyspace in which the position is committed with its block.
const POSITION: &str = "test";

fn position(state: &State) -> u64 {
    let bytes = state.get(POSITION, b"position").unwrap();
    bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

impl Folder {
    pub fn new() -> Folder {
        Folder {
            dir: TempDir::new().unwrap(),
        }
    }

    pub fn open(&self) -> Open {
        open_at(self.dir.path())
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Open {
    pub fn append(&self, records: Records) {
        self.events.append_blocking(records).unwrap();
    }

    pub fn block(&self, first: u64, last: u64) -> Block {
        let mut chunks = Vec::new();
        let mut from = first;
        while from <= last {
            let chunk = self.events.read(from, 1 << 20).unwrap().unwrap();
            from = chunk.end_offset();
            chunks.push(chunk);
        }
        Block::new(
            BlockName {
                stream: "events".to_owned(),
                first,
                last,
            },
            chunks,
        )
    }

    /// Runs the fold as the server does, to the end of the log.
    pub fn run_to_the_end(self) -> Open {
        let Open {
            log,
            state,
            lake,
            writer,
            events,
            ..
        } = self;
        let limits = BlockLimits::default();
        let fold = start_fold(writer, Arc::clone(&events), Arc::clone(&state), limits).unwrap();
        fold.stop();
        let repeats = Repeats::open(&self.repeats_dir, &state, RepeatsConfig::default()).unwrap();
        let writer = open_writer(&lake, repeats, &log, &state, 1, &self.live);
        let folded = fulmar_flow::committed_position(&state, "writer").unwrap();
        Open {
            log,
            state,
            lake,
            writer,
            live: self.live,
            events,
            folded,
            repeats_dir: self.repeats_dir,
        }
    }

    /// Folds to the end of the log as one block, with the ledger's counts.
    pub fn fold_all(&mut self) {
        let end = self.events.end();
        if self.folded == end {
            return;
        }
        let block = self.block(self.folded, end - 1);
        self.fold_block(&block);
    }

    /// Folds a block, with the ledger's counts.
    pub fn fold_block(&mut self, block: &Block) -> BlockCounts {
        let mut batch = StateBatch::new();
        let counts = self.writer.fold(block, &mut batch).unwrap();
        assert_eq!(counts.total(), block.len());
        let end = block.name().last + 1;
        batch.put(POSITION, "position", end.to_le_bytes());
        self.state.commit(batch).unwrap();
        self.writer.committed(block.name());
        self.folded = end;
        counts
    }

    /// The offsets of a table's rows, in the order of the files.
    pub fn offsets(&self, table: Table) -> Vec<u64> {
        let mut offsets = Vec::new();
        scan_identities::<fulmar_store::StoreError>(&self.lake.snapshot(), table, |identity| {
            offsets.push(identity.log_offset);
            Ok(())
        })
        .unwrap();
        offsets
    }
}

/// A stamped authentication event, as the agents door writes it.
pub fn logon(agent: &str, id: &str, time_ms: i64, out: &mut Records) {
    let mut batch = BatchBuilder::new("batch-1");
    batch.push(&AuthenticationDraft {
        event_id: id,
        event_time: Timestamp::from_millis(time_ms),
        observed_time: Timestamp::from_millis(time_ms),
        collector: "sshd",
        activity: 1,
        outcome: 1,
        ..AuthenticationDraft::default()
    });
    let rules = BatchRules {
        agent_id: agent,
        project: "default",
        gateway: "gateway",
        now: Timestamp::from_millis(time_ms),
        age_max_seconds: 3_600,
        skew_max_seconds: 300,
        events_max: 10,
        event_bytes_max: limits::EVENT_BYTES_MAX,
        control_offset: 0,
        partition: 1,
    };
    admit_batch(batch.bytes(), &rules, out).unwrap();
}

/// A stamped message, as the events door writes it.
pub fn message(client: &str, id: &str, time_ms: i64, data: &[u8], out: &mut Records) {
    let draft = MessageDraft {
        event_id: id,
        time: Some(Timestamp::from_millis(time_ms)),
        ingest_time: Timestamp::from_millis(5_000),
        gateway: "gateway",
        batch_id: "",
        project: "default",
        client,
        key: id,
        door: Door::Events,
        control_offset: 0,
        kind: "test",
        source: "",
        subject: "",
        consumer: "",
        data,
        data_content_type: "application/json",
        data_base64: false,
        extensions: b"",
        labels: b"",
        idempotency_key: "",
        schema: SchemaCheck::None,
        expires_ms: 0,
    };
    draft.append_to(2, out);
}

/// A stamped product event, as the track door writes it.
pub fn track(id: &str, time_ms: i64, event: &TrackView<'_>, out: &mut Records) {
    let head = Head {
        event_id: id,
        time: Timestamp::from_millis(time_ms),
        ingest_time: Timestamp::from_millis(5_000),
        gateway: "gateway",
        batch_id: "",
        project: "shop",
        client: "client",
        key: event.device_id,
        door: Door::Track,
        control_offset: 0,
        enrichment: Enrichment {
            country: "SE",
            place_micros: Some((59_330_000, 18_070_000)),
            ..Enrichment::default()
        },
    };
    head.append_to(event, partition_of(event.device_id.as_bytes(), 16), out);
}

/// The record that asks to forget; without a profile the project.
pub fn forget(id: &str, project: &str, profile: &str, out: &mut Records) {
    let head = Head {
        event_id: id,
        time: Timestamp::from_millis(5_000),
        ingest_time: Timestamp::from_millis(5_000),
        gateway: "",
        batch_id: "",
        project,
        client: "operator",
        key: profile,
        door: Door::Track,
        control_offset: 0,
        enrichment: Enrichment::default(),
    };
    let view = ProfileView {
        profile_id: profile,
        change: ProfileChange::Forget as i32,
        ..ProfileView::default()
    };
    head.append_to(&view, 0, out);
}

/// The table's rows: each column as text, by name.
pub fn rows(open: &Open, table: Table) -> Vec<BTreeMap<&'static str, String>> {
    let mut rows = Vec::new();
    for file in open.lake.snapshot().files(table) {
        let mut reader = TableReader::open_all(table, &file.path).unwrap();
        while let Some(columns) = reader.next_columns(table).unwrap() {
            for row in 0..columns[0].len() {
                let named = table.columns().iter().zip(&columns);
                rows.push(
                    named
                        .map(|(spec, column)| (spec.name, shown(column.as_ref(), row)))
                        .collect(),
                );
            }
        }
    }
    rows
}

fn shown(column: &dyn Array, row: usize) -> String {
    use arrow_schema::DataType;
    let texts = |array: &dyn Array| -> Vec<String> {
        let texts = array.as_string::<i32>().iter();
        texts.map(|text| text.unwrap().to_owned()).collect()
    };
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        DataType::Dictionary(..) => {
            let codes = column.as_dictionary::<Int32Type>();
            texts(codes.values())[codes.keys().value(row) as usize].clone()
        }
        DataType::Map(..) => {
            let entries = column.as_map().value(row);
            let (keys, values) = (texts(entries.column(0)), texts(entries.column(1)));
            let pairs = keys.iter().zip(&values);
            let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
            pairs.join(" ")
        }
        DataType::List(_) => texts(&column.as_list::<i32>().value(row)).join(" "),
        DataType::Float32 => column.as_primitive::<Float32Type>().value(row).to_string(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Timestamp(..) => column
            .as_primitive::<TimestampMillisecondType>()
            .value(row)
            .to_string(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).to_string(),
        _ => String::new(),
    }
}
