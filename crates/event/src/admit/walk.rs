//! The quick walk over one event: every rule of the agents door, and where the door's own
//! fields stand, without keeping any value but the two times.
//!
//! A function per message, over the message's own bytes: what it needs fits into registers,
//! and it gives the bits back by value. None is "not admitted quickly", whatever the reason;
//! the judge finds that. So a field is two loads, a length and a rule.

use super::key::{self, skip_unknown};
use super::payload::authentication;
use super::rule::{self, address, limited, set};
use crate::identifier::identifier_ok;
use crate::limits;
use crate::text::utf8_ok;
use crate::time::Timestamp;
use crate::values::{block, number, text};
use crate::view::{CLASS_AUTHENTICATION, EventView};
use crate::wire::{Cursor, known};

/// A stretch of an event's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Stretch {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// What a walk found in an event that holds but, perhaps, for the window.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Walk {
    pub(super) event_time: Timestamp,
    pub(super) observed_time: Timestamp,
    /// The origin, key and all; empty if there is none.
    pub(super) origin: Stretch,
    /// What is kept of the origin.
    pub(super) kept_origin: Stretch,
    /// True if what is to be dropped is not just one origin's identity, in front of the rest.
    pub(super) scattered: bool,
}

/// What neighbours in a batch have in common.
#[derive(Debug, Default)]
pub(super) struct Memory<'a> {
    /// An origin's bytes in which nothing was broken and nothing owned. An agent's events bear
    /// the same host, so that most origins are known by comparing them with the last.
    origin: &'a [u8],
}

impl Walk {
    /// Walks `event`; none if it breaks a rule other than the window, or is spelled as no
    /// encoder would.
    #[inline]
    pub(super) fn over<'a>(event: &'a [u8], memory: &mut Memory<'a>) -> Option<Self> {
        let mut walk = Self::default();
        let mut broken = rule::REQUIRED;
        let mut rest = event;
        while let Some((&key, behind)) = rest.split_first() {
            match key {
                key::BLOCK_1 => (rest, broken) = event_id(behind, broken)?,
                key::NUMBER_2 => {
                    let (version, behind) = number(behind)?;
                    let supported = version as u32 == limits::SCHEMA_VERSION;
                    (rest, broken) = (behind, set(broken, rule::SCHEMA_VERSION, !supported));
                }
                key::NUMBER_3 => {
                    let (class, behind) = number(behind)?;
                    let known = class as i32 == CLASS_AUTHENTICATION;
                    (rest, broken) = (behind, set(broken, rule::CLASS, !known));
                }
                key::BLOCK_4 => {
                    let (message, behind) = block(behind)?;
                    broken = time(message, &mut walk, broken)?;
                    rest = behind;
                }
                key::BLOCK_5 => {
                    let (message, behind) = block(behind)?;
                    let start = event.len() - rest.len();
                    let end = event.len() - behind.len();
                    broken = walk.origin(message, Stretch { start, end }, memory, broken)?;
                    rest = behind;
                }
                key::BLOCK_6 => {
                    let (message, behind) = block(behind)?;
                    (rest, broken) = (behind, collection(message, broken)?);
                }
                0x82 if rest.starts_with(&key::BLOCK_16) => {
                    let (message, behind) = block(&rest[2..])?;
                    (rest, broken) = (behind, authentication(message, broken)?);
                }
                _ => rest = walk.other(rest)?,
            }
        }
        let holds = broken == 0 && walk.event_time.is_valid() && walk.observed_time.is_valid();
        holds.then_some(walk)
    }

    /// True if both times lie in the window, its ends included.
    #[inline(always)]
    pub(super) fn is_within(&self, oldest: Timestamp, newest: Timestamp) -> bool {
        let within = |time: Timestamp| time >= oldest && time <= newest;
        within(self.event_time) && within(self.observed_time)
    }

    #[inline(always)]
    fn origin<'a>(
        &mut self,
        message: &'a [u8],
        place: Stretch,
        memory: &mut Memory<'a>,
        broken: u32,
    ) -> Option<u32> {
        self.scattered |= self.origin.end != 0;
        self.origin = place;
        self.kept_origin = Stretch {
            start: place.end - message.len(),
            end: place.end,
        };
        if message == memory.origin {
            // What its fields' rules were before stays: if broken by an origin before this
            // one, the judge merges them.
            return Some(broken);
        }
        let (broken, identity_bytes) = origin(message, broken)?;
        match identity_bytes {
            Some(0) if broken & rule::HOST == 0 => memory.origin = message,
            Some(bytes) => self.kept_origin.start += bytes,
            None => self.scattered = true,
        }
        Some(broken)
    }

    /// A field that agents do not send: gives what is behind it, or none for another door's
    /// payload and whatever is spelled oddly.
    #[inline(never)]
    fn other<'a>(&mut self, field: &'a [u8]) -> Option<&'a [u8]> {
        const EVENT: u64 = known(&[1, 2, 3, 4, 5, 6, 7, 16]);
        let mut cursor = Cursor::new(field);
        let key = cursor.key().ok()?;
        match key >> 3 {
            7 | 100 | 101 => {
                let owned = EventView::default().merge_owned(key, &mut cursor).ok()?;
                self.scattered = true;
                owned.then(|| cursor.rest())
            }
            110..=114 => None,
            _ => skip_unknown(field, EVENT),
        }
    }
}

