//! The contract: a view over wire bytes, validation, verdicts, stamping, limits, ids.
//!
//! Everything here is pure: bytes in, bytes or verdicts out, no clock and no I/O. The
//! messages are those of `proto/fulmar_event_v1.proto`; nothing is decoded into owned
//! structs on the way from a door to the log ([`admit_batch`]) or from the log to a table
//! ([`EventView`]).

mod address;
mod admit;
mod answer;
mod authentication;
mod batch;
mod body;
mod contract;
mod encode;
mod identifier;
pub mod limits;
mod message;
mod partition;
mod quarantined;
mod records;
mod text;
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
pub use authentication::{AuthenticationDraft, encode_event};
pub use batch::BatchBuilder;
pub use body::{
    AuthenticationView, Body, MessageView, ProfileView, TrackView, activity_name, class_name,
    outcome_name, transport_name,
};
pub use contract::{Reason, Violation};
pub use identifier::{agent_id_ok, identifier_ok};
pub use message::{Door, MessageDraft, SchemaCheck};
pub use partition::{murmur2, partition_of};
pub use quarantined::{QuarantineReason, Quarantined};
pub use records::{Mark, RawRecord, RecordIter, Records, RecordsError};
pub use time::Timestamp;
pub use verdict::{Code, Rejection};
pub use view::{EventView, StampView};
pub use wire::Malformed;
