//! Records that could not be stored.

use fulmar_log::Topic;
use fulmar_store::quarantine::{QuarantinedRecord, list, replay, show};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AdminError, Desk, time_text};

/// Most records that one list shows: about 300 bytes each.
const LIST_COUNT_MAX: usize = 10_000;

/// `POST /v1/admin/quarantine`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum QuarantineRequest {
    /// The latest records, oldest first.
    List {
        /// How many.
        count: usize,
    },
    /// One record with its original bytes.
    Show {
        /// Its offset in `quarantine`.
        id: u64,
    },
    /// Append the original bytes to the log again, as a new record.
    Replay {
        /// Its offset in `quarantine`.
        id: u64,
    },
}

/// Answers a request about the quarantine.
pub fn answer(desk: &Desk, request: QuarantineRequest) -> Result<Value, AdminError> {
    let quarantine = desk.journal(Topic::Quarantine);
    let find = |id: u64| -> Result<QuarantinedRecord, AdminError> {
        show(quarantine, id)?.ok_or_else(|| AdminError::NotFound(format!("no record {id}")))
    };
    match request {
        QuarantineRequest::List { count } => {
            let records = list(quarantine, count.min(LIST_COUNT_MAX))?;
            let rows: Vec<Value> = records.iter().map(head).collect();
            Ok(json!({ "quarantine": rows }))
        }
        QuarantineRequest::Show { id } => {
            let record = find(id)?;
            let mut row = head(&record);
            row["original_hex"] = json!(hex(&record.original));
            Ok(row)
        }
        QuarantineRequest::Replay { id } => {
            let record = find(id)?;
            // Only folds set aside, so that the topic is one of theirs.
            let topic = record.topic.parse().unwrap_or(Topic::Events);
            let appended = replay(&record, desk.journal(topic))?;
            Ok(json!({ "id": id, "topic": record.topic, "offset": appended.first_offset }))
        }
    }
}

fn head(record: &QuarantinedRecord) -> Value {
    json!({
        "id": record.id,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "reason": record.reason,
        "detail": record.detail,
        "time": record.time_ms.map(time_text),
        "bytes": record.original.len(),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
