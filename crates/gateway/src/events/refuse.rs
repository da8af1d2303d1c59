//! Refusals of whole requests at the events door.

use hyper::StatusCode;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};

use super::envelope::EnvelopeFault;
use super::keys::KeyError;
use crate::body::BodyFault;
use crate::budgets::OverBudget;
use crate::capacity::AtCapacity;
use crate::http::Answer;
use crate::problem::{problem, problem_for_now};

/// Why a whole request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    NoKey,
    UnknownKey,
    KeysBusy,
    NoScope,
    OverBudget(OverBudget),
    MediaType,
    ContentEncoding,
    AtCapacity,
    BodyTooLarge,
    Unreadable(BodyFault),
    Malformed(String),
    Empty,
    TooMany,
    NotDurable,
    /// So many wait for webhooks.
    BacklogFull(u64),
}

impl Refusal {
    pub(super) fn of_key(error: KeyError) -> Self {
        match error {
            KeyError::Unknown => Self::UnknownKey,
            KeyError::Busy => Self::KeysBusy,
        }
    }

    /// Stable, for machines; the agents door's words where it has them.
    pub(super) fn code(&self) -> &'static str {
        self.row().1
    }

    fn row(&self) -> (StatusCode, &'static str) {
        match self {
            Self::NoKey | Self::UnknownKey => (StatusCode::UNAUTHORIZED, "unauthenticated"),
            Self::NoScope => (StatusCode::FORBIDDEN, "forbidden"),
            Self::KeysBusy | Self::OverBudget(_) => (StatusCode::TOO_MANY_REQUESTS, "rate_limited"),
            Self::MediaType | Self::ContentEncoding => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type")
            }
            Self::AtCapacity => (StatusCode::SERVICE_UNAVAILABLE, "gateway_at_capacity"),
            Self::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "batch_body_too_large"),
            Self::Unreadable(_) => (StatusCode::BAD_REQUEST, "unreadable_body"),
            Self::Malformed(_) => (StatusCode::BAD_REQUEST, "malformed_payload"),
            Self::Empty => (StatusCode::UNPROCESSABLE_ENTITY, "empty_batch"),
            Self::TooMany => (StatusCode::PAYLOAD_TOO_LARGE, "batch_too_large"),
            Self::NotDurable => (StatusCode::SERVICE_UNAVAILABLE, "backbone_unavailable"),
            Self::BacklogFull(_) => (StatusCode::TOO_MANY_REQUESTS, "backlog_full"),
        }
    }

    fn detail(&self) -> String {
        let fixed = match self {
            Self::NoKey => "a key is needed: Authorization: Bearer KEY",
            Self::UnknownKey => "the key is not known",
            Self::KeysBusy => "too many keys are being checked",
            Self::NoScope => "the key lacks the scope ingest",
            Self::OverBudget(over) => return over.to_string(),
            Self::BacklogFull(waiting) => {
                return format!(
                    "{waiting} deliveries of the project wait, and no more than \
                     webhooks.backlog_max may: publish when some have been sent"
                );
            }
            Self::MediaType => "the content type is not one of JSON, NDJSON or CloudEvents",
            Self::ContentEncoding => "the content encoding must be gzip, zstd or none",
            Self::AtCapacity => "the gateway is at capacity",
            Self::BodyTooLarge => "the body is larger than the limit",
            Self::Unreadable(fault) => return fault.to_string(),
            Self::Malformed(detail) => return detail.clone(),
            Self::Empty => "the body has no event",
            Self::TooMany => "the body has more events than the limit",
            Self::NotDurable => "the events could not be made durable in time",
        };
        fixed.to_owned()
    }

    pub(super) fn answer(&self) -> Answer {
        let (status, code) = self.row();
        let detail = self.detail();
        let mut answer = match self {
            Self::KeysBusy | Self::OverBudget(_) | Self::AtCapacity => {
                problem_for_now(status, code, &detail, 1)
            }
            Self::NotDurable | Self::BacklogFull(_) => problem_for_now(status, code, &detail, 5),
            _ => problem(status, code, &detail),
        };
        if status == StatusCode::UNAUTHORIZED {
            answer
                .headers_mut()
                .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        answer
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
