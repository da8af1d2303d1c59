//! The one error type of this crate.

use std::path::PathBuf;

/// What can go wrong below a fold: in the state store, in the index of repeats, in what they hold.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The state store failed; it is opened anew before it takes a further batch.
    #[error("state store: {0}")]
    State(#[from] fjall::Error),
    /// The state store failed and can't be opened anew yet: to be tried again later.
    #[error("the state store waits to be opened anew: {reason}")]
    StateWaits {
        /// What failed, and what it waits for.
        reason: String,
    },
    /// The state store failed so that nobody can tell what it holds, until it is opened by a new
    /// process.
    #[error("the state store failed, and only a restart settles what it holds: {reason}")]
    StateLost {
        /// What failed.
        reason: String,
    },
    /// A value in the state store is not what this version writes there.
    #[error("state store: {keyspace}/{key} cannot be read: {reason}")]
    StateValue {
        /// Keyspace of the value.
        keyspace: String,
        /// Key of the value, lossily as text.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file operation failed.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb ("read", "rename").
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// A file of the index of repeats does not match its checksum.
    #[error("damaged run {} at byte {byte}: {reason}", path.display())]
    DamagedRun {
        /// The run's file.
        path: PathBuf,
        /// Where the damage begins.
        byte: u64,
        /// What does not match.
        reason: &'static str,
    },
    /// A run that the committed list names is not on disk.
    #[error("missing run {}", path.display())]
    MissingRun {
        /// Where it should be.
        path: PathBuf,
    },
    /// The random source of the operating system failed.
    #[error("no randomness: {0}")]
    Random(String),
    /// A committed position lies outside the log, so that the two are not of one folder.
    #[error("{fold} is committed up to {position}, but {stream} holds {start} to {end}")]
    PositionOutside {
        /// The fold.
        fold: String,
        /// Its input.
        stream: String,
        /// The committed position.
        position: u64,
        /// First offset that the log still holds.
        start: u64,
        /// End of the log.
        end: u64,
    },
    /// The fold was known with another input topic (F1).
    #[error("{fold} reads {was}, not {now}")]
    StreamChanged {
        /// The fold.
        fold: String,
        /// The topic in committed state.
        was: String,
        /// The topic asked for.
        now: String,
    },
    /// A thread could not be started.
    #[error("cannot start thread {name}: {source}")]
    Thread {
        /// Name of the thread.
        name: String,
        /// The operating system's answer.
        source: std::io::Error,
    },
}

impl FlowError {
    /// Whether what is on disk is not what was written, so that no second try helps.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            FlowError::State(error) => is_damage(error),
            FlowError::StateValue { .. }
            | FlowError::DamagedRun { .. }
            | FlowError::MissingRun { .. } => true,
            _ => false,
        }
    }
}

/// The store's errors that tell of its bytes, not of the system or of another process.
fn is_damage(error: &fjall::Error) -> bool {
    let of_bytes = |error: &std::io::Error| {
        use std::io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
        matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
    };
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => {
            of_bytes(error)
        }
        fjall::Error::Locked | fjall::Error::Poisoned | fjall::Error::KeyspaceDeleted => false,
        // A later version of the store is a matter of versions, and names itself.
        fjall::Error::InvalidVersion(Some(_)) => false,
        _ => true,
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, FlowError>;

/// Adds what was tried and where to an I/O error.
pub(crate) fn io_error(
    action: &'static str,
    path: &std::path::Path,
) -> impl FnOnce(std::io::Error) -> FlowError {
    let path = path.to_path_buf();
    move |source| FlowError::Io {
        action,
        path,
        source,
    }
}
