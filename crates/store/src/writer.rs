//! The fold from the topic `events` to the tables.
//!
//! Of a block, each record becomes a row, or is quarantined; rows whose identity
//! the index knows are repeats; the others are written as one file per table,
//! named after the block. Files first, then the quarantine, then the batch that
//! lists the files, takes the ids into the index and moves the position (F4).

use std::sync::Arc;
use std::time::Duration;

use fulmar_event::{Body, EventView, QuarantineReason, Quarantined, Timestamp};
use fulmar_flow::repeats::{IdHash, Repeats};
use fulmar_flow::{Block, BlockCounts, BlockName, Fold, FoldError, StateBatch};
use fulmar_log::{Journal, Record, Records};

use crate::error::StoreError;
use crate::lake::{Lake, LakeFile};
use crate::tables::{
    MessagesBuilder, SecurityEventsBuilder, Table, TableBuilder, project_message,
    project_security_event,
};

/// The fold's name in committed state and in the ledger.
pub const WRITER: &str = "writer";

/// Version of what it writes (F5).
const VERSION: u32 = 1;

/// How long a try waits for compaction to make room before it says so (F6).
const ROOM_WAIT: Duration = Duration::from_secs(5);

/// Bytes of quarantined records per append: far below the log's own bound.
const QUARANTINE_APPEND_BYTES: usize = 4 * 1024 * 1024;

/// The writer's fold.
pub struct Writer {
    lake: Lake,
    repeats: Repeats,
    quarantine: Arc<Journal>,
    rows: Rows,
    /// Files of the block in hand, until its batch is committed.
    files: Vec<LakeFile>,
}

/// The rows of the block in hand. Memory is kept from block to block.
#[derive(Default)]
struct Rows {
    security_events: SecurityEventsBuilder,
    messages: MessagesBuilder,
    /// Identity and table of each row, in the order of the log.
    identities: Vec<IdHash>,
    tables: Vec<Table>,
    is_new: Vec<bool>,
}

/// Why a record can't be a row.
struct Refusal {
    reason: QuarantineReason,
    detail: String,
}

impl Writer {
    /// A writer into `lake`, which drops what `repeats` knows and appends what
    /// can't be stored to the topic `quarantine`.
    pub fn new(lake: Lake, repeats: Repeats, quarantine: Arc<Journal>) -> Writer {
        Writer {
            lake,
            repeats,
            quarantine,
            rows: Rows::default(),
            files: Vec::new(),
        }
    }

    /// Writes the tables' files; gives the number of rows.
    fn write_files(&mut self, name: &BlockName) -> Result<u64, StoreError> {
        self.files.clear();
        let block = name.to_string();
        for table in Table::ALL {
            let builder = self.rows.builder(table);
            if builder.is_empty() {
                continue;
            }
            let mut order = builder.sorted_order();
            self.rows.leave_out_repeats(table, &mut order);
            if !order.is_empty() {
                self.files
                    .push(self.lake.write_block(&block, builder, &order)?);
            }
        }
        Ok(self.files.iter().map(|file| file.entry.rows).sum())
    }

