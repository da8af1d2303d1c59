//! How receivers do: one webhook's health, a summary, and what waits.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use fulmar_registry::{Webhook, WebhookState};
use fulmar_webhooks::health::{Attempts, Failure, Health, Report, report};
use fulmar_webhooks::sender::{Parked, each_undecided};
use hyper::Method;
use schemars::JsonSchema;
use serde::Serialize;

use super::route::Route;
use super::webhooks::found;
use super::{ApiError, Call, Reply, own};
use crate::admin::time_text;

/// Webhooks that a summary names one by one.
const NAMED_MAX: usize = 100;

/// How a word of health is come to, for who reads the answer.
const RULES: [&str; 4] = [
    "over the attempts of the last 24 hours; a 429 is no attempt",
    "unhealthy: the last 5 have failed, or fewer than 80 % of at least 10 succeeded",
    "degraded: fewer than 90 % of at least 5 succeeded",
    "healthy: at least 90 % of at least 3 succeeded; else unknown",
];

pub fn routes(routes: &mut Vec<Route>) {
    let route = |path, told, handle| Route::new(Method::GET, path, told, handle);
    let told = ("getWebhookHealth", "How a webhook's receiver does");
    let path = "/v1/consumers/{consumer}/webhooks/{id}/health";
    routes.push(route(path, told, of_webhook).gives::<HealthView>(200));
    let told = ("getAnyWebhookHealth", "The same, of whichever consumer");
    let path = "/v1/webhooks/{id}/health";
    routes.push(route(path, told, of_any_webhook).gives::<HealthView>(200));
    let told = ("getHealthSummary", "How all receivers do");
    routes.push(route("/v1/health-summary", told, summary).gives::<HealthSummary>(200));
    let told = ("getStats", "Attempts of the last 24 hours, and what waits");
    routes.push(route("/v1/stats", told, stats).gives::<StatsView>(200));
    let told = ("getConsumerStats", "The same, of one consumer");
    let path = "/v1/consumers/{consumer}/stats";
    routes.push(route(path, told, stats).gives::<StatsView>(200));
}

