//! A delivery: one event on its way to one webhook, in memory and as it is parked on disk.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use fulmar_event::EventView;
use fulmar_registry::BodyShape;
use sha2::{Digest, Sha256};

use super::verdict::Before;
use crate::occurrence::Occurrence;

/// Names a delivery: a hash of its event's identity and its webhook, so that an event that is read
/// again makes the same deliveries again (D1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId([u8; 16]);

impl DeliveryId {
    /// The id of an event's delivery to a webhook.
    #[must_use]
    pub fn of(event: &Occurrence<'_>, webhook: &str) -> Self {
        let mut hash = Sha256::new();
        for part in [event.project, event.source, event.id, webhook] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hash.finalize()[..16]);
        Self(id)
    }

    /// Reads 32 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.is_ascii() {
            return None;
        }
        u128::from_str_radix(text, 16)
            .ok()
            .map(|number| Self(number.to_be_bytes()))
    }

    pub(super) fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl std::fmt::Display for DeliveryId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The record of an event that is delivered, shared by its deliveries.
#[derive(Debug)]
pub(super) struct Happening {
    pub offset: u64,
    pub id: Box<str>,
    pub name: Box<str>,
    pub project: Box<str>,
    pub expires_ms: i64,
    record: Bytes,
    envelope: OnceLock<Bytes>,
    held: Arc<AtomicUsize>,
}

impl Happening {
    /// Keeps a record that [`Occurrence::of`] has read; its bytes count as held until it goes.
    pub fn new(
        event: &Occurrence<'_>,
        record: &[u8],
        offset: u64,
        held: &Arc<AtomicUsize>,
    ) -> Self {
        held.fetch_add(record.len(), Ordering::Relaxed);
        Self {
            offset,
            id: event.id.into(),
            name: (&*event.name).into(),
            project: event.project.into(),
            expires_ms: event.expires_ms,
            record: Bytes::copy_from_slice(record),
            envelope: OnceLock::new(),
            held: Arc::clone(held),
        }
    }

    /// Stands for an event whose record is not at hand: what its outcomes say of it.
    pub fn named(offset: u64, (id, name, project): (&str, &str, &str)) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            project: project.into(),
            offset,
            expires_ms: 0,
            record: Bytes::new(),
            envelope: OnceLock::new(),
            held: Arc::default(),
        }
    }

    /// In place of an event that the log does not have any more.
    pub fn lost(offset: u64) -> Self {
        Self::named(offset, ("", "", ""))
    }

    pub fn is_lost(&self) -> bool {
        self.record.is_empty()
    }

    /// What is sent of it; it must not be lost.
    pub fn body(&self, shape: BodyShape) -> Bytes {
        match shape {
            BodyShape::Envelope => self.envelope.get_or_init(|| self.built(shape)).clone(),
            BodyShape::Payload => self.built(shape),
        }
    }

    fn built(&self, shape: BodyShape) -> Bytes {
        let view = EventView::parse(&self.record).ok();
        let event = view.as_ref().and_then(Occurrence::of);
        event
            .expect("a record that was read once is read again")
            .body(shape)
    }
}

impl Drop for Happening {
    fn drop(&mut self) {
        self.held.fetch_sub(self.record.len(), Ordering::Relaxed);
    }
}

/// Where a delivery in memory stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is to be taken up again, and that is not durable yet.
    Asked,
    /// In its lane's queue.
    Ready,
    /// Being sent, or sent and its outcome is not durable yet.
    Under,
    /// Due later: it leaves the memory with the next checkpoint.
    Waiting,
}

/// A delivery in memory.
#[derive(Debug)]
pub(super) struct Delivery {
    pub id: DeliveryId,
    /// Its webhook's lane.
    pub lane: usize,
    pub subscription: Option<Rc<str>>,
    pub event: Arc<Happening>,
    pub created_ms: i64,
    /// Attempts so far whose outcome is durable.
    pub attempts: Cell<u32>,
    /// Those that count against the retries.
    pub failures: Cell<u32>,
    /// Somebody asked for it once more.
    pub by_hand: bool,
    pub due_ms: Cell<i64>,
    /// Under which due time it is on disk, or about to be.
    pub stored_due_ms: Cell<Option<i64>>,
    pub standing: Cell<Standing>,
}

impl Delivery {
    /// As an attempt finds it.
    pub fn before(&self) -> Before {
        Before {
            created_ms: self.created_ms,
            failures: self.failures.get(),
            by_hand: self.by_hand,
        }
    }

    /// As it is parked, due at a time.
    pub fn parked(&self, due_ms: i64) -> Parked {
        Parked {
            id: self.id,
            due_ms,
            offset: self.event.offset,
            created_ms: self.created_ms,
            attempts: self.attempts.get(),
            failures: self.failures.get(),
            by_hand: self.by_hand,
            subscription: self.subscription.as_deref().unwrap_or_default().into(),
        }
    }
}

