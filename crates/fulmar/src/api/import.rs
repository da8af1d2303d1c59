//! What another server's webhooks are, taken over with their ids and secrets.

use fulmar_registry::{Change, EventType, MemoryLog, Registry, Subscription, TypeVersion, Webhook};
use hyper::Method;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::event_types::check_schema;
use super::route::Route;
use super::subscriptions::SubscriptionFields;
use super::webhook_fields::{
    HttpConfig, MASK, SignatureType, TIMEOUT_SECONDS_DEFAULT, WebhookFields, check_reachable,
};
use super::{ApiError, Call, Reply, of_body, signing};

/// Fields that are told apart before the others are taken.
const NOT_TAKEN: [&str; 7] = [
    "transform_template",
    "transform_enabled",
    "requires_transform",
    "on_transform_error",
    "template_missing_key",
    "follow_redirects",
    "verify_ssl",
];
/// Templates of the kind that is not taken.
const TEMPLATES: [&str; 3] = [
    "transform_template",
    "requires_transform",
    "transform_enabled",
];

pub fn routes(routes: &mut Vec<Route>) {
    let told = (
        "importSparrow",
        "Takes event types, webhooks with ids and secrets, and subscriptions over",
    );
    let route = Route::new(Method::POST, "/v1/import/sparrow", told, import).takes::<Export>();
    routes.push(route.gives::<Imported>(200));
}

/// An export, in the words of the API. What is there already is left as it is.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Export {
    /// `name`, and `description`, `schema`, `active`.
    event_types: Vec<Map<String, Value>>,
    /// `id`, `consumer`, `secret`, and the fields of a webhook.
    webhooks: Vec<Map<String, Value>>,
    /// `id`, `consumer`, `webhook_id`, and the fields of a subscription.
    subscriptions: Vec<Map<String, Value>>,
    /// Say what would be done, and do nothing.
    dry_run: bool,
}

/// What was taken over.
#[derive(Default, Serialize, JsonSchema)]
struct Imported {
    event_types: usize,
    webhooks: usize,
    subscriptions: usize,
    /// Of an id, or a name, that is there already.
    unchanged: usize,
    /// What is not as it was, and what to do about it.
    notes: Vec<String>,
    dry_run: bool,
}

/// Changes in the order in which they are made, each with its place in the export.
#[derive(Default)]
struct Plan {
    changes: Vec<(String, Change)>,
    report: Imported,
}

fn import(call: &Call) -> Result<Reply, ApiError> {
    let export: Export = call.read()?;
    let mut plan = Plan::default();
    plan.report.dry_run = export.dry_run;
    for (number, one) in export.event_types.iter().enumerate() {
        plan.event_type(call, format!("event_types[{number}]"), one)?;
    }
    for (number, one) in export.webhooks.iter().enumerate() {
        plan.webhook(call, format!("webhooks[{number}]"), one)?;
    }
    for (number, one) in export.subscriptions.iter().enumerate() {
        plan.subscription(call, format!("subscriptions[{number}]"), one)?;
    }
    // A file with anything wrong in it changes nothing.
    let rehearsal = Registry::of(MemoryLog::default(), (*call.state()).clone());
    for (place, change) in &plan.changes {
        let changed = rehearsal.change(change.clone(), call.now_ms);
        changed.map_err(|error| within(place, error.into()))?;
    }
    if !export.dry_run {
        for (place, change) in plan.changes {
            call.change(|_| Ok(change))
                .map_err(|error| within(&place, error))?;
        }
    }
    Reply::ok(&plan.report)
}

/// A refusal, with the place in the export that it is of.
fn within(place: &str, error: ApiError) -> ApiError {
    match error {
        ApiError::Invalid { field, rule } => ApiError::invalid(format!("{place}.{field}"), rule),
        ApiError::Registry(refused) => match refused {
            fulmar_registry::RegistryError::Invalid { field, rule } => {
                ApiError::invalid(format!("{place}.{field}"), rule)
            }
            other => ApiError::invalid(place, other.to_string()),
        },
        other => other,
    }
}

/// The members of an item that a type has, read as that type; others of an export mean nothing
/// here.
fn fields<T: DeserializeOwned + JsonSchema>(
    place: &str,
    item: &Map<String, Value>,
) -> Result<T, ApiError> {
    let taken = Value::Object(known::<T>(item));
    serde_json::from_value(taken).map_err(|error| within(place, of_body(&error)))
}

/// The members of an item that a type has and that say something.
fn known<T: JsonSchema>(item: &Map<String, Value>) -> Map<String, Value> {
    let schema = schemars::schema_for!(T);
    let named = |name: &str| {
        schema
            .get("properties")
            .is_some_and(|all| all.get(name).is_some())
    };
    let taken = item.iter().filter(|(name, value)| {
        // An export tells of what is not set, too.
        named(name) && !NOT_TAKEN.contains(&name.as_str()) && !value.is_null()
    });
    taken
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn text(place: &str, item: &Map<String, Value>, names: [&str; 2]) -> Result<String, ApiError> {
    let found = names.iter().find_map(|name| item.get(*name)?.as_str());
    let found = found.filter(|text| !text.is_empty());
    let missing = || ApiError::invalid(format!("{place}.{}", names[0]), "is missing");
    found.map(str::to_owned).ok_or_else(missing)
}

fn is_set(item: &Map<String, Value>, name: &str) -> bool {
    match item.get(name) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(_) => true,
    }
}

