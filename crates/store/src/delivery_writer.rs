//! The fold from the topic `deliveries` to the tables `deliveries` and `delivery_attempts`.
//!
//! A record is a version of its delivery and, if something was sent, an attempt: nothing is kept
//! between blocks, and a block that is done again writes the same files again (F4).

use std::sync::Arc;

use fulmar_event::{AttemptRecord, DeliveryStatus};
use fulmar_flow::{Block, BlockCounts, BlockName, Fold, FoldError, Phase, Phases, StateBatch};
use fulmar_log::{Journal, Record, Topic};

use crate::lake::{Forgotten, Lake, LakeFile};
use crate::refusal::{Refusal, append_refused, await_room, fold_error};
use crate::tables::projection::check_ms;
use crate::tables::{
    AttemptsBuilder, Beside, DeliveriesBuilder, TableBuilder, Unstorable, attempt_row, delivery_row,
};

/// The fold's name in committed state.
pub const DELIVERIES: &str = "deliveries";

/// Version of what it writes (F5).
const VERSION: u32 = 1;

/// The fold of deliveries.
pub struct DeliveryWriter {
    lake: Lake,
    /// What can't be stored; none for a replay, which emits none (F1).
    quarantine: Option<Arc<Journal>>,
    deliveries: DeliveriesBuilder,
    attempts: AttemptsBuilder,
    files: Vec<LakeFile>,
    forgotten: Vec<Forgotten>,
    phases: Arc<Phases>,
}

impl DeliveryWriter {
    /// A writer into `lake`.
    pub fn new(lake: Lake, quarantine: Option<Arc<Journal>>) -> DeliveryWriter {
        DeliveryWriter {
            lake,
            quarantine,
            deliveries: DeliveriesBuilder::default(),
            attempts: AttemptsBuilder::default(),
            files: Vec::new(),
            forgotten: Vec::new(),
            phases: Arc::default(),
        }
    }

    /// Makes the rows of one record.
    fn take(&mut self, record: &Record<'_>, id: &mut String) -> Result<Taken, Refusal> {
        let read = AttemptRecord::parse(record.bytes).map_err(Refusal::undecodable)?;
        if let Some(project) = read.forgets() {
            let asked = (record.offset, record.append_time_ms);
            let forgotten = Forgotten::asked(Topic::Deliveries, (project, None), asked);
            self.forgotten.push(forgotten);
            return Ok(Taken::Passed);
        }
        let status = checked(&read)?;
        let answer = String::from_utf8_lossy(read.response_body);
        let beside = Beside {
            at: (record.partition, record.offset),
            answer: &answer,
        };
        self.deliveries.append(&delivery_row(&read, status, beside));
        if read.attempted {
            let row = attempt_row(&read, status, id, beside);
            self.attempts.append(&row);
        }
        Ok(Taken::Stored)
    }

    fn write_rows(&mut self, name: &BlockName) -> Result<(), FoldError> {
        let builders: [&dyn TableBuilder; 2] = [&self.deliveries, &self.attempts];
        for builder in builders.into_iter().filter(|builder| !builder.is_empty()) {
            let order = builder.sorted_order();
            let written = self.lake.write_block(&name.to_string(), builder, &order);
            self.files.push(written.map_err(fold_error)?);
        }
        Ok(())
    }
}

/// What a record became.
enum Taken {
    Stored,
    /// It has no row, and stands in no ledger.
    Passed,
}

/// The status of a record that can be a row.
fn checked(record: &AttemptRecord<'_>) -> Result<DeliveryStatus, Unstorable> {
    if record.delivery_id.is_empty() {
        return Err(Unstorable::Missing("delivery_id"));
    }
    if record.project.is_empty() {
        return Err(Unstorable::Missing("project"));
    }
    check_ms(record.created_ms, "created_ms")?;
    check_ms(record.started_ms, "started_ms")?;
    check_ms(record.due_ms, "due_ms")?;
    DeliveryStatus::from_number(record.status).ok_or(Unstorable::Missing("status"))
}

impl Fold for DeliveryWriter {
    fn name(&self) -> &'static str {
        DELIVERIES
    }

    fn version(&self) -> u32 {
        VERSION
    }

    fn fold(&mut self, block: &Block, batch: &mut StateBatch) -> Result<BlockCounts, FoldError> {
        let phases = Arc::clone(&self.phases);
        await_room(&self.lake, &phases)?;
        self.deliveries.clear();
        self.attempts.clear();
        self.files.clear();
        self.forgotten.clear();
        let (mut counts, mut refused, mut id) = (BlockCounts::default(), Vec::new(), String::new());
        phases.time(Phase::Fold, || {
            for record in block.records() {
                if record.is_tick() {
                    counts.ticks += 1;
                    continue;
                }
                match self.take(&record, &mut id) {
                    Ok(Taken::Stored) => counts.stored += 1,
                    Ok(Taken::Passed) => counts.ticks += 1,
                    Err(refusal) => refused.push((record, refusal)),
                }
            }
        });
        counts.quarantined = refused.len() as u64;
        if let Some(quarantine) = &self.quarantine {
            append_refused(quarantine, Topic::Deliveries, &refused).map_err(fold_error)?;
        }
        phases.time(Phase::Insert, || self.write_rows(block.name()))?;
        for file in &self.files {
            self.lake.stage(file, batch);
        }
        for forgotten in &self.forgotten {
            forgotten.stage(batch);
        }
        Ok(counts)
    }

    fn phases(&self) -> Arc<Phases> {
        Arc::clone(&self.phases)
    }

    fn committed(&mut self, _name: &BlockName) {
        let forgotten = std::mem::take(&mut self.forgotten);
        self.lake
            .committed(std::mem::take(&mut self.files), forgotten);
    }
}
