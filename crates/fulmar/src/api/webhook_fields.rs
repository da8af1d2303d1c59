//! A webhook as callers write and read it, in Sparrow's words where it has them.

use std::collections::BTreeMap;
use std::net::ToSocketAddrs as _;

use fulmar_registry::{BodyShape, RetryPolicy, Webhook, WebhookState};
use fulmar_webhooks::guard::Guard;
use fulmar_webhooks::seal::Keyring;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::ApiError;
use crate::admin::time_text;

/// Seconds that an exchange may take, where the webhook does not say.
pub const TIMEOUT_SECONDS_DEFAULT: u32 = 30;
/// What is shown in place of a secret.
pub const MASK: &str = "***";

/// What is sent as a delivery's body.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BodyKind {
    /// Version, id, name, time and attempt around the payload.
    Envelope,
    /// The payload alone, byte for byte.
    Payload,
}

/// What deliveries are signed with.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignatureType {
    /// Standard Webhooks v1: HMAC-SHA-256.
    Hmac,
    /// The same, and beside it v1a: Ed25519.
    Ed25519,
}

/// How a webhook is sent to.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Attempts after the first; default 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_retries: Option<u32>,
    /// Seconds before the first retry, each later pause twice the one before; default 60.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_backoff_seconds: Option<u32>,
    /// Seconds before each retry instead, the last one for all further ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_schedule_seconds: Option<Vec<u32>>,
    /// Seconds from the event to the last moment that an attempt may start; null for none.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u32>")]
    retry_deadline_seconds: Option<Option<u32>>,
    /// Seconds that one exchange may take as a whole; default 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_timeout_seconds: Option<u32>,
    /// Statuses that are a success; empty is any 2xx.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_status_codes: Option<Vec<u16>>,
    /// Always false: redirects are never followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    follow_redirects: Option<bool>,
    /// Always true: a certificate of one's own is believed by `ca_pem`.
    #[serde(skip_serializing_if = "Option::is_none")]
    verify_ssl: Option<bool>,
    /// Keep the receiver's answer of successful attempts too.
    #[serde(skip_serializing_if = "Option::is_none")]
    capture_response_body: Option<bool>,
    /// `Content-Type` of deliveries; default application/json.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    /// `User-Agent` of deliveries.
    #[serde(skip_serializing_if = "Option::is_none")]
    user_agent: Option<String>,
}

/// What of a webhook can be set.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookFields {
    /// Where deliveries go.
    pub url: Option<String>,
    /// Event names, `prefix.*` or `*`; a single string too.
    #[serde(deserialize_with = "names")]
    #[schemars(with = "Option<Vec<String>>")]
    events: Option<Vec<String>>,
    /// False holds its deliveries.
    active: Option<bool>,
    /// For people.
    description: Option<String>,
    /// Sent with each delivery.
    headers: Option<BTreeMap<String, String>>,
    /// Likewise, and never shown; `***` keeps what is there.
    secret_headers: Option<BTreeMap<String, String>>,
    /// How it is sent to.
    http_config: Option<HttpConfig>,
    /// Deliveries a second at most; null for no limit.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<u32>")]
    rate_limit_rps: Option<Option<u32>>,
    /// Exchanges at once at most; null for the server's default.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<u32>")]
    max_in_flight: Option<Option<u32>>,
    /// What deliveries are signed with.
    pub signature_type: Option<SignatureType>,
    /// The signing secret, at creation: made by the server if it is not given.
    pub secret: Option<String>,
    /// What is sent.
    body: Option<BodyKind>,
    /// Leave the X-Sparrow-* headers out.
    plain_headers: Option<bool>,
    /// Certificates that the receiver's is checked against, in PEM; null for the system's.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    ca_pem: Option<Option<String>>,
    /// Not built yet.
    transform_template: Option<String>,
    /// Not built yet.
    on_transform_error: Option<String>,
    /// Not built yet.
    template_missing_key: Option<String>,
    /// Not built yet.
    requires_transform: Option<bool>,
}

/// A field that was given, null too.
pub fn given<'de, T, D>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(Option::deserialize(deserializer)?.map(|names| match names {
        OneOrMany::One(name) => vec![name],
        OneOrMany::Many(names) => names,
    }))
}

