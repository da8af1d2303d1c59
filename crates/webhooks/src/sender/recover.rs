//! The start: committed state, then the tail of `deliveries`, before anything is sent (D1).

use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use fulmar_event::{AttemptRecord, DeliveryStatus};
use fulmar_flow::StateBatch;
use fulmar_flow::repeats::{Repeats, RepeatsConfig, RepeatsReader};
use fulmar_log::Journal;
use fulmar_registry::History;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::checkpoint::{Head, PARKED, Pending};
use super::delivery::{DeliveryId, Parked};
use super::fan_out::FanOut;
use super::lane::Ring;
use super::outcomes::Outcomes;
use super::rate::Rate;
use super::receiver::Receivers;
use super::share::{Note, Share, client};
use super::window::Window;
use super::{REPEATS, SenderError, SenderParts, SenderStats, WEBHOOKS};
use crate::matching::Indexes;

/// Bytes of the topic read at once.
const READ_BYTES: usize = 1 << 20;

/// What the newest record of a delivery says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TailEnd {
    pub status: DeliveryStatus,
    pub attempts: u32,
    failures: u32,
    due_ms: i64,
    pub event_offset: u64,
}

impl TailEnd {
    /// Brings a delivery that goes on to where it stood.
    pub fn put_on(&self, parked: &mut Parked) {
        parked.attempts = self.attempts;
        parked.failures = self.failures;
        parked.due_ms = self.due_ms;
    }
}

/// Reads the outcomes from an offset on, the newest of each delivery.
pub(super) fn read_tail(
    deliveries: &Journal,
    from: u64,
) -> Result<HashMap<DeliveryId, TailEnd>, SenderError> {
    let mut tail: HashMap<DeliveryId, TailEnd> = HashMap::new();
    let mut reader = deliveries.reader(from);
    while let Some(chunk) = reader.next(READ_BYTES)? {
        for record in &chunk {
            let Ok(read) = AttemptRecord::parse(record.bytes) else {
                continue;
            };
            let Some(id) = DeliveryId::parse(read.delivery_id) else {
                continue;
            };
            let Some(status) = DeliveryStatus::from_number(read.status) else {
                continue;
            };
            let end = TailEnd {
                status,
                attempts: read.attempt,
                failures: read.failures,
                due_ms: read.due_ms,
                event_offset: read.event_offset,
            };
            let known = tail.entry(id).or_insert(end);
            if !known.status.is_final() && (status.is_final() || end.attempts > known.attempts) {
                *known = end;
            }
        }
    }
    Ok(tail)
}

/// Undecided deliveries by webhook: how many, and when the first is due.
type Lanes = BTreeMap<String, (u64, i64)>;

/// Applies the tail to what is parked: a record that a checkpoint has applied finds nothing to do.
fn apply_tail(
    parts: &SenderParts,
    head: &mut Head,
    tail: &mut HashMap<DeliveryId, TailEnd>,
) -> Result<Lanes, SenderError> {
    let mut lanes = Lanes::new();
    let mut batch = StateBatch::new();
    for entry in parts.state.iter(PARKED)? {
        let (key, value) = entry?;
        let damaged = || SenderError::Entry("an entry of `deliveries` is unreadable".to_owned());
        let (webhook, mut parked) = Parked::read(&key, &value).ok_or_else(damaged)?;
        if let Some(end) = tail.remove(&parked.id) {
            if end.status.is_final() {
                batch.delete(PARKED, key.clone());
                head.counts.end(end.status);
                continue;
            }
            if end.attempts > parked.attempts {
                batch.delete(PARKED, key.clone());
                end.put_on(&mut parked);
                batch.put(PARKED, parked.key(webhook), parked.value());
            }
        }
        let lane = lanes.entry(webhook.to_owned()).or_insert((0, i64::MAX));
        *lane = (lane.0 + 1, lane.1.min(parked.due_ms));
    }
    // Of events that are read again; what else ended was applied by the checkpoint.
    tail.retain(|_, end| end.event_offset >= head.position);
    if !batch.is_empty() {
        // The tail stays to be read: what is left of it is of events that are read again.
        head.stage(&mut batch);
        parts.state.commit(batch)?;
    }
    Ok(lanes)
}

/// Where to begin without a checkpoint: nowhere before there is a webhook, and at the first event
/// after that, since events say which registry they were stamped with.
fn first_head(parts: &SenderParts) -> (Head, bool) {
    let end = parts.events.end();
    let is_idle = parts.registry.current().webhooks.is_empty();
    let position = if is_idle { end } else { parts.events.start() };
    let head = Head {
        position,
        outcomes_from: parts.deliveries.start(),
        ..Head::default()
    };
    (head, is_idle)
}

fn fan_out(
    parts: &SenderParts,
    position: u64,
    known: RepeatsReader,
    (tail, is_idle): (HashMap<DeliveryId, TailEnd>, bool),
) -> FanOut {
    FanOut {
        reader: parts.events.reader(position),
        indexes: Indexes::new(History::new(Arc::clone(&parts.control) as _)),
        index: None,
        position,
        log_ms: 0,
        known,
        fresh: HashSet::new(),
        committing: HashSet::new(),
        tail,
        is_idle,
        next_read: Some(Instant::now()),
        found: Vec::new(),
    }
}

/// Opens a share.
pub(super) fn recover(
    parts: SenderParts,
    notes: mpsc::UnboundedSender<Note>,
    stats: Arc<Mutex<SenderStats>>,
) -> Result<Share, SenderError> {
    let limits = RepeatsConfig {
        keyspace: REPEATS,
        ..parts.repeats
    };
    let repeats = Repeats::open(&parts.repeats_dir, &parts.state, limits)?;
    let known = repeats.reader();
    let (mut head, is_idle) = match Head::load(&parts.state)? {
        Some(head) => (head, false),
        None => first_head(&parts),
    };
    if !is_idle {
        parts.events.release(WEBHOOKS, head.position);
        parts.deliveries.release(WEBHOOKS, head.outcomes_from);
    }
    let mut tail = read_tail(&parts.deliveries, head.outcomes_from)?;
    let lanes = apply_tail(&parts, &mut head, &mut tail)?;
    let on_disk = lanes.values().map(|(count, _)| count).sum();
    let state = parts.registry.current();
    let receivers = Receivers::new(Arc::clone(&parts.keyring), parts.guard.clone(), state);
    let fan_out = fan_out(&parts, head.position, known, (tail, is_idle));
    let mut share = Share {
        client: client(&parts),
        lanes: Vec::new(),
        by_webhook: HashMap::new(),
        ring: Ring::default(),
        timers: BinaryHeap::new(),
        memory: HashMap::new(),
        held_bytes: Arc::default(),
        receivers,
        in_flight: 0,
        window: Window::new(),
        rate: Rate::default(),
        outcomes: Outcomes::default(),
        fan_out,
        pending: Pending::new(repeats, head, on_disk),
        counts: head.counts,
        attempts: BTreeMap::new(),
        loading: 0,
        want_load: Vec::new(),
        notes,
        stopping: false,
        trouble: None,
        began: Instant::now(),
        last_checkpoint: Instant::now(),
        asked: Vec::new(),
        stats,
        parts,
    };
    for (webhook, (_, due_ms)) in lanes {
        let lane = share.lane_of(&webhook, ("", ""));
        share.lanes[lane].next_due_ms = due_ms;
        share.look_at(lane);
    }
    share.show(head);
    Ok(share)
}
