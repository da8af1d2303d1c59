//! Deliveries that come back from disk when they are due.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use fulmar_event::EventView;
use fulmar_flow::{FlowError, State};
use fulmar_log::{Chunk, Journal, LogError};

use super::checkpoint::PARKED;
use super::delivery::{Happening, Parked, key_from};
use super::lane::LaneState;
use super::share::{Note, Share, now_ms};
use crate::occurrence::Occurrence;

/// Deliveries loaded at once.
const LOAD_MAX: usize = 2_048;
/// A lane with fewer in memory loads more.
const LOAD_BELOW: usize = 1_024;

/// Why deliveries can't be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Committed state.
    #[error(transparent)]
    State(#[from] FlowError),
    /// Their events.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// What was loaded.
pub(super) struct Loaded {
    deliveries: Vec<(Parked, Arc<Happening>)>,
    /// When the first one is due that was not loaded.
    next_due_ms: i64,
}

/// The first `limit` deliveries of a webhook that are due in a range of times, as committed.
fn due_of(
    state: &State,
    webhook: &str,
    due: std::ops::Range<i64>,
    limit: usize,
) -> Result<Vec<Parked>, FlowError> {
    let (from, to) = (key_from(webhook, due.start), key_from(webhook, due.end));
    let entries = state.scan(PARKED, &from..&to, limit)?;
    let read = entries
        .iter()
        .filter_map(|(key, value)| Parked::read(key, value));
    Ok(read.map(|(_, parked)| parked).collect())
}

/// Loads what is due before `due_ms`, with its events.
fn load(
    (state, events): (&State, &Journal),
    webhook: &str,
    (due_ms, limit): (i64, usize),
    held: &Arc<AtomicUsize>,
) -> Result<Loaded, LoadError> {
    let mut parked = due_of(state, webhook, 0..due_ms, limit)?;
    let next_due_ms = match parked.len() < limit {
        true => {
            let next = due_of(state, webhook, due_ms..i64::MAX, 1)?;
            next.first().map_or(i64::MAX, |next| next.due_ms)
        }
        false => parked.last().map_or(i64::MAX, |last| last.due_ms),
    };
    parked.sort_by_key(|one| one.offset);
    let mut chunk: Option<Chunk> = None;
    let mut event: Option<Arc<Happening>> = None;
    let mut deliveries = Vec::with_capacity(parked.len());
    for one in parked {
        let known = event.as_ref().filter(|event| event.offset == one.offset);
        let found = match known {
            Some(known) => Arc::clone(known),
            None => Arc::new(event_at(events, one.offset, &mut chunk, held)?),
        };
        event = Some(Arc::clone(&found));
        deliveries.push((one, found));
    }
    // As they were: by due time.
    deliveries.sort_by_key(|(one, _)| (one.due_ms, one.id));
    Ok(Loaded {
        deliveries,
        next_due_ms,
    })
}

/// The event of an offset, as deliveries keep it.
pub(super) fn event_at(
    events: &Journal,
    offset: u64,
    chunk: &mut Option<Chunk>,
    held: &Arc<AtomicUsize>,
) -> Result<Happening, LogError> {
    let is_in = |chunk: &Chunk| (chunk.first_offset()..chunk.end_offset()).contains(&offset);
    if !chunk.as_ref().is_some_and(is_in) {
        *chunk = match events.read(offset, 1) {
            Ok(chunk) => chunk,
            Err(LogError::OutOfRange { .. }) => None,
            Err(error) => return Err(error),
        };
    }
    let record = chunk
        .iter()
        .flatten()
        .find(|record| record.offset == offset);
    let found = record.and_then(|record| {
        let view = EventView::parse(record.bytes).ok()?;
        let event = Occurrence::of(&view)?;
        Some(Happening::new(&event, record.bytes, offset, held))
    });
    Ok(found.unwrap_or_else(|| Happening::lost(offset)))
}

impl Share {
    /// Loads what is due of a lane, if it has room; at another time, if it is not due yet.
    pub fn load_if_due(&mut self, index: usize) {
        let now_ms = now_ms();
        let lane = &mut self.lanes[index];
        let due_ms = match lane.state {
            LaneState::Active => lane.next_due_ms,
            LaneState::Gone if lane.next_due_ms < i64::MAX => 0,
            LaneState::Gone | LaneState::Held => return,
        };
        if lane.is_loading || lane.ready() >= LOAD_BELOW {
            return;
        }
        if due_ms > now_ms {
            self.set_timer(due_ms, index);
            return;
        }
        // What a checkpoint is about to change must not be read on the way.
        if self.pending.is_committing() {
            self.want_load.push(index);
            return;
        }
        lane.is_loading = true;
        let until_ms = match lane.state {
            LaneState::Gone => i64::MAX,
            _ => now_ms + 1,
        };
        // Those in memory stand first on disk, until they are decided.
        let limit = lane.in_memory + self.pending.decided() + LOAD_MAX;
        let webhook = lane.webhook.to_string();
        let (state, events) = (
            Arc::clone(&self.parts.state),
            Arc::clone(&self.parts.events),
        );
        let (held, notes) = (Arc::clone(&self.held_bytes), self.notes.clone());
        self.loading += 1;
        let task = tokio::task::spawn_blocking(move || {
            load((&state, &events), &webhook, (until_ms, limit), &held)
        });
        tokio::task::spawn_local(async move {
            let nothing = Loaded {
                deliveries: Vec::new(),
                next_due_ms: 0,
            };
            let loaded = task.await.unwrap_or(Ok(nothing));
            let _ = notes.send(Note::Loaded(index, loaded));
        });
    }

    /// Puts what was loaded into its lane, less what is there already or decided by now.
    pub fn loaded(&mut self, index: usize, loaded: Result<Loaded, LoadError>) {
        self.loading -= 1;
        self.lanes[index].is_loading = false;
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                tracing::error!(%error, "parked deliveries cannot be read");
                self.set_timer(now_ms() + 1_000, index);
                return;
            }
        };
        self.lanes[index].next_due_ms = loaded.next_due_ms;
        for (parked, event) in loaded.deliveries {
            if !self.memory.contains_key(&parked.id) && !self.pending.has_decided(&parked.id) {
                self.make_ready(index, &parked, event, Some(parked.due_ms));
            }
        }
        self.set_timer(loaded.next_due_ms, index);
        if self.lanes[index].state == LaneState::Held {
            self.hold(index);
        }
    }
}