    /// Appends what is refused, synced. A block that is tried again appends it
    /// again; readers keep the first copy.
    fn quarantine(&self, refused: &[(Record<'_>, Refusal)]) -> Result<(), StoreError> {
        let mut records = Records::new();
        for (record, refusal) in refused {
            let mark = records.begin(0);
            let quarantined = Quarantined {
                topic: fulmar_log::Topic::Events.name(),
                partition: record.partition,
                offset: record.offset,
                reason: refusal.reason.as_str(),
                detail: &refusal.detail,
                original: record.bytes,
                time: Some(Timestamp::from_millis(record.append_time_ms)),
            };
            quarantined.encode(records.buffer());
            records.end(mark);
            if records.bytes().len() >= QUARANTINE_APPEND_BYTES {
                self.quarantine
                    .append_blocking(std::mem::take(&mut records))?;
            }
        }
        if !records.is_empty() {
            self.quarantine.append_blocking(records)?;
        }
        Ok(())
    }
}

impl Fold for Writer {
    fn name(&self) -> &'static str {
        WRITER
    }

    fn version(&self) -> u32 {
        VERSION
    }

    fn fold(&mut self, block: &Block, batch: &mut StateBatch) -> Result<BlockCounts, FoldError> {
        if !self.lake.wait_for_room(ROOM_WAIT) {
            let files = self.lake.uncompacted_files();
            let text = format!("waiting for compaction: {files} uncompacted files");
            return Err(FoldError::Transient(text));
        }
        self.rows.clear();
        let mut refused = Vec::new();
        for record in block.records() {
            if let Err(refusal) = self.rows.add(&record, &self.repeats) {
                refused.push((record, refusal));
            }
        }
        let rows = &mut self.rows;
        let log_time_ms = block.append_last_ms();
        self.repeats
            .admit(&rows.identities, log_time_ms, &mut rows.is_new)?;
        let stored = self.write_files(block.name()).map_err(fold_error)?;
        self.quarantine(&refused).map_err(fold_error)?;
        for file in &self.files {
            self.lake.stage(file, batch);
        }
        self.repeats.stage(block.name(), log_time_ms, batch)?;
        Ok(BlockCounts {
            stored,
            repeats: self.rows.identities.len() as u64 - stored,
            quarantined: refused.len() as u64,
            ..BlockCounts::default()
        })
    }

    fn committed(&mut self, _name: &BlockName) {
        self.lake.committed(std::mem::take(&mut self.files));
        self.repeats.committed();
    }
}

impl Rows {
    fn clear(&mut self) {
        self.security_events.clear();
        self.messages.clear();
        self.identities.clear();
        self.tables.clear();
        self.is_new.clear();
    }

    fn builder(&self, table: Table) -> &dyn TableBuilder {
        match table {
            Table::SecurityEvents => &self.security_events,
            Table::Messages => &self.messages,
        }
    }

    /// Appends the record's row to its table.
    fn add(&mut self, record: &Record<'_>, repeats: &Repeats) -> Result<(), Refusal> {
        let refuse = |reason, detail| Refusal { reason, detail };
        let event = EventView::parse(record.bytes)
            .map_err(|error| refuse(QuarantineReason::Undecodable, error.to_string()))?;
        event.check_contract().map_err(|violation| {
            refuse(QuarantineReason::ContractViolation, violation.to_string())
        })?;
        let (partition, offset) = (record.partition, record.offset);
        let unstorable = |error: crate::tables::Unstorable| {
            refuse(QuarantineReason::Unstorable, error.to_string())
        };
        let (table, project, source) = match &event.body {
            Body::Authentication(body) => {
                let row = project_security_event(&event, body, partition, offset);
                let row = row.map_err(unstorable)?;
                self.security_events.append(&row);
                (Table::SecurityEvents, row.tenant_id, row.agent_id)
            }
            Body::Message(body) => {
                let row = project_message(&event, body, partition, offset).map_err(unstorable)?;
                self.messages.append(&row);
                (Table::Messages, row.project_id, row.client_id)
            }
            Body::Track(_) | Body::Profile(_) | Body::Bot(_) | Body::Replay(_) | Body::None => {
                let detail = "no table holds this class of event".to_owned();
                return Err(refuse(QuarantineReason::Unstorable, detail));
            }
        };
        let id = event.event_id.as_bytes();
        self.identities
            .push(repeats.hash(project.as_bytes(), source.as_bytes(), id));
        self.tables.push(table);
        Ok(())
    }

    /// Takes the rows of repeats out of a table's order.
    fn leave_out_repeats(&self, table: Table, order: &mut Vec<u32>) {
        if self.is_new.iter().all(|is_new| *is_new) {
            return;
        }
        let of_all = self.tables.iter().zip(&self.is_new);
        let of_table: Vec<bool> = of_all
            .filter(|(of, _)| **of == table)
            .map(|(_, is_new)| *is_new)
            .collect();
        order.retain(|&row| of_table[row as usize]);
    }
}

/// I/O may pass by itself (a full disk, a log that refuses for now); what the
/// formats' libraries refuse does not.
fn fold_error(error: StoreError) -> FoldError {
    let text = error.to_string();
    match error {
        StoreError::Io { .. } | StoreError::Log(_) | StoreError::Stopped => {
            FoldError::Transient(text)
        }
        StoreError::Parquet {
            source: parquet::errors::ParquetError::External(cause),
            ..
        } if cause.is::<std::io::Error>() => FoldError::Transient(text),
        StoreError::State(error) => error.into(),
        _ => FoldError::Fatal(text),
    }
}
