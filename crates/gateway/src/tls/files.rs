//! Reading a set of TLS files and noticing that it changed.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::verifier::AgentVerifier;
use super::{Material, TlsPaths};
use crate::error::GatewayError;
use crate::limits::TLS_FILE_BYTES_MAX;

/// What tells one state of a file from another: size and change times (the
/// second moves even when a tool sets the first back) and the inode, which a
/// rename changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    inode: u64,
}

/// The stamps of one set of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamps {
    certificate: Stamp,
    key: Stamp,
    clients: Option<Stamp>,
}

impl Stamps {
    pub(super) fn clients_are(&self, stamp: Stamp) -> bool {
        self.clients == Some(stamp)
    }
}

pub(super) fn read_stamp(path: &Path) -> Result<Stamp, GatewayError> {
    let metadata = fs::metadata(path).map_err(|source| GatewayError::ReadFile {
        path: path.to_owned(),
        source,
    })?;
    Ok(Stamp {
        bytes: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
        inode: metadata.ino(),
    })
}

pub(super) fn read_stamps(paths: &TlsPaths) -> Result<Stamps, GatewayError> {
    Ok(Stamps {
        certificate: read_stamp(&paths.certificate)?,
        key: read_stamp(&paths.key)?,
        clients: paths.clients_ca.as_deref().map(read_stamp).transpose()?,
    })
}

/// Reads a set. The generation of its client authorities goes up when their
/// bundle differs from that of `before`.
pub(super) fn load(
    paths: &TlsPaths,
    provider: &Arc<CryptoProvider>,
    before: Option<&Material>,
) -> Result<Material, GatewayError> {
    let chain = read_certificates(&paths.certificate)?.0;
    let not_after_seconds = not_after(&chain[0], &paths.certificate)?;
    let key_pem = read_file(&paths.key)?;
    let key = PrivateKeyDer::from_pem_slice(&key_pem)
        .map_err(|error| bad_pem(&paths.key, "private key", &error))?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    let mut clients = None;
    let mut clients_bundle = Vec::new();
    let builder = match &paths.clients_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let (roots, bundle) = read_certificates(path)?;
            let verifier = client_verifier(roots, provider)?;
            clients = Some(Arc::clone(&verifier));
            clients_bundle = bundle;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed session would skip the verification of the client's chain.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    let clients_generation = match before {
        None => 0,
        Some(before) if before.clients_bundle == clients_bundle => before.clients_generation,
        Some(before) => before.clients_generation + 1,
    };
    let config = Arc::new(config);
    Ok(Material {
        config,
        clients,
        clients_generation,
        clients_bundle,
        not_after_seconds,
    })
}

fn client_verifier(
    authorities: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, GatewayError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority)?;
    }
    let inner = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| GatewayError::ClientAuthorities(error.to_string()))?;
    Ok(Arc::new(AgentVerifier::new(inner)))
}

/// The certificates of a PEM file, at least one, and the file's bytes.
fn read_certificates(path: &Path) -> Result<(Vec<CertificateDer<'static>>, Vec<u8>), GatewayError> {
    let pem = read_file(path)?;
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        certificates.push(certificate.map_err(|error| bad_pem(path, "certificate", &error))?);
    }
    if certificates.is_empty() {
        return Err(bad_pem(path, "certificate", &"the file has none"));
    }
    Ok((certificates, pem))
}

fn not_after(leaf: &CertificateDer<'_>, path: &Path) -> Result<i64, GatewayError> {
    let (_, parsed) = X509Certificate::from_der(leaf)
        .map_err(|error| bad_pem(path, "X.509 certificate", &error))?;
    Ok(parsed.validity().not_after.timestamp())
}

fn read_file(path: &Path) -> Result<Vec<u8>, GatewayError> {
    let failed = |source| GatewayError::ReadFile {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(TLS_FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > TLS_FILE_BYTES_MAX {
        let path = path.to_owned();
        return Err(GatewayError::FileTooLong {
            path,
            bytes_max: TLS_FILE_BYTES_MAX,
        });
    }
    Ok(bytes)
}

fn bad_pem(path: &Path, what: &'static str, detail: &dyn std::fmt::Display) -> GatewayError {
    GatewayError::BadPem {
        path: path.to_owned(),
        what,
        detail: detail.to_string(),
    }
}
