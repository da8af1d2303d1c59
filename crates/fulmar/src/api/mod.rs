//! The API of published events: event types, consumers, webhooks, subscriptions, deliveries.
//!
//! Every call acts in one project: that of its key, or for an operator the one that the header
//! `Fulmar-Project` names. Nothing of another project is seen or told apart from what is not there.

mod consumers;
mod deliveries;
mod delivery_filter;
mod error;
mod event_types;
mod events;
mod health;
mod import;
pub mod jobs;
mod listen;
pub mod openapi;
mod paging;
mod prepared;
pub mod reading;
mod repush;
mod retry;
mod route;
mod schema_change;
mod signing;
mod subscriptions;
mod trial;
mod undecided;
mod webhook_fields;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use fulmar_gateway::http::{Answer, answer, no_store, percent_decoded};
use fulmar_registry::{Change, Grant, Registry, Snapshot};
use fulmar_webhooks::guard::Guard;
use fulmar_webhooks::seal::Keyring;
use hyper::{HeaderMap, Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use error::ApiError;
use jobs::Jobs;
use reading::Reading;
use route::{Route, match_path, routes};

/// The header by which an operator names a project.
const PROJECT: &str = "fulmar-project";
/// Parts of the interface that are not there, by the start of their paths.
const NOT_BUILT: [&str; 6] = [
    "/v1/invites",
    "/v1/recipes",
    "/v1/template-functions",
    "/v1/tokens",
    "/invite/",
    "/portal/",
];

static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(routes);

/// What calls are answered from.
#[derive(Clone)]
pub struct Api {
    /// Webhooks, subscriptions, event types.
    pub registry: Arc<Registry>,
    /// Seals secrets.
    pub keyring: Arc<Keyring>,
    /// Which addresses may be reached.
    pub guard: Guard,
    /// Reads what became of events.
    pub reading: Arc<Reading>,
    /// What is done in the background.
    pub jobs: Arc<Jobs>,
}

/// A call, its key admitted.
#[derive(Clone)]
pub struct Call {
    /// What it is answered from.
    pub api: Api,
    /// The project that it acts in.
    pub project: String,
    /// What the path holds.
    pub path: BTreeMap<String, String>,
    /// What the query holds.
    pub query: BTreeMap<String, String>,
    /// The body; null where there is none.
    pub body: Value,
    /// Milliseconds since the epoch.
    pub now_ms: i64,
}

/// What a call is answered with.
pub struct Reply {
    status: StatusCode,
    body: String,
}

impl Reply {
    /// 200 with a body.
    pub fn ok(body: &impl Serialize) -> Result<Self, ApiError> {
        Self::with(StatusCode::OK, body)
    }

    /// 201 with a body.
    pub fn created(body: &impl Serialize) -> Result<Self, ApiError> {
        Self::with(StatusCode::CREATED, body)
    }

    /// 204.
    pub fn nothing() -> Self {
        Self {
            status: StatusCode::NO_CONTENT,
            body: String::new(),
        }
    }

    /// Any status with a body.
    fn with(status: StatusCode, body: &impl Serialize) -> Result<Self, ApiError> {
        let body = serde_json::to_string(body).map_err(|e| ApiError::Failed(e.to_string()))?;
        Ok(Self { status, body })
    }
}

impl Call {
    /// A part of the path; it is there, or the route would not have matched.
    pub fn part(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }

    /// The body, read as what the operation takes.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_value(self.body.clone()).map_err(|error| of_body(&error))
    }

    /// The same, of an operation whose body may be left out.
    pub fn read_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, ApiError> {
        match self.body.is_null() {
            true => Ok(T::default()),
            false => self.read(),
        }
    }

    /// The registry as it is now.
    pub fn state(&self) -> Arc<Snapshot> {
        self.api.registry.current()
    }

    /// Makes a change from the state that it follows.
    pub fn change(
        &self,
        make: impl FnOnce(&Snapshot) -> Result<Change, ApiError>,
    ) -> Result<(), ApiError> {
        self.api.registry.change_from(self.now_ms, make)?;
        Ok(())
    }
}

/// The field that serde names, if it names one.
fn of_body(error: &serde_json::Error) -> ApiError {
    let told = error.to_string();
    let field = told.split('`').nth(1).filter(|_| told.contains("field `"));
    match field {
        Some(field) => ApiError::invalid(field, told.clone()),
        None => ApiError::invalid("body", told),
    }
}