/// A webhook as it is shown.
#[derive(Serialize, JsonSchema)]
pub struct WebhookView {
    id: String,
    consumer: String,
    url: String,
    events: Vec<String>,
    /// Whether deliveries are sent.
    active: bool,
    /// `active`, `paused` or `disabled`.
    state: &'static str,
    /// Why the server has disabled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_reason: Option<String>,
    description: String,
    headers: BTreeMap<String, String>,
    /// Their values are masked.
    secret_headers: BTreeMap<String, &'static str>,
    http_config: HttpConfig,
    rate_limit_rps: Option<u32>,
    max_in_flight: Option<u32>,
    signature_type: SignatureType,
    /// What v1a signatures are verified with, the newest first; those before sign on for a while.
    public_keys: Vec<String>,
    /// The signing secret: in the answers to creation and rotation alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    body: BodyKind,
    plain_headers: bool,
    ca_pem: Option<String>,
    created_at: String,
    updated_at: String,
}

impl WebhookView {
    /// Of a webhook.
    pub fn of(id: &str, webhook: &Webhook) -> Self {
        let masked = webhook
            .secret_headers
            .keys()
            .map(|name| (name.clone(), MASK));
        let secrets = webhook.secrets.iter().rev();
        let public_keys: Vec<String> = secrets.filter_map(|one| one.public_key.clone()).collect();
        Self {
            id: id.to_owned(),
            consumer: webhook.consumer.clone(),
            url: webhook.url.clone(),
            events: webhook.events.clone(),
            active: webhook.state == WebhookState::Active,
            state: webhook.state.as_str(),
            disabled_reason: match &webhook.state {
                WebhookState::Disabled { reason } => Some(reason.clone()),
                _ => None,
            },
            description: webhook.description.clone(),
            headers: webhook.headers.clone(),
            secret_headers: masked.collect(),
            http_config: HttpConfig::of(webhook),
            rate_limit_rps: webhook.rate_limit_rps,
            max_in_flight: webhook.in_flight_max,
            signature_type: match public_keys.is_empty() {
                true => SignatureType::Hmac,
                false => SignatureType::Ed25519,
            },
            public_keys,
            secret: None,
            body: match webhook.body {
                BodyShape::Envelope => BodyKind::Envelope,
                BodyShape::Payload => BodyKind::Payload,
            },
            plain_headers: webhook.plain_headers,
            ca_pem: webhook.ca_pem.clone(),
            created_at: time_text(webhook.created_ms),
            updated_at: time_text(webhook.updated_ms),
        }
    }
}

impl HttpConfig {
    fn of(webhook: &Webhook) -> Self {
        let retry = &webhook.retry;
        let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        Self {
            max_retries: Some(retry.retries_max),
            retry_backoff_seconds: Some(retry.backoff_s),
            retry_schedule_seconds: Some(retry.schedule_s.clone()),
            retry_deadline_seconds: Some(retry.deadline_s),
            request_timeout_seconds: Some(webhook.timeout_s),
            expected_status_codes: Some(webhook.expected_statuses.clone()),
            follow_redirects: Some(false),
            verify_ssl: Some(true),
            capture_response_body: Some(webhook.capture_response),
            content_type: text(&webhook.content_type),
            user_agent: text(&webhook.user_agent),
        }
    }

    fn apply(self, webhook: &mut Webhook) -> Result<(), ApiError> {
        if self.follow_redirects == Some(true) {
            let rule = "is refused: redirects are never followed; give the final URL";
            return Err(ApiError::invalid("http_config.follow_redirects", rule));
        }
        if self.verify_ssl == Some(false) {
            let rule = "is refused: certificates are always checked; give yours as `ca_pem`";
            return Err(ApiError::invalid("http_config.verify_ssl", rule));
        }
        let retry: &mut RetryPolicy = &mut webhook.retry;
        set(&mut retry.retries_max, self.max_retries);
        set(&mut retry.backoff_s, self.retry_backoff_seconds);
        set(&mut retry.schedule_s, self.retry_schedule_seconds);
        set(&mut retry.deadline_s, self.retry_deadline_seconds);
        set(&mut webhook.timeout_s, self.request_timeout_seconds);
        set(&mut webhook.expected_statuses, self.expected_status_codes);
        set(&mut webhook.capture_response, self.capture_response_body);
        set(&mut webhook.content_type, self.content_type);
        set(&mut webhook.user_agent, self.user_agent);
        Ok(())
    }
}

