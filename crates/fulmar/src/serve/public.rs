//! The public listener: the doors for everyone, and the operator's routes behind the admin scope.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use fulmar_event::Timestamp;
use fulmar_gateway::events::EventsDoor;
use fulmar_gateway::http::{Answer, Handler, Peer, answer, method_not_allowed, no_store};
use fulmar_gateway::public::{Readiness, answer_public, public_route};
use fulmar_gateway::track::TrackDoor;
use fulmar_registry::{RegistryError, Scope};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::HeaderValue;
use hyper::{HeaderMap, Method, Request, StatusCode};
use serde_json::Value;

use super::auth::{admit, problem};
use super::live::Live;
use super::stream;
use crate::admin::{AdminError, now_ms};
use crate::api;
use crate::client::{BEHIND_HEADER, VERSION_HEADER};
use crate::folds::CUT_WAIT;
use crate::query::{self, QueryBody};
use crate::status;

/// Longest body of an admin request or a query, in bytes.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// How long a request that bears a revision waits until it is applied (R2).
const REVISION_WAIT: Duration = Duration::from_secs(2);
/// The header of a revision.
const REVISION: &str = "fulmar-revision";
/// The route of queries.
const QUERY: &str = "/v1/query";
/// Longest wait that a client may ask for, in milliseconds: ten minutes.
const DRAIN_WAIT_MS_MAX: u64 = 600_000;
/// The route of the API's description.
const OPENAPI: &str = "/openapi.json";
/// Start of the admin routes.
const ADMIN: &str = "/v1/admin/";

/// What the public listener serves.
pub struct Public {
    live: Arc<Live>,
    events: EventsDoor,
    track: TrackDoor,
}

impl Public {
    /// The handler of the listener.
    pub fn new(live: Arc<Live>, events: EventsDoor, track: TrackDoor) -> Self {
        Self {
            live,
            events,
            track,
        }
    }

    /// The descriptor, health, and the doors for JSON.
    async fn doors(&self, request: Request<Incoming>, peer: &Arc<Peer>) -> Answer {
        let readiness = || match self.live.unready() {
            None => Readiness::Ready,
            Some("draining") => Readiness::Draining,
            Some(_) => Readiness::Degraded,
        };
        let now = Timestamp::from_millis(now_ms());
        let path = request.uri().path();
        match answer_public(request.method(), path, now, readiness) {
            Some(answer) => answer,
            None if TrackDoor::serves(path) => self.track.handle(request, peer).await,
            None if path == OPENAPI && request.method() == Method::GET => openapi_answer(),
            None if api::serves(request.method(), path) => Box::pin(self.call(request)).await,
            None => self.events.handle(request, peer).await,
        }
    }

    /// A call of the API of published events.
    async fn call(&self, request: Request<Incoming>) -> Answer {
        let grant = match admit(self.live.registry(), request.headers(), Scope::Webhooks) {
            Ok(grant) => grant,
            Err(refused) => return *refused,
        };
        if let Err(refused) = self.await_revision(request.headers()).await {
            return *refused;
        }
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let headers = request.headers().clone();
        let body = match read_json_or_nothing(request).await {
            Ok(body) => body,
            Err(refused) => return *refused,
        };
        let live = Arc::clone(&self.live);
        let answered = tokio::task::spawn_blocking(move || {
            let target = (&method, uri.path(), uri.query());
            let answer = api::answer_call(&live.api(), &grant, target, &headers, body);
            live.desk.saved.follow();
            answer
        });
        answered
            .await
            .unwrap_or_else(|_| problem(StatusCode::INTERNAL_SERVER_ERROR, "failed", "a defect"))
    }

    async fn operate(&self, request: Request<Incoming>) -> Answer {
        if request.method() != Method::POST {
            return method_not_allowed("POST");
        }
        if let Err(refused) = admit(self.live.registry(), request.headers(), Scope::Admin) {
            return *refused;
        }
        if let Err(refused) = self.await_revision(request.headers()).await {
            return *refused;
        }
        let path = request.uri().path().to_owned();
        let body = match read_json(request).await {
            Ok(body) => body,
            Err(refused) => return *refused,
        };
        match path.strip_prefix(ADMIN) {
            Some("drain") => self.drain(body).await,
            Some("delete") => self.delete(body).await,
            Some(area) => match self.admin(area.to_owned(), body).await {
                Ok(value) => self.revised(&value),
                Err(refused) => *refused,
            },
            None => self.query(body).await,
        }
    }

