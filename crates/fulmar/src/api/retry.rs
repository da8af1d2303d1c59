//! Deliveries sent again by hand: one, or a page of those that a filter takes. One that waits for
//! its next attempt is sent now.

use std::collections::BTreeMap;

use fulmar_registry::WebhookState;
use fulmar_webhooks::sender::{DeliveryId, Ended};
use hyper::{Method, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::deliveries::{DeliveryLine, is_of_path};
use super::delivery_filter::Wanted;
use super::paging::Page;
use super::prepared::{filters_of, given};
use super::route::Route;
use super::{ApiError, Call, Reply};

/// Ends that a delivery can be sent again from without `force`.
pub const ENDS: [&str; 3] = ["failed", "expired", "cancelled"];
/// The one that needs it.
pub const TAKEN: &str = "success";
/// That of one that waits for its next attempt.
const WAITING: &str = "retrying";

pub fn routes(routes: &mut Vec<Route>) {
    let route = |path, told, handle| Route::new(Method::POST, path, told, handle);
    let told = (
        "retryDelivery",
        "Sends a delivery again that has ended, or now that waits for its next attempt",
    );
    let path = "/v1/consumers/{consumer}/deliveries/{id}:retry";
    let one = route(path, told, self::one).takes::<Force>();
    routes.push(one.gives::<Retried>(202));
    let told = ("retryAnyDelivery", "The same, of whichever consumer");
    let one = route("/v1/deliveries/{id}:retry", told, self::one).takes::<Force>();
    routes.push(one.gives::<Retried>(202));
    let told = (
        "retryDeliveries",
        "Sends those again that a filter takes, the newest first",
    );
    let path = "/v1/consumers/{consumer}/deliveries:retry";
    let many = route(path, told, many).takes::<Filter>();
    routes.push(many.gives::<RetriedPage>(202));
    let told = ("retryAllDeliveries", "The same, of all consumers");
    let many = route("/v1/deliveries:retry", told, self::many).takes::<Filter>();
    routes.push(many.gives::<RetriedPage>(202));
}

/// How one is sent again.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Force {
    /// Also one that its receiver has taken.
    force: bool,
}

/// Which are sent again.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// Of a list that was asked for with `prepare_retry=true`, in place of filters.
    repush_id: Option<String>,
    webhook_id: Option<String>,
    event_id: Option<String>,
    event_name: Option<String>,
    subscription_id: Option<String>,
    /// `failed`, which is the default, `expired`, `cancelled`, or with `force` `success`.
    status: Option<String>,
    error_category: Option<String>,
    /// Matched at this time or later, RFC 3339.
    created_after: Option<String>,
    /// Matched before this time, RFC 3339.
    created_before: Option<String>,
    /// Also those that their receivers have taken.
    pub force: bool,
    /// Deliveries looked at, 1 to 1000; default 1000. A job takes all.
    limit: Option<usize>,
    /// `next_cursor` of the answer before. A job needs none.
    cursor: Option<String>,
}

/// One that is sent again.
#[derive(Serialize, JsonSchema)]
struct Retried {
    delivery_id: String,
    /// `retrying`: that it is sent again is durable, or, for one that waited, that it is sent now.
    status: &'static str,
}

/// Those of one call.
#[derive(Serialize, JsonSchema)]
struct RetriedPage {
    /// Sent again.
    retried: usize,
    /// Their webhook is gone.
    skipped: usize,
    /// For the next call; null when all have been looked at.
    next_cursor: Option<String>,
}

/// What came of one page of many.
#[derive(Debug, Default)]
pub struct Batch {
    /// Sent again.
    pub done: usize,
    /// Looked at and left alone.
    pub skipped: usize,
    /// Of the next page; none at the end.
    pub next_cursor: Option<String>,
}

fn one(call: &Call) -> Result<Reply, ApiError> {
    let id = call.part("id");
    let force: Force = call.read_or_default()?;
    let sql = Wanted::only(id).statement(&call.state(), &call.project, 1);
    let lines: Vec<DeliveryLine> = call.api.reading.rows(&call.project, sql)?;
    let line = lines
        .into_iter()
        .find(|line| is_of_path(call, &line.consumer));
    let Some(line) = line else {
        // Either nothing came of it yet, or it is none.
        super::deliveries::one(call)?;
        return Err(under_way(id));
    };
    if line.status == TAKEN && !force.force {
        let detail = format!("delivery `{id}` was taken; `\"force\": true` sends it again");
        let code = "already_delivered";
        return Err(ApiError::Conflict { code, detail });
    }
    if line.status == WAITING {
        return sooner(call, line);
    }
    if line.status != TAKEN && !ENDS.contains(&line.status.as_str()) {
        return Err(under_way(id));
    }
    if !call.state().webhooks.contains_key(&line.webhook_id) {
        let detail = format!("the webhook `{}` is gone", line.webhook_id);
        let code = "webhook_gone";
        return Err(ApiError::Conflict { code, detail });
    }
    send(call, vec![ended(call, line)?])?;
    retrying(id)
}

fn retrying(id: &str) -> Result<Reply, ApiError> {
    Reply::with(
        StatusCode::ACCEPTED,
        &Retried {
            delivery_id: id.to_owned(),
            status: WAITING,
        },
    )
}

