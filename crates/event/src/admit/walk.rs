//! The walk over one event: every rule of the agents door, and where the door's own fields
//! stand, without keeping any value but the two times.
//!
//! Each rule is a bit. It is set as long as the rule is broken: from the start for what is
//! required, and by each occurrence of the field anew, so that the last occurrence counts, as
//! in a decode. An event holds if no bit is left.

use crate::address::address_ok;
use crate::body::Body;
use crate::identifier::identifier_ok;
use crate::limits;
use crate::time::Timestamp;
use crate::view::{CLASS_AUTHENTICATION, EventView};
use crate::wire::{Cursor, Malformed, block_key, known, varint_key};

/// The rules, a bit each.
mod rule {
    pub(super) const EVENT_ID: u32 = 1;
    pub(super) const SCHEMA_VERSION: u32 = 1 << 1;
    pub(super) const EVENT_TIME: u32 = 1 << 2;
    pub(super) const OBSERVED_TIME: u32 = 1 << 3;
    pub(super) const HOSTNAME: u32 = 1 << 4;
    pub(super) const HOST_IP: u32 = 1 << 5;
    pub(super) const OS: u32 = 1 << 6;
    pub(super) const ARCHITECTURE: u32 = 1 << 7;
    pub(super) const COLLECTOR: u32 = 1 << 8;
    pub(super) const SOURCE: u32 = 1 << 9;
    pub(super) const CLASS: u32 = 1 << 10;
    /// A payload that is another door's: never cleared.
    pub(super) const FOREIGN_BODY: u32 = 1 << 11;
    pub(super) const ACTIVITY: u32 = 1 << 12;
    pub(super) const OUTCOME: u32 = 1 << 13;
    pub(super) const OUTCOME_REASON: u32 = 1 << 14;
    pub(super) const METHOD: u32 = 1 << 15;
    pub(super) const USER_NAME: u32 = 1 << 16;
    pub(super) const USER_DOMAIN: u32 = 1 << 17;
    pub(super) const USER_UID: u32 = 1 << 18;
    pub(super) const SERVICE_NAME: u32 = 1 << 19;
    pub(super) const SERVICE_PROTOCOL: u32 = 1 << 20;
    pub(super) const SOURCE_IP: u32 = 1 << 21;
    pub(super) const SOURCE_PORT: u32 = 1 << 22;
    pub(super) const DESTINATION_IP: u32 = 1 << 23;
    pub(super) const DESTINATION_PORT: u32 = 1 << 24;
    pub(super) const RAW_RECORD: u32 = 1 << 25;
    /// Broken while the field is absent. With a required leaf the submessages around it are
    /// required too, so they need no bits of their own.
    pub(super) const REQUIRED: u32 = EVENT_ID
        | SCHEMA_VERSION
        | EVENT_TIME
        | OBSERVED_TIME
        | COLLECTOR
        | CLASS
        | ACTIVITY
        | OUTCOME;
}

/// A stretch of the body; empty if both ends are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Stretch {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Stretch {
    /// Grows by `start..end` if that adjoins; false if it does not.
    #[inline(always)]
    fn grow(&mut self, start: usize, end: usize) -> bool {
        if self.start == self.end {
            *self = Self { start, end };
            return true;
        }
        let adjoins = self.end == start;
        if adjoins {
            self.end = end;
        }
        adjoins
    }
}

/// What one walk found.
#[derive(Debug)]
pub(super) struct Walk {
    broken: u32,
    event_time: Timestamp,
    observed_time: Timestamp,
    /// The door's own fields at the event's level, if they stand in one stretch.
    pub(super) owned: Stretch,
    /// What is kept of the origins, if it stands in one stretch.
    pub(super) kept_origin: Stretch,
    /// True if `owned` or `kept_origin` did not suffice.
    pub(super) scattered: bool,
}

/// Field numbers of `Event` below 64 whose wire type is known.
const EVENT: u64 = known(&[1, 2, 3, 4, 5, 6, 7, 16]);

