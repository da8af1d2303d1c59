//! Which webhooks, subscriptions and event types may be kept.

use std::collections::BTreeMap;

use crate::change::Change;
use crate::check::{check_id, check_room, unknown};
use crate::error::RegistryError;
use crate::state::Snapshot;
use crate::webhook::{EventType, Subscription, Webhook};

/// Webhooks of one server: about a kilobyte each, so at most 100 MB.
const WEBHOOKS_MAX: usize = 100_000;
/// Subscriptions of one server: about half a kilobyte each.
const SUBSCRIPTIONS_MAX: usize = 200_000;
/// Event types of one server; with their schemas a few kilobytes each.
const EVENT_TYPES_MAX: usize = 10_000;
/// Versions that an event type has at most: each schema may take 64 KiB.
const TYPE_VERSIONS_MAX: usize = 100;
/// Names that a webhook takes without subscriptions.
const EVENTS_MAX: usize = 100;
/// Bytes of an event's name, a consumer's, and what people write about them.
const NAME_BYTES_MAX: usize = 255;
/// Bytes of a URL.
const URL_BYTES_MAX: usize = 2_048;
/// Headers of a webhook or a subscription, and bytes of a name and of a value.
const HEADERS_MAX: usize = 32;
const HEADER_NAME_BYTES_MAX: usize = 64;
const HEADER_VALUE_BYTES_MAX: usize = 4_096;
/// Secrets that sign at once: of each of two kinds the newest and those that it takes over from.
const SECRETS_MAX: usize = 6;
/// Conditions of a subscription.
const CONDITIONS_MAX: usize = 16;
/// Bytes of a schema (G5).
const SCHEMA_BYTES_MAX: usize = 64 * 1024;
/// Bytes of certificates.
const CA_BYTES_MAX: usize = 64 * 1024;
/// Retries of an attempt, and seconds of a pause, a deadline and an exchange.
const RETRIES_MAX: u32 = 50;
const BACKOFF_SECONDS_MAX: u32 = 3_600;
const PAUSE_SECONDS_MAX: u32 = 86_400;
const DEADLINE_SECONDS_MAX: u32 = 7 * 86_400;
const TIMEOUT_SECONDS_MAX: u32 = 300;
const IN_FLIGHT_MAX: u32 = 1_024;
const RATE_MAX: u32 = 100_000;
/// Methods of deliveries.
const METHODS: [&str; 5] = ["POST", "PUT", "PATCH", "GET", "DELETE"];
/// Headers that the server owns (G5).
const OWN_HEADERS: [&str; 4] = ["host", "content-length", "transfer-encoding", "connection"];
/// Classes of events that a subscription can name.
pub const CLASSES: [&str; 3] = ["message", "track", "authentication"];

impl Snapshot {
    pub(crate) fn check_webhooks(&self, change: &Change) -> Result<(), RegistryError> {
        match change {
            Change::WebhookSet { id, webhook } => {
                check_id("webhook", id)?;
                self.check_project(&webhook.project)?;
                if let Some(known) = self.webhooks.get(id) {
                    check_owner("webhook", id, (&known.project, &webhook.project))?;
                } else {
                    check_room(self.webhooks.len(), WEBHOOKS_MAX, "webhooks")?;
                }
                check_webhook(webhook)
            }
            Change::WebhookDeleted { id } => match self.webhooks.contains_key(id) {
                true => Ok(()),
                false => Err(unknown("webhook", id)),
            },
            Change::SubscriptionSet { id, subscription } => {
                check_id("subscription", id)?;
                self.check_subscription_owner(id, subscription)?;
                check_subscription(subscription)
            }
            Change::SubscriptionDeleted { id } => match self.subscriptions.contains_key(id) {
                true => Ok(()),
                false => Err(unknown("subscription", id)),
            },
            Change::EventTypeSet { event_type } => {
                self.check_project(&event_type.project)?;
                if self
                    .event_type(&event_type.project, &event_type.name)
                    .is_none()
                {
                    check_room(self.event_types.len(), EVENT_TYPES_MAX, "event types")?;
                }
                check_event_type(event_type)
            }
            _ => Ok(()),
        }
    }

