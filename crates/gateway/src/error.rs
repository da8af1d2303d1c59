//! What can go wrong in setting a door up. Refusals of requests are not
//! errors: they are answers.

use std::io;
use std::path::PathBuf;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// A TLS file can't be read.
    #[error("can't read {}: {source}", path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A TLS file is longer than [`crate::limits::TLS_FILE_BYTES_MAX`].
    #[error("{} is longer than {bytes_max} bytes", path.display())]
    FileTooLong {
        /// The file.
        path: PathBuf,
        /// The limit.
        bytes_max: u64,
    },
    /// A TLS file holds no usable PEM.
    #[error("no {what} in {}: {detail}", path.display())]
    BadPem {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
        /// What the parser said.
        detail: String,
    },
    /// The files are readable but do not make a TLS server.
    #[error("the TLS files can't be used: {0}")]
    Tls(#[from] rustls::Error),
    /// The bundle of client authorities can't be used.
    #[error("the client authorities can't be used: {0}")]
    ClientAuthorities(String),
    /// A reload has failed for so long that the old set is no longer served.
    #[error("the TLS files have been unusable for {seconds} s: {detail}")]
    TlsStale {
        /// Since the first failed reload.
        seconds: u64,
        /// Why the last reload failed.
        detail: String,
    },
}
