//! Admission at the agents door: one walk over a batch, which validates every event, drops
//! what the door owns, and writes each record with the door's stamp.
//!
//! The quick pass only ever admits: it walks event by event and emits each at once, while it
//! is in the cache. Whatever it does not admit is undone and judged again from the start by
//! [`judge`], which finds the answer in the contract's order. A refusal costs twice; an
//! admitted batch is walked once.

mod emit;
mod judge;
mod key;
mod payload;
mod rule;
mod walk;

use crate::identifier::identifier_ok;
use crate::limits;
use crate::records::Records;
use crate::time::Timestamp;
use crate::verdict::Rejection;
use crate::wire::{Cursor, block_key, known, varint_key};

use emit::DoorStamp;
use walk::{Memory, Walk};

/// What a batch is judged by and stamped with. The door has authenticated the agent; none of
/// this comes from the batch (I9).
#[derive(Debug, Clone, Copy)]
pub struct BatchRules<'a> {
    /// The authenticated agent: source and key of each record.
    pub agent_id: &'a str,
    /// The agent's project.
    pub project: &'a str,
    /// The door's name.
    pub gateway: &'a str,
    /// One time for the whole batch: the reception time, and what the window stands on.
    pub now: Timestamp,
    /// Seconds that an event may be older than `now`, the end included.
    pub age_max_seconds: i64,
    /// Seconds that an event may be ahead of `now`, the end included.
    pub skew_max_seconds: i64,
    /// Events in a batch.
    pub events_max: u32,
    /// Bytes of an event as sent.
    pub event_bytes_max: u32,
    /// The registry version that the door has applied (R2).
    pub control_offset: u64,
    /// The partition of `agent_id`.
    pub partition: u16,
}

impl BatchRules<'_> {
    /// The earliest and latest time that is admitted, both included.
    fn window(&self) -> (Timestamp, Timestamp) {
        let oldest = self.now.plus_seconds(self.age_max_seconds.saturating_neg());
        (oldest, self.now.plus_seconds(self.skew_max_seconds))
    }
}

/// What was admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// Number of events, each a record in the buffer.
    pub events: u32,
    /// Bytes of those events as sent.
    pub bytes: u64,
    /// The earliest event time in the batch.
    pub event_time_min: Timestamp,
    /// The latest event time in the batch.
    pub event_time_max: Timestamp,
}

impl Admitted {
    fn none() -> Self {
        let max = Timestamp {
            seconds: i64::MAX,
            nanos: 0,
        };
        let min = Timestamp {
            seconds: i64::MIN,
            nanos: 0,
        };
        Self {
            events: 0,
            bytes: 0,
            event_time_min: max,
            event_time_max: min,
        }
    }

    #[inline(always)]
    fn count(&mut self, bytes: usize, event_time: Timestamp) {
        self.events += 1;
        self.bytes += bytes as u64;
        self.event_time_min = self.event_time_min.min(event_time);
        self.event_time_max = self.event_time_max.max(event_time);
    }
}

/// Key of `EventBatch.batch_id`.
const BATCH_ID: u32 = block_key(1);
/// Key of `EventBatch.protocol_version`.
const PROTOCOL_VERSION: u32 = varint_key(2);
/// Key of `EventBatch.events`.
const EVENTS: u32 = block_key(3);
/// Field numbers of `EventBatch`.
const BATCH: u64 = known(&[1, 2, 3]);

/// Admits a whole batch or nothing of it. On success each event stands in `out` as one
/// record, in order: the producer's bytes without the fields that the door owns, then the
/// door's stamp.
///
/// # Errors
/// The [`Rejection`] to answer with; `out` is then as it was.
pub fn admit_batch(
    body: &[u8],
    rules: &BatchRules<'_>,
    out: &mut Records,
) -> Result<Admitted, Rejection> {
    let checkpoint = out.checkpoint();
    let quick = admit_quickly(body, rules, |stamp, event, walk, rest_bytes| {
        if out.checkpoint() == checkpoint {
            stamp.reserve(event.len(), rest_bytes, rules.events_max, out);
        }
        stamp.emit(event, walk, out);
    });
    if let Some(admitted) = quick {
        return Ok(admitted);
    }
    out.roll_back(checkpoint);
    judge::judge_batch(body, rules, out).inspect_err(|_| out.roll_back(checkpoint))
}

/// The walk of [`admit_batch`] without writing a record, for measuring it apart. None for a
/// batch that would not be admitted at once.
pub fn walk_batch(body: &[u8], rules: &BatchRules<'_>) -> Option<Admitted> {
    admit_quickly(body, rules, |_, _, _, _| ())
}

/// Admits a batch that breaks no rule and names itself before its first event, as every
/// encoder writes it, and gives each event to `emit` with the stamp, its walk, and the bytes
/// of the batch behind it. None for any other, perhaps after some of its events.
#[inline(always)]
fn admit_quickly(
    body: &[u8],
    rules: &BatchRules<'_>,
    mut emit: impl FnMut(&DoorStamp, &[u8], &Walk, usize),
) -> Option<Admitted> {
    let mut cursor = Cursor::new(body);
    let mut batch_id: &[u8] = &[];
    let mut protocol_version = 0;
    // Up to the first event.
    let first = loop {
        match cursor.key().ok()? {
            EVENTS => break cursor.block().ok()?,
            BATCH_ID => batch_id = cursor.utf8().ok()?,
            PROTOCOL_VERSION => protocol_version = cursor.varint().ok()? as u32,
            key => cursor = cursor.skip_unknown(key, BATCH).ok()?,
        }
    };
    if protocol_version != limits::PROTOCOL_VERSION || !identifier_ok(batch_id) {
        return None;
    }
    let stamp = DoorStamp::new(rules, batch_id);
    let (oldest, newest) = rules.window();
    let mut admitted = Admitted::none();
    let mut memory = Memory::default();
    let mut event = first;
    loop {
        if admitted.events >= rules.events_max || event.len() > rules.event_bytes_max as usize {
            return None;
        }
        let walk = Walk::over(event, &mut memory)?;
        if !walk.is_within(oldest, newest) {
            return None;
        }
        emit(&stamp, event, &walk, cursor.len());
        admitted.count(event.len(), walk.event_time);
        event = loop {
            if cursor.is_empty() {
                return Some(admitted);
            }
            match cursor.key().ok()? {
                EVENTS => break cursor.block().ok()?,
                // The name must be known before the first event; it is only now.
                BATCH_ID | PROTOCOL_VERSION => return None,
                key => cursor = cursor.skip_unknown(key, BATCH).ok()?,
            }
        };
    }
}