    fn check_subscription_owner(
        &self,
        id: &str,
        subscription: &Subscription,
    ) -> Result<(), RegistryError> {
        let known = self.webhook(&subscription.project, &subscription.webhook);
        let own = known.filter(|webhook| webhook.consumer == subscription.consumer);
        if own.is_none() {
            return Err(unknown("webhook", &subscription.webhook));
        }
        match self.subscriptions.get(id) {
            Some(known) => check_owner("subscription", id, (&known.project, &subscription.project)),
            None => check_room(self.subscriptions.len(), SUBSCRIPTIONS_MAX, "subscriptions"),
        }
    }
}

/// An id stays with its project.
fn check_owner(
    kind: &'static str,
    id: &str,
    (known, wanted): (&str, &str),
) -> Result<(), RegistryError> {
    match known == wanted {
        true => Ok(()),
        false => Err(RegistryError::Exists {
            kind,
            id: id.to_owned(),
        }),
    }
}

fn check_webhook(webhook: &Webhook) -> Result<(), RegistryError> {
    check_consumer(&webhook.consumer)?;
    within(webhook.url.len(), 1, URL_BYTES_MAX, "url", "bytes")?;
    within(webhook.events.len(), 0, EVENTS_MAX, "events", "names")?;
    for name in &webhook.events {
        check_pattern("events", name)?;
    }
    within(webhook.description.len(), 0, 1_024, "description", "bytes")?;
    check_headers("headers", &webhook.headers)?;
    check_headers("secret_headers", &webhook.secret_headers)?;
    within(webhook.secrets.len(), 0, SECRETS_MAX, "secrets", "at once")?;
    for (field, text) in [
        ("content_type", &webhook.content_type),
        ("user_agent", &webhook.user_agent),
    ] {
        within(text.len(), 0, NAME_BYTES_MAX, field, "bytes")?;
        check_value(field, text)?;
    }
    let retry = &webhook.retry;
    within(retry.retries_max, 0, RETRIES_MAX, "max_retries", "")?;
    let backoff = retry.backoff_s;
    within(backoff, 1, BACKOFF_SECONDS_MAX, "retry_backoff_seconds", "")?;
    within(
        retry.schedule_s.len(),
        0,
        50,
        "retry_schedule_seconds",
        "pauses",
    )?;
    for pause in &retry.schedule_s {
        within(*pause, 0, PAUSE_SECONDS_MAX, "retry_schedule_seconds", "")?;
    }
    if let Some(deadline) = retry.deadline_s {
        within(
            deadline,
            1,
            DEADLINE_SECONDS_MAX,
            "retry_deadline_seconds",
            "",
        )?;
    }
    within(
        webhook.timeout_s,
        1,
        TIMEOUT_SECONDS_MAX,
        "request_timeout_seconds",
        "",
    )?;
    for status in &webhook.expected_statuses {
        within(*status, 200, 399, "expected_status_codes", "")?;
    }
    if let Some(rate) = webhook.rate_limit_rps {
        within(rate, 1, RATE_MAX, "rate_limit_rps", "")?;
    }
    if let Some(in_flight) = webhook.in_flight_max {
        within(in_flight, 1, IN_FLIGHT_MAX, "max_in_flight", "")?;
    }
    let ca_bytes = webhook.ca_pem.as_ref().map_or(0, String::len);
    within(ca_bytes, 0, CA_BYTES_MAX, "ca_pem", "bytes")
}

fn check_subscription(subscription: &Subscription) -> Result<(), RegistryError> {
    check_consumer(&subscription.consumer)?;
    check_pattern("event_name", &subscription.event)?;
    for class in &subscription.classes {
        if !CLASSES.contains(&class.as_str()) {
            return Err(invalid("classes", format!("takes {}", CLASSES.join(", "))));
        }
    }
    within(subscription.labels.len(), 0, 20, "label_filters", "labels")?;
    let filters = &subscription.filters;
    within(filters.len(), 0, CONDITIONS_MAX, "filters", "conditions")?;
    for filter in filters {
        within(
            filter.path.len(),
            1,
            NAME_BYTES_MAX,
            "filters.path",
            "bytes",
        )?;
    }
    check_headers("headers", &subscription.headers)?;
    let method = subscription.method.as_str();
    if !method.is_empty() && !METHODS.contains(&method) {
        return Err(invalid("method", format!("takes {}", METHODS.join(", "))));
    }
    match subscription.timeout_s {
        Some(timeout) => within(timeout, 1, TIMEOUT_SECONDS_MAX, "timeout_seconds", ""),
        None => Ok(()),
    }
}