impl Plan {
    fn event_type(
        &mut self,
        call: &Call,
        place: String,
        item: &Map<String, Value>,
    ) -> Result<(), ApiError> {
        let name = text(&place, item, ["name", "event_name"])?;
        if call.state().event_type(&call.project, &name).is_some() {
            self.report.unchanged += 1;
            return Ok(());
        }
        let schema = item.get("schema").filter(|schema| !schema.is_null());
        check_schema(schema).map_err(|error| within(&place, error))?;
        let description = item.get("description").and_then(Value::as_str);
        let event_type = EventType {
            project: call.project.clone(),
            name,
            description: description.unwrap_or_default().to_owned(),
            versions: vec![TypeVersion {
                schema: schema.cloned(),
                created_ms: call.now_ms,
            }],
            deactivated: item.get("active") == Some(&Value::Bool(false)),
            created_ms: call.now_ms,
            updated_ms: call.now_ms,
        };
        let event_type = Box::new(event_type);
        self.changes
            .push((place, Change::EventTypeSet { event_type }));
        self.report.event_types += 1;
        Ok(())
    }

    fn webhook(
        &mut self,
        call: &Call,
        place: String,
        item: &Map<String, Value>,
    ) -> Result<(), ApiError> {
        let id = text(&place, item, ["id", "webhook_id"])?;
        let consumer = text(&place, item, ["consumer", "namespace"])?;
        if call.state().webhook(&call.project, &id).is_some() {
            self.report.unchanged += 1;
            return Ok(());
        }
        let (mut item, mut holds) = (item.clone(), Vec::new());
        for name in TEMPLATES.iter().filter(|name| is_set(&item, name)) {
            holds.push(format!("`{name}` is not taken: transforms are not built"));
        }
        if let Some(Value::Object(http)) = item.get_mut("http_config") {
            if http.get("verify_ssl") == Some(&Value::Bool(false)) {
                holds.push(
                    "certificates are always checked: give the receiver's as `ca_pem`".into(),
                );
            }
            if http.get("follow_redirects") == Some(&Value::Bool(true)) {
                let told =
                    format!("webhook {id}: redirects are never followed: give the final URL");
                self.report.notes.push(told);
            }
            *http = known::<HttpConfig>(http);
        }
        let fields: WebhookFields = fields(&place, &item)?;
        let mut webhook = Webhook {
            project: call.project.clone(),
            consumer,
            timeout_s: TIMEOUT_SECONDS_DEFAULT,
            created_ms: call.now_ms,
            updated_ms: call.now_ms,
            ..Webhook::default()
        };
        self.secrets(call, (&place, &id), &fields, &mut webhook)?;
        let url = fields.url.clone().unwrap_or_default();
        let applied = fields.apply(&mut webhook, &call.api.keyring);
        applied.map_err(|error| within(&place, error))?;
        check_reachable(&call.api.guard, &url).map_err(|error| within(&place, error))?;
        if !holds.is_empty() {
            // It would be sent what its receiver does not expect, or nothing.
            webhook.state = fulmar_registry::WebhookState::Paused;
            let told = format!(
                "webhook {id} is paused: {}; then resume it",
                holds.join("; ")
            );
            self.report.notes.push(told);
        }
        let webhook = Box::new(webhook);
        self.changes
            .push((place, Change::WebhookSet { id, webhook }));
        self.report.webhooks += 1;
        Ok(())
    }

    /// Receivers verify with what they have: a secret is taken over, never made.
    fn secrets(
        &mut self,
        call: &Call,
        (place, id): (&str, &str),
        fields: &WebhookFields,
        webhook: &mut Webhook,
    ) -> Result<(), ApiError> {
        let secret = fields
            .secret
            .clone()
            .filter(|secret| !secret.contains(MASK));
        let Some(secret) = secret else {
            let rule = "is missing: its receiver verifies with the one that it has";
            return Err(ApiError::invalid(format!("{place}.secret"), rule));
        };
        if fields.masks_a_header() {
            let rule = "hold masked values: give them as they are";
            return Err(ApiError::invalid(format!("{place}.secret_headers"), rule));
        }
        let kind = fields.signature_type.unwrap_or(SignatureType::Hmac);
        let made = signing::make(call, kind, Some(secret)).map_err(|error| within(place, error))?;
        if made.kept.len() > 1 {
            let key = made.kept.iter().find_map(|kept| kept.public_key.clone());
            let key = key.unwrap_or_default();
            let told = format!("webhook {id}: v1a has a new key: its receiver verifies with {key}");
            self.report.notes.push(told);
        }
        webhook.secrets = made.kept;
        Ok(())
    }

    fn subscription(
        &mut self,
        call: &Call,
        place: String,
        item: &Map<String, Value>,
    ) -> Result<(), ApiError> {
        let id = text(&place, item, ["id", "subscription_id"])?;
        let consumer = text(&place, item, ["consumer", "namespace"])?;
        if call.state().subscriptions.contains_key(&id) {
            self.report.unchanged += 1;
            return Ok(());
        }
        let fields: SubscriptionFields = fields(&place, item)?;
        let mut subscription = Subscription {
            project: call.project.clone(),
            consumer,
            webhook: text(&place, item, ["webhook_id", "webhook"])?,
            created_ms: call.now_ms,
            updated_ms: call.now_ms,
            ..Subscription::default()
        };
        let applied = fields.apply(&mut subscription);
        applied.map_err(|error| within(&place, error))?;
        if TEMPLATES.iter().any(|name| is_set(item, name)) {
            subscription.paused = true;
            let told = format!("subscription {id} is paused: its template is not taken");
            self.report.notes.push(told);
        }
        let subscription = Box::new(subscription);
        self.changes
            .push((place, Change::SubscriptionSet { id, subscription }));
        self.report.subscriptions += 1;
        Ok(())
    }
}
