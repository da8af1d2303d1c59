//! A record's fields, borrowed from its bytes.

use crate::body::Body;
use crate::time::Timestamp;
use crate::wire::{Cursor, Malformed, block_key, known, varint_key};

/// Number of the class of authentication events.
pub(crate) const CLASS_AUTHENTICATION: i32 = 1;
/// Number of the class of product events.
pub(crate) const CLASS_TRACK: i32 = 110;
/// Number of the class of profile changes.
pub(crate) const CLASS_PROFILE: i32 = 111;
/// Number of the class of published messages.
pub(crate) const CLASS_MESSAGE: i32 = 112;
/// Number of the class of bots' requests.
pub(crate) const CLASS_BOT: i32 = 113;
/// Number of the class of parts of recorded sessions.
pub(crate) const CLASS_REPLAY: i32 = 114;

/// One `fulmar.event.v1.Event`, read in place. Absent text is empty and absent numbers are 0;
/// of a repeated scalar the last counts, and repeated submessages are merged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventView<'a> {
    /// The producer's id, as sent.
    pub event_id: &'a str,
    /// 1.
    pub schema_version: u32,
    /// The class by number; [`crate::class_name`] names it.
    pub event_class: i32,
    /// True if `time` was there.
    pub has_time: bool,
    /// When it happened.
    pub event_time: Option<Timestamp>,
    /// When the collector saw it.
    pub observed_time: Option<Timestamp>,
    /// The project, from the door.
    pub tenant_id: &'a str,
    /// The authenticated agent, from the door.
    pub agent_id: &'a str,
    /// Host name, as the producer says.
    pub host_hostname: &'a str,
    /// Host address, as the producer says.
    pub host_ip: &'a str,
    /// Operating system, as the producer says.
    pub host_os: &'a str,
    /// Architecture, as the producer says.
    pub host_architecture: &'a str,
    /// True if `collection` was there.
    pub has_collection: bool,
    /// What collected it.
    pub collector: &'a str,
    /// Where it was read; may be a path.
    pub collection_source: &'a str,
    /// The collector's count.
    pub sequence: u64,
    /// When the door accepted it.
    pub ingest_time: Option<Timestamp>,
    /// The door's name.
    pub gateway: &'a str,
    /// The request that carried it.
    pub batch_id: &'a str,
    /// The payload.
    pub body: Body<'a>,
    /// What the door observed.
    pub stamp: StampView<'a>,
    /// What the door looked up, for [`crate::Enrichment::parse`]; of several the last.
    pub enrichment: &'a [u8],
}

/// What the door observed. With the event id it names the event: (project, source, id).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StampView<'a> {
    /// The project.
    pub project: &'a str,
    /// The authenticated agent or client.
    pub source: &'a str,
    /// The door by number, see [`crate::Door`].
    pub door: i32,
    /// The registry version that the door had applied (R2).
    pub control_offset: u64,
    /// The ordering key (I3).
    pub key: &'a str,
}

/// Field numbers of `Event` below 64 whose wire type is known.
const EVENT: u64 = known(&[1, 2, 3, 4, 5, 6, 7, 16]);

