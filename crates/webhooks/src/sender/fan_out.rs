//! From events to deliveries: read, match by the revision that the event was stamped with (R2),
//! put into lanes, or park what finds no room (D2).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fulmar_event::EventView;
use fulmar_flow::repeats::{IdHash, RepeatsReader};
use fulmar_log::{LogError, Reader, Record};
use tokio::time::Instant;

use super::delivery::{Delivery, DeliveryId, Happening, Parked, Standing};
use super::lane::LaneState;
use super::recover::TailEnd;
use super::share::{Share, now_ms};
use crate::matching::{Index, Indexes, Match};
use crate::occurrence::Occurrence;

/// Bytes read at once.
const READ_BYTES: usize = 256 * 1024;
/// Deliveries in memory, and bytes of their events, beyond which events are read slowly: who is
/// ready has enough to do, and others' events still come in.
const MEMORY_CALM: usize = 16 * 1024;
const HELD_BYTES_CALM: usize = 32 * 1024 * 1024;
/// Between two reads then.
const READ_SLOWLY: Duration = Duration::from_millis(20);
/// Until the next look where all that is in memory will be sent within some seconds: what is not
/// read yet needs no parking.
const READ_SOON: Duration = Duration::from_millis(5);
const SOON_SECONDS: usize = 4;
/// Deliveries in memory at most (D2).
const MEMORY_MAX: usize = 64 * 1024;
/// Bytes of their events at most.
const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Deliveries of one webhook that wait in memory; while there is little room, of one that takes
/// none. More of one that takes them within some seconds.
const LANE_READY_MAX: usize = 4_096;
const LANE_READY_FEW: usize = 256;
/// After trouble with the log, until the next try.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The reading side.
pub(super) struct FanOut {
    pub reader: Reader,
    pub indexes: Indexes,
    /// Revision and index of the event before.
    pub index: Option<(u64, Arc<Index>)>,
    /// Everything before it is matched.
    pub position: u64,
    /// Append time of the last record read.
    pub log_ms: i64,
    pub known: RepeatsReader,
    /// Matched since the last checkpoint began, and by the one that is under way.
    pub fresh: HashSet<u128>,
    pub committing: HashSet<u128>,
    /// What the tail of `deliveries` says of events that are read again.
    pub tail: HashMap<DeliveryId, TailEnd>,
    /// There has never been a webhook: events are passed unread.
    pub is_idle: bool,
    pub next_read: Option<Instant>,
    pub found: Vec<Match>,
    /// Events from there on were counted as they were published.
    pub counted_from: u64,
}

impl Share {
    /// Whether an event is to be read as soon as it is there.
    pub fn reads_at_once(&self) -> bool {
        !self.stopping && !self.fan_out.is_idle && self.fan_out.next_read.is_none()
    }

    /// Reads what there is, within bounds.
    pub fn read_on(&mut self) {
        let now = Instant::now();
        if self.fan_out.is_idle {
            self.pass_unread();
            return;
        }
        if self.fan_out.next_read.is_some_and(|at| now < at) || self.pending.is_over_full() {
            return;
        }
        let soon = self.rate.per_second(now_ms()).saturating_mul(SOON_SECONDS);
        if !self.is_calm() && soon >= self.memory.len() {
            self.fan_out.next_read = Some(now + READ_SOON);
            return;
        }
        match self.read_chunk() {
            Ok(true) if !self.is_calm() => {
                self.fan_out.next_read = Some(now + READ_SLOWLY);
            }
            Ok(true) => self.fan_out.next_read = Some(now),
            Ok(false) => {
                self.fan_out.next_read = None;
                self.parts.backlogs.all_read();
            }
            Err(trouble) => {
                if self.trouble.as_ref() != Some(&trouble) {
                    tracing::error!(trouble, "webhooks stand still");
                }
                self.trouble = Some(trouble);
                self.fan_out.next_read = Some(now + TRY_AGAIN);
            }
        }
    }

    /// The end first, then the look at the registry: an event that a webhook of later matches is
    /// stamped, and so appended, after that look.
    fn pass_unread(&mut self) {
        let end = self.parts.events.end();
        match self.parts.registry.current().webhooks.is_empty() {
            true => {
                self.fan_out.position = end;
                self.parts.backlogs.all_read();
            }
            false => {
                self.fan_out.is_idle = false;
                self.fan_out.reader.seek(self.fan_out.position);
                self.fan_out.next_read = Some(Instant::now());
            }
        }
    }

    fn read_chunk(&mut self) -> Result<bool, String> {
        let chunk = match self.fan_out.reader.next(READ_BYTES) {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return Ok(false),
            Err(LogError::OutOfRange { start, .. }) => {
                let position = self.fan_out.position;
                let told = format!("events {position} to {start} are not in the log any more");
                return Err(told);
            }
            Err(error) => return Err(error.to_string()),
        };
        for record in &chunk {
            if let Err(error) = self.fan_out(&record) {
                // The next read begins with this record again.
                self.fan_out.reader.seek(record.offset);
                return Err(error.to_string());
            }
            self.fan_out.position = record.offset + 1;
        }
        self.fan_out.position = chunk.end_offset();
        self.fan_out.log_ms = chunk.last_time_ms().unwrap_or(self.fan_out.log_ms);
        self.fan_out.reader.recycle(chunk);
        self.trouble = None;
        Ok(true)
    }