#[inline(always)]
fn event_id(rest: &[u8], broken: u32) -> Option<(&[u8], u32)> {
    let (id, behind) = block(rest)?;
    let holds = id.len() >= limits::EVENT_ID_BYTES_MIN && identifier_ok(id);
    (holds || utf8_ok(id)).then(|| (behind, set(broken, rule::EVENT_ID, !holds)))
}

#[inline(always)]
fn time(message: &[u8], walk: &mut Walk, mut broken: u32) -> Option<u32> {
    let mut rest = message;
    while let Some((&key, behind)) = rest.split_first() {
        match key {
            key::BLOCK_1 => {
                let (message, behind) = block(behind)?;
                walk.event_time = timestamp(message, walk.event_time)?;
                (rest, broken) = (behind, set(broken, rule::EVENT_TIME, false));
            }
            key::BLOCK_2 => {
                let (message, behind) = block(behind)?;
                walk.observed_time = timestamp(message, walk.observed_time)?;
                (rest, broken) = (behind, set(broken, rule::OBSERVED_TIME, false));
            }
            _ => rest = skip_unknown(rest, known(&[1, 2]))?,
        }
    }
    Some(broken)
}

/// Merges a `google.protobuf.Timestamp` into `time`.
#[inline(always)]
fn timestamp(message: &[u8], mut time: Timestamp) -> Option<Timestamp> {
    let mut rest = message;
    while let Some((&key, behind)) = rest.split_first() {
        match key {
            key::NUMBER_1 => {
                let (seconds, behind) = number(behind)?;
                (rest, time.seconds) = (behind, seconds as i64);
            }
            key::NUMBER_2 => {
                let (nanos, behind) = number(behind)?;
                (rest, time.nanos) = (behind, nanos as u32);
            }
            _ => rest = skip_unknown(rest, known(&[1, 2]))?,
        }
    }
    Some(time)
}

/// Walks an origin. Beside the bits, gives how many bytes of identity stand in front of all
/// that is kept, or none if some stand behind.
#[inline(never)]
fn origin(message: &[u8], mut broken: u32) -> Option<(u32, Option<usize>)> {
    let mut rest = message;
    let mut identity_bytes = Some(0);
    let mut kept_any = false;
    while let Some((&key, behind)) = rest.split_first() {
        match key {
            key::BLOCK_1 | key::BLOCK_2 => {
                rest = text(behind)?.1;
                let bytes = message.len() - rest.len();
                identity_bytes = if kept_any { None } else { Some(bytes) };
                continue;
            }
            key::BLOCK_3 => {
                let (message, behind) = block(behind)?;
                (rest, broken) = (behind, host(message, broken)?);
            }
            _ => rest = skip_unknown(rest, known(&[1, 2, 3]))?,
        }
        kept_any = true;
    }
    Some((broken, identity_bytes))
}

#[inline(always)]
fn host(message: &[u8], mut broken: u32) -> Option<u32> {
    let mut rest = message;
    while let Some((&key, behind)) = rest.split_first() {
        (rest, broken) = match key {
            key::BLOCK_1 => limited(behind, rule::HOSTNAME, limits::HOSTNAME_BYTES_MAX, broken)?,
            key::BLOCK_2 => address(behind, rule::HOST_IP, broken)?,
            key::BLOCK_3 => limited(behind, rule::OS, limits::OS_BYTES_MAX, broken)?,
            key::BLOCK_4 => {
                let max = limits::ARCHITECTURE_BYTES_MAX;
                limited(behind, rule::ARCHITECTURE, max, broken)?
            }
            _ => (skip_unknown(rest, known(&[1, 2, 3, 4]))?, broken),
        };
    }
    Some(broken)
}

#[inline(never)]
fn collection(message: &[u8], mut broken: u32) -> Option<u32> {
    let mut rest = message;
    while let Some((&key, behind)) = rest.split_first() {
        (rest, broken) = match key {
            key::BLOCK_1 => {
                let (collector, behind) = text(behind)?;
                let long = collector.len() > limits::COLLECTOR_BYTES_MAX;
                (
                    behind,
                    set(broken, rule::COLLECTOR, collector.is_empty() || long),
                )
            }
            key::BLOCK_2 => limited(behind, rule::SOURCE, limits::SOURCE_BYTES_MAX, broken)?,
            key::NUMBER_3 => (number(behind)?.1, broken),
            _ => (skip_unknown(rest, known(&[1, 2, 3]))?, broken),
        };
    }
    Some(broken)
}
