//! A webhook tried out: an event that never happened, sent once.

use std::collections::BTreeMap;

use fulmar_event::Timestamp;
use fulmar_registry::Webhook;
use fulmar_webhooks::occurrence::Occurrence;
use fulmar_webhooks::sender::{Tried, Untried};
use hyper::{HeaderMap, Method};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::route::Route;
use super::webhook_fields::MASK;
use super::webhooks::found;
use super::{ApiError, Call, Reply, new_id};

/// Its name, unless the caller gives one.
const EVENT_NAME: &str = "webhook.test";
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 255;

pub fn routes(routes: &mut Vec<Route>) {
    let told = (
        "testWebhook",
        "Sends it an event that never happened, once, and tells what came of it",
    );
    let path = "/v1/consumers/{consumer}/webhooks/{id}:test";
    let route = Route::new(Method::POST, path, told, test).takes::<Sample>();
    routes.push(route.gives::<TestView>(200));
}

/// The event of a test.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Sample {
    /// Default `webhook.test`.
    event_name: Option<String>,
    /// Any JSON; default `{"test":true}`.
    payload: Option<Value>,
}

/// What came of a test. It is no delivery: nothing of it is counted or kept.
#[derive(Serialize, JsonSchema)]
struct TestView {
    /// Whether the receiver took it.
    delivered: bool,
    response_code: Option<u16>,
    /// The first 16 KiB.
    response_body: Option<String>,
    duration_ms: f64,
    error_category: Option<&'static str>,
    /// The phase of the exchange that failed: resolve, connect, tls, send, wait or body.
    phase: Option<&'static str>,
    error_message: Option<String>,
    /// Null where nothing could be sent.
    request: Option<RequestView>,
}

/// What was sent.
#[derive(Serialize, JsonSchema)]
struct RequestView {
    method: String,
    url: String,
    /// Secret ones are `***`.
    headers: BTreeMap<String, String>,
    body: String,
}

fn test(call: &Call) -> Result<Reply, ApiError> {
    let sample: Sample = call.read_or_default()?;
    let name = sample.event_name.as_deref().unwrap_or(EVENT_NAME);
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let rule = format!("takes 1 to {NAME_BYTES_MAX} bytes");
        return Err(ApiError::invalid("event_name", rule));
    }
    let payload = sample.payload.unwrap_or_else(|| json!({ "test": true }));
    let payload = payload.to_string();
    let (state, id) = (call.state(), call.part("id"));
    let webhook = found(call, &state)?;
    let event_id = new_id("test", call.now_ms)?;
    let event = Occurrence::sample(
        (&call.project, &webhook.consumer),
        (&event_id, name),
        payload.as_bytes(),
        Timestamp::from_millis(call.now_ms),
    );
    let trying = call.api.reading.sender.try_out((id, webhook), &event);
    let tried = Handle::current()
        .block_on(trying)
        .map_err(|untried| match untried {
            Untried::Busy => ApiError::Busy("too many tests are under way".to_owned()),
            Untried::Unknown => ApiError::unknown("webhook", id),
            Untried::Ended => ApiError::Unavailable("the sender has ended".to_owned()),
        })?;
    Reply::ok(&TestView::of(webhook, tried, &event))
}

impl TestView {
    fn of(webhook: &Webhook, tried: Tried, event: &Occurrence<'_>) -> Self {
        let body = event.body(webhook.body);
        let request = tried.sent.map(|(method, headers)| RequestView {
            method: method.to_string(),
            url: webhook.url.clone(),
            headers: shown(&headers),
            body: String::from_utf8_lossy(&body).into_owned(),
        });
        let (reply, fault) = (tried.reply.as_ref(), tried.fault);
        Self {
            delivered: fault.is_none(),
            response_code: reply.map(|reply| reply.status),
            response_body: reply.map(|reply| String::from_utf8_lossy(&reply.body).into_owned()),
            duration_ms: tried.took.as_micros() as f64 / 1e3,
            error_category: fault.as_ref().map(|fault| fault.category.as_str()),
            phase: fault.as_ref().map(|fault| fault.phase.as_str()),
            error_message: fault.map(|fault| fault.message),
            request,
        }
    }
}

fn shown(headers: &HeaderMap) -> BTreeMap<String, String> {
    let pairs = headers.iter().map(|(name, value)| {
        let text = match value.is_sensitive() {
            true => MASK.to_owned(),
            false => String::from_utf8_lossy(value.as_bytes()).into_owned(),
        };
        (name.to_string(), text)
    });
    pairs.collect()
}
