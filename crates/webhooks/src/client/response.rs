//! The bodies of an exchange: what is sent, and what is read, within bounds.

use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{HeaderName, LOCATION, RETRY_AFTER};

use super::Phase;
use super::course::Course;

const CONTROL: HeaderName = HeaderName::from_static("webhook-delivery");
/// Bytes of an answer that are kept.
const KEPT_BYTES_MAX: usize = 16 * 1024;
/// Bytes of an answer that are read, so that its connection can be used again; one that sends
/// more loses it.
const READ_BYTES_MAX: usize = 80 * 1024;
/// Bytes of a request's body that are handed over at once: the last piece goes when the others have
/// been written, so that a receiver that does not read is met in the phase `send`.
const PIECE_BYTES: usize = 64 * 1024;
/// Bytes of a header that is repeated in messages.
const HEADER_BYTES_SHOWN: usize = 256;

/// A request's body, which notes when it has gone out.
pub(super) struct Payload {
    bytes: Option<Bytes>,
    phase: Rc<Course>,
}

impl Payload {
    pub(super) fn new(bytes: Bytes, phase: Rc<Course>) -> Self {
        let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
        Self { bytes, phase }
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(mut bytes) = self.bytes.take() else {
            return Poll::Ready(None);
        };
        if bytes.len() > PIECE_BYTES {
            let piece = bytes.split_to(PIECE_BYTES);
            self.bytes = Some(bytes);
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        self.phase.set(Phase::Wait);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// What a receiver asks for beside its status, in the header `webhook-delivery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Not to be sent anything any more.
    Disable,
    /// Not to be sent this delivery again.
    AbortMessage,
}

impl Control {
    fn of(text: &str) -> Option<Self> {
        match text.trim() {
            "disable" => Some(Self::Disable),
            "abort-message" => Some(Self::AbortMessage),
            _ => None,
        }
    }
}

/// A receiver's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// `Retry-After`.
    pub retry_after: Option<String>,
    /// `webhook-delivery`.
    pub control: Option<Control>,
    /// `Location`, which is never followed.
    pub location: Option<String>,
    /// The first 16 KiB of its body, as they came: nothing is decompressed.
    pub body: Vec<u8>,
}

/// Reads an answer; false where its body was left unread, so that its connection is of no use.
pub(super) async fn read(response: Response<Incoming>) -> Result<(Reply, bool), hyper::Error> {
    let header = |name: HeaderName| {
        let value = response.headers().get(name)?.as_bytes();
        let shown = &value[..value.len().min(HEADER_BYTES_SHOWN)];
        Some(String::from_utf8_lossy(shown).into_owned())
    };
    let mut reply = Reply {
        status: response.status().as_u16(),
        retry_after: header(RETRY_AFTER),
        control: header(CONTROL).as_deref().and_then(Control::of),
        location: header(LOCATION),
        body: Vec::new(),
    };
    let mut body = response.into_body();
    let mut read_bytes = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        read_bytes += data.len();
        let room = KEPT_BYTES_MAX - reply.body.len();
        reply.body.extend_from_slice(&data[..data.len().min(room)]);
        if read_bytes > READ_BYTES_MAX {
            return Ok((reply, false));
        }
    }
    Ok((reply, true))
}
