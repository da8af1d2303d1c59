//! Events that the server itself publishes, about webhooks. They are published messages of a
//! consumer whose name is reserved, so that they are stored, queried and delivered as any other.
//! The names are Sparrow's.

use std::collections::HashSet;
use std::sync::Arc;

use fulmar_event::{
    AttemptRecord, Door, MessageDraft, Records, SchemaCheck, Timestamp, partition_of,
};
use fulmar_flow::FoldError;
use fulmar_log::{Journal, LogError};
use fulmar_registry::{Registry, SYSTEM_CONSUMER, Webhook, WebhookState};
use serde_json::{Value, json};

use super::standing::{Standing, Turn};
use crate::occurrence::rfc3339;

/// Whom they are from.
const SOURCE: &str = "fulmar";
/// What all their names begin with.
const SYSTEM_PREFIX: &str = "sparrow.webhook.";

/// Publishes the server's own events.
#[derive(Clone)]
pub struct Teller {
    /// Where they go.
    pub events: Arc<Journal>,
    /// Partitions of that topic.
    pub partitions: u16,
    /// Says who listens, and which revision they are matched by (R2).
    pub registry: Arc<Registry>,
}

impl Teller {
    /// The projects in which a webhook takes such events.
    pub(super) fn listening(&self) -> HashSet<String> {
        let state = self.registry.current();
        let webhooks = state.webhooks.values();
        let listening = webhooks.filter(|one| one.consumer == SYSTEM_CONSUMER);
        listening.map(|one| one.project.clone()).collect()
    }

    /// Appends events, synced. A block that is done again appends them again: their ids are the
    /// same, so each is stored and delivered once.
    pub(super) fn tell(&self, notices: &[Notice]) -> Result<(), FoldError> {
        let mut records = Records::new();
        let revision = self.registry.current().revision;
        let partition = partition_of(SYSTEM_CONSUMER.as_bytes(), self.partitions);
        for notice in notices {
            notice.append_to(revision, partition, &mut records);
        }
        let failed = |error: LogError| FoldError::Transient(error.to_string());
        self.events.append_all_blocking(records).map_err(failed)
    }
}

/// One event of the server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Notice {
    /// What follows [`SYSTEM_PREFIX`] in its name.
    what: &'static str,
    project: String,
    /// Tells it from all others of its name.
    of: String,
    at_ms: i64,
    payload: Value,
}

impl Notice {
    /// A receiver does better or worse; `offset` is of the outcome that shows it.
    pub fn health_changed(webhook: &str, standing: &Standing, turn: Turn, offset: u64) -> Self {
        let attempts = standing.successes + standing.failures;
        let rate = standing.successes as f64 / attempts.max(1) as f64;
        let at_ms = standing.last_failure_ms.max(standing.last_success_ms);
        Self {
            what: "health_changed",
            project: standing.project.clone(),
            of: format!("{webhook}-{offset}"),
            at_ms: at_ms.unwrap_or_default(),
            payload: json!({
                "webhook_id": webhook,
                "consumer": standing.consumer,
                "previous_health": turn.from.as_str(),
                "health": turn.to.as_str(),
                "success_rate": rate,
                "attempts": attempts,
                "consecutive_failures": standing.failures_in_a_row,
                "failing_since": standing.failing_since_ms.map(rfc3339),
            }),
        }
    }

    /// A delivery was given up.
    pub fn delivery_failed(record: &AttemptRecord<'_>, offset: u64) -> Self {
        Self {
            what: "delivery_failed",
            project: record.project.to_owned(),
            of: format!("{}-{offset}", record.delivery_id),
            at_ms: ended_ms(record),
            payload: json!({
                "webhook_id": record.webhook_id,
                "consumer": record.consumer,
                "delivery_id": record.delivery_id,
                "event_id": record.event_id,
                "event_name": record.event_name,
                "attempt_count": record.attempt,
                "response_code": (record.response_code > 0).then_some(record.response_code),
                "error_category": record.error_category,
                "error_message": record.error_message,
            }),
        }
    }

    /// The server has given a receiver up, or somebody has taken it up again; `offset` is of the
    /// change.
    pub fn state_changed(id: &str, webhook: &Webhook, offset: u64) -> Self {
        let (what, reason) = match &webhook.state {
            WebhookState::Disabled { reason } => ("disabled", Some(reason)),
            WebhookState::Active | WebhookState::Paused => ("enabled", None),
        };
        Self {
            what,
            project: webhook.project.clone(),
            of: format!("{id}-{offset}"),
            at_ms: webhook.updated_ms,
            payload: json!({
                "webhook_id": id,
                "consumer": webhook.consumer,
                "state": webhook.state.as_str(),
                "reason": reason,
            }),
        }
    }

    fn append_to(&self, revision: u64, partition: u16, out: &mut Records) {
        let at = Timestamp::from_millis(self.at_ms);
        let data = self.payload.to_string();
        let draft = MessageDraft {
            event_id: &format!("{}-{}", self.what, self.of),
            time: Some(at),
            ingest_time: at,
            gateway: SOURCE,
            batch_id: "",
            project: &self.project,
            client: SOURCE,
            key: SYSTEM_CONSUMER,
            door: Door::Publish,
            control_offset: revision,
            kind: &format!("{SYSTEM_PREFIX}{}", self.what),
            source: "",
            subject: "",
            consumer: SYSTEM_CONSUMER,
            data: data.as_bytes(),
            data_content_type: "application/json",
            data_base64: false,
            extensions: b"",
            labels: b"",
            idempotency_key: "",
            schema: SchemaCheck::None,
            expires_ms: 0,
        };
        draft.append_to(partition, out);
    }
}

/// Whether a delivery's outcome may make such an event: one of such an event makes none, or a
/// receiver of them that fails would be told of its own failures for ever (D5).
pub(super) fn is_told(record: &AttemptRecord<'_>) -> bool {
    record.consumer != SYSTEM_CONSUMER
}

/// When an attempt ended, ms since the epoch.
pub(super) fn ended_ms(record: &AttemptRecord<'_>) -> i64 {
    let took_ms = i64::try_from(record.duration_us / 1_000).unwrap_or(i64::MAX);
    record.started_ms.saturating_add(took_ms)
}