fn check_event_type(event_type: &EventType) -> Result<(), RegistryError> {
    check_name("name", &event_type.name)?;
    within(
        event_type.description.len(),
        0,
        1_024,
        "description",
        "bytes",
    )?;
    let versions = event_type.versions.len();
    within(versions, 1, TYPE_VERSIONS_MAX, "versions", "kept")?;
    let schema = event_type.schema().map_or(0, |s| s.to_string().len());
    within(schema, 0, SCHEMA_BYTES_MAX, "schema", "bytes")
}

/// Whom the server's own events are for: webhooks take them, and nobody else publishes them.
pub const SYSTEM_CONSUMER: &str = "_sparrow";

/// A consumer's name is a part of a path.
fn check_consumer(name: &str) -> Result<(), RegistryError> {
    if name.starts_with('_') && name != SYSTEM_CONSUMER {
        return Err(invalid(
            "consumer",
            "names that start with `_` are the server's".to_owned(),
        ));
    }
    check_name("consumer", name)
}

fn check_name(field: &'static str, name: &str) -> Result<(), RegistryError> {
    within(name.len(), 1, NAME_BYTES_MAX, field, "bytes")?;
    match name.chars().any(|c| c.is_control() || c == '/' || c == '*') {
        true => Err(invalid(
            field,
            "takes no control characters, `/` or `*`".to_owned(),
        )),
        false => Ok(()),
    }
}

/// A name, `prefix.*` or `*`.
fn check_pattern(field: &'static str, pattern: &str) -> Result<(), RegistryError> {
    match pattern.strip_suffix('*') {
        Some("") => Ok(()),
        Some(prefix) if prefix.ends_with('.') => check_name(field, prefix),
        Some(_) => Err(invalid(field, "takes a name, `prefix.*` or `*`".to_owned())),
        None => check_name(field, pattern),
    }
}

fn check_headers(
    field: &'static str,
    headers: &BTreeMap<String, String>,
) -> Result<(), RegistryError> {
    within(headers.len(), 0, HEADERS_MAX, field, "headers")?;
    for (name, value) in headers {
        let lower = name.to_ascii_lowercase();
        if OWN_HEADERS.contains(&lower.as_str()) || lower.starts_with("webhook-") {
            return Err(invalid(field, format!("`{name}` is the server's to set")));
        }
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if name.is_empty() || name.len() > HEADER_NAME_BYTES_MAX || !name.bytes().all(token) {
            return Err(invalid(field, format!("`{name}` is no header's name")));
        }
        within(
            value.len(),
            0,
            HEADER_VALUE_BYTES_MAX,
            field,
            "bytes a value",
        )?;
        check_value(field, value)?;
    }
    Ok(())
}

fn check_value(field: &'static str, value: &str) -> Result<(), RegistryError> {
    match value
        .bytes()
        .all(|b| b == b'\t' || (b' '..=b'~').contains(&b))
    {
        true => Ok(()),
        false => Err(invalid(
            field,
            "takes printable ASCII on one line".to_owned(),
        )),
    }
}

fn within<T: PartialOrd + std::fmt::Display>(
    value: T,
    least: T,
    most: T,
    field: &'static str,
    unit: &str,
) -> Result<(), RegistryError> {
    match value >= least && value <= most {
        true => Ok(()),
        false => {
            let rule = format!("takes {least} to {most} {unit}");
            Err(invalid(field, rule.trim_end().to_owned()))
        }
    }
}

fn invalid(field: &'static str, rule: String) -> RegistryError {
    RegistryError::Invalid { field, rule }
}
