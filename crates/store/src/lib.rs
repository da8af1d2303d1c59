//! Tables: projection to Arrow, the Parquet lake, compaction, SQL over it.
//!
//! A record becomes a row once ([`tables`]); the [`writer`] folds the topic
//! `events` into blocks of rows; the [`lake`] keeps them as Parquet files and
//! merges these into sorted days; [`quarantine`] keeps what could not be stored.

mod checksum;
pub mod delivery_writer;
mod error;
pub mod lake;
mod parquet_codes;
pub mod parquet_file;
pub mod profile_writer;
pub mod quarantine;
pub mod query;
mod refusal;
mod table_reader;
pub mod tables;
pub mod writer;

pub use checksum::Contents;
pub use delivery_writer::DeliveryWriter;
pub use error::{Result, StoreError};
pub use lake::{Forgotten, Lake, LakeConfig, Snapshot, scan_file, scan_identities};
pub use profile_writer::{ProfileJournals, ProfileWriter};
pub use table_reader::TableReader;
pub use tables::{Table, TextRows};
pub use writer::{Writer, WriterConfig, WriterJournals};
