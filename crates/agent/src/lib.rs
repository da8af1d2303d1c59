//! The sender: reads logs, makes events of their lines, and sends them until
//! the door has answered for each.
//!
//! Threads read and parse sources and write batches into a spool on disk; one
//! task takes them off it and through a door, in order, one at a time. What is
//! in the spool is freed only by a full acknowledgement, so that a crash of the
//! sender or of the server loses nothing; ids depend on nothing but where a
//! line stands, so that what is sent twice is stored once (I2).

mod backoff;
mod batch;
mod deliver;
mod door;
mod error;
mod id;
mod identity;
mod item;
mod options;
pub mod parse;
mod place;
mod progress;
mod read;
mod receipts;
mod run;
mod spool;
mod window;

pub use error::SendError;
pub use id::event_id;
pub use item::Item;
pub use options::{
    Address, BatchLimits, CertificateFiles, Credentials, Door, Format, RETRY_WAIT_MAX,
    SPOOL_BYTES_MAX, SendOptions, Source, Summary,
};
pub use run::{default_source_name, run};
