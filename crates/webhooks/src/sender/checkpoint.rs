//! The checkpoint: both positions, the counts, and each delivery that is not decided, as one synced
//! batch. Until it is committed nothing that it carries leaves the memory.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use fulmar_flow::repeats::{IdHash, Repeats};
use fulmar_flow::{BlockName, FlowError, State, StateBatch};
use fulmar_log::{Ends, Topic};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::delivery::{Delivery, DeliveryId, Parked, Standing};
use super::lane::LaneState;
use super::share::{Note, Share};
use super::{Counts, SenderError, WEBHOOKS};

/// Keyspace of the checkpoint's head.
const KEYSPACE: &str = "webhooks";
/// Its key: one share owns all webhooks.
const HEAD: &[u8] = b"share/0";
/// Keyspace of deliveries that are not decided.
pub(super) const PARKED: &str = "deliveries";
/// Deliveries to be parked that bring the next checkpoint on, and those that stop the reading.
const PARK_SOON: usize = 32 * 1024;
const PARK_MAX: usize = 128 * 1024;
/// After a batch that failed, until the next try.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// What a checkpoint says beside the deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// Newest form that this build reads, and the one that it writes.
    pub format: u32,
    /// Events before it are matched.
    pub position: u64,
    /// Outcomes before it are applied.
    pub outcomes_from: u64,
    /// Deliveries that were taken up again by records before it are so in committed state.
    #[serde(default)]
    pub reopened_to: u64,
    pub counts: Counts,
}

/// The form of [`Head`]; 2 knows deliveries that were taken up again.
pub(super) const FORMAT: u32 = 2;

impl Head {
    /// The committed one; none when there has never been a webhook.
    pub fn load(state: &State) -> Result<Option<Self>, SenderError> {
        let Some(bytes) = state.get(KEYSPACE, HEAD)? else {
            return Ok(None);
        };
        let head: Self =
            serde_json::from_slice(&bytes).map_err(|e| SenderError::Entry(e.to_string()))?;
        match head.format <= FORMAT {
            true => Ok(Some(head)),
            false => {
                let told = format!(
                    "it is of format {}; this version reads up to {FORMAT}",
                    head.format
                );
                Err(SenderError::Entry(told))
            }
        }
    }

    /// Puts it into a batch.
    pub fn stage(&self, batch: &mut StateBatch) {
        let value = serde_json::to_vec(self).expect("numbers always encode");
        batch.put(KEYSPACE, HEAD, value);
    }
}

/// How far topics were synced when the last checkpoint was committed: a witness of their ends (L1).
///
/// # Errors
/// When committed state cannot be read.
pub fn committed_ends(state: &State, ends: &mut Ends) -> Result<(), SenderError> {
    if let Some(head) = Head::load(state)? {
        ends.raise(Topic::Events, head.position);
        ends.raise(Topic::Deliveries, head.outcomes_from);
    }
    Ok(())
}

/// What the next checkpoint carries, and the one under way.
#[derive(Default)]
pub(super) struct Pending {
    parked: Vec<(usize, Parked)>,
    /// A delivery waits in memory for its retry, which starts from disk.
    has_waiting: bool,
    deletes: Vec<Vec<u8>>,
    decided: HashSet<DeliveryId>,
    /// With the checkpoint under way, if there is one.
    repeats: Option<Repeats>,
    leaving: Vec<DeliveryId>,
    parking: Vec<(usize, i64)>,
    asked: Vec<tokio::sync::oneshot::Sender<()>>,
    head: Head,
    /// Undecided deliveries on disk, once the checkpoint under way is.
    on_disk: u64,
    /// The same, when the last one began.
    shown_on_disk: u64,
}

impl Pending {
    pub fn new(repeats: Repeats, head: Head, on_disk: u64) -> Self {
        Self {
            repeats: Some(repeats),
            head,
            on_disk,
            shown_on_disk: on_disk,
            ..Self::default()
        }
    }

    /// Puts a delivery on disk that has no room in memory.
    pub fn park(&mut self, lane: usize, parked: Parked) {
        self.parked.push((lane, parked));
    }

    /// A delivery waits for a later time.
    pub fn wait(&mut self, delivery: &Delivery, due_ms: i64) {
        delivery.due_ms.set(due_ms);
        delivery.standing.set(Standing::Waiting);
        self.has_waiting = true;
    }