/// Brings the next attempt of one forward.
fn sooner(call: &Call, line: DeliveryLine) -> Result<Reply, ApiError> {
    let state = call.state();
    let webhook = state.webhooks.get(&line.webhook_id);
    if webhook.is_some_and(|one| one.state != WebhookState::Active) {
        let detail = format!("the webhook `{}` is held: resume it", line.webhook_id);
        let code = "webhook_held";
        return Err(ApiError::Conflict { code, detail });
    }
    let due_ms = line.next_ms.unwrap_or_default();
    let ended = ended(call, line)?;
    let sender = &call.api.reading.sender;
    let sending = sender.send_sooner(&ended.webhook, ended.id, due_ms);
    match Handle::current().block_on(sending) {
        true => retrying(&ended.id.to_string()),
        false => Err(under_way(&ended.id.to_string())),
    }
}

fn under_way(id: &str) -> ApiError {
    ApiError::Conflict {
        code: "under_way",
        detail: format!("delivery `{id}` has not ended: it is sent when it is due"),
    }
}

fn many(call: &Call) -> Result<Reply, ApiError> {
    let filter: Filter = call.read_or_default()?;
    let page = page(&filter.asked(call)?, u64::MAX)?;
    Reply::with(
        StatusCode::ACCEPTED,
        &RetriedPage {
            retried: page.done,
            skipped: page.skipped,
            next_cursor: page.next_cursor,
        },
    )
}

/// Sends those of a list's page again whose newest outcome stands before an offset of `deliveries`.
pub fn page(asked: &Call, before: u64) -> Result<Batch, ApiError> {
    let page = Page::of(asked)?;
    let (wanted, state) = (Wanted::of(asked, &page)?, asked.state());
    let sql = wanted.statement(&state, &asked.project, page.limit);
    let lines: Vec<DeliveryLine> = asked.api.reading.rows(&asked.project, sql)?;
    let last = lines.last().filter(|_| lines.len() == page.limit);
    let next_cursor = last.map(|last| last.place().cursor());
    let looked_at = lines.len();
    let wanted = lines
        .into_iter()
        .filter(|line| line.log_offset < before && state.webhooks.contains_key(&line.webhook_id));
    let deliveries: Vec<Ended> = wanted
        .map(|line| ended(asked, line))
        .collect::<Result<_, _>>()?;
    let done = deliveries.len();
    send(asked, deliveries)?;
    Ok(Batch {
        done,
        skipped: looked_at - done,
        next_cursor,
    })
}

impl Filter {
    /// A page, as a list is asked for it.
    fn asked(&self, call: &Call) -> Result<Call, ApiError> {
        let mut query = self.query()?;
        let limit = self.limit.unwrap_or(1_000).to_string();
        query.insert("limit".to_owned(), limit);
        let cursor = self.cursor.clone();
        query.extend(cursor.map(|cursor| ("cursor".to_owned(), cursor)));
        Ok(Call {
            query,
            ..call.clone()
        })
    }

    /// What a list takes from its query: what has ended, and what was taken with force alone.
    pub fn query(&self) -> Result<BTreeMap<String, String>, ApiError> {
        let mut query = given(&[
            ("webhook_id", &self.webhook_id),
            ("event_id", &self.event_id),
            ("event_name", &self.event_name),
            ("subscription_id", &self.subscription_id),
            ("status", &self.status),
            ("error_category", &self.error_category),
            ("created_after", &self.created_after),
            ("created_before", &self.created_before),
        ]);
        if let Some(id) = &self.repush_id {
            query = filters_of(id, &query)?;
        }
        let status = query.entry("status".to_owned());
        let status = status.or_insert_with(|| ENDS[0].to_owned()).as_str();
        if ENDS.contains(&status) || status == TAKEN && self.force {
            return Ok(query);
        }
        let rule = format!("takes {}, or with `force` {TAKEN}", ENDS.join(", "));
        Err(ApiError::invalid("status", rule))
    }

    /// That nothing in it is of one page alone.
    pub fn is_of_all(&self) -> Result<(), ApiError> {
        let of_page = [
            ("limit", self.limit.is_some()),
            ("cursor", self.cursor.is_some()),
        ];
        match of_page.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((name, _)) => Err(ApiError::invalid(*name, "is not taken: a job takes all")),
        }
    }
}

/// A delivery as the sender takes it up again.
pub fn ended(call: &Call, line: DeliveryLine) -> Result<Ended, ApiError> {
    let id = DeliveryId::parse(&line.id);
    let damaged = || ApiError::Failed(format!("`{}` is no delivery's id", line.id));
    Ok(Ended {
        id: id.ok_or_else(damaged)?,
        webhook: line.webhook_id,
        project: call.project.clone(),
        subscription: line.subscription_id,
        event_id: line.event_id,
        event_name: line.event_name,
        event_offset: line.event_offset,
        created_ms: line.created_ms,
        attempts: line.attempt_count,
    })
}

/// Takes deliveries up again; durable when this returns.
pub fn send(call: &Call, deliveries: Vec<Ended>) -> Result<(), ApiError> {
    if deliveries.is_empty() {
        return Ok(());
    }
    let sending = call.api.reading.sender.send_again(deliveries);
    match Handle::current().block_on(sending) {
        true => Ok(()),
        false => Err(ApiError::Unavailable(
            "the sender does not take it now: ask again".to_owned(),
        )),
    }
}
