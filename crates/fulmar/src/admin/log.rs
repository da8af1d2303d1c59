//! The operator's decision about damage (L1).

use std::ops::Range;
use std::sync::Arc;

use fulmar_flow::FoldHandle;
use fulmar_log::{Damage, Journal, Topic};
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
    let journal = desk.journal(known);
    let damages = damages_within(journal, from, to)?;
    let mut given_up = Vec::new();
    for damage in &damages {
        let (from, to) = (damage.first_offset, damage.end_offset - 1);
        let topic = known.name().to_owned();
        let state = desk.registry.current();
        let is_new = !state.gave_up(&topic, from, damage.end_offset);
        if is_new {
            // Into `control` first: what a fold passes must be in the log, or a replay would
            // differ.
            let change = Change::LossAccepted { topic, from, to };
            desk.registry.change(change, now_ms)?;
        }
        given_up.push(json!({
            "from": from,
            "to": to,
            "records": damage.end_offset - from,
            "place": damage.to_string(),
            "new": is_new,
        }));
    }
    apply_losses(&desk.registry, &desk.journals);
    desk.folds.iter().for_each(FoldHandle::try_again);
    let revision = desk.registry.current().revision;
    Ok(json!({ "topic": known.name(), "given_up": given_up, "revision": revision }))
}

/// The damage in a range. Only what is damaged is given up, each place as a whole: leave for more
/// would let damage that comes later pass unseen.
fn damages_within(journal: &Journal, from: u64, to: u64) -> Result<Vec<Damage>, AdminError> {
    let (topic, start, end) = (journal.topic(), journal.start(), journal.end());
    let refused = |why: String| Err(AdminError::Refused(why));
    if from > to {
        return refused(format!("the range {from}-{to} runs backwards"));
    }
    if to >= end {
        return refused(format!(
            "the range {from}-{to} goes beyond {topic}, which holds {start} to {end} (exclusive)"
        ));
    }
    let range = from..to + 1;
    let damages = journal.damages_in(&range)?;
    if damages.is_empty() {
        return refused(format!(
            "nothing in {topic} from {from} to {to} is damaged; see `fulmar log verify {topic}`"
        ));
    }
    let cut = damages
        .iter()
        .find(|damage| damage.first_offset < range.start || range.end < damage.end_offset);
    if let Some(damage) = cut {
        return refused(format!(
            "the range {from}-{to} cuts a damaged place, which is given up as a whole: {damage}; \
             it is {}-{}",
            damage.first_offset,
            damage.end_offset - 1
        ));
    }
    Ok(damages)
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