    /// A delivery has ended.
    pub fn decide(&mut self, webhook: &str, delivery: &Delivery) {
        if let Some(due_ms) = delivery.stored_due_ms.get() {
            self.deletes.push(delivery.parked(due_ms).key(webhook));
            self.decided.insert(delivery.id);
            self.on_disk -= 1;
        }
    }

    /// Outcomes before it were applied by the last checkpoint.
    pub fn outcomes_from(&self) -> u64 {
        self.head.outcomes_from
    }

    pub fn has_decided(&self, id: &DeliveryId) -> bool {
        self.decided.contains(id)
    }

    pub fn decided(&self) -> usize {
        self.decided.len()
    }

    pub fn has_waiting(&self) -> bool {
        self.has_waiting
    }

    pub fn is_committing(&self) -> bool {
        self.repeats.is_none()
    }

    pub fn is_full(&self) -> bool {
        self.parked.len() >= PARK_SOON
    }

    pub fn is_over_full(&self) -> bool {
        self.parked.len() >= PARK_MAX
    }
}

impl Share {
    /// Begins a checkpoint of what is known now, if it differs from the last one.
    pub fn begin_checkpoint(&mut self) {
        self.last_checkpoint = Instant::now();
        if self.fan_out.is_idle {
            self.show(Head {
                position: self.fan_out.position,
                ..self.pending.head
            });
            answer(&mut self.asked);
            return;
        }
        let mut batch = StateBatch::new();
        for key in std::mem::take(&mut self.pending.deletes) {
            batch.delete(PARKED, key);
        }
        self.put_undecided(&mut batch);
        let head = Head {
            format: FORMAT,
            position: self.fan_out.position,
            outcomes_from: self.outcomes_from(),
            reopened_to: self.applied_to(),
            counts: self.counts,
        };
        if batch.is_empty() && head == self.pending.head {
            self.show(head);
            answer(&mut self.asked);
            return;
        }
        head.stage(&mut batch);
        self.pending.shown_on_disk = self.pending.on_disk;
        self.pending.decided.clear();
        self.pending.asked.append(&mut self.asked);
        self.commit(batch, head);
    }

    /// Outcomes before it are applied: not those of the append under way, nor those that events
    /// ask for that are still to be read again.
    fn outcomes_from(&mut self) -> u64 {
        let position = self.fan_out.position;
        self.fan_out
            .tail
            .retain(|_, end| end.event_offset >= position);
        if !self.fan_out.tail.is_empty() {
            return self.pending.head.outcomes_from;
        }
        self.applied_to()
    }

    /// Outcomes before it are applied in memory.
    fn applied_to(&self) -> u64 {
        let end = self.parts.deliveries.end();
        self.outcomes.floor.unwrap_or(end)
    }

    /// Deliveries that are on disk nowhere yet, or under another due time.
    fn put_undecided(&mut self, batch: &mut StateBatch) {
        self.pending.has_waiting = false;
        for delivery in self.memory.values() {
            if delivery.standing.get() == Standing::Asked {
                continue;
            }
            let webhook = &self.lanes[delivery.lane].webhook;
            let is_waiting = delivery.standing.get() == Standing::Waiting;
            let due_ms = match (delivery.stored_due_ms.get(), is_waiting) {
                (Some(_), false) => continue,
                (Some(stored), true) if stored == delivery.due_ms.get() => None,
                (Some(stored), true) => {
                    batch.delete(PARKED, delivery.parked(stored).key(webhook));
                    Some(delivery.due_ms.get())
                }
                (None, _) => {
                    self.pending.on_disk += 1;
                    Some(delivery.due_ms.get())
                }
            };
            if let Some(due_ms) = due_ms {
                let parked = delivery.parked(due_ms);
                batch.put(PARKED, parked.key(webhook), parked.value());
                delivery.stored_due_ms.set(Some(due_ms));
            }
            if is_waiting {
                self.pending.leaving.push(delivery.id);
            }
        }
        for (lane, parked) in std::mem::take(&mut self.pending.parked) {
            batch.put(
                PARKED,
                parked.key(&self.lanes[lane].webhook),
                parked.value(),
            );
            self.pending.parking.push((lane, parked.due_ms));
            self.pending.on_disk += 1;
        }
    }

