//! What browsers ask before and after: every origin may read the door's answers, since they
//! hold nothing that the asker has not sent. Whose events are taken is another question.

use hyper::StatusCode;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HeaderValue,
};

use crate::http::{Answer, AnswerBody};

/// Seconds that a browser keeps a preflight's answer: seven days.
const MAX_AGE_SECONDS: &str = "604800";

const METHODS: &str = "GET, POST, OPTIONS";

/// The headers that SDKs set.
const HEADERS: &str = "authorization, content-type, content-encoding, openpanel-client-id, \
    openpanel-client-secret, openpanel-sdk-name, openpanel-sdk-version, mixan-client-id, \
    mixan-client-secret, request-id";

/// The answer to a preflight.
pub(super) fn preflight() -> Answer {
    let mut response = Answer::new(AnswerBody::Whole(None));
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static(METHODS),
    );
    headers.insert(
        ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static(HEADERS),
    );
    headers.insert(
        ACCESS_CONTROL_MAX_AGE,
        HeaderValue::from_static(MAX_AGE_SECONDS),
    );
    readable(response)
}

/// Lets every origin read an answer.
pub(super) fn readable(mut response: Answer) -> Answer {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(
        ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("retry-after"),
    );
    response
}