    /// Matches one record.
    fn fan_out(&mut self, record: &Record<'_>) -> Result<(), super::SenderError> {
        // What is no event goes to quarantine by the writer's hand.
        let Ok(view) = EventView::parse(record.bytes) else {
            return Ok(());
        };
        let Some(event) = Occurrence::of(&view) else {
            return Ok(());
        };
        if record.offset >= self.fan_out.counted_from && !event.consumer.is_empty() {
            self.parts.backlogs.of(event.project).read(1);
        }
        let revision = event.revision;
        let index = match &self.fan_out.index {
            Some((known, index)) if *known == revision => Arc::clone(index),
            _ => {
                let index = self.fan_out.indexes.at(revision)?;
                self.fan_out.index = Some((revision, Arc::clone(&index)));
                index
            }
        };
        if index.is_empty() {
            return Ok(());
        }
        let mut found = std::mem::take(&mut self.fan_out.found);
        index.matches(&event, &mut found);
        if !found.is_empty() {
            self.take_in(record, &event, &found)?;
        }
        self.fan_out.found = found;
        Ok(())
    }

    fn take_in(
        &mut self,
        record: &Record<'_>,
        event: &Occurrence<'_>,
        found: &[Match],
    ) -> Result<(), super::SenderError> {
        let identity = [event.project, event.source, event.id].map(str::as_bytes);
        let hash = self
            .fan_out
            .known
            .hash(identity[0], identity[1], identity[2]);
        if self.fan_out.knows(hash)? {
            self.counts.repeats += 1;
            return Ok(());
        }
        self.fan_out.fresh.insert(hash.as_u128());
        let (mut happening, now_ms) = (None, now_ms());
        for one in found {
            let id = DeliveryId::of(event, &one.webhook);
            let lane = self.lane_of(&one.webhook, (event.project, event.consumer));
            self.counts.matched += 1;
            let mut parked = Parked {
                id,
                due_ms: now_ms,
                offset: record.offset,
                created_ms: now_ms,
                attempts: 0,
                failures: 0,
                by_hand: false,
                subscription: one.subscription.as_deref().unwrap_or_default().into(),
            };
            match self.fan_out.tail.remove(&id) {
                Some(end) if end.status.is_final() => {
                    self.counts.end(end.status);
                    continue;
                }
                Some(end) => {
                    end.put_on(&mut parked);
                    if parked.by_hand {
                        self.open_again.insert(id);
                    }
                    self.pending.park(lane, parked);
                }
                None if self.has_room(lane, now_ms) => {
                    let event = happening.get_or_insert_with(|| {
                        let held = &self.held_bytes;
                        Arc::new(Happening::new(event, record.bytes, record.offset, held))
                    });
                    let event = Arc::clone(event);
                    self.make_ready(lane, &parked, event, None);
                }
                None => self.pending.park(lane, parked),
            }
            self.lanes[lane].backlog.begun(1);
        }
        Ok(())
    }

    /// Whether there is room for whatever comes.
    fn is_calm(&self) -> bool {
        let held = self.held_bytes.load(Ordering::Relaxed);
        self.memory.len() < MEMORY_CALM && held < HELD_BYTES_CALM
    }

    /// Whether a further delivery of a lane may wait in memory. One whose others are parked is
    /// parked behind them.
    fn has_room(&self, lane: usize, now_ms: i64) -> bool {
        let lane = &self.lanes[lane];
        let rate = lane.rate.per_second(now_ms);
        let few = match rate > 0 || self.is_calm() {
            true => LANE_READY_MAX,
            false => LANE_READY_FEW,
        };
        let soon = rate.saturating_mul(SOON_SECONDS);
        lane.state != LaneState::Held
            && lane.ready() < few.max(soon)
            && lane.next_due_ms > now_ms
            && self.memory.len() < MEMORY_MAX
            && self.held_bytes.load(Ordering::Relaxed) < HELD_BYTES_MAX
    }

    /// Puts a delivery into its lane.
    pub fn make_ready(
        &mut self,
        lane: usize,
        parked: &Parked,
        event: Arc<Happening>,
        stored_due_ms: Option<i64>,
    ) {
        let subscription =
            (!parked.subscription.is_empty()).then(|| (&*parked.subscription).into());
        let delivery = std::rc::Rc::new(Delivery {
            id: parked.id,
            lane,
            subscription,
            event,
            created_ms: parked.created_ms,
            attempts: parked.attempts.into(),
            failures: parked.failures.into(),
            by_hand: parked.by_hand,
            due_ms: parked.due_ms.into(),
            stored_due_ms: stored_due_ms.into(),
            standing: Standing::Ready.into(),
        });
        self.memory.insert(parked.id, std::rc::Rc::clone(&delivery));
        self.lanes[lane].in_memory += 1;
        self.lanes[lane].push(delivery);
        self.enqueue(lane);
    }
}

impl FanOut {
    /// Whether an event was matched before.
    fn knows(&self, hash: IdHash) -> Result<bool, super::SenderError> {
        let key = hash.as_u128();
        if self.fresh.contains(&key) || self.committing.contains(&key) {
            return Ok(true);
        }
        Ok(self.known.contains(hash)?)
    }
}
