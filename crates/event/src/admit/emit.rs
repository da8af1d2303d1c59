//! Writing a record: the producer's bytes without the door's own fields, then the stamp.

use super::BatchRules;
use super::walk::Walk;
use crate::encode;
use crate::message::{Door, Stamp, reception};
use crate::records::Records;
use crate::wire::{Cursor, Malformed, block_key};

/// Key of `Event.origin`.
const ORIGIN: u32 = block_key(5);
/// Bytes of a record's frame, the origin's key and its length, at most.
const FRAMING_BYTES: usize = 6 + 1 + 3;

/// What is appended to every event of one batch, encoded once.
pub(super) struct DoorStamp {
    partition: u16,
    /// Bytes of `suffix` that end the origin: tenant and agent.
    identity_bytes: usize,
    /// The end of the origin, then reception and stamp.
    suffix: Vec<u8>,
}

impl DoorStamp {
    /// Encodes the stamp of a batch named `batch_id`.
    pub(super) fn new(rules: &BatchRules<'_>, batch_id: &[u8]) -> Self {
        let names = [rules.project, rules.agent_id, rules.gateway].map(str::len);
        let names_bytes: usize = names.iter().sum();
        let mut suffix = Vec::with_capacity(3 * names_bytes + batch_id.len() + 64);
        encode::text(1, rules.project, &mut suffix);
        encode::text(2, rules.agent_id, &mut suffix);
        let identity_bytes = suffix.len();
        // A batch id that is no identifier, let alone UTF-8, is refused before this is sent.
        let batch_id = std::str::from_utf8(batch_id).unwrap_or_default();
        reception(rules.now, rules.gateway, batch_id, &mut suffix);
        let stamp = Stamp {
            project: rules.project,
            source: rules.agent_id,
            door: Door::Agents,
            control_offset: rules.control_offset,
            key: rules.agent_id,
        };
        stamp.encode(&mut suffix);
        Self {
            partition: rules.partition,
            identity_bytes,
            suffix,
        }
    }

    /// Makes room at once for a batch whose first event has `event_bytes` bytes and that goes
    /// on for `rest_bytes`, as far as it may go on.
    pub(super) fn reserve(
        &self,
        event_bytes: usize,
        rest_bytes: usize,
        events_max: u32,
        out: &mut Records,
    ) {
        let events = (rest_bytes / (event_bytes + 2) + 2).min(events_max as usize);
        let stamps_bytes = events * (FRAMING_BYTES + self.suffix.len());
        out.buffer()
            .reserve(event_bytes + rest_bytes + stamps_bytes);
    }

    /// Writes the record of the event at `event`, which `walk` was over.
    #[inline(always)]
    pub(super) fn emit(&self, event: &[u8], walk: &Walk, out: &mut Records) {
        if walk.scattered {
            return self.emit_scattered(event, out);
        }
        let (before, after) = (&event[..walk.origin.start], &event[walk.origin.end..]);
        let kept_origin = &event[walk.kept_origin.start..walk.kept_origin.end];
        let mark = out.begin(self.partition);
        let buffer = out.buffer();
        buffer.extend_from_slice(before);
        buffer.extend_from_slice(after);
        buffer.push(ORIGIN as u8);
        encode::varint((kept_origin.len() + self.identity_bytes) as u64, buffer);
        buffer.extend_from_slice(kept_origin);
        buffer.extend_from_slice(&self.suffix);
        out.end(mark);
    }

    /// The same for any event that is well-formed, wherever its fields to drop and to keep lie.
    #[inline(never)]
    pub(super) fn emit_scattered(&self, event: &[u8], out: &mut Records) {
        let mark = out.begin(self.partition);
        let buffer = out.buffer();
        let (identity, rest) = self.suffix.split_at(self.identity_bytes);
        // Every field of this event was read before, so reading them again cannot fail.
        each_field(Cursor::new(event), |key, field, _| {
            if !is_owned(key) {
                buffer.extend_from_slice(field);
            }
            Ok(())
        })
        .expect("the event was read before");
        encode::message(5, buffer, |buffer| {
            each_field(Cursor::new(event), |key, _, value| match key {
                ORIGIN => keep_of_origin(value, buffer),
                _ => Ok(()),
            })
            .expect("the event was read before");
            buffer.extend_from_slice(identity);
        });
        buffer.extend_from_slice(rest);
        out.end(mark);
    }
}

/// Appends the fields of an origin that are not the door's.
fn keep_of_origin(mut origin: Cursor<'_>, buffer: &mut Vec<u8>) -> Result<(), Malformed> {
    let inner = origin.message()?;
    each_field(inner, |key, field, _| {
        if !is_identity(key) {
            buffer.extend_from_slice(field);
        }
        Ok(())
    })
}

/// True for the fields of an origin that the door writes itself: tenant and agent.
fn is_identity(key: u32) -> bool {
    matches!(key >> 3, 1 | 2)
}

/// True for the fields of an event that the door writes itself.
fn is_owned(key: u32) -> bool {
    matches!(key >> 3, 5 | 7 | 100 | 101)
}

/// Calls `each` with every field of the message at `cursor`: its key, its bytes, and a cursor
/// at its value.
pub(super) fn each_field<'a>(
    mut cursor: Cursor<'a>,
    mut each: impl FnMut(u32, &'a [u8], Cursor<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    while !cursor.is_empty() {
        let field = cursor;
        let key = cursor.key()?;
        let value = cursor;
        cursor = cursor.skip(key)?;
        each(key, field.until(cursor), value)?;
    }
    Ok(())
}
