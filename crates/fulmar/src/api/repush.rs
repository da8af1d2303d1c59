//! Events pushed anew: to webhooks that came after them, and to those that have not taken them.

use std::collections::HashMap;

use fulmar_webhooks::matching::{Index, Match};
use fulmar_webhooks::occurrence::Occurrence;
use fulmar_webhooks::sender::{DeliveryId, Ended};
use hyper::{Method, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::deliveries::DeliveryLine;
use super::delivery_filter::{Place, Wanted};
use super::events::{conditions, of_path};
use super::paging::Page;
use super::reading::quoted;
use super::retry::{Batch, ENDS, TAKEN, ended, send};
use super::route::Route;
use super::{ApiError, Call, Reply};

/// Deliveries looked up and handed over at once.
const DELIVERIES_AT_ONCE: usize = 1_000;

pub fn routes(routes: &mut Vec<Route>) {
    let route = |path, told| {
        let route = Route::new(Method::POST, path, told, one).takes::<Push>();
        route.gives::<Pushed>(202)
    };
    let told = (
        "repushEvent",
        "Pushes an event anew to the webhooks that match it now and have not taken it",
    );
    routes.push(route("/v1/consumers/{consumer}/events/{id}:repush", told));
    let told = ("repushAnyEvent", "The same, of whichever consumer");
    routes.push(route("/v1/events/{id}:repush", told));
}

/// To whom it is pushed.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Push {
    /// To this webhook alone, if it matches.
    webhook_id: Option<String>,
    /// Also to those that have taken it.
    force: bool,
}

/// What came of it.
#[derive(Serialize, JsonSchema)]
struct Pushed {
    event_id: String,
    /// Deliveries that are sent: that is durable.
    delivery_ids: Vec<String>,
    /// Webhooks that match and have it, or that it is on its way to.
    skipped: usize,
}

/// To whom events are pushed, in one call or job.
pub struct Pushing<'c> {
    /// To this webhook alone.
    pub webhook: Option<&'c str>,
    /// Also to those that have taken it.
    pub force: bool,
    /// What has an outcome at or after this offset of `deliveries` is left alone.
    pub before: u64,
}

/// A row of the table of events.
#[derive(Deserialize)]
struct EventAt {
    event_id: String,
    log_offset: u64,
    created_ms: i64,
}

/// A webhook that matches an event now.
struct Candidate {
    delivery: Ended,
    /// It matched when the event came, so that its delivery was made then.
    is_old: bool,
}

fn one(call: &Call) -> Result<Reply, ApiError> {
    let push: Push = call.read_or_default()?;
    let id = call.part("id");
    let mut wanted = of_path(call);
    wanted.push(format!("event_id = {}", quoted(id)));
    let events = events(call, &wanted, 1)?;
    if events.is_empty() {
        return Err(ApiError::unknown("event", id));
    }
    let pushing = Pushing {
        webhook: push.webhook_id.as_deref(),
        force: push.force,
        before: u64::MAX,
    };
    let (delivery_ids, skipped) = pushing.push(call, &events)?;
    let pushed = Pushed {
        event_id: id.to_owned(),
        delivery_ids: delivery_ids.iter().map(DeliveryId::to_string).collect(),
        skipped,
    };
    Reply::with(StatusCode::ACCEPTED, &pushed)
}

/// Pushes the events of a list's page.
pub fn page(asked: &Call, pushing: &Pushing<'_>) -> Result<Batch, ApiError> {
    let page = Page::of(asked)?;
    let events = events(asked, &conditions(asked, &page)?, page.limit)?;
    let last = events.last().filter(|_| events.len() == page.limit);
    let next_cursor = last.map(|last| {
        let (created_ms, id) = (last.created_ms, last.event_id.clone());
        Place { created_ms, id }.cursor()
    });
    let (pushed, skipped) = pushing.push(asked, &events)?;
    Ok(Batch {
        done: pushed.len(),
        skipped,
        next_cursor,
    })
}

