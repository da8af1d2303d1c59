//! The payloads that a record may carry, borrowed from its bytes.

use crate::view::{CLASS_AUTHENTICATION, CLASS_MESSAGE, CLASS_PROFILE, CLASS_TRACK};
use crate::wire::{Cursor, Malformed, block_key, known, varint_key};

/// A record's payload. Of several, the last one's kind counts, and those of that kind since
/// another stood are merged, as protobuf says of a `oneof`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Body<'a> {
    /// None was there.
    #[default]
    None,
    /// A logon or logoff.
    Authentication(AuthenticationView<'a>),
    /// A product event.
    Track(TrackView<'a>),
    /// A profile change.
    Profile(ProfileView<'a>),
    /// A published message.
    Message(MessageView<'a>),
}

/// A logon or logoff. Enums are numbers; see [`activity_name`] and its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names are the contract's own")]
pub struct AuthenticationView<'a> {
    pub activity: i32,
    pub outcome: i32,
    pub outcome_reason: &'a str,
    pub method: &'a str,
    pub user_name: &'a str,
    pub user_domain: &'a str,
    pub user_uid: &'a str,
    pub service_name: &'a str,
    pub service_protocol: &'a str,
    pub source_ip: &'a str,
    pub source_port: u32,
    pub destination_ip: &'a str,
    pub destination_port: u32,
    pub transport: i32,
    pub raw_record: &'a str,
}

/// A product event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrackView<'a> {
    /// The event's name.
    pub name: &'a str,
    /// The producer's own JSON.
    pub properties: &'a [u8],
}

/// A profile change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProfileView<'a> {
    /// The profile that changes.
    pub profile_id: &'a str,
    /// The producer's own JSON.
    pub properties: &'a [u8],
}

/// A published message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessageView<'a> {
    /// The type, contract field `type`.
    pub kind: &'a str,
    /// The producer's name of where it comes from.
    pub source: &'a str,
    /// What it is about.
    pub subject: &'a str,
    /// Whom it is for.
    pub consumer: &'a str,
    /// The producer's own bytes.
    pub data: &'a [u8],
    /// Content type of `data`.
    pub data_content_type: &'a str,
    /// True if `data` came as base64 and is binary.
    pub data_base64: bool,
    /// A JSON object of extension attributes, or empty.
    pub extensions: &'a [u8],
    /// A JSON object of strings, or empty.
    pub labels: &'a [u8],
    /// The producer's idempotency key, or empty.
    pub idempotency_key: &'a str,
    /// Result of the schema check by number, see [`crate::SchemaCheck`].
    pub schema: i32,
}

