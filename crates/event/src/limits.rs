//! Every limit of the contract, with its unit and its reason (I7).

/// Events in one batch of the agents door. 10,000 is what agents sent to the systems before
/// this one; a batch of that size is no slower per event than one of 1,000.
pub const EVENTS_PER_BATCH_MAX: u32 = 10_000;

/// Bytes of one request body, inflated. 10,000 events of 290 bytes fit twice; 64 requests of
/// this size fit into the 128 MiB that a gateway holds in flight.
pub const BODY_BYTES_MAX: usize = 8 << 20;

/// Bytes of one event as sent. An event is a line or a small JSON document; with the stamp it
/// stays far under the 1,000,012 bytes that Kafka allows a record.
pub const EVENT_BYTES_MAX: u32 = 65_536;

/// Bytes of one event with what a door adds to it: the largest record a door can make.
pub const RECORD_BYTES_MAX: u32 = EVENT_BYTES_MAX + 16 * 1024;

/// Seconds that an event may be older than its reception at the agents door: 168 h, the
/// window in which repeats are known for certain (X1).
pub const EVENT_AGE_MAX_SECONDS: i64 = 168 * 3_600;

/// Seconds that an agent's clock may run ahead of the door's.
pub const CLOCK_SKEW_MAX_SECONDS: i64 = 300;

/// The one protocol version of the agents door.
pub const PROTOCOL_VERSION: u32 = 1;

/// The one version of the event schema.
pub const SCHEMA_VERSION: u32 = 1;

/// Bytes of an identifier: a UUID with a prefix fits.
pub const IDENTIFIER_BYTES_MAX: usize = 64;

/// Least bytes of an agent's event id; shorter ones collide by accident.
pub const EVENT_ID_BYTES_MIN: usize = 8;

/// Bytes of a host name: the DNS limit.
pub const HOSTNAME_BYTES_MAX: usize = 255;

/// Bytes of an operating system's name.
pub const OS_BYTES_MAX: usize = 128;

/// Bytes of an architecture's name.
pub const ARCHITECTURE_BYTES_MAX: usize = 32;

/// Bytes of an address in text: an IPv6 address with an embedded IPv4 one.
pub const ADDRESS_BYTES_MAX: usize = 45;

/// Bytes of a collector's name.
pub const COLLECTOR_BYTES_MAX: usize = 64;

/// Bytes of a collection's source, which may be a path.
pub const SOURCE_BYTES_MAX: usize = 512;

/// Bytes of the reason of an outcome.
pub const OUTCOME_REASON_BYTES_MAX: usize = 64;

/// Bytes of an authentication method.
pub const METHOD_BYTES_MAX: usize = 32;

/// Bytes of the collected line.
pub const RAW_RECORD_BYTES_MAX: usize = 4_096;

/// Bytes of a user's name.
pub const USER_NAME_BYTES_MAX: usize = 256;

/// Bytes of a user's domain: the DNS limit.
pub const USER_DOMAIN_BYTES_MAX: usize = 255;

/// Bytes of a user's id.
pub const USER_UID_BYTES_MAX: usize = 64;

/// Bytes of a service's name.
pub const SERVICE_NAME_BYTES_MAX: usize = 64;

/// Bytes of a service's protocol.
pub const SERVICE_PROTOCOL_BYTES_MAX: usize = 32;

/// The largest port.
pub const PORT_MAX: u32 = 65_535;

/// Bytes of a published message's type.
pub const MESSAGE_TYPE_BYTES_MAX: usize = 255;

/// Bytes of a published message's id.
pub const MESSAGE_ID_BYTES_MAX: usize = 256;

/// Bytes of a published message's source.
pub const MESSAGE_SOURCE_BYTES_MAX: usize = 512;

/// Groups within groups in unknown fields. Groups are long deprecated; no producer nests
/// them, and the walk's stack of open groups must be bounded.
pub const GROUP_DEPTH_MAX: usize = 64;
