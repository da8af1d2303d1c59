//! Where the doors put records: the log, behind a trait, so that a door can be
//! proved against one that is slow, full or broken.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use fulmar_event::Records;
use fulmar_log::{Journal, LogError};

/// The answer to an append: resolves only when it is durable, or was refused
/// (I1). Dropping it does not take the append back.
pub type Appending = Pin<Box<dyn Future<Output = Result<Placed, BackboneError>> + Send>>;

/// Where an append went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Offset of its first record; the others follow densely.
    pub first_offset: u64,
}

/// Why records are not durable. Told to the log's readers, never to a client.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BackboneError {
    /// The log refused or failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Any other backbone.
    #[error("{0}")]
    Other(String),
}

/// A durable, ordered place for records.
pub trait Backbone: Send + Sync + 'static {
    /// Appends all records as one, atomically over their partitions.
    fn append(&self, records: Records) -> Appending;

    /// An empty buffer for the next records, about `bytes` of them; in the memory
    /// of earlier ones if the backbone keeps any.
    fn buffer(&self, bytes: usize) -> Records {
        Records::with_capacity(bytes)
    }
}

impl Backbone for Arc<Journal> {
    fn buffer(&self, bytes: usize) -> Records {
        let mut records = Journal::buffer(self);
        records.buffer().reserve(bytes);
        records
    }

    fn append(&self, records: Records) -> Appending {
        let append = Journal::append(self, records);
        Box::pin(async move {
            let appended = append.await?;
            Ok(Placed {
                first_offset: appended.first_offset,
            })
        })
    }
}
