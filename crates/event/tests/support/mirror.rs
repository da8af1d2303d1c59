//! The contract as `prost` decodes it: written by hand from `proto/fulmar_event_v1.proto`.

use prost::Message as _;

#[derive(Clone, PartialEq, prost::Message)]
pub struct Event {
    #[prost(string, tag = "1")]
    pub event_id: String,
    #[prost(uint32, tag = "2")]
    pub schema_version: u32,
    #[prost(int32, tag = "3")]
    pub event_class: i32,
    #[prost(message, optional, tag = "4")]
    pub time: Option<Timestamps>,
    #[prost(message, optional, tag = "5")]
    pub origin: Option<Origin>,
    #[prost(message, optional, tag = "6")]
    pub collection: Option<Collection>,
    #[prost(message, optional, tag = "7")]
    pub reception: Option<Reception>,
    #[prost(oneof = "Body", tags = "16, 110, 111, 112, 113, 114")]
    pub body: Option<Body>,
    #[prost(message, optional, tag = "100")]
    pub stamp: Option<Stamp>,
    #[prost(message, optional, tag = "101")]
    pub enrichment: Option<Enrichment>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Body {
    #[prost(message, tag = "16")]
    Authentication(Authentication),
    #[prost(message, tag = "110")]
    Track(Track),
    #[prost(message, tag = "111")]
    Profile(Profile),
    #[prost(message, tag = "112")]
    Message(Message),
    #[prost(message, tag = "113")]
    Bot(Bot),
    #[prost(message, tag = "114")]
    Replay(Replay),
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Timestamp {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Timestamps {
    #[prost(message, optional, tag = "1")]
    pub event_time: Option<Timestamp>,
    #[prost(message, optional, tag = "2")]
    pub observed_time: Option<Timestamp>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Reception {
    #[prost(message, optional, tag = "1")]
    pub ingest_time: Option<Timestamp>,
    #[prost(string, tag = "2")]
    pub gateway: String,
    #[prost(string, tag = "3")]
    pub batch_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Origin {
    #[prost(string, tag = "1")]
    pub tenant_id: String,
    #[prost(string, tag = "2")]
    pub agent_id: String,
    #[prost(message, optional, tag = "3")]
    pub host: Option<Host>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Host {
    #[prost(string, tag = "1")]
    pub hostname: String,
    #[prost(string, tag = "2")]
    pub ip: String,
    #[prost(string, tag = "3")]
    pub os: String,
    #[prost(string, tag = "4")]
    pub architecture: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Collection {
    #[prost(string, tag = "1")]
    pub collector: String,
    #[prost(string, tag = "2")]
    pub source: String,
    #[prost(uint64, tag = "3")]
    pub sequence: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Authentication {
    #[prost(int32, tag = "1")]
    pub activity: i32,
    #[prost(int32, tag = "2")]
    pub outcome: i32,
    #[prost(string, tag = "3")]
    pub outcome_reason: String,
    #[prost(string, tag = "4")]
    pub method: String,
    #[prost(message, optional, tag = "5")]
    pub user: Option<User>,
    #[prost(message, optional, tag = "6")]
    pub service: Option<Service>,
    #[prost(message, optional, tag = "7")]
    pub network: Option<Network>,
    #[prost(string, tag = "15")]
    pub raw_record: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct User {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub domain: String,
    #[prost(string, tag = "3")]
    pub uid: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Service {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub protocol: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Network {
    #[prost(message, optional, tag = "1")]
    pub source: Option<Endpoint>,
    #[prost(message, optional, tag = "2")]
    pub destination: Option<Endpoint>,
    #[prost(int32, tag = "3")]
    pub transport: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Endpoint {
    #[prost(string, tag = "1")]
    pub ip: String,
    #[prost(uint32, tag = "2")]
    pub port: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Stamp {
    #[prost(string, tag = "1")]
    pub project: String,
    #[prost(string, tag = "2")]
    pub source: String,
    #[prost(int32, tag = "3")]
    pub door: i32,
    #[prost(uint64, tag = "4")]
    pub control_offset: u64,
    #[prost(string, tag = "5")]
    pub key: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Enrichment {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Track {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub properties: Vec<u8>,
    #[prost(string, tag = "3")]
    pub profile_id: String,
    #[prost(bytes = "vec", tag = "4")]
    pub groups: Vec<u8>,
    #[prost(string, tag = "5")]
    pub device_id: String,
    #[prost(string, tag = "6")]
    pub session_id: String,
    #[prost(string, tag = "7")]
    pub path: String,
    #[prost(string, tag = "8")]
    pub origin: String,
    #[prost(string, tag = "9")]
    pub query: String,
    #[prost(string, tag = "10")]
    pub fragment: String,
    #[prost(string, tag = "11")]
    pub referrer: String,
    #[prost(string, tag = "12")]
    pub referrer_name: String,
    #[prost(string, tag = "13")]
    pub referrer_type: String,
    #[prost(uint64, tag = "14")]
    pub revenue: u64,
    #[prost(string, tag = "15")]
    pub sdk_name: String,
    #[prost(string, tag = "16")]
    pub sdk_version: String,
    #[prost(bool, tag = "17")]
    pub is_server: bool,
    #[prost(bool, tag = "18")]
    pub is_imported: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Profile {
    #[prost(string, tag = "1")]
    pub profile_id: String,
    #[prost(bytes = "vec", tag = "2")]
    pub properties: Vec<u8>,
    #[prost(int32, tag = "3")]
    pub change: i32,
    #[prost(string, tag = "4")]
    pub first_name: String,
    #[prost(string, tag = "5")]
    pub last_name: String,
    #[prost(string, tag = "6")]
    pub email: String,
    #[prost(string, tag = "7")]
    pub avatar: String,
    #[prost(string, tag = "8")]
    pub property: String,
    #[prost(int64, tag = "9")]
    pub amount_micros: i64,
    #[prost(bytes = "vec", tag = "10")]
    pub groups: Vec<u8>,
    #[prost(string, tag = "11")]
    pub group_id: String,
    #[prost(string, tag = "12")]
    pub group_type: String,
    #[prost(string, tag = "13")]
    pub group_name: String,
    #[prost(string, tag = "14")]
    pub device_id: String,
    #[prost(string, tag = "15")]
    pub session_id: String,
    #[prost(string, tag = "16")]
    pub alias: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Bot {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub kind: String,
    #[prost(string, tag = "3")]
    pub path: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Replay {
    #[prost(string, tag = "1")]
    pub session_id: String,
    #[prost(string, tag = "2")]
    pub device_id: String,
    #[prost(uint32, tag = "3")]
    pub chunk_index: u32,
    #[prost(uint32, tag = "4")]
    pub events_count: u32,
    #[prost(bool, tag = "5")]
    pub is_full_snapshot: bool,
    #[prost(message, optional, tag = "6")]
    pub started_at: Option<Timestamp>,
    #[prost(message, optional, tag = "7")]
    pub ended_at: Option<Timestamp>,
    #[prost(bytes = "vec", tag = "8")]
    pub payload: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Message {
    #[prost(string, tag = "1")]
    pub kind: String,
    #[prost(string, tag = "2")]
    pub source: String,
    #[prost(string, tag = "3")]
    pub subject: String,
    #[prost(string, tag = "4")]
    pub consumer: String,
    #[prost(bytes = "vec", tag = "5")]
    pub data: Vec<u8>,
    #[prost(string, tag = "6")]
    pub data_content_type: String,
    #[prost(bool, tag = "7")]
    pub data_base64: bool,
    #[prost(bytes = "vec", tag = "8")]
    pub extensions: Vec<u8>,
    #[prost(bytes = "vec", tag = "9")]
    pub labels: Vec<u8>,
    #[prost(string, tag = "10")]
    pub idempotency_key: String,
    #[prost(int32, tag = "11")]
    pub schema: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct EventBatch {
    #[prost(string, tag = "1")]
    pub batch_id: String,
    #[prost(uint32, tag = "2")]
    pub protocol_version: u32,
    #[prost(message, repeated, tag = "3")]
    pub events: Vec<Event>,
}

/// Decodes an event; none if it is malformed.
pub fn decode(bytes: &[u8]) -> Option<Event> {
    Event::decode(bytes).ok()
}

/// Decodes a batch; none if it is malformed.
pub fn decode_batch(bytes: &[u8]) -> Option<EventBatch> {
    EventBatch::decode(bytes).ok()
}
