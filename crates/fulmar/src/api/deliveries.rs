//! Deliveries and their attempts, from the tables; those that nothing came of yet from the sender.

use std::collections::BTreeMap;

use fulmar_registry::{Snapshot, WebhookState};
use hyper::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::delivery_filter::{Place, Wanted};
use super::paging::Page;
use super::prepared::prepared;
use super::reading::quoted;
use super::route::Route;
use super::{ApiError, Call, Reply, undecided};
use crate::admin::time_text;

/// Query parameters of the lists.
const FILTERS: &[(&str, &str)] = &[
    ("webhook_id", "of this webhook"),
    ("event_id", "of this event"),
    ("event_name", "of events of this name"),
    ("subscription_id", "matched by this subscription"),
    (
        "status",
        "pending, paused, retrying, success, failed, expired or cancelled",
    ),
    ("error_category", "whose last failure was of this kind"),
    ("created_after", "matched at this time or later, RFC 3339"),
    ("created_before", "matched before this time, RFC 3339"),
    ("prepare_retry", "true gives `repush_id`"),
    ("limit", "items of a page, 1 to 1000; default 50"),
    ("cursor", "`next_cursor` of the page before"),
];

pub fn routes(routes: &mut Vec<Route>) {
    let get = || Method::GET;
    let route = |path, told, handle| Route::new(get(), path, told, handle);
    let told = ("listDeliveries", "Deliveries of a consumer, newest first");
    let list = route("/v1/consumers/{consumer}/deliveries", told, list);
    routes.push(list.gives::<DeliveryPage>(200).asks(FILTERS));
    let told = ("listAllDeliveries", "Deliveries of all consumers");
    let list = route("/v1/deliveries", told, self::list);
    routes.push(list.gives::<DeliveryPage>(200).asks(FILTERS));
    let told = ("getDelivery", "One delivery");
    let one = route("/v1/consumers/{consumer}/deliveries/{id}", told, one);
    routes.push(one.gives::<DeliveryView>(200));
    let told = ("getAnyDelivery", "One delivery, of whichever consumer");
    let one = route("/v1/deliveries/{id}", told, self::one);
    routes.push(one.gives::<DeliveryView>(200));
    let told = ("listAttempts", "The attempts of a delivery, in order");
    let path = "/v1/consumers/{consumer}/deliveries/{id}/attempts";
    routes.push(route(path, told, attempts).gives::<AttemptList>(200));
    let told = ("listAnyAttempts", "The same, of whichever consumer");
    let path = "/v1/deliveries/{id}/attempts";
    routes.push(route(path, told, attempts).gives::<AttemptList>(200));
}

/// A delivery: one event on its way to one webhook.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeliveryView {
    pub delivery_id: String,
    pub webhook_id: String,
    pub subscription_id: Option<String>,
    pub event_id: String,
    pub event_name: String,
    pub consumer: String,
    /// `pending`, `paused`, `retrying`, `success`, `failed`, `expired` or `cancelled`.
    pub status: String,
    pub attempt_count: u32,
    pub max_attempts: u32,
    pub created_at: String,
    pub last_attempted_at: Option<String>,
    pub next_retry_at: Option<String>,
    pub response_code: Option<u32>,
    pub response_body: Option<String>,
    pub error_category: Option<String>,
    pub error_message: Option<String>,
    /// Null: there are no templates.
    pub template_error: Option<String>,
    #[serde(skip)]
    pub place: Place,
}

/// A page of deliveries.
#[derive(Serialize, JsonSchema)]
struct DeliveryPage {
    deliveries: Vec<DeliveryView>,
    /// Of the next page; null at the end.
    next_cursor: Option<String>,
    /// Whether every delivery was looked at that nothing came of yet: a filter by event looks at
    /// the newest 20,000 of them, and the sender may be behind.
    complete: bool,
    /// With `prepare_retry=true`: stands for all that these filters take, in
    /// `deliveries:retryBatch`.
    repush_id: Option<String>,
}

/// An attempt.
#[derive(Serialize, JsonSchema)]
struct AttemptView {
    attempt_id: String,
    delivery_id: String,
    webhook_id: String,
    event_id: String,
    event_name: String,
    attempt_number: u32,
    /// `success` or `failed`.
    status: String,
    attempted_at: String,
    duration_ms: f64,
    response_code: Option<u32>,
    response_body: Option<String>,
    error_category: Option<String>,
    /// The phase of the exchange that failed: resolve, connect, tls, send, wait or body.
    phase: Option<String>,
    error_message: Option<String>,
}

/// All attempts of a delivery.
#[derive(Serialize, JsonSchema)]
struct AttemptList {
    attempts: Vec<AttemptView>,
}

/// A row of the query below.
#[derive(Deserialize)]
pub struct DeliveryLine {
    pub id: String,
    pub webhook_id: String,
    pub subscription_id: String,
    pub event_id: String,
    pub event_name: String,
    pub event_offset: u64,
    /// Of its newest outcome, in `deliveries`.
    pub log_offset: u64,
    pub consumer: String,
    pub status: String,
    pub attempt_count: u32,
    pub max_attempts: u32,
    pub created_ms: i64,
    pub last_ms: Option<i64>,
    pub next_ms: Option<i64>,
    pub response_code: u32,
    pub response_body: String,
    pub error_category: String,
    pub error_message: String,
}

impl DeliveryLine {
    pub fn place(&self) -> Place {
        Place {
            created_ms: self.created_ms,
            id: self.id.clone(),
        }
    }