impl<'a> EventView<'a> {
    /// Reads one record.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not a message of this contract: cut short, a known field
    /// of the wrong wire type, a string that is not UTF-8.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        const ID: u32 = block_key(1);
        const SCHEMA_VERSION: u32 = varint_key(2);
        const CLASS: u32 = varint_key(3);
        const TIME: u32 = block_key(4);
        const ORIGIN: u32 = block_key(5);
        const COLLECTION: u32 = block_key(6);
        let mut view = Self::default();
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            match cursor.key()? {
                ID => view.event_id = cursor.text()?,
                SCHEMA_VERSION => view.schema_version = cursor.varint()? as u32,
                CLASS => view.event_class = cursor.varint()? as i32,
                TIME => view.merge_time(cursor.message()?)?,
                ORIGIN => view.merge_origin(cursor.message()?)?,
                COLLECTION => view.merge_collection(cursor.message()?)?,
                key if view.merge_owned(key, &mut cursor)? => (),
                key if view.body.merge(key, &mut cursor)? => (),
                key if matches!(key >> 3, 100 | 101 | 110..=114) => {
                    return Err(Malformed::WireType(key >> 3));
                }
                key => cursor = cursor.skip_unknown(key, EVENT)?,
            }
        }
        Ok(view)
    }

    /// Merges the field of `key` if it is one that doors replace whole; false, with nothing
    /// read, if not.
    pub(crate) fn merge_owned(
        &mut self,
        key: u32,
        cursor: &mut Cursor<'a>,
    ) -> Result<bool, Malformed> {
        const RECEPTION: u32 = block_key(7);
        const STAMP: u32 = block_key(100);
        const ENRICHMENT: u32 = block_key(101);
        match key {
            RECEPTION => self.merge_reception(cursor.message()?)?,
            STAMP => self.stamp.merge(cursor.message()?)?,
            ENRICHMENT => {
                self.enrichment = cursor.block()?;
                check_enrichment(Cursor::new(self.enrichment))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn merge_time(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const EVENT_TIME: u32 = block_key(1);
        const OBSERVED_TIME: u32 = block_key(2);
        self.has_time = true;
        while !cursor.is_empty() {
            match cursor.key()? {
                EVENT_TIME => merge_timestamp(&mut self.event_time, cursor.message()?)?,
                OBSERVED_TIME => merge_timestamp(&mut self.observed_time, cursor.message()?)?,
                key => cursor = cursor.skip_unknown(key, known(&[1, 2]))?,
            }
        }
        Ok(())
    }

    fn merge_origin(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const TENANT_ID: u32 = block_key(1);
        const AGENT_ID: u32 = block_key(2);
        const HOST: u32 = block_key(3);
        while !cursor.is_empty() {
            match cursor.key()? {
                TENANT_ID => self.tenant_id = cursor.text()?,
                AGENT_ID => self.agent_id = cursor.text()?,
                HOST => self.merge_host(cursor.message()?)?,
                key => cursor = cursor.skip_unknown(key, known(&[1, 2, 3]))?,
            }
        }
        Ok(())
    }

    fn merge_host(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const HOSTNAME: u32 = block_key(1);
        const IP: u32 = block_key(2);
        const OS: u32 = block_key(3);
        const ARCHITECTURE: u32 = block_key(4);
        while !cursor.is_empty() {
            match cursor.key()? {
                HOSTNAME => self.host_hostname = cursor.text()?,
                IP => self.host_ip = cursor.text()?,
                OS => self.host_os = cursor.text()?,
                ARCHITECTURE => self.host_architecture = cursor.text()?,
                key => cursor = cursor.skip_unknown(key, known(&[1, 2, 3, 4]))?,
            }
        }
        Ok(())
    }

    fn merge_collection(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const COLLECTOR: u32 = block_key(1);
        const SOURCE: u32 = block_key(2);
        const SEQUENCE: u32 = varint_key(3);
        self.has_collection = true;
        while !cursor.is_empty() {
            match cursor.key()? {
                COLLECTOR => self.collector = cursor.text()?,
                SOURCE => self.collection_source = cursor.text()?,
                SEQUENCE => self.sequence = cursor.varint()?,
                key => cursor = cursor.skip_unknown(key, known(&[1, 2, 3]))?,
            }
        }
        Ok(())
    }

    fn merge_reception(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const INGEST_TIME: u32 = block_key(1);
        const GATEWAY: u32 = block_key(2);
        const BATCH_ID: u32 = block_key(3);
        while !cursor.is_empty() {
            match cursor.key()? {
                INGEST_TIME => merge_timestamp(&mut self.ingest_time, cursor.message()?)?,
                GATEWAY => self.gateway = cursor.text()?,
                BATCH_ID => self.batch_id = cursor.text()?,
                key => cursor = cursor.skip_unknown(key, known(&[1, 2, 3]))?,
            }
        }
        Ok(())
    }
}

impl<'a> StampView<'a> {
    fn merge(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const PROJECT: u32 = block_key(1);
        const SOURCE: u32 = block_key(2);
        const DOOR: u32 = varint_key(3);
        const CONTROL_OFFSET: u32 = varint_key(4);
        const KEY: u32 = block_key(5);
        while !cursor.is_empty() {
            match cursor.key()? {
                PROJECT => self.project = cursor.text()?,
                SOURCE => self.source = cursor.text()?,
                DOOR => self.door = cursor.varint()? as i32,
                CONTROL_OFFSET => self.control_offset = cursor.varint()?,
                KEY => self.key = cursor.text()?,
                key => cursor = cursor.skip_unknown(key, known(&[1, 2, 3, 4, 5]))?,
            }
        }
        Ok(())
    }
}

/// Merges a `google.protobuf.Timestamp` into `time`, which is there from now on.
pub(crate) fn merge_timestamp(
    time: &mut Option<Timestamp>,
    mut cursor: Cursor<'_>,
) -> Result<(), Malformed> {
    let time = time.get_or_insert_default();
    while !cursor.is_empty() {
        const SECONDS: u32 = varint_key(1);
        const NANOS: u32 = varint_key(2);
        match cursor.key()? {
            SECONDS => time.seconds = cursor.varint()? as i64,
            NANOS => time.nanos = cursor.varint()? as u32,
            key => cursor = cursor.skip_unknown(key, known(&[1, 2]))?,
        }
    }
    Ok(())
}

/// Only who needs an enrichment reads it; what is there must be fields.
fn check_enrichment(mut cursor: Cursor<'_>) -> Result<(), Malformed> {
    while !cursor.is_empty() {
        let key = cursor.key()?;
        cursor = cursor.skip(key)?;
    }
    Ok(())
}
