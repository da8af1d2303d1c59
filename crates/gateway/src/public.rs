//! What the public listener answers without a key: the descriptor and health.

use fulmar_event::{Timestamp, encode_descriptor};
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::{Method, StatusCode};

use crate::http::{Answer, answer, method_not_allowed, no_store};

/// Whether the server can accept durably now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// It can.
    Ready,
    /// Something that it needs does not work; what, only the log says.
    Degraded,
    /// It is about to stop.
    Draining,
}

/// Paths that say that the process turns.
const LIVE: [&str; 3] = ["/health", "/healthcheck", "/healthz/live"];

/// Paths that say whether it can accept.
const READY: [&str; 2] = ["/ready", "/healthz/ready"];

/// The descriptor's path.
const DESCRIPTOR: &str = "/v1/descriptor";

/// The label of a path that [`answer_public`] answers.
pub fn public_route(path: &str) -> Option<&'static str> {
    let mut all = LIVE.into_iter().chain(READY).chain([DESCRIPTOR]);
    all.find(|known| *known == path)
}

/// Answers the descriptor and the health paths, and is `None` for others.
/// Health is terse: no component, no version.
pub fn answer_public(
    method: &Method,
    path: &str,
    now: Timestamp,
    readiness: impl FnOnce() -> Readiness,
) -> Option<Answer> {
    let route = public_route(path)?;
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Some(method_not_allowed("GET, HEAD"));
    }
    if route == DESCRIPTOR {
        let body = encode_descriptor(now);
        return Some(no_store(answer(
            StatusCode::OK,
            "application/x-protobuf",
            body,
        )));
    }
    if LIVE.contains(&route) {
        return Some(health(StatusCode::OK, r#"{"status":"ok"}"#));
    }
    Some(match readiness() {
        Readiness::Ready => health(StatusCode::OK, r#"{"status":"ok"}"#),
        Readiness::Degraded => not_ready(r#"{"status":"degraded"}"#),
        Readiness::Draining => not_ready(r#"{"status":"draining"}"#),
    })
}

fn health(status: StatusCode, body: &'static str) -> Answer {
    no_store(answer(status, "application/json", body))
}

fn not_ready(body: &'static str) -> Answer {
    let mut response = health(StatusCode::SERVICE_UNAVAILABLE, body);
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("5"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_event::decode_descriptor;
    use http_body_util::BodyExt;

    fn get(path: &str, readiness: Readiness) -> Option<(u16, String, Vec<u8>)> {
        let now = Timestamp {
            seconds: 1_700_000_000,
            nanos: 5,
        };
        let response = answer_public(&Method::GET, path, now, || readiness)?;
        assert_eq!(response.headers()["cache-control"], "no-store");
        let retry = response.headers().get(RETRY_AFTER);
        let retry = retry.map_or(String::new(), |value| value.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let body = runtime
            .block_on(response.into_body().collect())
            .unwrap()
            .to_bytes();
        Some((status, retry, body.to_vec()))
    }

    #[test]
    fn the_descriptor_names_version_one_and_the_time() {
        let (status, _, body) = get("/v1/descriptor", Readiness::Draining).unwrap();
        let descriptor = decode_descriptor(&body).unwrap();
        assert_eq!((status, descriptor.protocol_version), (200, 1));
        assert_eq!(descriptor.server_time.unwrap().seconds, 1_700_000_000);
    }

    #[test]
    fn live_is_live_and_ready_is_terse() {
        let ok = br#"{"status":"ok"}"#.to_vec();
        for path in ["/health", "/healthcheck", "/healthz/live"] {
            let answer = get(path, Readiness::Degraded);
            assert_eq!(answer, Some((200, String::new(), ok.clone())), "{path}");
        }
        for path in ["/ready", "/healthz/ready"] {
            let of = |readiness| get(path, readiness).unwrap();
            assert_eq!(of(Readiness::Ready), (200, String::new(), ok.clone()));
            let degraded = (503, "5".to_owned(), br#"{"status":"degraded"}"#.to_vec());
            assert_eq!(of(Readiness::Degraded), degraded);
            let draining = (503, "5".to_owned(), br#"{"status":"draining"}"#.to_vec());
            assert_eq!(of(Readiness::Draining), draining);
        }
        assert_eq!(get("/v1/other", Readiness::Ready), None);
        let post = answer_public(&Method::POST, "/ready", Timestamp::default(), || {
            Readiness::Ready
        });
        assert_eq!(post.unwrap().status(), 405);
    }
}
