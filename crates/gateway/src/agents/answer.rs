//! The agents door's answers: protobuf, success or refusal.

use fulmar_event::{Rejection, encode_ack};
use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};

use crate::http::{Answer, answer};

/// Content type of every answer of the handler.
const PROTOBUF: &str = "application/x-protobuf";

/// 200: every record is durable.
pub(super) fn ack(received: u32) -> Answer {
    answer(StatusCode::OK, PROTOBUF, encode_ack(received))
}

/// The status, code and Retry-After of a refusal.
pub(super) fn refusal(rejection: &Rejection) -> Answer {
    let status =
        StatusCode::from_u16(rejection.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = answer(status, PROTOBUF, rejection.encode());
    if let Some(seconds) = rejection.code.retry_after_seconds() {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
