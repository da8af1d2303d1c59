//! A small HTTP client to a running server: its public and its operations listener.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::addresses::same_minor;
use crate::exit::{Context as _, Failure};

/// Longest wait for a connection.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Longest answer that is read whole, in bytes: lists of the admin interface.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// The header in which a server tells its version.
pub const VERSION_HEADER: &str = "fulmar-version";
/// Of a query's answer that could not wait any longer: how many records that were durable when it
/// was asked are not in it.
pub const BEHIND_HEADER: &str = "fulmar-records-behind";

/// One listener of a server and how to speak to it.
#[derive(Clone)]
pub struct Client {
    authority: String,
    tls: Option<TlsConnector>,
    key: Option<String>,
}

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing answers there.
    #[error("no server answers at {authority}: {reason}")]
    NoAnswer {
        /// Where.
        authority: String,
        /// Why.
        reason: String,
    },
    /// The connection broke on the way.
    #[error("the connection to {authority} broke: {source}")]
    Broke {
        /// Where.
        authority: String,
        /// Why.
        source: hyper::Error,
    },
    /// The server speaks another minor version.
    #[error(
        "the server is fulmar {server}, this program is {}; use the same minor version",
        env!("CARGO_PKG_VERSION")
    )]
    OtherVersion {
        /// The server's version.
        server: String,
    },
    /// The answer was longer than is read whole.
    #[error("the answer is over {ANSWER_BYTES_MAX} bytes")]
    TooLong,
}

impl Client {
    /// A client of `http://host:port` or `https://host:port`; TLS needs the authority that signed
    /// the server's certificate.
    pub fn to_url(url: &str, ca: Option<&Path>, key: Option<String>) -> Result<Self, Failure> {
        let (tls, rest) = match url.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => {
                return Err(Failure::usage(format!(
                    "`{url}` is no http:// or https:// URL"
                )));
            }
        };
        let authority = rest.trim_end_matches('/');
        if authority.is_empty() || authority.contains('/') {
            return Err(Failure::usage(format!(
                "`{url}` must be a host and port only"
            )));
        }
        let tls = match (tls, ca) {
            (false, _) => None,
            (true, Some(ca)) => Some(connector(ca)?),
            (true, None) => {
                return Err(Failure::usage(
                    "an https:// server needs --ca, its authority (PEM)",
                ));
            }
        };
        let has_port = authority
            .rsplit_once(':')
            .is_some_and(|(_, p)| p.parse::<u16>().is_ok());
        let port = if tls.is_some() { 443 } else { 80 };
        let authority = if has_port {
            authority.to_owned()
        } else {
            format!("{authority}:{port}")
        };
        Ok(Self {
            authority,
            tls,
            key,
        })
    }

    /// Sends one request and gives the answer's head; the body is still to be read.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, content_type);
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, format!("Bearer {key}"));
        }
        let request = request
            .body(Full::new(body))
            .map_err(|e| self.no_answer(e))?;
        let stream = self.connect().await?;
        let response = match &self.tls {
            None => self.speak(TokioIo::new(stream), request).await,
            Some(tls) => {
                let host = self.authority.rsplit_once(':').map_or("", |(host, _)| host);
                let host = host
                    .trim_start_matches('[')
                    .trim_end_matches(']')
                    .to_owned();
                let name = ServerName::try_from(host).map_err(|e| self.no_answer(e))?;
                let stream = tls
                    .connect(name, stream)
                    .await
                    .map_err(|e| self.no_answer(e))?;
                self.speak(TokioIo::new(stream), request).await
            }
        }?;
        check_version(&response)?;
        Ok(response)
    }

    async fn connect(&self) -> Result<TcpStream, ClientError> {
        let connecting = TcpStream::connect(&self.authority);
        match tokio::time::timeout(CONNECT_TIME_MAX, connecting).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(self.no_answer(error)),
            Err(elapsed) => Err(self.no_answer(elapsed)),
        }
    }

    async fn speak<I>(
        &self,
        io: I,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ClientError>
    where
        I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let (mut sender, connection) = http1::handshake(io).await.map_err(|e| self.no_answer(e))?;
        // Drives the connection until the answer's body is read or dropped.
        tokio::spawn(connection);
        sender
            .send_request(request)
            .await
            .map_err(|source| ClientError::Broke {
                authority: self.authority.clone(),
                source,
            })
    }

    /// Sends JSON and reads a JSON answer whole. A refusal becomes a failure in the server's words.
    pub async fn post_json(
        &self,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<serde_json::Value, Failure> {
        let body = Bytes::from(serde_json::to_vec(body)?);
        let response = self
            .send(Method::POST, path, "application/json", body)
            .await?;
        let status = response.status();
        let bytes = read_whole(response).await?;
        if status.is_success() {
            return serde_json::from_slice(&bytes).context("the server's answer is not JSON");
        }
        Err(refusal(status, &bytes))
    }

    fn no_answer(&self, reason: impl std::fmt::Display) -> ClientError {
        ClientError::NoAnswer {
            authority: self.authority.clone(),
            reason: reason.to_string(),
        }
    }
}

/// Reads an answer's body whole, within a bound.
pub async fn read_whole(mut response: Response<Incoming>) -> Result<Vec<u8>, ClientError> {
    let mut bytes = Vec::new();
    while let Some(frame) = response.body_mut().frame().await {
        let frame = frame.map_err(|source| ClientError::Broke {
            authority: String::new(),
            source,
        })?;
        if let Ok(data) = frame.into_data() {
            if bytes.len() + data.len() > ANSWER_BYTES_MAX {
                return Err(ClientError::TooLong);
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}

/// A refusal in the server's words: the detail of a problem document, else the text itself.
pub fn refusal(status: StatusCode, body: &[u8]) -> Failure {
    let problem: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let member = |name: &str| problem.as_ref()?.get(name)?.as_str().map(str::to_owned);
    let text = member("detail")
        .or_else(|| member("title"))
        .unwrap_or_else(|| {
            String::from_utf8_lossy(body)
                .chars()
                .take(400)
                .collect::<String>()
                .trim()
                .to_owned()
        });
    let text = match member("field") {
        Some(field) => format!("{field}: {text}"),
        None => text,
    };
    match status {
        StatusCode::UNAUTHORIZED => {
            Failure::new(format!("the server does not know this key: {text}"))
        }
        StatusCode::FORBIDDEN => Failure::new(format!("the key may not do this: {text}")),
        _ => Failure::new(if text.is_empty() {
            status.to_string()
        } else {
            text
        }),
    }
}

fn check_version(response: &Response<Incoming>) -> Result<(), ClientError> {
    let Some(version) = response.headers().get(VERSION_HEADER) else {
        return Ok(());
    };
    let version = version.to_str().unwrap_or("?");
    if same_minor(version) {
        return Ok(());
    }
    Err(ClientError::OtherVersion {
        server: version.to_owned(),
    })
}

fn connector(ca: &Path) -> Result<TlsConnector, Failure> {
    let mut roots = rustls::RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(ca)
        .map_err(|e| Failure::new(format!("cannot read {}: {e}", ca.display())))?;
    for certificate in certificates {
        let certificate =
            certificate.map_err(|e| Failure::new(format!("cannot read {}: {e}", ca.display())))?;
        roots.add(certificate)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
