//! The client's side of TLS 1.3, made anew from the files for each connection.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::error::SendError;
use crate::options::CertificateFiles;

/// A configuration that shows the agent's certificate.
pub fn agent_config(files: &CertificateFiles) -> Result<ClientConfig, SendError> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| bad(&files.key, e))?;
    builder(&files.authorities)?
        .with_client_auth_cert(chain, key)
        .map_err(|e| bad(&files.certificate, e))
}

/// A configuration without a certificate of the client.
pub fn anonymous_config(authorities: &Path) -> Result<ClientConfig, SendError> {
    Ok(builder(authorities)?.with_no_client_auth())
}

/// The certificates in a PEM file, leaf first; at least one.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SendError> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
        .map_err(|e| bad(path, e))?;
    match found.is_empty() {
        true => Err(bad(path, "holds no certificate")),
        false => Ok(found),
    }
}

fn builder(
    authorities: &Path,
) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>, SendError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authorities)? {
        roots.add(certificate).map_err(|e| bad(authorities, e))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has TLS 1.3");
    Ok(builder.with_root_certificates(roots))
}

fn bad(path: &Path, reason: impl std::fmt::Display) -> SendError {
    SendError::Certificate {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}
