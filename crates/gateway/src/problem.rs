//! Refusals of whole requests on the public listener: RFC 9457 problem details.

use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};

use crate::http::{Answer, answer, no_store};

/// Content type of problem details.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// A refusal with a stable `code` for machines and a `detail` for people.
pub fn problem(status: StatusCode, code: &str, detail: &str) -> Answer {
    let body = serde_json::json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or("Error"),
        "status": status.as_u16(),
        "code": code,
        "detail": detail,
    });
    no_store(answer(status, PROBLEM_JSON, body.to_string()))
}

/// The same, of one field.
pub fn problem_of_field(status: StatusCode, code: &str, field: &str, detail: &str) -> Answer {
    let body = serde_json::json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or("Error"),
        "status": status.as_u16(),
        "code": code,
        "field": field,
        "detail": detail,
    });
    no_store(answer(status, PROBLEM_JSON, body.to_string()))
}

/// The same with the seconds after which to try again.
pub fn problem_for_now(status: StatusCode, code: &str, detail: &str, seconds: u32) -> Answer {
    let mut response = problem(status, code, detail);
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}
