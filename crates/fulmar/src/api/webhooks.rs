//! Webhooks: where a consumer's events go.

use std::sync::Arc;

use fulmar_registry::{Change, Snapshot, Webhook, WebhookState};
use hyper::Method;
use schemars::JsonSchema;
use serde::Serialize;

use super::paging::Page;
use super::route::{PAGING, Route};
use super::webhook_fields::{SignatureType, WebhookFields, WebhookView, check_reachable};
use super::{ApiError, Call, Reply, new_id, own, signing};

pub fn routes(routes: &mut Vec<Route>) {
    routes.extend(lists());
    routes.extend(items());
    routes.extend(verbs());
}

fn lists() -> impl IntoIterator<Item = Route> {
    let list = "/v1/consumers/{consumer}/webhooks";
    [
        Route::new(
            Method::GET,
            list,
            ("listWebhooks", "Webhooks of a consumer"),
            of_consumer,
        )
        .gives::<WebhookPage>(200)
        .asks(PAGING),
        Route::new(
            Method::GET,
            "/v1/webhooks",
            ("listAllWebhooks", "Webhooks of all consumers"),
            of_all,
        )
        .gives::<WebhookPage>(200)
        .asks(PAGING),
        Route::new(
            Method::POST,
            list,
            (
                "createWebhook",
                "A new webhook; its secret is in this answer alone",
            ),
            create,
        )
        .takes::<WebhookFields>()
        .gives::<WebhookView>(201),
    ]
}

fn items() -> impl IntoIterator<Item = Route> {
    let one = "/v1/consumers/{consumer}/webhooks/{id}";
    [
        Route::new(Method::GET, one, ("getWebhook", "One webhook"), get).gives::<WebhookView>(200),
        Route::new(
            Method::PATCH,
            one,
            ("updateWebhook", "Changes the fields that are given"),
            update,
        )
        .takes::<WebhookFields>()
        .gives::<WebhookView>(200),
        Route::new(
            Method::PUT,
            one,
            (
                "replaceWebhook",
                "Sets all fields; those not given get their defaults",
            ),
            replace,
        )
        .takes::<WebhookFields>()
        .gives::<WebhookView>(200),
        Route::new(
            Method::DELETE,
            one,
            (
                "deleteWebhook",
                "Deletes it; what it had not got is cancelled",
            ),
            delete,
        ),
    ]
}

fn verbs() -> impl IntoIterator<Item = Route> {
    let pausing = "/v1/consumers/{consumer}/webhooks/{id}:pause";
    let resuming = "/v1/consumers/{consumer}/webhooks/{id}:resume";
    [
        Route::new(
            Method::POST,
            pausing,
            ("pauseWebhook", "Holds its deliveries"),
            pause,
        )
        .gives::<WebhookView>(200),
        Route::new(
            Method::POST,
            resuming,
            ("resumeWebhook", "Sends again, first what was held"),
            resume,
        )
        .gives::<WebhookView>(200),
    ]
}

/// A page of webhooks.
#[derive(Serialize, JsonSchema)]
pub struct WebhookPage {
    webhooks: Vec<WebhookView>,
    /// Of the next page; null at the end.
    next_cursor: Option<String>,
}

fn of_consumer(call: &Call) -> Result<Reply, ApiError> {
    list(call, Some(call.part("consumer")))
}

fn of_all(call: &Call) -> Result<Reply, ApiError> {
    list(call, None)
}

fn list(call: &Call, consumer: Option<&str>) -> Result<Reply, ApiError> {
    let (page, state) = (Page::of(call)?, call.state());
    let from = (page.start(), std::ops::Bound::Unbounded);
    let found = state.webhooks.range::<str, _>(from);
    let own = found.filter(|(_, webhook)| {
        webhook.project == call.project && consumer.is_none_or(|name| webhook.consumer == name)
    });
    let views = own.map(|(id, webhook)| (id.clone(), WebhookView::of(id, webhook)));
    let (webhooks, next_cursor) = page.cut(views);
    Reply::ok(&WebhookPage {
        webhooks,
        next_cursor,
    })
}

