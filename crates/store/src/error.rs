//! The one error type of this crate.

use std::path::{Path, PathBuf};

/// What can go wrong with tables, their files and their list.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
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
    /// A Parquet file can't be written or read.
    #[error("parquet file {}: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the format's library says.
        source: parquet::errors::ParquetError,
    },
    /// A file's rows can't be put into memory as the table's columns.
    #[error("columns of {}: {source}", path.display())]
    Arrow {
        /// The file.
        path: PathBuf,
        /// What the library says.
        source: arrow_schema::ArrowError,
    },
    /// A file was written by a later version of this program.
    #[error("{} has version {found} of table {table}, this build knows {known}", path.display())]
    NewerTable {
        /// The file, or the folder of the lake.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// The version found.
        found: u32,
        /// The latest version known.
        known: u32,
    },
    /// A listed file does not hold what the list says.
    #[error("{} does not match the list: {reason}", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// Hard links can't go from one file system to another.
    #[error(
        "{} and {} are on different file systems: the one holds hard links to the other's files, \
         so put both on one",
        tables.display(),
        files.display()
    )]
    TwoFileSystems {
        /// The folder of the links.
        tables: PathBuf,
        /// The folder of the files.
        files: PathBuf,
    },
    /// An entry of the committed list can't be read.
    #[error("entry {key} of the file list can't be read: {reason}")]
    Entry {
        /// Key of the entry.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The state store failed.
    #[error(transparent)]
    State(#[from] fulmar_flow::FlowError),
    /// Committed sessions can't be taken up.
    #[error(transparent)]
    Sessions(#[from] fulmar_sessions::StateFault),
    /// The log failed.
    #[error(transparent)]
    Log(#[from] fulmar_log::LogError),
    /// A thread could not be started.
    #[error("cannot start thread {name}: {source}")]
    Thread {
        /// Name of the thread.
        name: &'static str,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The work was given up because the server stops.
    #[error("stopped")]
    Stopped,
}

impl StoreError {
    /// Whether a file is gone or holds other bytes than the list says. What else keeps a file
    /// from being read (too many open ones, a failing device) may pass.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            StoreError::Mismatch { .. } => true,
            StoreError::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        }
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Adds what was tried and where to an I/O error.
pub(crate) fn io_error(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(std::io::Error) -> StoreError {
    let path = path.to_path_buf();
    move |source| StoreError::Io {
        action,
        path,
        source,
    }
}

/// Adds the file to an error of the Parquet library.
pub(crate) fn parquet_error(
    path: &Path,
) -> impl FnOnce(parquet::errors::ParquetError) -> StoreError {
    let path = path.to_path_buf();
    move |source| StoreError::Parquet { path, source }
}

/// Adds the file to an error of the Arrow library.
pub(crate) fn arrow_error(path: &Path) -> impl FnOnce(arrow_schema::ArrowError) -> StoreError {
    let path = path.to_path_buf();
    move |source| StoreError::Arrow { path, source }
}
