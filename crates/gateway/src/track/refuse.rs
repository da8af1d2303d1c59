//! Refusals of the SDK door. All are JSON: an SDK that can't read an answer sends again.

use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};

use super::credentials::Denied;
use crate::body::BodyFault;
use crate::budgets::OverBudget;
use crate::capacity::AtCapacity;
use crate::events::Fault;
use crate::events::envelope::EnvelopeFault;
use crate::http::{Answer, answer, no_store};

/// Where it is said what the doors take.
const DOCUMENTATION: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/doors.md");

/// Why a whole request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    Denied(Denied),
    Fault(Fault),
    OverBudget(OverBudget),
    MediaType,
    ContentEncoding,
    AtCapacity,
    BodyTooLarge,
    ItemTooLarge(u32),
    Unreadable(BodyFault),
    Malformed(String),
    Empty,
    TooMany,
    NotDurable,
    NoSalt,
    NoAgent,
    NotFound,
    NotSupported,
    Method(&'static str),
}

impl Refusal {
    /// Stable, for machines; the other doors' words where they have them.
    pub(super) fn code(&self) -> &'static str {
        self.row().1
    }

    fn row(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Denied(Denied::Busy) | Self::OverBudget(_) => {
                (StatusCode::TOO_MANY_REQUESTS, "rate_limited")
            }
            Self::Denied(Denied::Revenue) => (StatusCode::UNAUTHORIZED, "revenue_needs_secret"),
            Self::Denied(Denied::Address | Denied::Profile) => {
                (StatusCode::UNAUTHORIZED, "filtered")
            }
            Self::Denied(_) => (StatusCode::UNAUTHORIZED, "unauthenticated"),
            Self::Fault(fault) => (StatusCode::BAD_REQUEST, fault.code),
            Self::MediaType | Self::ContentEncoding => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type")
            }
            Self::AtCapacity => (StatusCode::SERVICE_UNAVAILABLE, "gateway_at_capacity"),
            Self::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "batch_body_too_large"),
            Self::ItemTooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "event_too_large"),
            Self::Unreadable(_) => (StatusCode::BAD_REQUEST, "unreadable_body"),
            Self::Malformed(_) => (StatusCode::BAD_REQUEST, "malformed_payload"),
            Self::Empty => (StatusCode::UNPROCESSABLE_ENTITY, "empty_batch"),
            Self::TooMany => (StatusCode::PAYLOAD_TOO_LARGE, "batch_too_large"),
            Self::NotDurable => (StatusCode::SERVICE_UNAVAILABLE, "backbone_unavailable"),
            Self::NoSalt => (StatusCode::SERVICE_UNAVAILABLE, "no_salt"),
            Self::NoAgent => (StatusCode::BAD_REQUEST, "no_user_agent"),
            Self::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            Self::NotSupported => (StatusCode::NOT_IMPLEMENTED, "not_supported"),
            Self::Method(_) => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
        }
    }

    pub(super) fn message(&self) -> String {
        let fixed = match self {
            Self::Denied(denied) => return denied.to_string(),
            Self::Fault(fault) if fault.field.is_empty() => return fault.detail.to_string(),
            Self::Fault(fault) => return format!("{} {}", fault.field, fault.detail),
            Self::OverBudget(over) => return over.to_string(),
            Self::Unreadable(fault) => return fault.to_string(),
            Self::Malformed(detail) => return detail.clone(),
            Self::ItemTooLarge(bytes) => return format!("exceeds {bytes} bytes"),
            Self::MediaType => "the content type is not one of JSON, text or a form",
            Self::ContentEncoding => "the content encoding must be gzip, zstd or none",
            Self::AtCapacity => "the gateway is at capacity",
            Self::BodyTooLarge => "the body is larger than the limit",
            Self::Empty => "the body has no event",
            Self::TooMany => "the body has more events than the limit",
            Self::NotDurable => "the events could not be made durable in time",
            Self::NoSalt => "the door has no salt for today yet",
            Self::NoAgent => "the user agent is missing",
            Self::NotFound => "not found",
            Self::NotSupported => {
                "OpenPanel's endpoints to read and to manage are not built: POST /v1/query answers \
                 SQL, and `fulmar clients` and `fulmar projects` manage"
            }
            Self::Method(_) => "method not allowed",
        };
        fixed.to_owned()
    }

    /// How a request that ends so is counted.
    pub(super) fn outcome(&self) -> &'static str {
        match self {
            Self::NotDurable | Self::NoSalt => "unavailable",
            _ => "rejected",
        }
    }

    /// Seconds after which it is worth to send again.
    fn retry_seconds(&self) -> Option<u32> {
        match self {
            Self::Denied(Denied::Busy) | Self::OverBudget(_) | Self::AtCapacity => Some(1),
            Self::NotDurable | Self::NoSalt => Some(5),
            _ => None,
        }
    }

    /// The answer, in the shape that the SDKs' own server gives: `{status, error, message}`,
    /// with a code for machines and the field at fault.
    pub(super) fn answer(&self) -> Answer {
        let (status, code) = self.row();
        let mut body = serde_json::json!({
            "status": status.as_u16(),
            "error": status.canonical_reason().unwrap_or("Error"),
            "message": self.message(),
            "code": code,
        });
        if let Self::Fault(fault) = self {
            body["field"] = fault.field.clone().into();
        }
        if *self == Self::NotSupported {
            body["documentation"] = DOCUMENTATION.into();
        }
        let mut response = no_store(answer(status, "application/json", body.to_string()));
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_seconds() {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Self::Method(allowed) = self {
            headers.insert(hyper::header::ALLOW, HeaderValue::from_static(allowed));
        }
        response
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<OverBudget> for Refusal {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}

impl From<AtCapacity> for Refusal {
    fn from(_: AtCapacity) -> Self {
        Self::AtCapacity
    }
}

impl From<BodyFault> for Refusal {
    fn from(fault: BodyFault) -> Self {
        match fault {
            BodyFault::TooLarge => Self::BodyTooLarge,
            BodyFault::AtCapacity => Self::AtCapacity,
            BodyFault::Broken | BodyFault::Stalled | BodyFault::Corrupt => Self::Unreadable(fault),
        }
    }
}

impl From<EnvelopeFault> for Refusal {
    fn from(fault: EnvelopeFault) -> Self {
        match fault {
            EnvelopeFault::MediaType => Self::MediaType,
            EnvelopeFault::Malformed(detail) => Self::Malformed(detail),
            EnvelopeFault::Empty => Self::Empty,
            EnvelopeFault::TooMany => Self::TooMany,
        }
    }
}
