//! TLS 1.3 for listeners: one set of files, re-read when they change, and the
//! identity that a verified client certificate gives.
//!
//! A failed reload: the system before this one fails handshakes at once, while
//! operators of others ask for the old set to go on. We serve the last good
//! set, with a metric and an error line, for [`TLS_STALE_TIME_MAX`]; then
//! handshakes fail. A set is replaced whole or not at all.

mod files;
mod identity;
mod verifier;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;

pub use identity::{ClientCertificate, Unauthenticated};

use crate::clock::Clock;
use crate::error::GatewayError;
use crate::limits::{TLS_RETRY_TIME_MIN, TLS_STALE_TIME_MAX};
use crate::metrics::Metrics;
use files::{Stamps, read_stamps};

/// Where a listener's TLS files are.
#[derive(Debug, Clone)]
pub struct TlsPaths {
    /// The server's certificate chain, PEM, leaf first.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// Authorities of client certificates, PEM. With it a client certificate
    /// is required; without it none is asked for.
    pub clients_ca: Option<PathBuf>,
}

/// A listener's TLS: the current set of files and what is made from it.
pub struct Tls {
    paths: TlsPaths,
    provider: Arc<CryptoProvider>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    current: Mutex<Current>,
}

struct Current {
    material: Arc<Material>,
    stamps: Stamps,
    failure: Option<Failure>,
}

struct Failure {
    since_ns: u64,
    tried_ns: u64,
    stamps: Option<Stamps>,
    detail: String,
}

/// One set of files, ready for handshakes.
pub struct Material {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) clients: Option<Arc<dyn ClientCertVerifier>>,
    /// Counts the distinct bundles of client authorities seen, so that live
    /// connections know when to verify their chain again.
    pub(crate) clients_generation: u64,
    clients_bundle: Vec<u8>,
    /// When the server's own certificate ends, in seconds since the epoch.
    pub(crate) not_after_seconds: i64,
}

impl Tls {
    /// Reads the files for the first time. Errors are those of the files.
    pub fn open(
        paths: TlsPaths,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Result<Arc<Self>, GatewayError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let stamps = read_stamps(&paths)?;
        let material = Arc::new(files::load(&paths, &provider, None)?);
        metrics
            .tls_not_after_seconds
            .set(material.not_after_seconds);
        let current = Mutex::new(Current {
            material,
            stamps,
            failure: None,
        });
        Ok(Arc::new(Self {
            paths,
            provider,
            clock,
            metrics,
            current,
        }))
    }

    /// The set to shake hands with now. Three `stat` calls (about 2 µs) unless
    /// a file changed, then they are read again under the lock.
    ///
    /// Errors when a reload has failed for over [`TLS_STALE_TIME_MAX`].
    pub fn material(&self) -> Result<Arc<Material>, GatewayError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = self.clock.monotonic_ns();
        let stamps = read_stamps(&self.paths);
        match &stamps {
            Ok(stamps) if *stamps == current.stamps => {
                // Unchanged, or put back as it was after a failed change.
                self.settle(&mut current);
            }
            _ if !current.worth_trying(stamps.as_ref().ok(), now_ns) => {}
            _ => self.reload(&mut current, stamps, now_ns),
        }
        current.usable(now_ns)
    }

    /// The set last read well, whatever the files hold by now, unless the
    /// bundle of client authorities changed: then as [`Tls::material`].
    pub(crate) fn material_for_live(&self) -> Arc<Material> {
        let clients_stamp = self.paths.clients_ca.as_deref().map(files::read_stamp);
        let unchanged = {
            let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(clients_stamp, Some(Ok(stamp)) if current.stamps.clients_are(stamp)) {
                return Arc::clone(&current.material);
            }
            Arc::clone(&current.material)
        };
        // Live connections are judged by the last good bundle even when the
        // set is stale: their certificates were verified and still expire.
        self.material().unwrap_or(unchanged)
    }

    fn reload(&self, current: &mut Current, stamps: Result<Stamps, GatewayError>, now_ns: u64) {
        // Stamps are taken before the files are read: a change in between is
        // seen at the next handshake.
        let seen = stamps.as_ref().ok().copied();
        let loaded =
            stamps.and_then(|_| files::load(&self.paths, &self.provider, Some(&current.material)));
        match loaded {
            Ok(material) => {
                tracing::info!(
                    certificate = %self.paths.certificate.display(),
                    "tls files reloaded"
                );
                self.metrics.tls_reload("ok");
                self.metrics
                    .tls_not_after_seconds
                    .set(material.not_after_seconds);
                current.material = Arc::new(material);
                current.stamps = seen.unwrap_or(current.stamps);
                self.settle(current);
            }
            Err(error) => {
                tracing::error!(%error, "tls files changed and can't be used, the old serve on");
                self.metrics.tls_reload("failed");
                self.metrics.tls_stale.set(1);
                let since_ns = current.failure.as_ref().map_or(now_ns, |f| f.since_ns);
                let detail = error.to_string();
                current.failure = Some(Failure {
                    since_ns,
                    tried_ns: now_ns,
                    stamps: seen,
                    detail,
                });
            }
        }
    }

    fn settle(&self, current: &mut Current) {
        if current.failure.take().is_some() {
            self.metrics.tls_stale.set(0);
        }
    }
}

impl Current {
    /// A set that failed is tried again when it changes, else once a second.
    fn worth_trying(&self, stamps: Option<&Stamps>, now_ns: u64) -> bool {
        let Some(failure) = &self.failure else {
            return true;
        };
        let retry_ns = TLS_RETRY_TIME_MIN.as_nanos() as u64;
        failure.stamps.as_ref() != stamps || now_ns.saturating_sub(failure.tried_ns) >= retry_ns
    }

    fn usable(&self, now_ns: u64) -> Result<Arc<Material>, GatewayError> {
        if let Some(failure) = &self.failure {
            let stale_ns = now_ns.saturating_sub(failure.since_ns);
            if stale_ns > TLS_STALE_TIME_MAX.as_nanos() as u64 {
                return Err(GatewayError::TlsStale {
                    seconds: stale_ns / 1_000_000_000,
                    detail: failure.detail.clone(),
                });
            }
        }
        Ok(Arc::clone(&self.material))
    }
}
