//! What a door answers when it refuses a request, with the wire's codes and statuses.

/// A stable machine code of a refusal on the agents door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the contract's own; see as_str")]
pub enum Code {
    UnreadableBody,
    MalformedPayload,
    UnauthenticatedAgent,
    AgentNotRegistered,
    AgentNotAdmitted,
    BatchBodyTooLarge,
    UnsupportedMediaType,
    EmptyBatch,
    BatchTooLarge,
    MalformedBatchId,
    InvalidEvent,
    UnsupportedProtocolVersion,
    RateLimited,
    GatewayAtCapacity,
    BackboneUnavailable,
}

impl Code {
    /// Every code, for metrics with a bounded label.
    pub const ALL: [Self; 15] = [
        Self::UnreadableBody,
        Self::MalformedPayload,
        Self::UnauthenticatedAgent,
        Self::AgentNotRegistered,
        Self::AgentNotAdmitted,
        Self::BatchBodyTooLarge,
        Self::UnsupportedMediaType,
        Self::EmptyBatch,
        Self::BatchTooLarge,
        Self::MalformedBatchId,
        Self::InvalidEvent,
        Self::UnsupportedProtocolVersion,
        Self::RateLimited,
        Self::GatewayAtCapacity,
        Self::BackboneUnavailable,
    ];

    /// The code as it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnreadableBody => "unreadable_body",
            Self::MalformedPayload => "malformed_payload",
            Self::UnauthenticatedAgent => "unauthenticated_agent",
            Self::AgentNotRegistered => "agent_not_registered",
            Self::AgentNotAdmitted => "agent_not_admitted",
            Self::BatchBodyTooLarge => "batch_body_too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::EmptyBatch => "empty_batch",
            Self::BatchTooLarge => "batch_too_large",
            Self::MalformedBatchId => "malformed_batch_id",
            Self::InvalidEvent => "invalid_event",
            Self::UnsupportedProtocolVersion => "unsupported_protocol_version",
            Self::RateLimited => "rate_limited",
            Self::GatewayAtCapacity => "gateway_at_capacity",
            Self::BackboneUnavailable => "backbone_unavailable",
        }
    }

    /// The HTTP status that carries it.
    pub fn status(self) -> u16 {
        match self {
            Self::UnreadableBody | Self::MalformedPayload => 400,
            Self::UnauthenticatedAgent | Self::AgentNotRegistered | Self::AgentNotAdmitted => 403,
            Self::BatchBodyTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::EmptyBatch
            | Self::BatchTooLarge
            | Self::MalformedBatchId
            | Self::InvalidEvent => 422,
            Self::UnsupportedProtocolVersion => 426,
            Self::RateLimited => 429,
            Self::GatewayAtCapacity | Self::BackboneUnavailable => 503,
        }
    }

    /// Seconds for `Retry-After`, if the answer bears one.
    pub fn retry_after_seconds(self) -> Option<u32> {
        match self {
            Self::RateLimited | Self::GatewayAtCapacity => Some(1),
            Self::BackboneUnavailable => Some(5),
            _ => None,
        }
    }
}

/// A refusal of a whole request: the body of every answer but 200.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", code.as_str())]
pub struct Rejection {
    /// For machines.
    pub code: Code,
    /// For people; `<field> <reason>` for events.
    pub detail: String,
    /// Dotted path of the field at fault, or empty.
    pub field: String,
    /// Zero-based index of the event at fault; -1 when the whole batch is.
    pub event_index: i32,
}

impl Rejection {
    /// A refusal that no one field or event is to blame for.
    pub fn of_batch(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            field: String::new(),
            event_index: -1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of statuses in the contract, row by row.
    #[test]
    fn every_code_has_its_status_and_retry_after() {
        let table = [
            (400, "unreadable_body", None),
            (400, "malformed_payload", None),
            (403, "unauthenticated_agent", None),
            (403, "agent_not_registered", None),
            (403, "agent_not_admitted", None),
            (413, "batch_body_too_large", None),
            (415, "unsupported_media_type", None),
            (422, "empty_batch", None),
            (422, "batch_too_large", None),
            (422, "malformed_batch_id", None),
            (422, "invalid_event", None),
            (426, "unsupported_protocol_version", None),
            (429, "rate_limited", Some(1)),
            (503, "gateway_at_capacity", Some(1)),
            (503, "backbone_unavailable", Some(5)),
        ];
        let of_code = |code: Code| (code.status(), code.as_str(), code.retry_after_seconds());
        assert_eq!(Code::ALL.map(of_code), table);
    }
}
