//! Deliveries that have no row yet, since nothing came of them so far.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use fulmar_registry::{Snapshot, WebhookState};
use fulmar_webhooks::occurrence::Occurrence;
use fulmar_webhooks::sender::{DeliveryId, Parked, each_undecided};

use super::deliveries::DeliveryView;
use super::delivery_filter::{Place, Wanted};
use super::reading::Reading;
use super::{ApiError, Call};
use crate::admin::time_text;

/// Events that one list reads: each is some microseconds.
const EVENTS_READ_MAX: usize = 20_000;

/// The newest of them that are wanted, with whether there may be more beyond those looked at.
pub fn list(
    call: &Call,
    reading: &Reading,
    wanted: &Wanted,
    limit: usize,
) -> Result<(Vec<DeliveryView>, bool), ApiError> {
    let state = call.state();
    let mut newest: BTreeMap<Place, (String, Parked)> = BTreeMap::new();
    let kept = if wanted.needs_event() {
        EVENTS_READ_MAX
    } else {
        limit
    };
    let mut is_cut = false;
    let webhook = wanted.webhook_id.as_deref();
    each_undecided(&reading.state, webhook, |webhook, parked| {
        let place = Place::of(&parked);
        if parked.attempts == 0 && wanted.takes(call, &state, webhook, &parked, &place) {
            newest.insert(place, (webhook.to_owned(), parked));
            if newest.len() > kept {
                newest.pop_first();
                is_cut = true;
            }
        }
        ControlFlow::Continue(())
    })
    .map_err(|error| ApiError::Failed(error.to_string()))?;
    let mut views = Vec::new();
    let mut events = Events::of(reading);
    for (webhook, parked) in newest.values().rev() {
        let view = view(&state, webhook, parked, &mut events)?;
        if wanted.takes_event(&view) {
            views.push(view);
        }
        if views.len() == limit {
            is_cut = false;
            break;
        }
    }
    Ok((views, is_cut && wanted.needs_event()))
}

/// The one of that id.
pub fn find(call: &Call, reading: &Reading, id: &str) -> Result<Option<DeliveryView>, ApiError> {
    let Some(id) = DeliveryId::parse(id) else {
        return Ok(None);
    };
    let mut found = None;
    each_undecided(&reading.state, None, |webhook, parked| {
        if parked.id == id {
            found = Some((webhook.to_owned(), parked));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })
    .map_err(|error| ApiError::Failed(error.to_string()))?;
    let state = call.state();
    let Some((webhook, parked)) = found else {
        return Ok(None);
    };
    let is_own = |one: &fulmar_registry::Webhook| one.project == call.project;
    if !state.webhooks.get(&webhook).is_some_and(|one| is_own(one)) {
        return Ok(None);
    }
    view(&state, &webhook, &parked, &mut Events::of(reading)).map(Some)
}

fn view(
    state: &Snapshot,
    webhook_id: &str,
    parked: &Parked,
    events: &mut Events<'_>,
) -> Result<DeliveryView, ApiError> {
    let (event_id, event_name) = events.at(parked.offset)?;
    let webhook = state.webhooks.get(webhook_id);
    let is_held = webhook.is_none_or(|one| one.state != WebhookState::Active);
    Ok(DeliveryView {
        delivery_id: parked.id.to_string(),
        webhook_id: webhook_id.to_owned(),
        subscription_id: some_text(&parked.subscription),
        event_id,
        event_name,
        consumer: webhook.map_or_else(String::new, |one| one.consumer.clone()),
        status: if is_held { "paused" } else { "pending" }.to_owned(),
        attempt_count: parked.attempts,
        max_attempts: webhook.map_or(0, |one| one.retry.retries_max + 1),
        created_at: time_text(parked.created_ms),
        last_attempted_at: None,
        next_retry_at: None,
        response_code: None,
        response_body: None,
        error_category: None,
        error_message: None,
        template_error: None,
        place: Place::of(parked),
    })
}

fn some_text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Ids and names of events by their offsets, read once each.
struct Events<'r> {
    reading: &'r Reading,
    known: HashMap<u64, (String, String)>,
}

impl<'r> Events<'r> {
    fn of(reading: &'r Reading) -> Self {
        Self {
            reading,
            known: HashMap::new(),
        }
    }

    /// Empty for one that the log does not have any more.
    fn at(&mut self, offset: u64) -> Result<(String, String), ApiError> {
        if let Some(known) = self.known.get(&offset) {
            return Ok(known.clone());
        }
        let read = |event: &Occurrence<'_>| (event.id.to_owned(), event.name.to_string());
        let found = self.reading.event(offset, read)?.unwrap_or_default();
        self.known.insert(offset, found.clone());
        Ok(found)
    }
}