impl Walk {
    /// Walks the event that `cursor` stands at.
    #[inline]
    pub(super) fn over(mut cursor: Cursor<'_>) -> Result<Self, Malformed> {
        const EVENT_ID: u32 = block_key(1);
        const SCHEMA_VERSION: u32 = varint_key(2);
        const CLASS: u32 = varint_key(3);
        const TIME: u32 = block_key(4);
        const ORIGIN: u32 = block_key(5);
        const COLLECTION: u32 = block_key(6);
        const AUTHENTICATION: u32 = block_key(16);
        let mut walk = Self {
            broken: rule::REQUIRED,
            event_time: Timestamp::default(),
            observed_time: Timestamp::default(),
            owned: Stretch::default(),
            kept_origin: Stretch::default(),
            scattered: false,
        };
        while !cursor.is_empty() {
            let start = cursor.position();
            match cursor.key()? {
                EVENT_ID => walk.event_id(&mut cursor)?,
                SCHEMA_VERSION => {
                    let version = cursor.varint()? as u32;
                    walk.set(rule::SCHEMA_VERSION, version != limits::SCHEMA_VERSION);
                }
                CLASS => {
                    let class = cursor.varint()? as i32;
                    walk.set(rule::CLASS, class != CLASS_AUTHENTICATION);
                }
                TIME => walk.time(cursor.message()?)?,
                ORIGIN => {
                    walk.origin(cursor.message()?)?;
                    walk.own(start, cursor.position());
                }
                COLLECTION => walk.collection(cursor.message()?)?,
                AUTHENTICATION => walk.authentication(cursor.message()?)?,
                key => walk.other(key, start, &mut cursor)?,
            }
        }
        Ok(walk)
    }

    /// True if no rule is broken but, perhaps, the window.
    #[inline(always)]
    pub(super) fn holds(&self) -> bool {
        self.broken == 0 && self.event_time.is_valid() && self.observed_time.is_valid()
    }

    /// True if both times lie in the window, its ends included.
    #[inline(always)]
    pub(super) fn is_within(&self, oldest: Timestamp, newest: Timestamp) -> bool {
        let within = |time: Timestamp| time >= oldest && time <= newest;
        within(self.event_time) && within(self.observed_time)
    }

    /// When it happened.
    #[inline(always)]
    pub(super) fn event_time(&self) -> Timestamp {
        self.event_time
    }

    /// True if the event carries a payload that is another door's.
    pub(super) fn has_foreign_body(&self) -> bool {
        self.broken & rule::FOREIGN_BODY != 0
    }

    #[inline(always)]
    fn set(&mut self, rule: u32, broken: bool) {
        self.broken &= !rule;
        self.broken |= if broken { rule } else { 0 };
    }

    #[inline(always)]
    fn own(&mut self, start: usize, end: usize) {
        self.scattered |= !self.owned.grow(start, end);
    }

    #[inline(always)]
    fn text(&mut self, cursor: &mut Cursor<'_>, rule: u32, max: usize) -> Result<(), Malformed> {
        let length = cursor.utf8()?.len();
        self.set(rule, length > max);
        Ok(())
    }

    #[inline(always)]
    fn address(&mut self, cursor: &mut Cursor<'_>, rule: u32) -> Result<(), Malformed> {
        let text = cursor.utf8()?;
        self.set(rule, !text.is_empty() && !address_ok(text));
        Ok(())
    }

    #[inline(always)]
    fn event_id(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
        let id = cursor.utf8()?;
        self.set(
            rule::EVENT_ID,
            id.len() < limits::EVENT_ID_BYTES_MIN || !identifier_ok(id),
        );
        Ok(())
    }