/// A delivery on disk: parked, retried later or held, which are one structure (D2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// Its id.
    pub id: DeliveryId,
    /// When it is due, ms since the epoch.
    pub due_ms: i64,
    /// Its event's offset in `events`.
    pub offset: u64,
    /// When the event was matched, ms since the epoch.
    pub created_ms: i64,
    /// Attempts so far.
    pub attempts: u32,
    /// Those that count against the retries.
    pub failures: u32,
    /// Somebody asked for it once more.
    pub by_hand: bool,
    /// The subscription that matched, or empty.
    pub subscription: Box<str>,
}

/// The bit of the failures on disk that says [`Parked::by_hand`].
const BY_HAND: u32 = 1 << 31;

/// Bytes of a key after its webhook: zero, due time, id.
const KEY_TAIL_BYTES: usize = 1 + 8 + 16;

impl Parked {
    /// Its key: webhook, due time, id, so that what is due first of a webhook stands first.
    #[must_use]
    pub fn key(&self, webhook: &str) -> Vec<u8> {
        let mut key = key_from(webhook, self.due_ms);
        key.extend_from_slice(self.id.bytes());
        key
    }

    pub(super) fn value(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(24 + self.subscription.len());
        value.extend_from_slice(&self.offset.to_be_bytes());
        value.extend_from_slice(&self.created_ms.to_be_bytes());
        value.extend_from_slice(&self.attempts.to_be_bytes());
        let flag = if self.by_hand { BY_HAND } else { 0 };
        value.extend_from_slice(&(self.failures | flag).to_be_bytes());
        value.extend_from_slice(self.subscription.as_bytes());
        value
    }

    /// Reads an entry, with its webhook.
    #[must_use]
    pub fn read<'k>(key: &'k [u8], value: &[u8]) -> Option<(&'k str, Self)> {
        let at = key.len().checked_sub(KEY_TAIL_BYTES)?;
        let (webhook, tail) = key.split_at(at);
        let (fixed, subscription) = value.split_at_checked(24)?;
        let failures = u32::from_be_bytes(fixed[20..].try_into().ok()?);
        let parked = Self {
            id: DeliveryId(tail[9..].try_into().ok()?),
            due_ms: i64::from_be_bytes(tail[1..9].try_into().ok()?),
            offset: u64::from_be_bytes(fixed[..8].try_into().ok()?),
            created_ms: i64::from_be_bytes(fixed[8..16].try_into().ok()?),
            attempts: u32::from_be_bytes(fixed[16..20].try_into().ok()?),
            failures: failures & !BY_HAND,
            by_hand: failures & BY_HAND != 0,
            subscription: std::str::from_utf8(subscription).ok()?.into(),
        };
        Some((std::str::from_utf8(webhook).ok()?, parked))
    }
}

/// The first key of a webhook's deliveries that are due at a time or later.
pub(super) fn key_from(webhook: &str, due_ms: i64) -> Vec<u8> {
    let mut key = Vec::with_capacity(webhook.len() + KEY_TAIL_BYTES);
    key.extend_from_slice(webhook.as_bytes());
    key.push(0);
    key.extend_from_slice(&due_ms.max(0).to_be_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parked(due_ms: i64) -> Parked {
        Parked {
            id: DeliveryId([7; 16]),
            due_ms,
            offset: 1 << 40,
            created_ms: 1_700_000_000_000,
            attempts: 2,
            failures: 1,
            by_hand: true,
            subscription: "sub-1".into(),
        }
    }

    #[test]
    fn what_is_parked_is_read_back_and_small() {
        let one = parked(1_700_000_060_000);
        let (key, value) = (one.key("wh-1"), one.value());
        assert_eq!(Parked::read(&key, &value), Some(("wh-1", one)));
        assert!(key.len() + value.len() < 100);
        for cut in 0..24 {
            assert_eq!(Parked::read(&key, &value[..cut]), None);
        }
        assert_eq!(Parked::read(&key[..20], &value), None);
    }

    #[test]
    fn a_webhook_s_deliveries_sort_by_due_time_and_apart_from_others() {
        let mut keys = [
            parked(9).key("wh-1"),
            parked(i64::MAX).key("wh"),
            parked(5).key("wh-1"),
            parked(1).key("wh"),
        ];
        keys.sort();
        let due =
            |key: &[u8]| Parked::read(key, &parked(0).value()).map(|(w, p)| (w.len(), p.due_ms));
        let order: Vec<_> = keys.iter().filter_map(|key| due(key)).collect();
        assert_eq!(order, [(2, 1), (2, i64::MAX), (4, 5), (4, 9)]);
    }

    #[test]
    fn an_id_is_32_digits_and_read_back() {
        let id = DeliveryId([0xa0; 16]);
        assert_eq!(id.to_string(), "a0".repeat(16));
        assert_eq!(DeliveryId::parse(&id.to_string()), Some(id));
        for text in ["", "a0", &"g0".repeat(16), &"+".repeat(32)] {
            assert_eq!(DeliveryId::parse(text), None);
        }
    }
}