    /// The registry and the state are read and written with syncs: not on this thread.
    async fn admin(&self, area: String, body: Value) -> Result<Value, Box<Answer>> {
        let live = Arc::clone(&self.live);
        let failed = |detail: &str| {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Box::new(problem(status, "failed", detail))
        };
        let answered = tokio::task::spawn_blocking(move || match area.as_str() {
            "status" => status::of_server(&live).map_err(|failure| failed(&failure.to_string())),
            area => live
                .desk
                .answer(area, body)
                .map_err(|error| Box::new(of_admin(&error))),
        })
        .await;
        answered.unwrap_or_else(|_| Err(failed("a defect")))
    }

    /// The answer of an admin request, with the revision that holds what it changed.
    fn revised(&self, value: &Value) -> Answer {
        let mut response = json_answer(value);
        let revision = self.live.registry().current().revision;
        response
            .headers_mut()
            .insert(REVISION, HeaderValue::from(revision));
        response
    }

    /// Deletes, and waits until no query shows what was deleted.
    async fn delete(&self, body: Value) -> Answer {
        let mut value = match self.admin("delete".to_owned(), body).await {
            Ok(value) => value,
            Err(refused) => return *refused,
        };
        if value["hidden"] == false {
            value["hidden"] = self.live.folds.cut_and_wait_twice().await.into();
        }
        self.revised(&value)
    }

    /// Cuts the open block and waits until what is durable now is stored.
    async fn drain(&self, body: Value) -> Answer {
        let wait_ms = body["wait_ms"].as_u64().unwrap_or(0).min(DRAIN_WAIT_MS_MAX);
        let wait = Duration::from_millis(wait_ms);
        let reached = self.live.folds.cut_and_wait(wait).await;
        json_answer(&serde_json::json!(reached))
    }

    /// SQL over the tables: everything durable at its start is in the answer, unless that takes
    /// longer than its wait.
    async fn query(&self, body: Value) -> Answer {
        let body: QueryBody = match serde_json::from_value(body) {
            Ok(body) => body,
            Err(error) => {
                return problem(StatusCode::BAD_REQUEST, "malformed", &error.to_string());
            }
        };
        let runner = match &self.live.reading.runner {
            Ok(runner) => runner,
            Err(why) => {
                return problem(StatusCode::SERVICE_UNAVAILABLE, "query_unavailable", why);
            }
        };
        let reached = match body.stale {
            true => None,
            false => Some(self.live.folds.cut_and_wait(CUT_WAIT).await),
        };
        let request = match query::request(&self.live.desk.lake, &body) {
            Ok(request) => request,
            Err(error) => return query::refusal(&error),
        };
        let content_type = request.format.content_type();
        match runner.start(request).await {
            Ok(answer) => {
                let mut answer = stream::answer(content_type, answer).await;
                if let Some(behind) = reached.filter(|reached| !reached.stored) {
                    let records = HeaderValue::from(behind.target - behind.position);
                    answer.headers_mut().insert(BEHIND_HEADER, records);
                }
                answer
            }
            Err(error) => query::refusal(&error),
        }
    }

    /// R2: a request that bears a revision waits until this door has applied it.
    async fn await_revision(&self, headers: &HeaderMap) -> Result<(), Box<Answer>> {
        let Some(wanted) = headers.get(REVISION) else {
            return Ok(());
        };
        let Some(wanted) = wanted
            .to_str()
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
        else {
            let detail = "Fulmar-Revision takes a number";
            return Err(Box::new(problem(
                StatusCode::BAD_REQUEST,
                "bad_revision",
                detail,
            )));
        };
        let mut watching = self.live.registry().watch_revision();
        let applied = watching.wait_for(|revision| *revision >= wanted);
        match tokio::time::timeout(REVISION_WAIT, applied).await {
            Ok(Ok(_)) => Ok(()),
            _ => {
                let detail = "this revision is not applied here yet";
                let refused = problem(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "revision_not_applied",
                    detail,
                );
                Err(Box::new(refused))
            }
        }
    }
}

