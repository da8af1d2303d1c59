//! Subscriptions: which events a webhook gets, and how.

use std::collections::BTreeMap;

use fulmar_registry::{Change, Comparison, PayloadFilter, Snapshot, Subscription};
use hyper::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::paging::Page;
use super::route::{PAGING, Route};
use super::webhook_fields::{given, set};
use super::{ApiError, Call, Reply, new_id, own};
use crate::admin::time_text;

pub fn routes(routes: &mut Vec<Route>) {
    routes.extend(lists());
    routes.extend(items());
}

fn lists() -> impl IntoIterator<Item = Route> {
    let list = "/v1/consumers/{consumer}/subscriptions";
    let all = "/v1/subscriptions";
    [
        Route::new(
            Method::GET,
            list,
            ("listSubscriptions", "Subscriptions of a consumer"),
            of_consumer,
        )
        .gives::<SubscriptionPage>(200)
        .asks(PAGING),
        Route::new(
            Method::GET,
            all,
            ("listAllSubscriptions", "Subscriptions of all consumers"),
            of_all,
        )
        .gives::<SubscriptionPage>(200)
        .asks(PAGING),
        Route::new(
            Method::POST,
            list,
            ("createSubscription", "A new subscription"),
            create,
        )
        .takes::<SubscriptionFields>()
        .gives::<SubscriptionView>(201),
    ]
}

fn items() -> impl IntoIterator<Item = Route> {
    let one = "/v1/consumers/{consumer}/subscriptions/{id}";
    let pausing = "/v1/consumers/{consumer}/subscriptions/{id}:pause";
    let resuming = "/v1/consumers/{consumer}/subscriptions/{id}:resume";
    [
        Route::new(
            Method::GET,
            one,
            ("getSubscription", "One subscription"),
            get,
        )
        .gives::<SubscriptionView>(200),
        Route::new(
            Method::PATCH,
            one,
            ("updateSubscription", "Changes the fields that are given"),
            update,
        )
        .takes::<SubscriptionFields>()
        .gives::<SubscriptionView>(200),
        Route::new(
            Method::DELETE,
            one,
            ("deleteSubscription", "Deletes a subscription"),
            delete,
        ),
        Route::new(
            Method::POST,
            pausing,
            (
                "pauseSubscription",
                "It matches nothing until it is resumed",
            ),
            pause,
        )
        .gives::<SubscriptionView>(200),
        Route::new(
            Method::POST,
            resuming,
            ("resumeSubscription", "It matches again"),
            resume,
        )
        .gives::<SubscriptionView>(200),
    ]
}

/// How a value of the payload is compared.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Is {
    Equals,
    NotEquals,
    Prefix,
    GreaterThan,
    LessThan,
}

/// A condition on one value of the payload.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Condition {
    /// Member names from the outside in, joined by dots: `order.total`.
    path: String,
    /// How it is compared.
    is: Is,
    /// With what.
    value: Value,
}

/// What of a subscription can be set.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SubscriptionFields {
    /// The webhook that gets the events; it can't be changed later.
    webhook_id: Option<String>,
    /// Event name, `prefix.*` or `*`.
    event_name: Option<String>,
    /// Classes of events of other doors: message, track, authentication; empty is the consumer's
    /// published events alone.
    classes: Option<Vec<String>>,
    /// Labels that an event must carry, all of them.
    label_filters: Option<BTreeMap<String, String>>,
    /// Conditions on the payload, all of them.
    filters: Option<Vec<Condition>>,
    /// POST, PUT, PATCH, GET or DELETE; default POST.
    method: Option<String>,
    /// Headers over the webhook's.
    headers: Option<BTreeMap<String, String>>,
    /// Seconds that one exchange may take, instead of the webhook's; null for the webhook's.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<u32>")]
    timeout: Option<Option<u32>>,
    /// It matches nothing for now.
    paused: Option<bool>,
    /// Not built yet.
    transform_enabled: Option<bool>,
    /// Not built yet.
    transform_template: Option<String>,
}

/// A subscription as it is shown.
#[derive(Serialize, JsonSchema)]
struct SubscriptionView {
    id: String,
    consumer: String,
    webhook_id: String,
    event_name: String,
    classes: Vec<String>,
    label_filters: BTreeMap<String, String>,
    filters: Vec<Condition>,
    method: String,
    headers: BTreeMap<String, String>,
    timeout: Option<u32>,
    paused: bool,
    created_at: String,
    updated_at: String,
}

/// A page of subscriptions.
#[derive(Serialize, JsonSchema)]
struct SubscriptionPage {
    subscriptions: Vec<SubscriptionView>,
    /// Of the next page; null at the end.
    next_cursor: Option<String>,
}

impl SubscriptionView {
    fn of(id: &str, one: &Subscription) -> Self {
        let conditions = one.filters.iter().map(|filter| Condition {
            path: filter.path.clone(),
            is: match filter.is {
                Comparison::Equals => Is::Equals,
                Comparison::NotEquals => Is::NotEquals,
                Comparison::Prefix => Is::Prefix,
                Comparison::GreaterThan => Is::GreaterThan,
                Comparison::LessThan => Is::LessThan,
            },
            value: filter.value.clone(),
        });
        Self {
            id: id.to_owned(),
            consumer: one.consumer.clone(),
            webhook_id: one.webhook.clone(),
            event_name: one.event.clone(),
            classes: one.classes.clone(),
            label_filters: one.labels.clone(),
            filters: conditions.collect(),
            method: if one.method.is_empty() {
                "POST"
            } else {
                &one.method
            }
            .to_owned(),
            headers: one.headers.clone(),
            timeout: one.timeout_s,
            paused: one.paused,
            created_at: time_text(one.created_ms),
            updated_at: time_text(one.updated_ms),
        }
    }
}

