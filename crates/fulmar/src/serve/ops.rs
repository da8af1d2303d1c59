//! The operations listener: health, metrics, log level.

use std::sync::Arc;

use fulmar_gateway::http::{
    Answer, Handler, Peer, answer, method_not_allowed, no_store, not_found,
};
use fulmar_registry::Scope;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, StatusCode};
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;

use super::auth::{admit, problem};
use super::live::Live;
use super::metrics;

/// Scrapes at once: each walks every family, and one scraper needs one.
const SCRAPES_MAX: usize = 4;
/// Longest body of `PUT /log-level`, in bytes.
const LEVEL_BYTES_MAX: usize = 64;
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the operations listener serves.
pub struct Ops {
    live: Arc<Live>,
    metrics: Registry,
    scrapes: Semaphore,
}

impl Ops {
    /// The handler of the listener.
    pub fn new(live: Arc<Live>, metrics: Registry) -> Self {
        Self {
            live,
            metrics,
            scrapes: Semaphore::new(SCRAPES_MAX),
        }
    }

    /// Liveness says only that the process turns.
    fn healthz() -> Answer {
        no_store(answer(
            StatusCode::OK,
            "application/json",
            r#"{"status":"ok"}"#,
        ))
    }

    /// Readiness: can it accept durably now. Never names a part; the log does.
    fn readyz(&self) -> Answer {
        let Some(why) = self.live.unready() else {
            return no_store(answer(
                StatusCode::OK,
                "application/json",
                r#"{"status":"ok"}"#,
            ));
        };
        let body = format!(r#"{{"status":"{why}"}}"#);
        let mut response = answer(StatusCode::SERVICE_UNAVAILABLE, "application/json", body);
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from_static("5"));
        no_store(response)
    }

    fn scrape(&self) -> Answer {
        let Ok(_slot) = self.scrapes.try_acquire() else {
            return problem(
                StatusCode::SERVICE_UNAVAILABLE,
                "busy",
                "too many scrapes at once",
            );
        };
        match metrics::encode(&self.metrics) {
            Ok(text) => answer(StatusCode::OK, METRICS_TYPE, text),
            Err(_) => {
                let detail = "the metrics cannot be read";
                problem(StatusCode::INTERNAL_SERVER_ERROR, "unavailable", detail)
            }
        }
    }

    /// Holds the writer back or lets it go on: only a server that a bench started knows this.
    fn hold(&self, method: &Method, hold: bool) -> Answer {
        if method != Method::POST {
            return method_not_allowed("POST");
        }
        self.live.folds.writer.hold(hold);
        answer(StatusCode::OK, "text/plain; charset=utf-8", "done\n")
    }

    async fn set_level(&self, request: Request<Incoming>) -> Answer {
        if let Err(refused) = admit(self.live.registry(), request.headers(), Scope::Admin) {
            return *refused;
        }
        let body = Limited::new(request.into_body(), LEVEL_BYTES_MAX)
            .collect()
            .await;
        let level = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
        match level {
            Ok(level) if self.live.level.set(&level) => {
                tracing::info!(level = level.trim(), "log level set");
                answer(
                    StatusCode::OK,
                    "text/plain; charset=utf-8",
                    format!("{}\n", level.trim()),
                )
            }
            _ => problem(
                StatusCode::BAD_REQUEST,
                "bad_level",
                "the body is one of error, warn, info, debug, trace",
            ),
        }
    }
}

impl Handler for Ops {
    async fn handle(&self, request: Request<Incoming>, _peer: &Arc<Peer>) -> Answer {
        let get = request.method() == Method::GET;
        match request.uri().path() {
            "/healthz" if get => Self::healthz(),
            "/readyz" if get => self.readyz(),
            "/metrics" if get => self.scrape(),
            "/healthz" | "/readyz" | "/metrics" => method_not_allowed("GET"),
            "/log-level" if request.method() == Method::PUT => self.set_level(request).await,
            "/log-level" => method_not_allowed("PUT"),
            "/bench/hold" | "/bench/release" if self.live.bench_control => {
                self.hold(request.method(), request.uri().path() == "/bench/hold")
            }
            _ => not_found(),
        }
    }

    fn route(&self, path: &str) -> &'static str {
        match path {
            "/healthz" => "/healthz",
            "/readyz" => "/readyz",
            "/metrics" => "/metrics",
            "/log-level" => "/log-level",
            "/bench/hold" | "/bench/release" => "/bench",
            _ => "other",
        }
    }
}
