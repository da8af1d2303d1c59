//! What keeps a fold from storing: records that can't be rows, on their way into the quarantine,
//! tables without room, and errors that may pass.

use std::time::Duration;

use fulmar_event::{EventView, QuarantineReason, Quarantined, Timestamp};
use fulmar_flow::{FoldError, Phase, Phases};
use fulmar_log::{Journal, Record, Records, Topic};

use crate::error::StoreError;
use crate::lake::Lake;
use crate::tables::Unstorable;

/// How long a try waits for compaction to make room before it says so (F6).
const ROOM_WAIT: Duration = Duration::from_secs(5);

/// Bytes of quarantined records per append: far below the log's own bound.
const APPEND_BYTES: usize = 4 * 1024 * 1024;

/// Why a record can't be a row.
pub(crate) struct Refusal {
    reason: QuarantineReason,
    detail: String,
}

impl From<Unstorable> for Refusal {
    fn from(error: Unstorable) -> Refusal {
        Refusal {
            reason: QuarantineReason::Unstorable,
            detail: error.to_string(),
        }
    }
}

impl Refusal {
    /// It is not a message of its topic.
    pub(crate) fn undecodable(error: fulmar_event::Malformed) -> Refusal {
        Refusal {
            reason: QuarantineReason::Undecodable,
            detail: error.to_string(),
        }
    }

    /// Its class has no table here.
    pub(crate) fn no_table() -> Refusal {
        Refusal {
            reason: QuarantineReason::Unstorable,
            detail: "no table holds this class of event".to_owned(),
        }
    }
}

/// The record as an event that keeps the contract.
pub(crate) fn read_record<'a>(record: &Record<'a>) -> Result<EventView<'a>, Refusal> {
    let event = EventView::parse(record.bytes).map_err(Refusal::undecodable)?;
    event.check_contract().map_err(|violation| Refusal {
        reason: QuarantineReason::ContractViolation,
        detail: violation.to_string(),
    })?;
    Ok(event)
}

/// Appends what is refused, synced. A block that is tried again appends it
/// again; readers keep the first copy.
pub(crate) fn append_refused(
    quarantine: &Journal,
    topic: Topic,
    refused: &[(Record<'_>, Refusal)],
) -> Result<(), StoreError> {
    let mut records = Records::new();
    for (record, refusal) in refused {
        let mark = records.begin(0);
        let quarantined = Quarantined {
            topic: topic.name(),
            partition: record.partition,
            offset: record.offset,
            reason: refusal.reason.as_str(),
            detail: &refusal.detail,
            original: record.bytes,
            time: Some(Timestamp::from_millis(record.append_time_ms)),
        };
        quarantined.encode(records.buffer());
        records.end(mark);
        if records.bytes().len() >= APPEND_BYTES {
            quarantine.append_blocking(std::mem::take(&mut records))?;
        }
    }
    if !records.is_empty() {
        quarantine.append_blocking(records)?;
    }
    Ok(())
}

/// Waits until the tables have room for a block (F6); the fold tries again where that takes long.
pub(crate) fn await_room(lake: &Lake, phases: &Phases) -> Result<(), FoldError> {
    if phases.time(Phase::Room, || lake.wait_for_room(ROOM_WAIT)) {
        return Ok(());
    }
    let files = lake.uncompacted_files();
    let text = format!("waiting for compaction: {files} uncompacted files");
    Err(FoldError::Transient(text))
}

/// I/O may pass by itself (a full disk, a log that refuses for now); what the
/// formats' libraries refuse does not.
pub(crate) fn fold_error(error: StoreError) -> FoldError {
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
