//! What can end a sending before its input is through.

use std::path::PathBuf;

/// Why `run` gave up. Faults of the server or the network are not here: those
/// are retried until the caller interrupts.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The options contradict each other or the contract.
    #[error("{0}")]
    Usage(String),
    /// A source, a certificate, the spool or the receipts file failed.
    #[error("{what} {path}: {source}")]
    File {
        /// What was being done, in words ("read", "open the spool").
        what: &'static str,
        /// The file or folder at fault.
        path: PathBuf,
        /// The system's own reason.
        source: std::io::Error,
    },
    /// A certificate, key or authority file holds nothing usable.
    #[error("{path}: {reason}")]
    Certificate {
        /// The file at fault.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Another sender holds this spool.
    #[error("the spool {0} is in use by another sender")]
    SpoolLocked(PathBuf),
    /// A frame before the tail of the spool does not check. It is never cut by
    /// itself, since whole batches stand behind it.
    #[error("the spool file {path} is damaged at byte {byte}")]
    SpoolDamaged {
        /// The segment at fault.
        path: PathBuf,
        /// Where in it the bad frame starts, in bytes.
        byte: u64,
    },
}

impl SendError {
    /// Wraps an I/O error with what was done and where.
    pub(crate) fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
        source: std::io::Error,
    ) -> SendError {
        SendError::File {
            what,
            path: path.into(),
            source,
        }
    }
}
