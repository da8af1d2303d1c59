//! Webhooks, subscriptions and event types: what the API of published events keeps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Where a webhook stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum WebhookState {
    /// It is delivered to.
    #[default]
    Active,
    /// Deliveries are held until somebody resumes it.
    Paused,
    /// Deliveries are held, since the server gave the receiver up.
    Disabled {
        /// Why, for people: `410 Gone`.
        reason: String,
    },
}

impl WebhookState {
    /// The word that answers use.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Disabled { .. } => "disabled",
        }
    }
}

/// What is sent as a delivery's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyShape {
    /// Version, id, name, time and attempt around the payload.
    #[default]
    Envelope,
    /// The payload alone, byte for byte.
    Payload,
}

/// When a failed attempt is made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Attempts after the first.
    pub retries_max: u32,
    /// Seconds before the first retry; each later pause is twice the one before, up to a day.
    pub backoff_s: u32,
    /// Seconds before each retry instead, the last one for all further ones; empty for the
    /// exponential.
    #[serde(default)]
    pub schedule_s: Vec<u32>,
    /// Seconds from the match to the last moment that an attempt may start.
    #[serde(default)]
    pub deadline_s: Option<u32>,
}

impl Default for RetryPolicy {
    /// Four attempts: now, and about 1, 2 and 4 minutes after one another.
    fn default() -> Self {
        Self {
            retries_max: 3,
            backoff_s: 60,
            schedule_s: Vec::new(),
            deadline_s: None,
        }
    }
}

/// A secret that deliveries are signed with, sealed with the server's keyring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningSecret {
    /// The sealed text.
    pub sealed: String,
    /// Milliseconds since the epoch from which it signs nothing: its successor has taken over.
    #[serde(default)]
    pub expires_ms: Option<i64>,
    /// What receivers verify with, of an Ed25519 key; none where that is the secret itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
}

/// A receiver of a consumer's events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Webhook {
    /// Its project.
    pub project: String,
    /// Its consumer within the project.
    pub consumer: String,
    /// Where deliveries go.
    pub url: String,
    /// Event names, `prefix.*` or `*`: subscriptions without a resource of their own.
    pub events: Vec<String>,
    /// For people.
    pub description: String,
    /// Sent with each delivery.
    pub headers: BTreeMap<String, String>,
    /// Likewise, their values sealed.
    pub secret_headers: BTreeMap<String, String>,
    /// What deliveries are signed with, newest last; none sends unsigned.
    pub secrets: Vec<SigningSecret>,
    /// The `Content-Type` of deliveries; empty is JSON's.
    pub content_type: String,
    /// The `User-Agent` of deliveries; empty is the server's.
    pub user_agent: String,
    /// What is sent.
    pub body: BodyShape,
    /// Leave the `X-Sparrow-*` headers out.
    pub plain_headers: bool,
    /// When a failed attempt is made again.
    pub retry: RetryPolicy,
    /// Seconds that one exchange may take as a whole.
    pub timeout_s: u32,
    /// Statuses that are a success; empty is any 2xx.
    pub expected_statuses: Vec<u16>,
    /// Deliveries a second at most.
    pub rate_limit_rps: Option<u32>,
    /// Exchanges at once at most; none is the server's default.
    pub in_flight_max: Option<u32>,
    /// Keep the receiver's answer of successful attempts too.
    pub capture_response: bool,
    /// Certificates that its server's is checked against, in PEM; none is the system's.
    pub ca_pem: Option<String>,
    /// Where it stands.
    #[serde(flatten)]
    pub state: WebhookState,
    /// Milliseconds since the epoch when it was last resumed; 0 if it never was.
    pub resumed_ms: i64,
    /// Milliseconds since the epoch when it was made.
    pub created_ms: i64,
    /// Milliseconds since the epoch of its last change.
    pub updated_ms: i64,
}

/// What a webhook gets, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Subscription {
    /// Its project.
    pub project: String,
    /// Its consumer within the project.
    pub consumer: String,
    /// The webhook's id.
    pub webhook: String,
    /// Event name, `prefix.*` or `*`.
    pub event: String,
    /// Classes of events that it takes; empty is published messages of its consumer alone.
    pub classes: Vec<String>,
    /// Labels that an event must carry, all of them.
    pub labels: BTreeMap<String, String>,
    /// Conditions on the payload, all of them.
    pub filters: Vec<PayloadFilter>,
    /// Method of deliveries; empty is POST.
    pub method: String,
    /// Headers over the webhook's.
    pub headers: BTreeMap<String, String>,
    /// Seconds that one exchange may take, instead of the webhook's.
    pub timeout_s: Option<u32>,
    /// It matches nothing for now.
    pub paused: bool,
    /// Milliseconds since the epoch when it was made.
    pub created_ms: i64,
    /// Milliseconds since the epoch of its last change.
    pub updated_ms: i64,
}

/// How a value of the payload is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// The same JSON value.
    Equals,
    /// Another JSON value, or none.
    NotEquals,
    /// A string that starts so.
    Prefix,
    /// A number above.
    GreaterThan,
    /// A number below.
    LessThan,
}

/// A condition on one value of the payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadFilter {
    /// Member names from the outside in, joined by dots: `order.total`.
    pub path: String,
    /// How it is compared.
    pub is: Comparison,
    /// With what.
    pub value: serde_json::Value,
}

/// A kind of published events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventType {
    /// Its project.
    pub project: String,
    /// Its name.
    pub name: String,
    /// For people.
    pub description: String,
    /// Its JSON Schemas, oldest first; the last one counts. The first version may have none.
    pub versions: Vec<TypeVersion>,
    /// Events of it are refused.
    pub deactivated: bool,
    /// Milliseconds since the epoch when it was made.
    pub created_ms: i64,
    /// Milliseconds since the epoch of its last change.
    pub updated_ms: i64,
}

/// One version of an event type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeVersion {
    /// The JSON Schema of its payloads.
    pub schema: Option<serde_json::Value>,
    /// Milliseconds since the epoch when it was made.
    pub created_ms: i64,
}

impl EventType {
    /// The schema that counts now.
    #[must_use]
    pub fn schema(&self) -> Option<&serde_json::Value> {
        self.versions.last()?.schema.as_ref()
    }
}