/// Whether a path is the API's, of which publishing itself is not a part.
#[must_use]
pub fn serves(method: &Method, path: &str) -> bool {
    let known = |route: &Route| match_path(route.path, path).is_some();
    let publishes = *method == Method::POST && path.ends_with("/events");
    !publishes && (ROUTES.iter().any(known) || is_not_built(path))
}

fn is_not_built(path: &str) -> bool {
    NOT_BUILT.iter().any(|start| path.starts_with(start)) || path.contains(":draftTemplate")
}

/// The label of a path in metrics.
#[must_use]
pub fn route_of(path: &str) -> Option<&'static str> {
    let mut known = ROUTES.iter();
    let found = known.find(|route| match_path(route.path, path).is_some())?;
    Some(found.path)
}

/// Answers a call. Blocks on the disk.
pub fn answer_call(
    api: &Api,
    grant: &Grant,
    (method, path, query): (&Method, &str, Option<&str>),
    headers: &HeaderMap,
    body: Value,
) -> Answer {
    let answered = dispatch(api, grant, (method, path, query), headers, body);
    let mut response = match answered {
        Ok(reply) => no_store(answer(reply.status, "application/json", reply.body)),
        Err(error) => error.answer(),
    };
    let revision = api.registry.current().revision;
    response
        .headers_mut()
        .insert("fulmar-revision", revision.into());
    response
}

fn dispatch(
    api: &Api,
    grant: &Grant,
    (method, path, query): (&Method, &str, Option<&str>),
    headers: &HeaderMap,
    body: Value,
) -> Result<Reply, ApiError> {
    if is_not_built(path) {
        let told = "this part of the interface is not built: docs/webhooks.md says what is";
        return Err(ApiError::NotBuilt(told));
    }
    let matching = ROUTES
        .iter()
        .filter_map(|route| Some((route, match_path(route.path, path)?)));
    let mut matching = matching.filter(|(route, _)| route.method == *method);
    let Some((route, parts)) = matching.next() else {
        return Err(ApiError::NotFound(format!("no operation {method} {path}")));
    };
    let call = Call {
        api: api.clone(),
        project: project_of(api, grant, headers)?,
        path: parts,
        query: read_query(query)?,
        body,
        now_ms: crate::admin::now_ms(),
    };
    (route.handle)(&call)
}

/// The key's project; an operator may name another one.
fn project_of(api: &Api, grant: &Grant, headers: &HeaderMap) -> Result<String, ApiError> {
    let named = headers.get(PROJECT).and_then(|value| value.to_str().ok());
    match named {
        Some(named) if *named == grant.project => Ok(named.to_owned()),
        Some(named) if grant.is_operator() => {
            match api.registry.current().projects.contains_key(named) {
                true => Ok(named.to_owned()),
                false => Err(ApiError::unknown("project", named)),
            }
        }
        Some(named) => Err(ApiError::unknown("project", named)),
        None => Ok(grant.project.clone()),
    }
}

fn read_query(query: Option<&str>) -> Result<BTreeMap<String, String>, ApiError> {
    let pairs = query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty());
    let read = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decode = |text: &str| percent_decoded(&text.replace('+', " "));
        let pair = decode(name).zip(decode(value));
        pair.ok_or_else(|| ApiError::Malformed("the query is not UTF-8".to_owned()))
    });
    read.collect()
}

/// A new id: a word, and 128 bits of which the first are the time.
fn new_id(word: &str, now_ms: i64) -> Result<String, ApiError> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|e| ApiError::Failed(e.to_string()))?;
    bytes[..6].copy_from_slice(&now_ms.to_be_bytes()[2..]);
    Ok(format!("{word}_{:032x}", u128::from_be_bytes(bytes)))
}

/// A thing of the caller's project, or the refusal that tells nothing of others'.
fn own<'a, T>(
    (kind, id): (&str, &str),
    found: Option<&'a Arc<T>>,
    is_own: impl FnOnce(&T) -> bool,
) -> Result<&'a Arc<T>, ApiError> {
    found
        .filter(|found| is_own(found))
        .ok_or_else(|| ApiError::unknown(kind, id))
}
