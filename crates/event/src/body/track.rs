//! What SDKs send, borrowed from a record's bytes: product events, bot hits, replay chunks.

use crate::texts::Texts;
use crate::time::Timestamp;
use crate::view::merge_timestamp;
use crate::wire::{Cursor, Malformed, block_key, known, varint_key};

/// A product event. What the door derived stands beside what the SDK sent, so that a replay asks
/// no table of today (F3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrackView<'a> {
    /// The event's name.
    pub name: &'a str,
    /// The producer's own JSON: one object, or empty.
    pub properties: &'a [u8],
    /// The profile that the producer names, or empty.
    pub profile_id: &'a str,
    /// Ids of the groups that the producer names.
    pub groups: Texts<'a>,
    /// The device, claimed or derived; empty for a server's event that names none.
    pub device_id: &'a str,
    /// The session that the door answered; the fold's own counts (S3).
    pub session_id: &'a str,
    /// Path of the page, or a route name.
    pub path: &'a str,
    /// Scheme and host of the page.
    pub origin: &'a str,
    /// Query of the page, without its `?`.
    pub query: &'a str,
    /// Fragment of the page, without its `#`.
    pub fragment: &'a str,
    /// Where the visitor came from, as a URL.
    pub referrer: &'a str,
    /// Its name, by the door's table.
    pub referrer_name: &'a str,
    /// Its kind, by the door's table.
    pub referrer_type: &'a str,
    /// Minor currency units.
    pub revenue: u64,
    /// The SDK, from its header.
    pub sdk_name: &'a str,
    /// Its version.
    pub sdk_version: &'a str,
    /// True if a server sent it: it belongs to no session by itself.
    pub is_server: bool,
    /// True if it came by an import.
    pub is_imported: bool,
}

impl<'a> TrackView<'a> {
    pub(super) fn merge(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const NAME: u32 = block_key(1);
        const PROPERTIES: u32 = block_key(2);
        const PROFILE_ID: u32 = block_key(3);
        const GROUPS: u32 = block_key(4);
        const DEVICE_ID: u32 = block_key(5);
        const SESSION_ID: u32 = block_key(6);
        const PATH: u32 = block_key(7);
        const ORIGIN: u32 = block_key(8);
        const QUERY: u32 = block_key(9);
        const FRAGMENT: u32 = block_key(10);
        const REFERRER: u32 = block_key(11);
        const REFERRER_NAME: u32 = block_key(12);
        const REFERRER_TYPE: u32 = block_key(13);
        const REVENUE: u32 = varint_key(14);
        const SDK_NAME: u32 = block_key(15);
        const SDK_VERSION: u32 = block_key(16);
        const IS_SERVER: u32 = varint_key(17);
        const IS_IMPORTED: u32 = varint_key(18);
        // Fields 1 to 18.
        const KNOWN: u64 = (1 << 19) - 2;
        while !cursor.is_empty() {
            match cursor.key()? {
                NAME => self.name = cursor.text()?,
                PROPERTIES => self.properties = cursor.block()?,
                PROFILE_ID => self.profile_id = cursor.text()?,
                GROUPS => self.groups = Texts::new(cursor.block()?),
                DEVICE_ID => self.device_id = cursor.text()?,
                SESSION_ID => self.session_id = cursor.text()?,
                PATH => self.path = cursor.text()?,
                ORIGIN => self.origin = cursor.text()?,
                QUERY => self.query = cursor.text()?,
                FRAGMENT => self.fragment = cursor.text()?,
                REFERRER => self.referrer = cursor.text()?,
                REFERRER_NAME => self.referrer_name = cursor.text()?,
                REFERRER_TYPE => self.referrer_type = cursor.text()?,
                REVENUE => self.revenue = cursor.varint()?,
                SDK_NAME => self.sdk_name = cursor.text()?,
                SDK_VERSION => self.sdk_version = cursor.text()?,
                IS_SERVER => self.is_server = cursor.varint()? != 0,
                IS_IMPORTED => self.is_imported = cursor.varint()? != 0,
                key => cursor = cursor.skip_unknown(key, KNOWN)?,
            }
        }
        Ok(())
    }
}

/// A request of a known bot, which became no event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BotView<'a> {
    /// The bot's name.
    pub name: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// The page that it asked for.
    pub path: &'a str,
}

impl<'a> BotView<'a> {
    pub(super) fn merge(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const NAME: u32 = block_key(1);
        const KIND: u32 = block_key(2);
        const PATH: u32 = block_key(3);
        while !cursor.is_empty() {
            match cursor.key()? {
                NAME => self.name = cursor.text()?,
                KIND => self.kind = cursor.text()?,
                PATH => self.path = cursor.text()?,
                key => cursor = cursor.skip_unknown(key, known(&[1, 2, 3]))?,
            }
        }
        Ok(())
    }
}

/// A part of a recorded session, for playing it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayView<'a> {
    /// The session, as the SDK says or the door derived.
    pub session_id: &'a str,
    /// The device.
    pub device_id: &'a str,
    /// Its place in the recording.
    pub chunk_index: u32,
    /// Recorded events in it.
    pub events_count: u32,
    /// True if it stands alone.
    pub is_full_snapshot: bool,
    /// When its first event was.
    pub started_at: Option<Timestamp>,
    /// When its last event was.
    pub ended_at: Option<Timestamp>,
    /// The producer's own bytes.
    pub payload: &'a [u8],
}

impl<'a> ReplayView<'a> {
    pub(super) fn merge(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const SESSION_ID: u32 = block_key(1);
        const DEVICE_ID: u32 = block_key(2);
        const CHUNK_INDEX: u32 = varint_key(3);
        const EVENTS_COUNT: u32 = varint_key(4);
        const IS_FULL_SNAPSHOT: u32 = varint_key(5);
        const STARTED_AT: u32 = block_key(6);
        const ENDED_AT: u32 = block_key(7);
        const PAYLOAD: u32 = block_key(8);
        const KNOWN: u64 = known(&[1, 2, 3, 4, 5, 6, 7, 8]);
        while !cursor.is_empty() {
            match cursor.key()? {
                SESSION_ID => self.session_id = cursor.text()?,
                DEVICE_ID => self.device_id = cursor.text()?,
                CHUNK_INDEX => self.chunk_index = cursor.varint()? as u32,
                EVENTS_COUNT => self.events_count = cursor.varint()? as u32,
                IS_FULL_SNAPSHOT => self.is_full_snapshot = cursor.varint()? != 0,
                STARTED_AT => merge_timestamp(&mut self.started_at, cursor.message()?)?,
                ENDED_AT => merge_timestamp(&mut self.ended_at, cursor.message()?)?,
                PAYLOAD => self.payload = cursor.block()?,
                key => cursor = cursor.skip_unknown(key, KNOWN)?,
            }
        }
        Ok(())
    }
}