impl<'a> Body<'a> {
    /// Merges the field of `key` if it is a payload; false, with nothing read, if not.
    pub(crate) fn merge(&mut self, key: u32, cursor: &mut Cursor<'a>) -> Result<bool, Malformed> {
        const AUTHENTICATION: u32 = block_key(16);
        const TRACK: u32 = block_key(110);
        const PROFILE: u32 = block_key(111);
        const MESSAGE: u32 = block_key(112);
        match (key, &mut *self) {
            (AUTHENTICATION, Self::Authentication(view)) => view.merge(cursor.message()?)?,
            (AUTHENTICATION, _) => {
                let mut view = AuthenticationView::default();
                view.merge(cursor.message()?)?;
                *self = Self::Authentication(view);
            }
            (TRACK, Self::Track(view)) => view.merge(cursor.message()?)?,
            (TRACK, _) => {
                let mut view = TrackView::default();
                view.merge(cursor.message()?)?;
                *self = Self::Track(view);
            }
            (PROFILE, Self::Profile(view)) => view.merge(cursor.message()?)?,
            (PROFILE, _) => {
                let mut view = ProfileView::default();
                view.merge(cursor.message()?)?;
                *self = Self::Profile(view);
            }
            (MESSAGE, Self::Message(view)) => view.merge(cursor.message()?)?,
            (MESSAGE, _) => {
                let mut view = MessageView::default();
                view.merge(cursor.message()?)?;
                *self = Self::Message(view);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl<'a> AuthenticationView<'a> {
    fn merge(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
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
                ACTIVITY => self.activity = cursor.varint()? as i32,
                OUTCOME => self.outcome = cursor.varint()? as i32,
                OUTCOME_REASON => self.outcome_reason = cursor.text()?,
                METHOD => self.method = cursor.text()?,
                USER => self.merge_user(cursor.message()?)?,
                SERVICE => self.merge_service(cursor.message()?)?,
                NETWORK => self.merge_network(cursor.message()?)?,
                RAW_RECORD => self.raw_record = cursor.text()?,
                key => cursor = cursor.skip_unknown(key, KNOWN)?,
            }
        }
        Ok(())
    }

    fn merge_user(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const NAME: u32 = block_key(1);
        const DOMAIN: u32 = block_key(2);
        const UID: u32 = block_key(3);
        while !cursor.is_empty() {
            match cursor.key()? {
                NAME => self.user_name = cursor.text()?,
                DOMAIN => self.user_domain = cursor.text()?,
                UID => self.user_uid = cursor.text()?,
                key => cursor = cursor.skip_unknown(key, known(&[1, 2, 3]))?,
            }
        }
        Ok(())
    }

    fn merge_service(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const NAME: u32 = block_key(1);
        const PROTOCOL: u32 = block_key(2);
        while !cursor.is_empty() {
            match cursor.key()? {
                NAME => self.service_name = cursor.text()?,
                PROTOCOL => self.service_protocol = cursor.text()?,
                key => cursor = cursor.skip_unknown(key, known(&[1, 2]))?,
            }
        }
        Ok(())
    }

    fn merge_network(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const SOURCE: u32 = block_key(1);
        const DESTINATION: u32 = block_key(2);
        const TRANSPORT: u32 = varint_key(3);
        while !cursor.is_empty() {
            match cursor.key()? {
                SOURCE => {
                    let (ip, port) = (&mut self.source_ip, &mut self.source_port);
                    merge_endpoint(ip, port, cursor.message()?)?;
                }
                DESTINATION => {
                    let (ip, port) = (&mut self.destination_ip, &mut self.destination_port);
                    merge_endpoint(ip, port, cursor.message()?)?;
                }
                TRANSPORT => self.transport = cursor.varint()? as i32,
                key => cursor = cursor.skip_unknown(key, known(&[1, 2, 3]))?,
            }
        }
        Ok(())
    }
}

fn merge_endpoint<'a>(
    ip: &mut &'a str,
    port: &mut u32,
    mut cursor: Cursor<'a>,
) -> Result<(), Malformed> {
    const IP: u32 = block_key(1);
    const PORT: u32 = varint_key(2);
    while !cursor.is_empty() {
        match cursor.key()? {
            IP => *ip = cursor.text()?,
            PORT => *port = cursor.varint()? as u32,
            key => cursor = cursor.skip_unknown(key, known(&[1, 2]))?,
        }
    }
    Ok(())
}

impl<'a> TrackView<'a> {
    fn merge(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const NAME: u32 = block_key(1);
        const PROPERTIES: u32 = block_key(2);
        while !cursor.is_empty() {
            match cursor.key()? {
                NAME => self.name = cursor.text()?,
                PROPERTIES => self.properties = cursor.block()?,
                key => cursor = cursor.skip_unknown(key, known(&[1, 2]))?,
            }
        }
        Ok(())
    }
}

impl<'a> ProfileView<'a> {
    fn merge(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const PROFILE_ID: u32 = block_key(1);
        const PROPERTIES: u32 = block_key(2);
        while !cursor.is_empty() {
            match cursor.key()? {
                PROFILE_ID => self.profile_id = cursor.text()?,
                PROPERTIES => self.properties = cursor.block()?,
                key => cursor = cursor.skip_unknown(key, known(&[1, 2]))?,
            }
        }
        Ok(())
    }
}

impl<'a> MessageView<'a> {
    fn merge(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const KIND: u32 = block_key(1);
        const SOURCE: u32 = block_key(2);
        const SUBJECT: u32 = block_key(3);
        const CONSUMER: u32 = block_key(4);
        const DATA: u32 = block_key(5);
        const DATA_CONTENT_TYPE: u32 = block_key(6);
        const DATA_BASE64: u32 = varint_key(7);
        const EXTENSIONS: u32 = block_key(8);
        const LABELS: u32 = block_key(9);
        const IDEMPOTENCY_KEY: u32 = block_key(10);
        const SCHEMA: u32 = varint_key(11);
        const KNOWN: u64 = known(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        while !cursor.is_empty() {
            match cursor.key()? {
                KIND => self.kind = cursor.text()?,
                SOURCE => self.source = cursor.text()?,
                SUBJECT => self.subject = cursor.text()?,
                CONSUMER => self.consumer = cursor.text()?,
                DATA => self.data = cursor.block()?,
                DATA_CONTENT_TYPE => self.data_content_type = cursor.text()?,
                DATA_BASE64 => self.data_base64 = cursor.varint()? != 0,
                EXTENSIONS => self.extensions = cursor.block()?,
                LABELS => self.labels = cursor.block()?,
                IDEMPOTENCY_KEY => self.idempotency_key = cursor.text()?,
                SCHEMA => self.schema = cursor.varint()? as i32,
                key => cursor = cursor.skip_unknown(key, KNOWN)?,
            }
        }
        Ok(())
    }
}

/// The short name of an event class: empty for 0, none for a number that has none.
pub fn class_name(class: i32) -> Option<&'static str> {
    match class {
        0 => Some(""),
        CLASS_AUTHENTICATION => Some("authentication"),
        CLASS_TRACK => Some("track"),
        CLASS_PROFILE => Some("profile"),
        CLASS_MESSAGE => Some("message"),
        _ => None,
    }
}

/// The short name of an activity: empty for 0, none for a number that has none.
pub fn activity_name(activity: i32) -> Option<&'static str> {
    ["", "logon", "logoff"]
        .get(usize::try_from(activity).ok()?)
        .copied()
}

/// The short name of an outcome: empty for 0, none for a number that has none.
pub fn outcome_name(outcome: i32) -> Option<&'static str> {
    ["", "success", "failure"]
        .get(usize::try_from(outcome).ok()?)
        .copied()
}

/// The short name of a transport: empty for 0, none for a number that has none.
pub fn transport_name(transport: i32) -> Option<&'static str> {
    ["", "tcp", "udp"]
        .get(usize::try_from(transport).ok()?)
        .copied()
}