/// 200 with JSON.
pub fn json_answer(value: &Value) -> Answer {
    no_store(answer(
        StatusCode::OK,
        "application/json",
        value.to_string(),
    ))
}

fn openapi_answer() -> Answer {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(api::openapi::document);
    json_answer(&DOCUMENT)
}

/// The body, or null where there is none.
async fn read_json_or_nothing(request: Request<Incoming>) -> Result<Value, Box<Answer>> {
    match request.body().is_end_stream() {
        true => Ok(Value::Null),
        false => read_json(request).await,
    }
}

async fn read_json(request: Request<Incoming>) -> Result<Value, Box<Answer>> {
    let body = Limited::new(request.into_body(), REQUEST_BYTES_MAX)
        .collect()
        .await;
    let Ok(body) = body else {
        let detail = format!("the body is over {REQUEST_BYTES_MAX} bytes or broke off");
        let refused = problem(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", &detail);
        return Err(Box::new(refused));
    };
    serde_json::from_slice(&body.to_bytes()).map_err(|error| {
        let detail = format!("the body is not JSON: {error}");
        Box::new(problem(StatusCode::BAD_REQUEST, "malformed", &detail))
    })
}

fn of_admin(error: &AdminError) -> Answer {
    let (status, code) = match error {
        AdminError::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
        AdminError::Malformed(_) => (StatusCode::BAD_REQUEST, "malformed"),
        AdminError::Registry(RegistryError::Unknown { .. }) => (StatusCode::NOT_FOUND, "unknown"),
        AdminError::Registry(RegistryError::Exists { .. }) => (StatusCode::CONFLICT, "exists"),
        AdminError::Registry(RegistryError::Log(_)) | AdminError::Log(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, "log_unavailable")
        }
        AdminError::Failed(_) => (StatusCode::UNPROCESSABLE_ENTITY, "failed"),
        AdminError::Store(_) => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        AdminError::Refused(_) | AdminError::Registry(_) => {
            (StatusCode::UNPROCESSABLE_ENTITY, "refused")
        }
    };
    problem(status, code, &error.to_string())
}

impl Handler for Public {
    async fn handle(&self, request: Request<Incoming>, peer: &Arc<Peer>) -> Answer {
        let path = request.uri().path();
        let mut response = match path {
            path if path == QUERY || path.starts_with(ADMIN) => {
                Box::pin(self.operate(request)).await
            }
            _ => self.doors(request, peer).await,
        };
        let version = HeaderValue::from_static(env!("CARGO_PKG_VERSION"));
        response.headers_mut().insert(VERSION_HEADER, version);
        response
    }

    fn route(&self, path: &str) -> &'static str {
        match path {
            "/v1/admin/projects" => "/v1/admin/projects",
            "/v1/admin/keys" => "/v1/admin/keys",
            "/v1/admin/clients" => "/v1/admin/clients",
            "/v1/admin/agents" => "/v1/admin/agents",
            "/v1/admin/quarantine" => "/v1/admin/quarantine",
            "/v1/admin/lake" => "/v1/admin/lake",
            "/v1/admin/status" => "/v1/admin/status",
            "/v1/admin/backup" => "/v1/admin/backup",
            "/v1/admin/secrets" => "/v1/admin/secrets",
            "/v1/admin/log" => "/v1/admin/log",
            "/v1/admin/drain" => "/v1/admin/drain",
            QUERY => QUERY,
            OPENAPI => OPENAPI,
            other if TrackDoor::serves(other) => self.track.route(other),
            // The doors first: they are asked of every event, and know their paths at a glance.
            other => match public_route(other).unwrap_or_else(|| self.events.route(other)) {
                "other" => api::route_of(other).unwrap_or("other"),
                door => door,
            },
        }
    }
}
