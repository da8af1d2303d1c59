//! The operator's decision about damage (L1).

use std::ops::Range;
use std::sync::Arc;

use fulmar_log::{Journal, Topic};
use fulmar_registry::{Change, Registry};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AdminError, Desk};

/// `POST /v1/admin/log`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum LogRequest {
    /// Give a damaged range up: folds pass it and count it as dropped.
    AcceptLoss {
        /// The topic's name.
        topic: String,
        /// First offset.
        from: u64,
        /// Last offset, inclusive.
        to: u64,
    },
}

/// Answers a request about the log.
pub fn answer(desk: &Desk, request: LogRequest, now_ms: i64) -> Result<Value, AdminError> {
    let LogRequest::AcceptLoss { topic, from, to } = request;
    let known: Topic = topic
        .parse()
        .map_err(|error: fulmar_log::UnknownTopic| AdminError::NotFound(error.to_string()))?;
    // Into `control` first: what a fold passes must be in the log, or a replay would differ.
    let change = Change::LossAccepted {
        topic: known.name().to_owned(),
        from,
        to,
    };
    let revision = desk.registry.change(change, now_ms)?;
    apply_losses(&desk.registry, &desk.journals);
    if let Some(writer) = &desk.writer {
        writer.try_again();
    }
    Ok(json!({ "topic": known.name(), "from": from, "to": to, "revision": revision }))
}

/// Tells each journal which damaged ranges its readers pass.
pub fn apply_losses(registry: &Registry, journals: &[Arc<Journal>]) {
    let state = registry.current();
    for journal in journals {
        let ranges: Vec<Range<u64>> = state
            .losses
            .iter()
            .filter(|loss| loss.topic == journal.topic().name())
            .map(|loss| loss.from..loss.to.saturating_add(1))
            .collect();
        if !ranges.is_empty() {
            journal.accept_loss(ranges);
        }
    }
}
