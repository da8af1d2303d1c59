//! Reading a request's body: bounded, streamed, inflated, into one buffer.

mod encoding;
mod inflate;

use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::Body;
use hyper::header::CONTENT_LENGTH;

pub use encoding::Encoding;
pub(crate) use encoding::encoding_of;

use crate::capacity::Reservation;
use crate::limits;
use crate::pool::PooledBuffer;
use inflate::{Inflate, InflateError};

/// Bounds of one body.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// Bytes, as sent and inflated.
    pub bytes_max: u64,
    /// Silence after which it is given up.
    pub stall_max: Duration,
    /// Time for all of it.
    pub time_max: Duration,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self {
            bytes_max: fulmar_event::limits::BODY_BYTES_MAX as u64,
            stall_max: limits::BODY_STALL_MAX,
            time_max: limits::BODY_TIME_MAX,
        }
    }
}

/// Why a body was not read. None of them says more than the client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyFault {
    /// 413: over the bound, as sent or inflated.
    #[error("the body is larger than the limit")]
    TooLarge,
    /// 400: the connection broke off, or the body is shorter than declared.
    #[error("the body could not be read")]
    Broken,
    /// 400: nothing came for too long, or it took too long.
    #[error("the body came too slowly")]
    Stalled,
    /// 400: it does not inflate, or ends in the middle.
    #[error("the compressed body is corrupt or cut short")]
    Corrupt,
    /// 503: it grew past what could be reserved.
    #[error("the gateway is at capacity")]
    AtCapacity,
}

/// The length that the headers declare, if any. Not trusted, only reserved.
pub(crate) fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// What to reserve before a body is read: the declared length of a plain one,
/// else the first step.
pub(crate) fn first_reservation(declared: Option<u64>, encoding: Encoding) -> u64 {
    match (encoding, declared) {
        (Encoding::Identity, Some(bytes)) => bytes,
        _ => limits::RESERVATION_STEP_BYTES,
    }
}

/// Reads the whole body into `out`, which is empty. The reservation grows in
/// steps ahead of the buffer; on an error `out` holds rubbish.
pub(crate) async fn read_body<B>(
    body: B,
    encoding: Encoding,
    bounds: &BodyLimits,
    reservation: &mut Reservation,
    out: &mut PooledBuffer,
) -> Result<(), BodyFault>
where
    B: Body<Data = Bytes> + Unpin,
{
    let read = read_frames(body, encoding, bounds, reservation, out);
    match tokio::time::timeout(bounds.time_max, read).await {
        Ok(result) => result,
        Err(_) => Err(BodyFault::Stalled),
    }
}

async fn read_frames<B>(
    mut body: B,
    encoding: Encoding,
    bounds: &BodyLimits,
    reservation: &mut Reservation,
    out: &mut PooledBuffer,
) -> Result<(), BodyFault>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut inflate = Inflate::new(encoding).map_err(|_| BodyFault::Corrupt)?;
    if let Some(exact) = body.size_hint().exact()
        && encoding == Encoding::Identity
    {
        // Reserved already; grown once, not as it comes.
        out.reserve(usize::try_from(exact.min(bounds.bytes_max)).unwrap_or(0));
    }
    let mut sent_bytes: u64 = 0;
    loop {
        let frame = match tokio::time::timeout(bounds.stall_max, body.frame()).await {
            Err(_) => return Err(BodyFault::Stalled),
            Ok(None) => break,
            Ok(Some(Err(_))) => return Err(BodyFault::Broken),
            Ok(Some(Ok(frame))) => frame,
        };
        // Trailers are not data.
        let Ok(mut data) = frame.into_data() else {
            continue;
        };
        sent_bytes += data.len() as u64;
        if sent_bytes > bounds.bytes_max {
            return Err(BodyFault::TooLarge);
        }
        loop {
            let room = grow(out, inflate.is_plain(), data.len(), bounds, reservation)?;
            let taken = inflate.push(&data, out, room).map_err(fault)?;
            data.advance(taken);
            if data.is_empty() && !inflate.holds_output() {
                break;
            }
        }
    }
    if out.len() as u64 > bounds.bytes_max {
        return Err(BodyFault::TooLarge);
    }
    inflate.finish().map_err(fault)
}

/// How many bytes may be written now. Reserves further steps as needed; one
/// byte over the bound is allowed for, so that reaching the bound exactly can
/// be told from passing it.
fn grow(
    out: &mut PooledBuffer,
    plain: bool,
    coming: usize,
    bounds: &BodyLimits,
    reservation: &mut Reservation,
) -> Result<usize, BodyFault> {
    let held = out.len() as u64;
    if held > bounds.bytes_max {
        return Err(BodyFault::TooLarge);
    }
    // A decoder's window holds what it has put out, a second time.
    let copies = if plain { 1 } else { 2 };
    let needed = if plain {
        held + coming as u64
    } else {
        (held + 1) * copies
    };
    if needed > reservation.bytes() {
        let steps = needed.div_ceil(limits::RESERVATION_STEP_BYTES);
        let bytes = steps * limits::RESERVATION_STEP_BYTES;
        reservation
            .resize(bytes)
            .map_err(|_| BodyFault::AtCapacity)?;
    }
    let reserved = reservation.bytes() / copies;
    let ceiling = reserved.min(bounds.bytes_max + 1).max(held + 1);
    Ok(usize::try_from(ceiling - held).unwrap_or(usize::MAX))
}

fn fault(error: InflateError) -> BodyFault {
    match error {
        InflateError::Corrupt => BodyFault::Corrupt,
    }
}

#[cfg(test)]
mod tests;