fn create(call: &Call) -> Result<Reply, ApiError> {
    let fields: WebhookFields = call.read()?;
    let mut webhook = Webhook {
        project: call.project.clone(),
        consumer: call.part("consumer").to_owned(),
        timeout_s: super::webhook_fields::TIMEOUT_SECONDS_DEFAULT,
        created_ms: call.now_ms,
        updated_ms: call.now_ms,
        ..Webhook::default()
    };
    let kind = fields.signature_type.unwrap_or(SignatureType::Hmac);
    let made = signing::make(call, kind, fields.secret.clone())?;
    webhook.secrets = made.kept;
    fields.apply(&mut webhook, &call.api.keyring)?;
    check_reachable(&call.api.guard, &webhook.url)?;
    let id = new_id("wh", call.now_ms)?;
    let mut view = WebhookView::of(&id, &webhook);
    view.secret = Some(made.shown);
    call.change(|_| {
        Ok(Change::WebhookSet {
            id,
            webhook: Box::new(webhook),
        })
    })?;
    Reply::created(&view)
}

fn get(call: &Call) -> Result<Reply, ApiError> {
    let state = call.state();
    Reply::ok(&WebhookView::of(call.part("id"), found(call, &state)?))
}

/// The webhook that the path names.
pub fn found<'a>(call: &Call, state: &'a Snapshot) -> Result<&'a Arc<Webhook>, ApiError> {
    let id = call.part("id");
    own(("webhook", id), state.webhooks.get(id), |one| {
        one.project == call.project && one.consumer == call.part("consumer")
    })
}

/// Changes the caller's webhook, from the state that the change follows.
pub fn change(
    call: &Call,
    make: impl FnOnce(&mut Webhook) -> Result<(), ApiError>,
) -> Result<WebhookView, ApiError> {
    let id = call.part("id");
    let mut view = None;
    call.change(|state| {
        let mut webhook = (**found(call, state)?).clone();
        make(&mut webhook)?;
        webhook.updated_ms = call.now_ms;
        view = Some(WebhookView::of(id, &webhook));
        Ok(Change::WebhookSet {
            id: id.to_owned(),
            webhook: Box::new(webhook),
        })
    })?;
    view.ok_or_else(|| ApiError::Failed("the change made no webhook".to_owned()))
}

fn update(call: &Call) -> Result<Reply, ApiError> {
    set(call, |webhook| webhook.clone())
}

fn replace(call: &Call) -> Result<Reply, ApiError> {
    set(call, |webhook| Webhook {
        project: webhook.project.clone(),
        consumer: webhook.consumer.clone(),
        secrets: webhook.secrets.clone(),
        state: webhook.state.clone(),
        resumed_ms: webhook.resumed_ms,
        timeout_s: super::webhook_fields::TIMEOUT_SECONDS_DEFAULT,
        created_ms: webhook.created_ms,
        ..Webhook::default()
    })
}

fn set(call: &Call, from: impl FnOnce(&Webhook) -> Webhook) -> Result<Reply, ApiError> {
    let fields: WebhookFields = call.read()?;
    if fields.secret.is_some() {
        return Err(ApiError::invalid("secret", "is changed by :rotateSecret"));
    }
    if let Some(url) = &fields.url {
        check_reachable(&call.api.guard, url)?;
    }
    let view = change(call, |webhook| {
        let mut next = from(webhook);
        if let Some(kind) = fields.signature_type {
            signing::turn(call, kind, &mut next)?;
        }
        fields.apply(&mut next, &call.api.keyring)?;
        *webhook = next;
        Ok(())
    })?;
    Reply::ok(&view)
}

fn delete(call: &Call) -> Result<Reply, ApiError> {
    call.change(|state| {
        found(call, state)?;
        Ok(Change::WebhookDeleted {
            id: call.part("id").to_owned(),
        })
    })?;
    Ok(Reply::nothing())
}

fn pause(call: &Call) -> Result<Reply, ApiError> {
    set_state(call, WebhookState::Paused)
}

fn resume(call: &Call) -> Result<Reply, ApiError> {
    set_state(call, WebhookState::Active)
}

fn set_state(call: &Call, state: WebhookState) -> Result<Reply, ApiError> {
    let view = change(call, |webhook| {
        if state == WebhookState::Active && webhook.state != state {
            webhook.resumed_ms = call.now_ms;
        }
        webhook.state = state;
        Ok(())
    })?;
    Reply::ok(&view)
}
