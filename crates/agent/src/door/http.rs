//! One connection to a door: made when needed, made anew when broken.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::address::Endpoint;
use super::{Seen, address};
use crate::options::{Address, Door};

/// Time for TCP and TLS: a busy server's accept queue, not a dead one's.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Time for a whole answer: the server's own budget (30 s to read, 10 s to
/// publish, 30 s to write) has passed by then.
const ANSWER_MAX: Duration = Duration::from_secs(75);

/// Bytes of an answer: a verdict for each of 10,000 events, with room.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The longest `Retry-After` that is believed.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// A door's answer.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// From `Retry-After`, in whole seconds.
    pub retry_after: Option<Duration>,
    /// From the headers that name whom the server saw.
    pub seen: Seen,
    /// The body.
    pub body: Bytes,
}

/// A client of one door over HTTP/1.1, one request at a time, so that what is
/// sent keeps its order (I3).
pub struct Client {
    address: Address,
    door: Door,
    connection: Option<(String, SendRequest<Full<Bytes>>)>,
}

impl Client {
    /// A client that connects at its first request.
    pub fn new(address: Address, door: Door) -> Client {
        Client {
            address,
            door,
            connection: None,
        }
    }

    /// Posts `body` to a path. `tls` is asked for at each connection.
    /// The error is in words, as it is only ever retried; after one the next
    /// request looks the address up again.
    pub async fn post(
        &mut self,
        (path, content_type): (&'static str, &'static str),
        body: Bytes,
        authorization: Option<&HeaderValue>,
        tls: impl Fn() -> Result<ClientConfig, String>,
    ) -> Result<Answer, String> {
        let (authority, mut sender) = match self.connection.take() {
            Some((authority, sender)) if !sender.is_closed() => (authority, sender),
            _ => self.connect(tls).await?,
        };
        sender
            .ready()
            .await
            .map_err(|e| format!("connection to {authority}: {e}"))?;
        let mut request = Request::post(path)
            .header(HOST, &authority)
            .header(CONTENT_TYPE, content_type);
        if let Some(value) = authorization {
            request = request.header(hyper::header::AUTHORIZATION, value);
        }
        let request = request.body(Full::new(body)).map_err(|e| e.to_string())?;
        let answer = tokio::time::timeout(ANSWER_MAX, exchange(&mut sender, request))
            .await
            .map_err(|_| format!("no answer from {authority} in {ANSWER_MAX:?}"))?
            .map_err(|why| format!("request to {authority}: {why}"))?;
        self.connection = Some((authority, sender));
        Ok(answer)
    }

    async fn connect(
        &self,
        tls: impl Fn() -> Result<ClientConfig, String>,
    ) -> Result<(String, SendRequest<Full<Bytes>>), String> {
        let endpoint = address::resolve(&self.address, self.door)?;
        let authority = endpoint.authority();
        let connecting = open(&endpoint, tls);
        let sender = tokio::time::timeout(CONNECT_MAX, connecting)
            .await
            .map_err(|_| format!("connecting to {authority} took over {CONNECT_MAX:?}"))?
            .map_err(|why| format!("connecting to {authority}: {why}"))?;
        Ok((authority, sender))
    }
}

async fn open(
    endpoint: &Endpoint,
    tls: impl Fn() -> Result<ClientConfig, String>,
) -> Result<SendRequest<Full<Bytes>>, String> {
    let tcp = TcpStream::connect((endpoint.host.as_str(), endpoint.port))
        .await
        .map_err(|e| e.to_string())?;
    // A batch is one write; waiting to fill a packet only delays its end.
    let _ = tcp.set_nodelay(true);
    if !endpoint.tls {
        return handshake(TokioIo::new(tcp)).await;
    }
    let name = rustls::pki_types::ServerName::try_from(endpoint.host.clone())
        .map_err(|e| e.to_string())?;
    let connector = TlsConnector::from(Arc::new(tls()?));
    let stream = connector
        .connect(name, tcp)
        .await
        .map_err(|e| e.to_string())?;
    handshake(TokioIo::new(stream)).await
}

async fn handshake<T>(io: T) -> Result<SendRequest<Full<Bytes>>, String>
where
    T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(io).await.map_err(|e| e.to_string())?;
    tokio::spawn(async move {
        // What breaks the connection is also told to the request on it.
        let _ = connection.await;
    });
    Ok(sender)
}

async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<Answer, String> {
    let response = sender
        .send_request(request)
        .await
        .map_err(|e| describe(&e))?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX)
        .collect()
        .await
        .map_err(|e| e.to_string())?;
    Ok(Answer {
        status: head.status.as_u16(),
        retry_after: retry_after(&head.headers),
        seen: Seen {
            project: text(&head.headers, "fulmar-project"),
            source: text(&head.headers, "fulmar-source"),
        },
        body: body.to_bytes(),
    })
}

/// The innermost reason: hyper's own message only says which step failed.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers
        .get(RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}