/// How a receiver does.
#[derive(Serialize, JsonSchema)]
struct HealthView {
    webhook_id: String,
    consumer: String,
    /// `healthy`, `degraded`, `unhealthy` or `unknown`.
    health: &'static str,
    /// `active`, `paused` or `disabled`.
    state: &'static str,
    /// Of the attempts of the last 24 hours.
    #[serde(flatten)]
    attempts: AttemptCounts,
    /// Failures since the last success.
    consecutive_failures: u32,
    /// When the first of those was.
    failing_since: Option<String>,
    last_success_at: Option<String>,
    last_failure_at: Option<String>,
    /// `closed`; `open` while the receiver is left alone; `half_open` while one delivery asks.
    breaker: &'static str,
    /// When the next delivery may ask, while it is open.
    breaker_until: Option<String>,
    rules: [&'static str; 4],
    /// Whether every outcome that was durable at the call is in it.
    complete: bool,
}

/// Attempts of the last 24 hours.
#[derive(Serialize, JsonSchema)]
struct AttemptCounts {
    total: u64,
    success: u64,
    failed: u64,
    /// Between 0 and 1; null without an attempt.
    success_rate: Option<f64>,
    /// Milliseconds.
    avg_response_time: Option<f64>,
    client_errors: u64,
    server_errors: u64,
    timeout_errors: u64,
    network_errors: u64,
    unexpected_status_errors: u64,
    /// Answered 429, which counts as neither.
    rate_limited: u64,
}

impl AttemptCounts {
    fn of(attempts: &Attempts) -> Self {
        let of = |kind: Failure| attempts.failures[kind as usize];
        let (all, judged) = (attempts.total(), attempts.total() - attempts.busy);
        let per = |sum: f64, count: u64| (count > 0).then(|| sum / count as f64);
        Self {
            total: judged,
            success: attempts.successes,
            failed: attempts.failed(),
            success_rate: per(attempts.successes as f64, judged),
            avg_response_time: per(attempts.duration_us as f64 / 1_000.0, all),
            client_errors: of(Failure::Client),
            server_errors: of(Failure::Server),
            timeout_errors: of(Failure::Timeout),
            network_errors: of(Failure::Network),
            unexpected_status_errors: of(Failure::UnexpectedStatus),
            rate_limited: attempts.busy,
        }
    }
}

/// How all receivers do.
#[derive(Serialize, JsonSchema)]
struct HealthSummary {
    total: usize,
    healthy: usize,
    degraded: usize,
    unhealthy: usize,
    unknown: usize,
    /// Those that are degraded or unhealthy, the worst first; 100 at most.
    webhooks: Vec<Ailing>,
    /// Whether every outcome that was durable at the call is in it.
    complete: bool,
}

/// A receiver that does not do well.
#[derive(Serialize, JsonSchema)]
struct Ailing {
    webhook_id: String,
    consumer: String,
    health: &'static str,
    consecutive_failures: u32,
    failing_since: Option<String>,
}

/// What has been done, and what waits.
#[derive(Serialize, JsonSchema)]
struct StatsView {
    webhooks: usize,
    active: usize,
    paused: usize,
    disabled: usize,
    subscriptions: usize,
    /// Of the attempts of the last 24 hours.
    attempts: AttemptCounts,
    /// Deliveries that have not ended.
    backlog: u64,
    /// Seconds since the oldest of them was matched.
    oldest_age_seconds: Option<f64>,
    /// Webhooks with the most of them; 100 at most.
    backlogs: Vec<Backlog>,
    /// Whether every event and outcome that was durable at the call is in it.
    complete: bool,
}

/// What waits for one webhook.
#[derive(Serialize, JsonSchema)]
struct Backlog {
    webhook_id: String,
    deliveries: u64,
    oldest_age_seconds: f64,
}

fn of_webhook(call: &Call) -> Result<Reply, ApiError> {
    let state = call.state();
    view(call, found(call, &state)?)
}

fn of_any_webhook(call: &Call) -> Result<Reply, ApiError> {
    let (id, state) = (call.part("id"), call.state());
    let is_own = |one: &Webhook| one.project == call.project;
    view(call, own(("webhook", id), state.webhooks.get(id), is_own)?)
}

fn view(call: &Call, webhook: &Webhook) -> Result<Reply, ApiError> {
    let id = call.part("id");
    let complete = call.api.reading.settle_health();
    let report = read(call, id)?;
    let stats = call.api.reading.sender.stats();
    let left_alone = stats.left_alone.get(id).copied();
    let standing = &report.standing;
    Reply::ok(&HealthView {
        webhook_id: id.to_owned(),
        consumer: webhook.consumer.clone(),
        health: report.health.as_str(),
        state: webhook.state.as_str(),
        attempts: AttemptCounts::of(&report.attempts),
        consecutive_failures: standing.failures_in_a_row,
        failing_since: standing.failing_since_ms.map(time_text),
        last_success_at: standing.last_success_ms.map(time_text),
        last_failure_at: standing.last_failure_ms.map(time_text),
        breaker: match left_alone {
            None => "closed",
            Some(0) => "half_open",
            Some(_) => "open",
        },
        breaker_until: left_alone.filter(|until_ms| *until_ms > 0).map(time_text),
        rules: RULES,
        complete,
    })
}

fn read(call: &Call, webhook: &str) -> Result<Report, ApiError> {
    let read = report(&call.api.reading.state, webhook, call.now_ms);
    read.map_err(|error| ApiError::Failed(error.to_string()))
}

fn summary(call: &Call) -> Result<Reply, ApiError> {
    let complete = call.api.reading.settle_health();
    let state = call.state();
    let own = state.webhooks.iter();
    let own = own.filter(|(_, webhook)| webhook.project == call.project);
    let (mut counts, mut ailing) = (BTreeMap::<Health, usize>::new(), Vec::new());
    for (id, webhook) in own {
        let report = read(call, id)?;
        *counts.entry(report.health).or_default() += 1;
        if report.health > Health::Unknown {
            let standing = report.standing;
            let view = Ailing {
                webhook_id: id.clone(),
                consumer: webhook.consumer.clone(),
                health: report.health.as_str(),
                consecutive_failures: standing.failures_in_a_row,
                failing_since: standing.failing_since_ms.map(time_text),
            };
            ailing.push((report.health, standing.failures_in_a_row, view));
        }
    }
    ailing.sort_by_key(|(health, in_a_row, _)| std::cmp::Reverse((*health, *in_a_row)));
    ailing.truncate(NAMED_MAX);
    let of = |health: Health| counts.get(&health).copied().unwrap_or_default();
    Reply::ok(&HealthSummary {
        total: counts.values().sum(),
        healthy: of(Health::Healthy),
        degraded: of(Health::Degraded),
        unhealthy: of(Health::Unhealthy),
        unknown: of(Health::Unknown),
        webhooks: ailing.into_iter().map(|(_, _, view)| view).collect(),
        complete,
    })
}

fn stats(call: &Call) -> Result<Reply, ApiError> {
    let reading = &call.api.reading;
    let complete = reading.settle_health() & reading.settle();
    let state = call.state();
    let consumer = call.path.get("consumer");
    let is_own =
        |project: &str, of: &str| project == call.project && consumer.is_none_or(|name| name == of);
    let webhooks = state.webhooks.iter();
    let own: BTreeMap<&str, &Arc<Webhook>> = webhooks
        .filter(|(_, webhook)| is_own(&webhook.project, &webhook.consumer))
        .map(|(id, webhook)| (id.as_str(), webhook))
        .collect();
    let mut attempts = Attempts::default();
    for id in own.keys() {
        attempts.add_all(&read(call, id)?.attempts);
    }
    let in_state = |word: &WebhookState| {
        let same = |one: &&Arc<Webhook>| one.state.as_str() == word.as_str();
        own.values().copied().filter(same).count()
    };
    let subscriptions = state.subscriptions.values();
    let subscriptions = subscriptions.filter(|one| is_own(&one.project, &one.consumer));
    let waiting = waiting(call, |webhook| own.contains_key(webhook))?;
    let oldest_ms = waiting.values().map(|(_, oldest_ms)| *oldest_ms).min();
    let age = |at_ms: i64| (call.now_ms - at_ms).max(0) as f64 / 1_000.0;
    let mut backlogs: Vec<_> = waiting
        .iter()
        .map(|(webhook, (deliveries, oldest_ms))| Backlog {
            webhook_id: webhook.clone(),
            deliveries: *deliveries,
            oldest_age_seconds: age(*oldest_ms),
        })
        .collect();
    backlogs.sort_by_key(|one| std::cmp::Reverse(one.deliveries));
    backlogs.truncate(NAMED_MAX);
    Reply::ok(&StatsView {
        webhooks: own.len(),
        active: in_state(&WebhookState::Active),
        paused: in_state(&WebhookState::Paused),
        disabled: in_state(&WebhookState::Disabled {
            reason: String::new(),
        }),
        subscriptions: subscriptions.count(),
        attempts: AttemptCounts::of(&attempts),
        backlog: waiting.values().map(|(count, _)| count).sum(),
        oldest_age_seconds: oldest_ms.map(age),
        backlogs,
        complete,
    })
}

/// Undecided deliveries by webhook: how many, and when the oldest was matched.
fn waiting(
    call: &Call,
    is_own: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, (u64, i64)>, ApiError> {
    let mut waiting: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    let each = |webhook: &str, parked: Parked| {
        if let Some((count, oldest_ms)) = waiting.get_mut(webhook) {
            *count += 1;
            *oldest_ms = parked.created_ms.min(*oldest_ms);
        } else if is_own(webhook) {
            waiting.insert(webhook.to_owned(), (1, parked.created_ms));
        }
        ControlFlow::Continue(())
    };
    let read = each_undecided(&call.api.reading.state, None, each);
    read.map_err(|error| ApiError::Failed(error.to_string()))?;
    Ok(waiting)
}
