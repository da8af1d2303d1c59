//! A client that speaks to a door as an agent or a service would.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::pki::{Authority, Leaf};

/// A test that hangs is a test that failed.
const PATIENCE: Duration = Duration::from_secs(20);

pub enum Client {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

pub fn tls_config(servers: &Authority, leaf: Option<&Leaf>, alpn: &str) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(servers.der.clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match leaf {
        Some(leaf) => builder
            .with_client_auth_cert(vec![leaf.der.clone()], leaf.key())
            .unwrap(),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    config
}

pub async fn tls_stream(
    address: SocketAddr,
    config: ClientConfig,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

impl Client {
    pub async fn over_tls(
        address: SocketAddr,
        config: ClientConfig,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let http2 = config.alpn_protocols == [b"h2".to_vec()];
        let io = TokioIo::new(tls_stream(address, config).await?);
        if http2 {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
            tokio::spawn(connection);
            return Ok(Client::Http2(sender));
        }
        let (sender, connection) = http1::handshake(io).await?;
        tokio::spawn(connection);
        Ok(Client::Http1(sender))
    }

    pub async fn plain(address: SocketAddr) -> Self {
        let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (sender, connection) = http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        Client::Http1(sender)
    }

    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Answer {
        self.try_send(request).await.unwrap()
    }

    pub async fn try_send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Answer> {
        let answered = async {
            let response = match self {
                Client::Http1(sender) => {
                    sender.ready().await?;
                    sender.send_request(request).await?
                }
                Client::Http2(sender) => {
                    sender.ready().await?;
                    sender.send_request(request).await?
                }
            };
            collect(response).await
        };
        tokio::time::timeout(PATIENCE, answered)
            .await
            .expect("no answer in time")
    }
}

async fn collect(response: Response<hyper::body::Incoming>) -> hyper::Result<Answer> {
    let (head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Answer {
        status: head.status,
        headers: head.headers,
        body,
    })
}