fn events(call: &Call, conditions: &[String], limit: usize) -> Result<Vec<EventAt>, ApiError> {
    // What consumers have no part in was not published here.
    let sql = format!(
        "SELECT event_id, log_offset, epoch_ms(event_time) AS created_ms FROM messages \
         WHERE consumer <> '' AND {} ORDER BY event_time DESC, event_id DESC LIMIT {limit}",
        conditions.join(" AND ")
    );
    call.api.reading.rows(&call.project, sql)
}

impl Pushing<'_> {
    /// The deliveries that are sent of some events, and how many were left alone.
    fn push(&self, call: &Call, events: &[EventAt]) -> Result<(Vec<DeliveryId>, usize), ApiError> {
        let end = events.iter().map(|event| event.log_offset + 1).max();
        // What matched when it came has its deliveries by then.
        if !call.api.reading.is_matched(end.unwrap_or_default()) {
            let told = "the sender has not read these events yet: ask again";
            return Err(ApiError::Unavailable(told.to_owned()));
        }
        let now = Index::of(&call.state());
        let mut candidates = Vec::new();
        for event in events {
            let read = |event: &Occurrence<'_>| self.candidates(call, &now, event);
            let found = call.api.reading.event(event.log_offset, read)?;
            for mut one in found.transpose()?.into_iter().flatten() {
                one.delivery.event_offset = event.log_offset;
                candidates.push(one);
            }
        }
        let (mut pushed, mut skipped) = (Vec::new(), 0);
        for some in candidates.chunks(DELIVERIES_AT_ONCE) {
            let deliveries = self.choose(call, some)?;
            skipped += some.len() - deliveries.len();
            pushed.extend(deliveries.iter().map(|one| one.id));
            send(call, deliveries)?;
        }
        Ok((pushed, skipped))
    }

    fn candidates(
        &self,
        call: &Call,
        now: &Index,
        event: &Occurrence<'_>,
    ) -> Result<Vec<Candidate>, ApiError> {
        let (mut found, mut then) = (Vec::new(), Vec::new());
        now.matches(event, &mut found);
        let index = {
            let mut matched = call.api.reading.matched.lock().expect("no holder panics");
            matched.at(event.revision)?
        };
        index.matches(event, &mut then);
        let is_wanted = |one: &Match| self.webhook.is_none_or(|id| *id == *one.webhook);
        let candidate = |one: Match| Candidate {
            is_old: then.iter().any(|old| old.webhook == one.webhook),
            delivery: Ended {
                id: DeliveryId::of(event, &one.webhook),
                webhook: one.webhook.to_string(),
                project: event.project.to_owned(),
                subscription: one.subscription.as_deref().unwrap_or_default().to_owned(),
                event_id: event.id.to_owned(),
                event_name: event.name.to_string(),
                event_offset: 0,
                created_ms: call.now_ms,
                attempts: 0,
            },
        };
        Ok(found.into_iter().filter(is_wanted).map(candidate).collect())
    }

    /// Those that are to be sent: not what is on its way, nor, without force, what was taken.
    fn choose(&self, call: &Call, candidates: &[Candidate]) -> Result<Vec<Ended>, ApiError> {
        let ids = candidates.iter().map(|one| one.delivery.id.to_string());
        let sql = Wanted::these(ids.collect()).statement(
            &call.state(),
            &call.project,
            DELIVERIES_AT_ONCE,
        );
        let lines: Vec<DeliveryLine> = call.api.reading.rows(&call.project, sql)?;
        let lines = lines.into_iter().map(|line| (line.id.clone(), line));
        let mut lines: HashMap<String, DeliveryLine> = lines.collect();
        let mut chosen = Vec::new();
        for one in candidates {
            match lines.remove(&one.delivery.id.to_string()) {
                // Nothing came of it yet, or what came of it is not kept any more.
                None if one.is_old => {}
                None => chosen.push(one.delivery.clone()),
                Some(line) => {
                    let is_taken = line.status == TAKEN;
                    let has_ended = is_taken || ENDS.contains(&line.status.as_str());
                    if has_ended && line.log_offset < self.before && (self.force || !is_taken) {
                        chosen.push(ended(call, line)?);
                    }
                }
            }
        }
        Ok(chosen)
    }
}