    #[inline(always)]
    fn time(&mut self, mut cursor: Cursor<'_>) -> Result<(), Malformed> {
        const EVENT_TIME: u32 = block_key(1);
        const OBSERVED_TIME: u32 = block_key(2);
        while !cursor.is_empty() {
            match cursor.key()? {
                EVENT_TIME => {
                    self.set(rule::EVENT_TIME, false);
                    timestamp(&mut self.event_time, cursor.message()?)?;
                }
                OBSERVED_TIME => {
                    self.set(rule::OBSERVED_TIME, false);
                    timestamp(&mut self.observed_time, cursor.message()?)?;
                }
                key => cursor.skip_unknown(key, known(&[1, 2]))?,
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn origin(&mut self, mut cursor: Cursor<'_>) -> Result<(), Malformed> {
        const HOST: u32 = block_key(3);
        while !cursor.is_empty() {
            let start = cursor.position();
            match cursor.key()? {
                HOST => self.host(cursor.message()?)?,
                key if is_identity(key) => {
                    cursor.utf8()?;
                    continue;
                }
                key => cursor.skip_unknown(key, known(&[1, 2, 3]))?,
            }
            self.scattered |= !self.kept_origin.grow(start, cursor.position());
        }
        Ok(())
    }

    #[inline(always)]
    fn host(&mut self, mut cursor: Cursor<'_>) -> Result<(), Malformed> {
        const HOSTNAME: u32 = block_key(1);
        const IP: u32 = block_key(2);
        const OS: u32 = block_key(3);
        const ARCHITECTURE: u32 = block_key(4);
        while !cursor.is_empty() {
            match cursor.key()? {
                HOSTNAME => self.text(&mut cursor, rule::HOSTNAME, limits::HOSTNAME_BYTES_MAX)?,
                IP => self.address(&mut cursor, rule::HOST_IP)?,
                OS => self.text(&mut cursor, rule::OS, limits::OS_BYTES_MAX)?,
                ARCHITECTURE => {
                    let max = limits::ARCHITECTURE_BYTES_MAX;
                    self.text(&mut cursor, rule::ARCHITECTURE, max)?;
                }
                key => cursor.skip_unknown(key, known(&[1, 2, 3, 4]))?,
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn collection(&mut self, mut cursor: Cursor<'_>) -> Result<(), Malformed> {
        const COLLECTOR: u32 = block_key(1);
        const SOURCE: u32 = block_key(2);
        const SEQUENCE: u32 = varint_key(3);
        while !cursor.is_empty() {
            match cursor.key()? {
                COLLECTOR => {
                    let length = cursor.utf8()?.len();
                    let broken = length == 0 || length > limits::COLLECTOR_BYTES_MAX;
                    self.set(rule::COLLECTOR, broken);
                }
                SOURCE => self.text(&mut cursor, rule::SOURCE, limits::SOURCE_BYTES_MAX)?,
                SEQUENCE => {
                    cursor.varint()?;
                }
                key => cursor.skip_unknown(key, known(&[1, 2, 3]))?,
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn authentication(&mut self, mut cursor: Cursor<'_>) -> Result<(), Malformed> {
        const ACTIVITY: u32 = varint_key(1);
        const OUTCOME: u32 = varint_key(2);
        const OUTCOME_REASON: u32 = block_key(3);
        const METHOD: u32 = block_key(4);
        const USER: u32 = block_key(5);
        const SERVICE: u32 = block_key(6);
        const NETWORK: u32 = block_key(7);
        const RAW_RECORD: u32 = block_key(15);
        const KNOWN: u64 = known(&[1, 2, 3, 4, 5, 6, 7, 15]);
        while !cursor.is_empty() {
            match cursor.key()? {
                ACTIVITY => {
                    let activity = cursor.varint()? as i32;
                    self.set(rule::ACTIVITY, activity == 0);
                }
                OUTCOME => {
                    let outcome = cursor.varint()? as i32;
                    self.set(rule::OUTCOME, outcome == 0);
                }
                OUTCOME_REASON => {
                    let max = limits::OUTCOME_REASON_BYTES_MAX;
                    self.text(&mut cursor, rule::OUTCOME_REASON, max)?;
                }
                METHOD => self.text(&mut cursor, rule::METHOD, limits::METHOD_BYTES_MAX)?,
                USER => self.user(cursor.message()?)?,
                SERVICE => self.service(cursor.message()?)?,
                NETWORK => self.network(cursor.message()?)?,
                RAW_RECORD => {
                    let max = limits::RAW_RECORD_BYTES_MAX;
                    self.text(&mut cursor, rule::RAW_RECORD, max)?;
                }
                key => cursor.skip_unknown(key, KNOWN)?,
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn user(&mut self, mut cursor: Cursor<'_>) -> Result<(), Malformed> {
        const NAME: u32 = block_key(1);
        const DOMAIN: u32 = block_key(2);
        const UID: u32 = block_key(3);
        while !cursor.is_empty() {
            match cursor.key()? {
                NAME => self.text(&mut cursor, rule::USER_NAME, limits::USER_NAME_BYTES_MAX)?,
                DOMAIN => {
                    self.text(
                        &mut cursor,
                        rule::USER_DOMAIN,
                        limits::USER_DOMAIN_BYTES_MAX,
                    )?;
                }
                UID => self.text(&mut cursor, rule::USER_UID, limits::USER_UID_BYTES_MAX)?,
                key => cursor.skip_unknown(key, known(&[1, 2, 3]))?,
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn service(&mut self, mut cursor: Cursor<'_>) -> Result<(), Malformed> {
        const NAME: u32 = block_key(1);
        const PROTOCOL: u32 = block_key(2);
        while !cursor.is_empty() {
            match cursor.key()? {
                NAME => {
                    self.text(
                        &mut cursor,
                        rule::SERVICE_NAME,
                        limits::SERVICE_NAME_BYTES_MAX,
                    )?;
                }
                PROTOCOL => {
                    let max = limits::SERVICE_PROTOCOL_BYTES_MAX;
                    self.text(&mut cursor, rule::SERVICE_PROTOCOL, max)?;
                }
                key => cursor.skip_unknown(key, known(&[1, 2]))?,
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn network(&mut self, mut cursor: Cursor<'_>) -> Result<(), Malformed> {
        const SOURCE: u32 = block_key(1);
        const DESTINATION: u32 = block_key(2);
        const TRANSPORT: u32 = varint_key(3);
        while !cursor.is_empty() {
            match cursor.key()? {
                SOURCE => {
                    let rules = (rule::SOURCE_IP, rule::SOURCE_PORT);
                    self.endpoint(cursor.message()?, rules)?;
                }
                DESTINATION => {
                    let rules = (rule::DESTINATION_IP, rule::DESTINATION_PORT);
                    self.endpoint(cursor.message()?, rules)?;
                }
                TRANSPORT => {
                    cursor.varint()?;
                }
                key => cursor.skip_unknown(key, known(&[1, 2, 3]))?,
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn endpoint(&mut self, mut cursor: Cursor<'_>, rules: (u32, u32)) -> Result<(), Malformed> {
        const IP: u32 = block_key(1);
        const PORT: u32 = varint_key(2);
        while !cursor.is_empty() {
            match cursor.key()? {
                IP => self.address(&mut cursor, rules.0)?,
                PORT => {
                    let port = cursor.varint()? as u32;
                    self.set(rules.1, port > limits::PORT_MAX);
                }
                key => cursor.skip_unknown(key, known(&[1, 2]))?,
            }
        }
        Ok(())
    }

    /// A field that agents do not send: the door's own, another door's payload, or unknown.
    #[inline(never)]
    fn other(&mut self, key: u32, start: usize, cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
        if EventView::default().merge_owned(key, cursor)? {
            self.own(start, cursor.position());
        } else if Body::default().merge(key, cursor)? {
            self.broken |= rule::FOREIGN_BODY;
        } else if matches!(key >> 3, 100 | 101 | 110..=112) {
            return Err(Malformed::WireType(key >> 3));
        } else {
            cursor.skip_unknown(key, EVENT)?;
        }
        Ok(())
    }
}

/// True for the keys within an origin that are the door's: `tenant_id` and `agent_id`.
#[inline(always)]
pub(super) fn is_identity(key: u32) -> bool {
    const TENANT_ID: u32 = block_key(1);
    const AGENT_ID: u32 = block_key(2);
    matches!(key, TENANT_ID | AGENT_ID)
}

/// Merges a `google.protobuf.Timestamp` into `time`.
#[inline(always)]
fn timestamp(time: &mut Timestamp, mut cursor: Cursor<'_>) -> Result<(), Malformed> {
    const SECONDS: u32 = varint_key(1);
    const NANOS: u32 = varint_key(2);
    while !cursor.is_empty() {
        match cursor.key()? {
            SECONDS => time.seconds = cursor.varint()? as i64,
            NANOS => time.nanos = cursor.varint()? as u32,
            key => cursor.skip_unknown(key, known(&[1, 2]))?,
        }
    }
    Ok(())
}
