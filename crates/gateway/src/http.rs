//! What a listener serves: peers, handlers and answers.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Version};
use tokio::sync::mpsc;

use crate::tls::ClientCertificate;

/// The other end of a connection.
#[derive(Debug)]
pub struct Peer {
    /// Its address as the socket has it; forwarding headers are not looked at.
    pub remote: SocketAddr,
    /// The verified client certificate, on a listener that requires one.
    pub certificate: Option<ClientCertificate>,
}

/// What a listener does with requests. One value serves all connections.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request. A panic in here is answered 500 and counted.
    fn handle(
        &self,
        request: Request<Incoming>,
        peer: &Arc<Peer>,
    ) -> impl Future<Output = Answer> + Send;

    /// The label under which a path is counted: one of a fixed few, never the
    /// path itself.
    fn route(&self, path: &str) -> &'static str;
}

/// A [`Handler`] behind a pointer, so that the server loop is compiled once, here, and not again
/// for every handler: one allocation a request for minutes of building saved.
pub(crate) trait AnyHandler: Send + Sync + 'static {
    fn handle<'a>(
        &'a self,
        request: Request<Incoming>,
        peer: &'a Arc<Peer>,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

    fn route(&self, path: &str) -> &'static str;
}

impl<H: Handler> AnyHandler for H {
    fn handle<'a>(
        &'a self,
        request: Request<Incoming>,
        peer: &'a Arc<Peer>,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(Handler::handle(self, request, peer))
    }

    fn route(&self, path: &str) -> &'static str {
        Handler::route(self, path)
    }
}

/// An HTTP response as the doors make them.
pub type Answer = Response<AnswerBody>;

/// The body of an answer.
#[derive(Debug)]
pub enum AnswerBody {
    /// All of it at once; `None` once sent, or when there is none.
    Whole(Option<Bytes>),
    /// Pieces from a producer. An error ends the connection mid-answer, so
    /// that a client can't take a part for the whole.
    Streamed(mpsc::Receiver<io::Result<Bytes>>),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            AnswerBody::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            AnswerBody::Streamed(pieces) => match pieces.poll_recv(cx) {
                Poll::Ready(Some(Ok(piece))) => Poll::Ready(Some(Ok(Frame::data(piece)))),
                Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, AnswerBody::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Whole(Some(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            AnswerBody::Whole(None) => SizeHint::with_exact(0),
            AnswerBody::Streamed(_) => SizeHint::default(),
        }
    }
}

/// An answer of one content type with all of its body.
pub fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let body: Bytes = body.into();
    let body = if body.is_empty() { None } else { Some(body) };
    let mut response = Response::new(AnswerBody::Whole(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A plain text answer: the router's own.
pub fn plain(status: StatusCode, text: &'static str) -> Answer {
    answer(
        status,
        "text/plain; charset=utf-8",
        Bytes::from_static(text.as_bytes()),
    )
}

/// 404, in plain text.
pub fn not_found() -> Answer {
    plain(StatusCode::NOT_FOUND, "not found\n")
}

/// 405 with the method that the path knows, in plain text.
pub fn method_not_allowed(allowed: &'static str) -> Answer {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Marks an answer as one that no cache may keep.
pub fn no_store(mut response: Answer) -> Answer {
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Tells the sender whom the door saw: with the event's id that is the identity
/// under which the event is stored, which a receipt needs.
pub(crate) fn with_identity(mut response: Answer, project: &str, source: &str) -> Answer {
    for (name, value) in [("fulmar-project", project), ("fulmar-source", source)] {
        // Names that no header can carry are left out.
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Ends an HTTP/1.1 connection after this answer, for a refusal that left the
/// body unread: reading on would spend what the refusal was to save. HTTP/2
/// resets the one stream by itself.
pub(crate) fn close_unread(mut response: Answer, version: Version, unread: bool) -> Answer {
    if unread && version < Version::HTTP_2 {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The label of a method; anything unusual is `other`.
pub(crate) fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::PATCH => "PATCH",
        _ => "other",
    }
}

/// The label of a status: its class.
pub(crate) fn status_label(status: StatusCode) -> &'static str {
    match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

/// A text as a part of a target.
pub fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            // What RFC 3986, section 2.3 reserves for nothing.
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
                out.push('%');
                out.extend([digit(byte >> 4), digit(byte & 15)].map(|c| c.to_ascii_uppercase()));
            }
        }
    }
    out
}

/// A part of a target, percent-decoded; none where that is no text.
pub fn percent_decoded(raw: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
        bytes.push(u8::try_from(high << 4 | low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_the_same_after_encoding_and_decoding() {
        assert_eq!(
            percent_encoded("a b/ü?&=+%"),
            "a%20b%2F%C3%BC%3F%26%3D%2B%25"
        );
        assert_eq!(percent_encoded("Az09-._~"), "Az09-._~");
        let all: String = (0..0x250).filter_map(char::from_u32).collect();
        assert_eq!(percent_decoded(&percent_encoded(&all)), Some(all));
    }
}
