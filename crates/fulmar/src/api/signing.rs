//! What webhooks sign with: made, rotated, and turned from one kind into the other.

use fulmar_registry::{SigningSecret, Webhook};
use fulmar_webhooks::sign::{self, Signer};
use hyper::Method;
use schemars::JsonSchema;
use serde::Deserialize;

use super::route::Route;
use super::webhook_fields::{SignatureType, WebhookView};
use super::webhooks::change;
use super::{ApiError, Call, Reply};

/// How long an old secret signs beside its successor, unless the caller says: a day.
const OVERLAP_SECONDS_DEFAULT: i64 = 86_400;
const OVERLAP_SECONDS_MAX: i64 = 30 * 86_400;
/// Secrets of one kind that sign at once.
const SECRETS_MAX: usize = 3;

pub fn routes(routes: &mut Vec<Route>) {
    let path = "/v1/consumers/{consumer}/webhooks/{id}:rotateSecret";
    let told = (
        "rotateSecret",
        "A new secret, and of v1a a new key; the old ones sign on for a while",
    );
    let route = Route::new(Method::POST, path, told, rotate).takes::<Rotation>();
    routes.push(route.gives::<WebhookView>(200));
}

/// How a secret is followed by another.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Rotation {
    /// Seconds that the old secret signs on, 0 to 30 days; default a day.
    overlap_seconds: Option<i64>,
    /// The new secret; made by the server if it is not given.
    secret: Option<String>,
}

/// New secrets.
pub struct Made {
    /// In clear, as it is shown once.
    pub shown: String,
    /// As they are kept.
    pub kept: Vec<SigningSecret>,
}

/// The secret that was given, or one of the server's; and a key of its own where v1a is wanted.
pub fn make(call: &Call, kind: SignatureType, given: Option<String>) -> Result<Made, ApiError> {
    let shown = match given {
        Some(secret) => secret,
        None => sign::new_secret().map_err(failed)?,
    };
    let first = sealed(call, &shown)?;
    let mut kept = vec![first];
    match (kind, &kept[0].public_key) {
        (SignatureType::Hmac, Some(_)) => {
            let rule = "is an Ed25519 key: `signature_type` must be ed25519 then";
            return Err(ApiError::invalid("secret", rule));
        }
        (SignatureType::Ed25519, None) => kept.push(new_key(call)?),
        _ => {}
    }
    Ok(Made { shown, kept })
}

fn new_key(call: &Call) -> Result<SigningSecret, ApiError> {
    sealed(call, &sign::new_private_key().map_err(failed)?)
}

fn sealed(call: &Call, secret: &str) -> Result<SigningSecret, ApiError> {
    let signer = Signer::of(secret);
    let signer = signer.map_err(|bad| ApiError::invalid("secret", bad.to_string()))?;
    Ok(SigningSecret {
        sealed: call.api.keyring.seal(secret).map_err(failed)?,
        expires_ms: None,
        public_key: signer.public_key(),
    })
}

fn failed(error: impl std::fmt::Display) -> ApiError {
    ApiError::Failed(error.to_string())
}

fn is_key(secret: &SigningSecret) -> bool {
    secret.public_key.is_some()
}

/// Turns what a webhook signs with into another kind: v1a comes and goes, v1 stays.
pub fn turn(call: &Call, kind: SignatureType, webhook: &mut Webhook) -> Result<(), ApiError> {
    let has_key = webhook.secrets.iter().any(is_key);
    match kind {
        SignatureType::Ed25519 if !has_key => webhook.secrets.push(new_key(call)?),
        SignatureType::Hmac if has_key && webhook.secrets.iter().all(is_key) => {
            let rule =
                "cannot be hmac: the webhook has no secret of v1; make one with :rotateSecret";
            return Err(ApiError::invalid("signature_type", rule));
        }
        SignatureType::Hmac => webhook.secrets.retain(|secret| !is_key(secret)),
        SignatureType::Ed25519 => {}
    }
    Ok(())
}

fn rotate(call: &Call) -> Result<Reply, ApiError> {
    let rotation: Rotation = call.read_or_default()?;
    let overlap = rotation.overlap_seconds.unwrap_or(OVERLAP_SECONDS_DEFAULT);
    if !(0..=OVERLAP_SECONDS_MAX).contains(&overlap) {
        let rule = format!("takes 0 to {OVERLAP_SECONDS_MAX}");
        return Err(ApiError::invalid("overlap_seconds", rule));
    }
    let mut shown = None;
    let mut view = change(call, |webhook| {
        let kind = match webhook.secrets.iter().any(is_key) {
            true => SignatureType::Ed25519,
            false => SignatureType::Hmac,
        };
        let made = make(call, kind, rotation.secret)?;
        let until_ms = call.now_ms + overlap * 1_000;
        for old in &mut webhook.secrets {
            old.expires_ms = Some(old.expires_ms.map_or(until_ms, |known| known.min(until_ms)));
        }
        webhook
            .secrets
            .retain(|old| old.expires_ms.is_none_or(|at_ms| at_ms > call.now_ms));
        webhook.secrets.extend(made.kept);
        let keys = webhook
            .secrets
            .iter()
            .filter(|secret| is_key(secret))
            .count();
        if keys.max(webhook.secrets.len() - keys) > SECRETS_MAX {
            let detail = format!("{SECRETS_MAX} secrets sign already: wait until one has expired");
            let code = "rotation_under_way";
            return Err(ApiError::Conflict { code, detail });
        }
        shown = Some(made.shown);
        Ok(())
    })?;
    view.secret = shown;
    Reply::ok(&view)
}