impl Condition {
    fn filter(self) -> PayloadFilter {
        PayloadFilter {
            path: self.path,
            is: match self.is {
                Is::Equals => Comparison::Equals,
                Is::NotEquals => Comparison::NotEquals,
                Is::Prefix => Comparison::Prefix,
                Is::GreaterThan => Comparison::GreaterThan,
                Is::LessThan => Comparison::LessThan,
            },
            value: self.value,
        }
    }
}

impl SubscriptionFields {
    /// Sets what was given.
    pub fn apply(self, one: &mut Subscription) -> Result<(), ApiError> {
        for (field, given) in [
            ("transform_enabled", self.transform_enabled == Some(true)),
            ("transform_template", self.transform_template.is_some()),
        ] {
            if given {
                let rule = "is refused: transforms are not built yet";
                return Err(ApiError::invalid(field, rule));
            }
        }
        set(&mut one.event, self.event_name);
        set(&mut one.classes, self.classes);
        set(&mut one.labels, self.label_filters);
        let filters = self
            .filters
            .map(|all| all.into_iter().map(Condition::filter).collect());
        set(&mut one.filters, filters);
        set(
            &mut one.method,
            self.method.map(|method| method.to_ascii_uppercase()),
        );
        set(&mut one.headers, self.headers);
        set(&mut one.timeout_s, self.timeout);
        set(&mut one.paused, self.paused);
        Ok(())
    }
}

fn of_consumer(call: &Call) -> Result<Reply, ApiError> {
    list(call, Some(call.part("consumer")))
}

fn of_all(call: &Call) -> Result<Reply, ApiError> {
    list(call, None)
}

fn list(call: &Call, consumer: Option<&str>) -> Result<Reply, ApiError> {
    let (page, state) = (Page::of(call)?, call.state());
    let webhook = call.query.get("webhook_id");
    let from = (page.start(), std::ops::Bound::Unbounded);
    let found = state
        .subscriptions
        .range::<str, _>(from)
        .filter(|(_, one)| {
            one.project == call.project
                && consumer.is_none_or(|name| one.consumer == name)
                && webhook.is_none_or(|id| one.webhook == *id)
        });
    let views = found.map(|(id, one)| (id.clone(), SubscriptionView::of(id, one)));
    let (subscriptions, next_cursor) = page.cut(views);
    Reply::ok(&SubscriptionPage {
        subscriptions,
        next_cursor,
    })
}

fn create(call: &Call) -> Result<Reply, ApiError> {
    let fields: SubscriptionFields = call.read()?;
    let webhook = fields.webhook_id.clone();
    let mut one = Subscription {
        project: call.project.clone(),
        consumer: call.part("consumer").to_owned(),
        webhook: webhook.ok_or_else(|| ApiError::invalid("webhook_id", "is missing"))?,
        created_ms: call.now_ms,
        updated_ms: call.now_ms,
        ..Subscription::default()
    };
    fields.apply(&mut one)?;
    if one.event.is_empty() {
        return Err(ApiError::invalid("event_name", "is missing"));
    }
    let id = new_id("sub", call.now_ms)?;
    let view = SubscriptionView::of(&id, &one);
    call.change(|_| {
        Ok(Change::SubscriptionSet {
            id,
            subscription: Box::new(one),
        })
    })?;
    Reply::created(&view)
}

fn found<'a>(
    call: &Call,
    state: &'a Snapshot,
) -> Result<&'a std::sync::Arc<Subscription>, ApiError> {
    let id = call.part("id");
    own(("subscription", id), state.subscriptions.get(id), |one| {
        one.project == call.project && one.consumer == call.part("consumer")
    })
}

fn get(call: &Call) -> Result<Reply, ApiError> {
    let state = call.state();
    Reply::ok(&SubscriptionView::of(call.part("id"), found(call, &state)?))
}

fn change(
    call: &Call,
    make: impl FnOnce(&mut Subscription) -> Result<(), ApiError>,
) -> Result<Reply, ApiError> {
    let id = call.part("id");
    let mut view = None;
    call.change(|state| {
        let mut one = (**found(call, state)?).clone();
        make(&mut one)?;
        one.updated_ms = call.now_ms;
        view = Some(SubscriptionView::of(id, &one));
        Ok(Change::SubscriptionSet {
            id: id.to_owned(),
            subscription: Box::new(one),
        })
    })?;
    Reply::ok(&view)
}

fn update(call: &Call) -> Result<Reply, ApiError> {
    let fields: SubscriptionFields = call.read()?;
    change(call, |one| {
        if fields
            .webhook_id
            .as_ref()
            .is_some_and(|id| *id != one.webhook)
        {
            let rule = "can't be changed: delete the subscription and make another";
            return Err(ApiError::invalid("webhook_id", rule));
        }
        fields.apply(one)
    })
}

fn delete(call: &Call) -> Result<Reply, ApiError> {
    call.change(|state| {
        found(call, state)?;
        Ok(Change::SubscriptionDeleted {
            id: call.part("id").to_owned(),
        })
    })?;
    Ok(Reply::nothing())
}

fn pause(call: &Call) -> Result<Reply, ApiError> {
    set_paused(call, true)
}

fn resume(call: &Call) -> Result<Reply, ApiError> {
    set_paused(call, false)
}

fn set_paused(call: &Call, paused: bool) -> Result<Reply, ApiError> {
    change(call, |one| {
        one.paused = paused;
        Ok(())
    })
}
