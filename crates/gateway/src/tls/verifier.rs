//! Verification of client certificates: WebPKI's, and the clientAuth usage
//! named outright (G4). WebPKI accepts a certificate that names no usage at
//! all; such a one may have been made for anything.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

pub(super) struct AgentVerifier {
    inner: Arc<dyn ClientCertVerifier>,
}

impl AgentVerifier {
    pub(super) fn new(inner: Arc<dyn ClientCertVerifier>) -> Self {
        Self { inner }
    }
}

impl fmt::Debug for AgentVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentVerifier").finish_non_exhaustive()
    }
}

fn names_client_auth(leaf: &CertificateDer<'_>) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(leaf) else {
        return false;
    };
    matches!(parsed.extended_key_usage(), Ok(Some(usage)) if usage.value.client_auth)
}

impl ClientCertVerifier for AgentVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self
            .inner
            .verify_client_cert(end_entity, intermediates, now)?;
        if !names_client_auth(end_entity) {
            return Err(Error::InvalidCertificate(CertificateError::InvalidPurpose));
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
