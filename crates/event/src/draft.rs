//! Records of what SDKs send, written by the track door and by folds.

use crate::body::{BotView, ProfileView, ReplayView, TrackView};
use crate::encode;
use crate::enrichment::Enrichment;
use crate::limits::SCHEMA_VERSION;
use crate::message::{Door, Stamp, reception};
use crate::records::Records;
use crate::time::Timestamp;
use crate::view::{CLASS_BOT, CLASS_PROFILE, CLASS_REPLAY, CLASS_TRACK};

/// What a record says besides its payload. The caller has checked the contract's rules.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The event's id, as sent or minted by the door.
    pub event_id: &'a str,
    /// When it happened.
    pub time: Timestamp,
    /// When the door accepted it.
    pub ingest_time: Timestamp,
    /// The door's name.
    pub gateway: &'a str,
    /// The request that carried it.
    pub batch_id: &'a str,
    /// The project, from the client's id.
    pub project: &'a str,
    /// The authenticated client: the source in the event's identity.
    pub client: &'a str,
    /// The ordering key (I3).
    pub key: &'a str,
    /// The door.
    pub door: Door,
    /// The registry version that the door had applied (R2).
    pub control_offset: u64,
    /// What the door looked up.
    pub enrichment: Enrichment<'a>,
}

/// Appends a device to a whole record of a product event, whose own it takes the place of: of a
/// field that stands twice the last counts.
pub fn encode_device(device: &str, out: &mut Vec<u8>) {
    let class = CLASS_TRACK.unsigned_abs();
    encode::message(class, out, |out| encode::text(5, device, out));
}

/// A payload that [`Head::append_to`] can write.
pub trait Payload {
    /// Number of its class, which is also its field's.
    const CLASS: i32;

    /// Appends the payload's fields.
    fn encode(&self, out: &mut Vec<u8>);
}

impl Head<'_> {
    /// Appends a record with this payload to `out`, in `partition`.
    pub fn append_to<P: Payload>(&self, payload: &P, partition: u16, out: &mut Records) {
        let mark = out.begin(partition);
        self.encode(payload, out.buffer());
        out.end(mark);
    }

    /// Appends a record with this payload to `out` as one `Event`.
    pub fn encode<P: Payload>(&self, payload: &P, out: &mut Vec<u8>) {
        encode::text(1, self.event_id, out);
        encode::number(2, u64::from(SCHEMA_VERSION), out);
        encode::enumeration(3, P::CLASS, out);
        encode::message(4, out, |out| encode::timestamp(1, self.time, out));
        encode::message(5, out, |out| encode::text(1, self.project, out));
        reception(self.ingest_time, self.gateway, self.batch_id, out);
        encode::message(P::CLASS.unsigned_abs(), out, |out| payload.encode(out));
        let stamp = Stamp {
            project: self.project,
            source: self.client,
            door: self.door,
            control_offset: self.control_offset,
            key: self.key,
        };
        stamp.encode(out);
        self.enrichment.encode(out);
    }
}

impl Payload for TrackView<'_> {
    const CLASS: i32 = CLASS_TRACK;

    fn encode(&self, out: &mut Vec<u8>) {
        encode::text(1, self.name, out);
        encode::bytes(2, self.properties, out);
        encode::text(3, self.profile_id, out);
        encode::bytes(4, self.groups.as_bytes(), out);
        encode::text(5, self.device_id, out);
        encode::text(6, self.session_id, out);
        encode::text(7, self.path, out);
        encode::text(8, self.origin, out);
        encode::text(9, self.query, out);
        encode::text(10, self.fragment, out);
        encode::text(11, self.referrer, out);
        encode::text(12, self.referrer_name, out);
        encode::text(13, self.referrer_type, out);
        encode::number(14, self.revenue, out);
        encode::text(15, self.sdk_name, out);
        encode::text(16, self.sdk_version, out);
        encode::number(17, u64::from(self.is_server), out);
        encode::number(18, u64::from(self.is_imported), out);
    }
}

impl Payload for ProfileView<'_> {
    const CLASS: i32 = CLASS_PROFILE;

    fn encode(&self, out: &mut Vec<u8>) {
        encode::text(1, self.profile_id, out);
        encode::bytes(2, self.properties, out);
        encode::enumeration(3, self.change, out);
        encode::text(4, self.first_name, out);
        encode::text(5, self.last_name, out);
        encode::text(6, self.email, out);
        encode::text(7, self.avatar, out);
        encode::text(8, self.property, out);
        encode::number(9, self.amount_micros as u64, out);
        encode::bytes(10, self.groups.as_bytes(), out);
        encode::text(11, self.group_id, out);
        encode::text(12, self.group_type, out);
        encode::text(13, self.group_name, out);
        encode::text(14, self.device_id, out);
        encode::text(15, self.session_id, out);
        encode::text(16, self.alias, out);
    }
}

impl Payload for BotView<'_> {
    const CLASS: i32 = CLASS_BOT;

    fn encode(&self, out: &mut Vec<u8>) {
        encode::text(1, self.name, out);
        encode::text(2, self.kind, out);
        encode::text(3, self.path, out);
    }
}

impl Payload for ReplayView<'_> {
    const CLASS: i32 = CLASS_REPLAY;

    fn encode(&self, out: &mut Vec<u8>) {
        encode::text(1, self.session_id, out);
        encode::text(2, self.device_id, out);
        encode::number(3, u64::from(self.chunk_index), out);
        encode::number(4, u64::from(self.events_count), out);
        encode::number(5, u64::from(self.is_full_snapshot), out);
        for (field, time) in [(6, self.started_at), (7, self.ended_at)] {
            if let Some(time) = time {
                encode::timestamp(field, time, out);
            }
        }
        encode::bytes(8, self.payload, out);
    }
}

/// What a record of class `profile` changes. The discriminant is the number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProfileChange {
    /// Names, address, picture and properties that the producer gives.
    Identify = 1,
    /// Adds `amount_micros` to one property.
    Add = 2,
    /// Joins groups.
    AssignGroups = 3,
    /// Properties, type and name of a group.
    Group = 4,
    /// `alias` is `profile_id` from now on.
    Alias = 5,
    /// A session of the profile started; written by the session fold.
    SessionStart = 6,
    /// A session of the profile ended; written by the session fold.
    SessionEnd = 7,
    /// What came before of the profile, or of the whole project where none is named, is to be
    /// forgotten; written for an operator, and by folds that pass it on.
    Forget = 8,
}

impl ProfileChange {
    /// The change of that number.
    pub fn from_number(number: i32) -> Option<Self> {
        [
            Self::Identify,
            Self::Add,
            Self::AssignGroups,
            Self::Group,
            Self::Alias,
            Self::SessionStart,
            Self::SessionEnd,
            Self::Forget,
        ]
        .into_iter()
        .find(|change| *change as i32 == number)
    }
}