    fn view(self, state: &Snapshot) -> DeliveryView {
        let place = self.place();
        let webhook = state.webhooks.get(&self.webhook_id);
        let is_held = webhook.is_some_and(|one| one.state != WebhookState::Active);
        let status = match self.status == "retrying" && is_held {
            true => "paused".to_owned(),
            false => self.status,
        };
        DeliveryView {
            place,
            delivery_id: self.id,
            webhook_id: self.webhook_id,
            subscription_id: some(self.subscription_id),
            event_id: self.event_id,
            event_name: self.event_name,
            consumer: self.consumer,
            status,
            attempt_count: self.attempt_count,
            max_attempts: self.max_attempts,
            created_at: time_text(self.created_ms),
            last_attempted_at: self.last_ms.map(time_text),
            next_retry_at: self.next_ms.map(time_text),
            response_code: (self.response_code > 0).then_some(self.response_code),
            response_body: some(self.response_body),
            error_category: some(self.error_category),
            error_message: some(self.error_message),
            template_error: None,
        }
    }
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn list(call: &Call) -> Result<Reply, ApiError> {
    let page = Page::of(call)?;
    let (wanted, reading, state) = (Wanted::of(call, &page)?, &call.api.reading, call.state());
    let is_settled = reading.settle();
    // First what has no row: what gets one meanwhile is found there.
    let (waiting, is_cut) = undecided::list(call, reading, &wanted, page.limit + 1)?;
    let sql = wanted.statement(&state, &call.project, page.limit + 1);
    let lines: Vec<DeliveryLine> = reading.rows(&call.project, sql)?;
    let mut all: BTreeMap<Place, DeliveryView> = BTreeMap::new();
    let rows = lines.into_iter().map(|line| line.view(&state));
    for view in waiting.into_iter().chain(rows) {
        all.insert(view.place.clone(), view);
    }
    let is_more = all.len() > page.limit;
    let deliveries: Vec<DeliveryView> = all.into_values().rev().take(page.limit).collect();
    let last = deliveries.last().filter(|_| is_more);
    Reply::ok(&DeliveryPage {
        next_cursor: last.map(|last| last.place.cursor()),
        deliveries,
        complete: is_settled && !is_cut,
        repush_id: prepared(call, "prepare_retry")?,
    })
}

pub fn one(call: &Call) -> Result<Reply, ApiError> {
    let id = call.part("id");
    let found = match row(call, id)? {
        Some(found) => Some(found),
        None => {
            call.api.reading.settle();
            match undecided::find(call, &call.api.reading, id)? {
                Some(found) => Some(found),
                // It has come to an end meanwhile, or it is none.
                None => row(call, id)?,
            }
        }
    };
    let found = found.filter(|one| is_of_path(call, &one.consumer));
    Reply::ok(&found.ok_or_else(|| ApiError::unknown("delivery", id))?)
}

pub fn is_of_path(call: &Call, consumer: &str) -> bool {
    call.path
        .get("consumer")
        .is_none_or(|named| named == consumer)
}

/// The last version of a delivery, if it has a row.
fn row(call: &Call, id: &str) -> Result<Option<DeliveryView>, ApiError> {
    let sql = Wanted::only(id).statement(&call.state(), &call.project, 1);
    let lines: Vec<DeliveryLine> = call.api.reading.rows(&call.project, sql)?;
    let state = call.state();
    Ok(lines.into_iter().next().map(|line| line.view(&state)))
}

fn attempts(call: &Call) -> Result<Reply, ApiError> {
    let id = call.part("id");
    let columns = "id, delivery_id, webhook_id, event_id, event_name, consumer, attempt, status, \
                   epoch_ms(started_at) AS started_ms, duration_us, response_code, \
                   response_body, error_category, phase, error_message";
    let sql = format!(
        "SELECT {columns} FROM delivery_attempts WHERE delivery_id = {} \
         QUALIFY row_number() OVER (PARTITION BY id ORDER BY log_offset DESC) = 1 \
         ORDER BY attempt",
        quoted(id)
    );
    let lines: Vec<AttemptLine> = call.api.reading.rows(&call.project, sql)?;
    let own = lines
        .into_iter()
        .filter(|line| is_of_path(call, &line.consumer));
    let attempts: Vec<AttemptView> = own.map(AttemptLine::view).collect();
    if attempts.is_empty() {
        // Either it was never tried, or it is none.
        one(call)?;
    }
    Reply::ok(&AttemptList { attempts })
}

/// A row of the query above.
#[derive(Deserialize)]
struct AttemptLine {
    id: String,
    delivery_id: String,
    webhook_id: String,
    event_id: String,
    event_name: String,
    consumer: String,
    attempt: u32,
    status: String,
    started_ms: i64,
    duration_us: u64,
    response_code: u32,
    response_body: String,
    error_category: String,
    phase: String,
    error_message: String,
}

impl AttemptLine {
    fn view(self) -> AttemptView {
        AttemptView {
            attempt_id: self.id,
            delivery_id: self.delivery_id,
            webhook_id: self.webhook_id,
            event_id: self.event_id,
            event_name: self.event_name,
            attempt_number: self.attempt,
            status: self.status,
            attempted_at: time_text(self.started_ms),
            duration_ms: self.duration_us as f64 / 1e3,
            response_code: (self.response_code > 0).then_some(self.response_code),
            response_body: some(self.response_body),
            error_category: some(self.error_category),
            phase: some(self.phase),
            error_message: some(self.error_message),
        }
    }
}