    fn commit(&mut self, batch: StateBatch, head: Head) {
        let repeats = self.pending.repeats.take();
        let mut repeats = repeats.expect("it is here while nothing is committed");
        let fan_out = &mut self.fan_out;
        fan_out.committing = std::mem::take(&mut fan_out.fresh);
        let hashes: Vec<_> = fan_out
            .committing
            .iter()
            .copied()
            .map(IdHash::from_u128)
            .collect();
        let block = BlockName {
            stream: Topic::Events.name().to_owned(),
            first: self.pending.head.position,
            last: head.position.saturating_sub(1),
        };
        self.pending.head = head;
        let (state, log_ms) = (Arc::clone(&self.parts.state), fan_out.log_ms);
        let task = tokio::task::spawn_blocking(move || {
            while let Err(error) = write(&state, &batch, &mut repeats, &hashes, (&block, log_ms)) {
                tracing::error!(%error, "a checkpoint of webhooks cannot be written");
                std::thread::sleep(TRY_AGAIN);
            }
            repeats
        });
        let notes = self.notes.clone();
        tokio::task::spawn_local(async move {
            match task.await {
                Ok(repeats) => {
                    let _ = notes.send(Note::Committed(Box::new(repeats)));
                }
                // It has been printed; without it nothing is committed any more.
                Err(_) => std::process::abort(),
            }
        });
    }

    /// What a checkpoint carried may leave the memory.
    pub fn committed(&mut self, repeats: Repeats) {
        self.pending.repeats = Some(repeats);
        self.fan_out.committing.clear();
        for id in std::mem::take(&mut self.pending.leaving) {
            if let Some(delivery) = self.memory.remove(&id) {
                let lane = &mut self.lanes[delivery.lane];
                lane.in_memory -= 1;
                self.on_disk_from(delivery.lane, delivery.due_ms.get());
            }
        }
        for (lane, due_ms) in std::mem::take(&mut self.pending.parking) {
            self.on_disk_from(lane, due_ms);
        }
        for lane in std::mem::take(&mut self.want_load) {
            self.load_if_due(lane);
        }
        let head = self.pending.head;
        self.parts.events.release(WEBHOOKS, head.position);
        self.parts.deliveries.release(WEBHOOKS, head.outcomes_from);
        self.show(head);
        answer(&mut self.pending.asked);
    }

    /// A delivery of a lane is on disk, due at a time.
    fn on_disk_from(&mut self, index: usize, due_ms: i64) {
        let lane = &mut self.lanes[index];
        if due_ms < lane.next_due_ms {
            lane.next_due_ms = due_ms;
            if lane.state != LaneState::Held {
                self.set_timer(due_ms, index);
            }
        }
    }

    /// Shows the figures of now, and of the last checkpoint.
    pub fn show(&self, head: Head) {
        let mut stats = self.stats.lock().expect("no holder panics");
        stats.counts = head.counts;
        stats.position = head.position;
        stats.outcomes_from = head.outcomes_from;
        stats.parked = self.pending.shown_on_disk;
        stats.in_memory = self.memory.len() as u64;
        stats.in_flight = self.in_flight as u64;
        stats.connections_opened = self.client.stats().opened;
        stats.phases = self.client.times();
        stats.attempts.clone_from(&self.attempts);
        stats.trouble.clone_from(&self.trouble);
        let open = self.lanes.iter().filter_map(|lane| {
            let until_ms = lane.breaker.probe_ms()?;
            Some((lane.webhook.to_string(), until_ms))
        });
        stats.left_alone = open.collect();
    }
}

/// Tells who asked; one that is gone needs no answer.
pub(super) fn answer(asked: &mut Vec<tokio::sync::oneshot::Sender<()>>) {
    for done in asked.drain(..) {
        let _ = done.send(());
    }
}

fn write(
    state: &Arc<State>,
    batch: &StateBatch,
    repeats: &mut Repeats,
    hashes: &[IdHash],
    (block, log_ms): (&BlockName, i64),
) -> Result<(), FlowError> {
    let mut batch = batch.clone();
    if !hashes.is_empty() {
        repeats.admit(hashes, log_ms, &mut Vec::new())?;
        repeats.stage(block, log_ms, &mut batch)?;
    }
    state.commit(batch)?;
    repeats.committed();
    Ok(())
}
