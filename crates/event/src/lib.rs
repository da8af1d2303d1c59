//! The contract: a view over wire bytes, validation, verdicts, stamping, limits, ids.
//!
//! Everything here is pure: bytes in, bytes or verdicts out, no clock and no I/O. The
//! messages are those of `proto/fulmar_event_v1.proto`; nothing is decoded into owned
//! structs on the way from a door to the log ([`admit_batch`]) or from the log to a table
//! ([`EventView`]).

mod address;
mod admit;
mod answer;
mod attempt;
mod authentication;
mod batch;
mod body;
mod contract;
mod draft;
mod encode;
mod enrichment;
mod identifier;
mod json;
pub mod limits;
mod message;
mod partition;
mod properties;
mod quarantined;
mod query;
mod records;
mod session_id;
mod string_stop;
mod text;
mod texts;
mod time;
mod values;
mod verdict;
mod view;
pub mod wire;

pub use address::address_ok;
pub use admit::{Admitted, BatchRules, admit_batch, walk_batch};
pub use answer::{
    Ack, Descriptor, Refusal, decode_ack, decode_descriptor, decode_rejection, encode_ack,
    encode_descriptor,
};
pub use attempt::{AttemptRecord, DeliveryStatus};
pub use authentication::{AuthenticationDraft, encode_event};
pub use batch::BatchBuilder;
pub use body::{
    AuthenticationView, Body, BotView, MessageView, ProfileView, ReplayView, TrackView,
    activity_name, class_name, outcome_name, transport_name,
};
pub use contract::{Reason, Violation};
pub use draft::{Head, Payload, ProfileChange, encode_device};
pub use enrichment::Enrichment;
pub use identifier::{agent_id_ok, identifier_ok};
pub use json::{DEPTH_MAX, JsonFault};
pub use message::{Door, MessageDraft, SchemaCheck, idempotent_body_id};
pub use partition::{murmur2, partition_of};
pub use properties::{FLAT_BYTES_MAX, FlattenError, PAIRS_MAX, flatten_properties};
pub use quarantined::{QuarantineReason, Quarantined};
pub use query::{Campaign, QUERY_PAIRS_MAX, campaign, query_pairs};
pub use records::{Mark, RawRecord, RecordIter, Records, RecordsError};
pub use session_id::{SessionId, session_id, session_id_of_record};
pub use string_stop::string_stop;
pub use texts::{Texts, encode_texts};
pub use time::Timestamp;
pub use verdict::{Code, Rejection};
pub use view::{EventView, StampView};
pub use wire::Malformed;
