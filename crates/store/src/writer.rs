//! The fold from the topic `events` to the tables.
//!
//! Of a block, each record becomes a row, or is quarantined; rows whose identity
//! the index knows are repeats; the others are written as one file per table,
//! named after the block. Files first, then the quarantine, then the batch that
//! lists the files, takes the ids into the index and moves the position (F4).

use std::sync::Arc;
use std::time::Duration;

use fulmar_flow::repeats::Repeats;
use fulmar_flow::{Block, BlockCounts, BlockName, Fold, FoldError, State, StateBatch};
use fulmar_log::{Journal, Record, Topic};
use fulmar_sessions::{SessionFold, SessionRules};

use crate::error::StoreError;
use crate::lake::{Lake, LakeFile};
use crate::refusal::{Refusal, append_refused, fold_error};
use crate::tables::Table;
use rows::Rows;

mod rows;
mod session_sink;

/// The fold's name in committed state and in the ledger.
pub const WRITER: &str = "writer";

/// Keyspace of the sessions of devices, by device.
const SESSIONS: &str = "sessions";

/// Version of what it writes (F5).
const VERSION: u32 = 1;

/// How long a try waits for compaction to make room before it says so (F6).
pub(crate) const ROOM_WAIT: Duration = Duration::from_secs(5);

/// Where the writer appends to.
#[derive(Clone)]
pub struct WriterJournals {
    /// What can't be stored.
    pub quarantine: Arc<Journal>,
    /// What the profile fold is told of sessions (F1).
    pub profiles: Arc<Journal>,
    /// Partitions of that topic.
    pub partitions: u16,
}

/// The writer's fold.
pub struct Writer {
    lake: Lake,
    repeats: Repeats,
    sessions: SessionFold,
    state: Arc<State>,
    journals: WriterJournals,
    rows: Rows,
    /// Files of the block in hand, until its batch is committed.
    files: Vec<LakeFile>,
}

impl Writer {
    /// A writer into `lake`, which drops what `repeats` knows. Takes up the sessions in `state`.
    ///
    /// # Errors
    /// When those can't be read.
    pub fn open(
        lake: Lake,
        repeats: Repeats,
        journals: WriterJournals,
        state: Arc<State>,
        rules: SessionRules,
    ) -> Result<Writer, StoreError> {
        let mut sessions = SessionFold::new(rules);
        for entry in state.iter(SESSIONS)? {
            let (_, value) = entry?;
            sessions.load(&value)?;
        }
        sessions.committed();
        Ok(Writer {
            lake,
            repeats,
            sessions,
            state,
            rows: Rows::new(journals.partitions),
            journals,
            files: Vec::new(),
        })
    }

    /// Goes through the block in the order of the log, with the log's time: product events that
    /// are new go to the session fold, and become rows. Gives those that can't be rows. `tracks`
    /// are the records' and the identities' places of product events.
    fn fold_sessions<'b>(
        &mut self,
        block: &'b Block,
        tracks: Vec<(usize, usize)>,
    ) -> Result<Vec<(Record<'b>, Refusal)>, StoreError> {
        let state = &self.state;
        self.sessions
            .begin(|key| Ok::<_, StoreError>(state.get(SESSIONS, key)?))?;
        let mut refused = Vec::new();
        let mut tracks = tracks.into_iter().peekable();
        for (number, record) in block.records().enumerate() {
            self.rows.pass_time(&record, &mut self.sessions);
            let track = tracks.next_if(|(track, _)| *track == number);
            let new = track.filter(|(_, place)| self.rows.is_new[*place]);
            let Some((_, place)) = new else { continue };
            if let Err(refusal) = self.rows.add_track(&record, &mut self.sessions) {
                self.repeats.withdraw(self.rows.identities[place]);
                self.rows.is_new[place] = false;
                refused.push((record, refusal));
            }
        }
        self.rows.add_sessions(&mut self.sessions);
        let onward = std::mem::take(&mut self.rows.onward);
        if !onward.is_empty() {
            self.journals.profiles.append_blocking(onward)?;
        }
        Ok(refused)
    }

    /// Writes the tables' files.
    fn write_files(&mut self, name: &BlockName) -> Result<(), StoreError> {
        self.files.clear();
        let block = name.to_string();
        for builder in self.rows.builders() {
            if builder.is_empty() {
                continue;
            }
            let mut order = builder.sorted_order();
            self.rows.leave_out_repeats(builder.table(), &mut order);
            if !order.is_empty() {
                self.files
                    .push(self.lake.write_block(&block, builder, &order)?);
            }
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
        // Product events become rows once it is known which are new: repeats extend no session.
        let mut ticks = 0;
        let mut tracks = Vec::new();
        for (number, record) in block.records().enumerate() {
            if record.is_tick() {
                ticks += 1;
                continue;
            }
            match self.rows.add(&record, &self.repeats) {
                Ok(Table::Events) => tracks.push((number, self.rows.identities.len() - 1)),
                Ok(_) => {}
                Err(refusal) => refused.push((record, refusal)),
            }
        }
        let rows = &mut self.rows;
        let log_time_ms = block.append_last_ms();
        self.repeats
            .admit(&rows.identities, log_time_ms, &mut rows.is_new)?;
        let repeats = rows.is_new.iter().filter(|is_new| !**is_new).count() as u64;
        refused.extend(self.fold_sessions(block, tracks).map_err(fold_error)?);
        let stored = self.rows.is_new.iter().filter(|is_new| **is_new).count() as u64;
        self.write_files(block.name()).map_err(fold_error)?;
        append_refused(&self.journals.quarantine, Topic::Events, &refused).map_err(fold_error)?;
        for file in &self.files {
            self.lake.stage(file, batch);
        }
        self.repeats.stage(block.name(), log_time_ms, batch)?;
        self.sessions.changes(|key, value| match value {
            Some(value) => batch.put(SESSIONS, key, value),
            None => batch.delete(SESSIONS, key),
        });
        Ok(BlockCounts {
            stored,
            repeats,
            quarantined: refused.len() as u64,
            ticks,
            ..BlockCounts::default()
        })
    }

    fn committed(&mut self, _name: &BlockName) {
        self.lake.committed(std::mem::take(&mut self.files));
        self.repeats.committed();
        self.sessions.committed();
    }

    fn next_due_ms(&self) -> Option<i64> {
        self.sessions.next_due_ms()
    }
}
