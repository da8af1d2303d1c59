//! One agent's connection: mutual TLS 1.3 and HTTP/1.1, as agents speak it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::BenchError;

/// Where to connect and as whom.
#[derive(Clone)]
pub struct Dialer {
    address: SocketAddr,
    host: String,
    tls: Arc<ClientConfig>,
}

/// A connection in use.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Dialer {
    /// An agent with the certificate and key given, at `host` on `address`.
    pub fn new(
        address: SocketAddr,
        host: &str,
        certificate: &Path,
        key: &Path,
        authorities: &Path,
    ) -> Result<Dialer, BenchError> {
        let bad = |path: &Path, why: String| BenchError::Child {
            what: path.display().to_string(),
            why,
        };
        let read = |path: &Path| {
            CertificateDer::pem_file_iter(path)
                .and_then(|found| found.collect::<Result<Vec<_>, _>>())
                .map_err(|e| bad(path, e.to_string()))
        };
        let mut roots = RootCertStore::empty();
        for authority in read(authorities)? {
            roots
                .add(authority)
                .map_err(|e| bad(authorities, e.to_string()))?;
        }
        let private = PrivateKeyDer::from_pem_file(key).map_err(|e| bad(key, e.to_string()))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider has TLS 1.3")
            .with_root_certificates(roots)
            .with_client_auth_cert(read(certificate)?, private)
            .map_err(|e| bad(certificate, e.to_string()))?;
        Ok(Dialer {
            address,
            host: host.to_owned(),
            tls: Arc::new(config),
        })
    }

    /// Connects. The error is in words, for the report.
    pub async fn connect(&self) -> Result<Connection, String> {
        let tcp = TcpStream::connect(self.address)
            .await
            .map_err(|e| e.to_string())?;
        tcp.set_nodelay(true).map_err(|e| e.to_string())?;
        let name = ServerName::try_from(self.host.clone()).map_err(|e| e.to_string())?;
        let connector = TlsConnector::from(Arc::clone(&self.tls));
        let stream = connector
            .connect(name, tcp)
            .await
            .map_err(|e| e.to_string())?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|e| e.to_string())?;
        tokio::spawn(async move {
            // What breaks it is told to the request on it.
            let _ = connection.await;
        });
        Ok(Connection {
            sender,
            host: self.host.clone(),
        })
    }
}

impl Connection {
    /// Posts a batch: the status and body of the answer.
    pub async fn post(&mut self, body: Vec<u8>) -> Result<(u16, Bytes), String> {
        let request = Request::post("/v1/events")
            .header("host", &self.host)
            .header("content-type", "application/x-protobuf")
            .body(Full::new(Bytes::from(body)))
            .map_err(|e| e.to_string())?;
        self.sender.ready().await.map_err(|e| e.to_string())?;
        let response = self
            .sender
            .send_request(request)
            .await
            .map_err(|e| e.to_string())?;
        let status = response.status().as_u16();
        let body = response
            .into_body()
            .collect()
            .await
            .map_err(|e| e.to_string())?;
        Ok((status, body.to_bytes()))
    }
}
