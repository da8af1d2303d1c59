//! Who is at the other end: the name in a verified client certificate, asked
//! again at every request (I9).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fulmar_event::{Timestamp, agent_id_ok};
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{Material, Tls};

/// A client certificate that passed the handshake, for as long as its
/// connection lives.
pub struct ClientCertificate {
    name: Option<Box<str>>,
    not_after_seconds: i64,
    /// As presented, leaf first: verified again when the authorities change.
    chain: Vec<CertificateDer<'static>>,
    verified_generation: AtomicU64,
    tls: Arc<Tls>,
}

/// Why a connection has no identity, or has it no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unauthenticated {
    /// No client certificate was presented.
    #[error("a client certificate is required")]
    NoCertificate,
    /// The leaf has no common name, several, or one that breaks the agent rule.
    #[error("the client certificate does not name an agent")]
    NoAgentName,
    /// The leaf ended while the connection lived.
    #[error("the client certificate has expired")]
    Expired,
    /// No authority of the current bundle vouches for the chain.
    #[error("the client certificate is no longer trusted")]
    NoLongerTrusted,
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCertificate")
            .field("name", &self.name)
            .field("not_after_seconds", &self.not_after_seconds)
            .finish_non_exhaustive()
    }
}

impl ClientCertificate {
    /// From the chain of a finished handshake; `None` when the leaf can't be
    /// parsed, which the verifier has ruled out.
    pub(crate) fn new(
        chain: &[CertificateDer<'_>],
        material: &Material,
        tls: &Arc<Tls>,
    ) -> Option<Self> {
        let leaf = chain.first()?;
        let (_, parsed) = X509Certificate::from_der(leaf).ok()?;
        Some(Self {
            name: agent_name(&parsed),
            not_after_seconds: parsed.validity().not_after.timestamp(),
            chain: chain.iter().map(|der| der.clone().into_owned()).collect(),
            verified_generation: AtomicU64::new(material.clients_generation),
            tls: Arc::clone(tls),
        })
    }

    /// The agent's id, if the certificate still stands at `now`.
    ///
    /// Costs a comparison and one `stat`; the chain is verified again only
    /// when the bundle of authorities has changed since.
    pub fn agent_id(&self, now: Timestamp) -> Result<&str, Unauthenticated> {
        let Some(name) = &self.name else {
            return Err(Unauthenticated::NoAgentName);
        };
        if now.seconds > self.not_after_seconds {
            return Err(Unauthenticated::Expired);
        }
        let material = self.tls.material_for_live();
        let generation = material.clients_generation;
        if self.verified_generation.load(Ordering::Relaxed) != generation {
            self.verify_again(&material, now)?;
            self.verified_generation
                .store(generation, Ordering::Relaxed);
        }
        Ok(name)
    }

    fn verify_again(&self, material: &Material, now: Timestamp) -> Result<(), Unauthenticated> {
        let (Some(verifier), Some((leaf, rest))) = (&material.clients, self.chain.split_first())
        else {
            return Err(Unauthenticated::NoLongerTrusted);
        };
        let seconds = u64::try_from(now.seconds).unwrap_or(0);
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        match verifier.verify_client_cert(leaf, rest, now) {
            Ok(_) => Ok(()),
            Err(_) => Err(Unauthenticated::NoLongerTrusted),
        }
    }
}

/// The one common name of the leaf, if it follows the agent rule. Two names
/// would let two readers of one certificate see two agents.
fn agent_name(leaf: &X509Certificate<'_>) -> Option<Box<str>> {
    let mut names = leaf.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?;
    if names.next().is_some() || !agent_id_ok(name.as_bytes()) {
        return None;
    }
    Some(name.into())
}
