//! The start: committed state, then the tail of `deliveries`, before anything is sent (D1).

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use fulmar_event::{AttemptRecord, DeliveryStatus};
use fulmar_flow::StateBatch;
use fulmar_flow::repeats::{Repeats, RepeatsConfig, RepeatsReader};
use fulmar_log::Journal;
use fulmar_registry::History;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::checkpoint::{FORMAT, Head, PARKED, Pending};
use super::delivery::{DeliveryId, Parked};
use super::fan_out::FanOut;
use super::lane::Ring;
use super::outcomes::Outcomes;
use super::rate::Rate;
use super::receiver::Receivers;
use super::share::{Note, Share, client};
use super::window::Window;
use super::{Counts, REPEATS, SenderError, SenderParts, SenderStats, WEBHOOKS};
use crate::matching::Indexes;

/// Bytes of the topic read at once.
const READ_BYTES: usize = 1 << 20;

/// What the newest record of a delivery says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TailEnd {
    pub status: DeliveryStatus,
    pub attempts: u32,
    failures: u32,
    due_ms: i64,
    by_hand: bool,
    pub event_offset: u64,
    reopened: Option<Box<Reopened>>,
}

/// What the tail says of a delivery that was taken up again since the checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reopened {
    times: u64,
    /// Its ends before that.
    ends: Vec<DeliveryStatus>,
    webhook: String,
    subscription: String,
    created_ms: i64,
}

impl TailEnd {
    /// Brings a delivery that goes on to where it stood.
    pub fn put_on(&self, parked: &mut Parked) {
        parked.attempts = self.attempts;
        parked.failures = self.failures;
        parked.due_ms = self.due_ms;
        parked.by_hand = self.by_hand;
    }

    /// Counts its end, if it has one, and those before it was taken up again.
    fn count(&self, counts: &mut Counts) {
        let reopened = self.reopened.as_deref();
        counts.reopened += reopened.map_or(0, |reopened| reopened.times);
        let before = reopened.map_or(&[][..], |reopened| &reopened.ends);
        for status in before.iter().copied().chain([self.status]) {
            counts.end(status);
        }
    }

    /// The delivery that goes on, as it is put on disk.
    fn parked(&self, id: DeliveryId, reopened: &Reopened) -> Parked {
        let mut parked = Parked {
            id,
            due_ms: 0,
            offset: self.event_offset,
            created_ms: reopened.created_ms,
            attempts: 0,
            failures: 0,
            by_hand: true,
            subscription: reopened.subscription.as_str().into(),
        };
        self.put_on(&mut parked);
        parked
    }

    /// Takes over what a later record says.
    fn follow(&mut self, mut later: Self, read: &AttemptRecord<'_>, is_new: bool) {
        later.reopened = self.reopened.take();
        if read.reopens() && is_new {
            let reopened = later.reopened.get_or_insert_default();
            reopened.times += 1;
            reopened
                .ends
                .extend(Some(self.status).filter(|status| status.is_final()));
            reopened.webhook = read.webhook_id.to_owned();
            reopened.subscription = read.subscription_id.to_owned();
            reopened.created_ms = read.created_ms;
        }
        *self = later;
    }
}

/// Reads the outcomes from an offset on, the newest of each delivery.
pub(super) fn read_tail(
    deliveries: &Journal,
    (from, reopened_to): (u64, u64),
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
                by_hand: read.by_hand,
                event_offset: read.event_offset,
                reopened: None,
            };
            let is_new = record.offset >= reopened_to;
            match tail.entry(id) {
                Entry::Vacant(place) => {
                    // Of what came before, the checkpoint knows.
                    let before = TailEnd {
                        status: DeliveryStatus::Retrying,
                        ..end.clone()
                    };
                    place.insert(before).follow(end, &read, is_new);
                }
                Entry::Occupied(mut place) => {
                    let known = place.get_mut();
                    let goes_on = status.is_final() || end.attempts > known.attempts;
                    // An append that failed and was there all the same is there twice.
                    if known.status.is_final() == read.reopens() && (goes_on || read.reopens()) {
                        known.follow(end, &read, is_new);
                    }
                }
            }
        }
    }
    Ok(tail)
}

/// Deliveries that are not decided.
#[derive(Default)]
struct Undecided {
    /// By webhook: how many, and when the first is due.
    lanes: BTreeMap<String, (u64, i64)>,
    /// Those that were taken up again.
    by_hand: HashSet<DeliveryId>,
}

impl Undecided {
    fn add(&mut self, webhook: &str, parked: &Parked) {
        let lane = self
            .lanes
            .entry(webhook.to_owned())
            .or_insert((0, i64::MAX));
        *lane = (lane.0 + 1, lane.1.min(parked.due_ms));
        if parked.by_hand {
            self.by_hand.insert(parked.id);
        }
    }
}

/// Applies the tail to what is parked: a record that a checkpoint has applied finds nothing to do.
fn apply_tail(
    parts: &SenderParts,
    head: &mut Head,
    tail: &mut HashMap<DeliveryId, TailEnd>,
) -> Result<Undecided, SenderError> {
    let (mut undecided, mut is_changed) = (Undecided::default(), false);
    let mut batch = StateBatch::new();
    for entry in parts.state.iter(PARKED)? {
        let (key, value) = entry?;
        let damaged = || SenderError::Entry("an entry of `deliveries` is unreadable".to_owned());
        let (webhook, mut parked) = Parked::read(&key, &value).ok_or_else(damaged)?;
        if let Some(end) = tail.remove(&parked.id) {
            end.count(&mut head.counts);
            if end.status.is_final() {
                batch.delete(PARKED, key.clone());
                continue;
            }
            if end.attempts > parked.attempts || end.reopened.is_some() {
                batch.delete(PARKED, key.clone());
                end.put_on(&mut parked);
                batch.put(PARKED, parked.key(webhook), parked.value());
            }
        }
        undecided.add(webhook, &parked);
    }
    // Of events that are read again; what else ended was applied by the checkpoint, but for what
    // was taken up again since.
    let position = head.position;
    for (id, end) in tail.extract_if(|_, end| end.event_offset < position) {
        if let Some(reopened) = &end.reopened {
            end.count(&mut head.counts);
            is_changed = true;
            if !end.status.is_final() {
                let parked = end.parked(id, reopened);
                undecided.add(&reopened.webhook, &parked);
                batch.put(PARKED, parked.key(&reopened.webhook), parked.value());
            }
        }
    }
    if is_changed || !batch.is_empty() {
        head.format = FORMAT;
        head.reopened_to = parts.deliveries.end();
        // The tail stays to be read: what is left of it is of events that are read again.
        head.stage(&mut batch);
        parts.state.commit(batch)?;
    }
    Ok(undecided)
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
        counted_from: parts.events.end(),
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
    let mut tail = read_tail(&parts.deliveries, (head.outcomes_from, head.reopened_to))?;
    let recovered_to = parts.deliveries.end();
    let undecided = apply_tail(&parts, &mut head, &mut tail)?;
    let on_disk = undecided.lanes.values().map(|(count, _)| count).sum();
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
        again: VecDeque::new(),
        sooner: Vec::new(),
        trials: Rc::default(),
        open_again: undecided.by_hand,
        recovered_to,
        stats,
        parts,
    };
    for (webhook, (count, due_ms)) in undecided.lanes {
        let lane = share.lane_of(&webhook, ("", ""));
        share.lanes[lane].next_due_ms = due_ms;
        share.lanes[lane].backlog.begun(count);
        share.look_at(lane);
    }
    share.show(head);
    Ok(share)
}
