//! New connections: judged, dialled at the very address that was judged, and secured.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Category, Fault, Phase};
use crate::guard::Guard;

/// Longest try of one address while there are others.
const ADDRESS_TIME_MAX: Duration = Duration::from_secs(3);
/// Configurations of certificates kept, each of a webhook's own.
const OWN_ROOTS_MAX: usize = 1_000;

/// Whose certificates are believed: the system's roots, or a webhook's own.
pub struct Trust {
    system: Arc<ClientConfig>,
    own: RefCell<HashMap<String, Arc<ClientConfig>>>,
}

impl Trust {
    /// The system's roots. Without any, each TLS handshake fails and says why.
    #[must_use]
    pub fn of_system() -> Self {
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "a root certificate of the system cannot be read");
        }
        roots.add_parsable_certificates(found.certs);
        Self {
            system: Arc::new(config(roots)),
            own: RefCell::default(),
        }
    }

    /// The configuration for a webhook.
    fn config(&self, own: Option<&str>) -> Result<Arc<ClientConfig>, Fault> {
        let Some(pem) = own else {
            return Ok(Arc::clone(&self.system));
        };
        if let Some(known) = self.own.borrow().get(pem) {
            return Ok(Arc::clone(known));
        }
        let roots = roots_of(pem).map_err(|e| Fault::new(Category::TlsError, Phase::Tls, e))?;
        let made = Arc::new(config(roots));
        let mut own = self.own.borrow_mut();
        if own.len() >= OWN_ROOTS_MAX {
            own.clear();
        }
        own.insert(pem.to_owned(), Arc::clone(&made));
        Ok(made)
    }
}

/// The certificates of a PEM text.
///
/// # Errors
/// What is wrong with it.
pub fn roots_of(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| format!("ca_pem: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("ca_pem: {error}"))?;
    }
    match roots.is_empty() {
        true => Err("ca_pem: holds no certificate".to_owned()),
        false => Ok(roots),
    }
}

fn config(roots: RootCertStore) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    // Receivers are other people's servers: some have no TLS 1.3 yet.
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .expect("the provider has both")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

/// Dials the first of the addresses that the guard lets through and that answers.
pub(super) async fn dial(
    guard: &Guard,
    addresses: &[IpAddr],
    port: u16,
) -> Result<TcpStream, Fault> {
    let mut fault = Fault::new(
        Category::DnsError,
        Phase::Resolve,
        "the name has no address",
    );
    for (place, address) in addresses.iter().enumerate() {
        if let Err(refused) = guard.judge(*address) {
            fault = Fault::blocked(&refused);
            continue;
        }
        let dialling = TcpStream::connect(SocketAddr::new(*address, port));
        let has_others = place + 1 < addresses.len();
        let dialled = match has_others {
            true => tokio::time::timeout(ADDRESS_TIME_MAX, dialling)
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
            false => dialling.await,
        };
        match dialled {
            Ok(stream) => {
                // A delivery is one write that nothing follows.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => fault = refused_or_lost(&error, *address, port),
        }
    }
    Err(fault)
}

fn refused_or_lost(error: &io::Error, address: IpAddr, port: u16) -> Fault {
    let category = match error.kind() {
        io::ErrorKind::ConnectionRefused => Category::ConnectionRefused,
        io::ErrorKind::TimedOut => Category::Timeout,
        _ => Category::NetworkError,
    };
    let place = SocketAddr::new(address, port);
    Fault::new(category, Phase::Connect, format!("{place}: {error}"))
}

/// The TLS handshake. True where both sides speak HTTP/2.
pub(super) async fn secure(
    trust: &Trust,
    own_roots: Option<&str>,
    host: &str,
    stream: TcpStream,
) -> Result<(TlsStream<TcpStream>, bool), Fault> {
    let config = trust.config(own_roots)?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(bare.to_owned())
        .map_err(|error| Fault::new(Category::TlsError, Phase::Tls, error.to_string()))?;
    let secured = TlsConnector::from(config).connect(name, stream).await;
    let stream = secured.map_err(|error| {
        // Without a TLS fault in it, the connection broke.
        let is_tls = error
            .get_ref()
            .is_some_and(|inner| inner.is::<rustls::Error>());
        let category = match is_tls {
            true => Category::TlsError,
            false => Category::NetworkError,
        };
        Fault::new(category, Phase::Tls, error.to_string())
    })?;
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    Ok((stream, is_h2))
}