/// Sets a field that was given.
pub fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *place = value;
    }
}

impl WebhookFields {
    /// Sets what was given.
    pub fn apply(self, webhook: &mut Webhook, keyring: &Keyring) -> Result<(), ApiError> {
        self.refuse_unbuilt()?;
        set(&mut webhook.url, self.url);
        if webhook.url.is_empty() {
            return Err(ApiError::invalid("url", "is missing"));
        }
        set(&mut webhook.events, self.events);
        match (self.active, &webhook.state) {
            (Some(true), _) => webhook.state = WebhookState::Active,
            (Some(false), WebhookState::Active) => webhook.state = WebhookState::Paused,
            _ => {}
        }
        set(&mut webhook.description, self.description);
        set(&mut webhook.headers, self.headers);
        if let Some(headers) = self.secret_headers {
            webhook.secret_headers = sealed(headers, webhook, keyring)?;
        }
        if let Some(config) = self.http_config {
            config.apply(webhook)?;
        }
        set(&mut webhook.rate_limit_rps, self.rate_limit_rps);
        set(&mut webhook.in_flight_max, self.max_in_flight);
        if let Some(body) = self.body {
            webhook.body = match body {
                BodyKind::Envelope => BodyShape::Envelope,
                BodyKind::Payload => BodyShape::Payload,
            };
        }
        set(&mut webhook.plain_headers, self.plain_headers);
        if let Some(Some(pem)) = &self.ca_pem {
            let read = fulmar_webhooks::client::roots_of(pem);
            read.map_err(|wrong| ApiError::invalid("ca_pem", wrong))?;
        }
        set(&mut webhook.ca_pem, self.ca_pem);
        Ok(())
    }

    /// Whether a secret header is as lists show it.
    pub fn masks_a_header(&self) -> bool {
        let mut values = self.secret_headers.iter().flat_map(BTreeMap::values);
        values.any(|value| value == MASK)
    }

    fn refuse_unbuilt(&self) -> Result<(), ApiError> {
        let transforms = [
            ("transform_template", self.transform_template.is_some()),
            ("on_transform_error", self.on_transform_error.is_some()),
            ("template_missing_key", self.template_missing_key.is_some()),
            ("requires_transform", self.requires_transform == Some(true)),
        ];
        if let Some((field, _)) = transforms.into_iter().find(|(_, given)| *given) {
            let rule = "is refused: transforms are not built yet; `body: payload` sends the \
                        payload alone";
            return Err(ApiError::invalid(field, rule));
        }
        Ok(())
    }
}

/// Seals the values that are new; a mask stands for the one that is there.
fn sealed(
    headers: BTreeMap<String, String>,
    webhook: &Webhook,
    keyring: &Keyring,
) -> Result<BTreeMap<String, String>, ApiError> {
    let seal = |(name, value): (String, String)| {
        let known = webhook.secret_headers.get(&name).filter(|_| value == MASK);
        let bad = value
            .bytes()
            .any(|byte| !(byte == b'\t' || (b' '..=b'~').contains(&byte)));
        if bad {
            let rule = "takes printable ASCII on one line";
            return Err(ApiError::invalid("secret_headers", rule));
        }
        let sealed = match known {
            Some(known) => known.clone(),
            None => keyring
                .seal(&value)
                .map_err(|e| ApiError::Failed(e.to_string()))?,
        };
        Ok((name, sealed))
    };
    headers.into_iter().map(seal).collect()
}

/// Refuses a URL that leads, by any of its addresses, where webhooks may not go. A name that is not
/// known now is judged when it is sent to.
pub fn check_reachable(guard: &Guard, url: &str) -> Result<(), ApiError> {
    let refused =
        |refused: fulmar_webhooks::guard::Refused| ApiError::invalid("url", refused.to_string());
    let url = guard.judge_url(url).map_err(refused)?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(0);
    for address in (host, port).to_socket_addrs().into_iter().flatten() {
        guard.judge(address.ip()).map_err(refused)?;
    }
    Ok(())
}
