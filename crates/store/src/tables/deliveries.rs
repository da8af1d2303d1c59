//! What became of deliveries: versions of each, of which the last counts, and their attempts.

use fulmar_event::{AttemptRecord, DeliveryStatus};

use super::column;

super::declare_table! {
    super::Table::Deliveries,
    /// One version, borrowed from the record that told of it.
    row DeliveryRow,
    /// Rows of `deliveries` under construction.
    builder DeliveriesBuilder,
    key: (project_id, created_at, id, log_offset),
    {
        /// The delivery: one event on its way to one webhook.
        id: Text = "id",
        /// The project.
        project_id: Label = "project_id",
        /// Whose webhook it is.
        consumer: Label = "consumer",
        /// Where it goes.
        webhook_id: Label = "webhook_id",
        /// What matched; empty where the webhook's own list did.
        subscription_id: Label = "subscription_id",
        /// The event, as receivers see its id.
        event_id: Text = "event_id",
        /// Its name.
        event_name: Label = "event_name",
        /// Its offset in `events`.
        event_offset: Offset = "event_offset",
        /// `success`, `failed`, `retrying`, `expired` or `cancelled`.
        status: Label = "status",
        /// Attempts so far.
        attempt_count: I32 = "attempt_count",
        /// Attempts that there can be.
        max_attempts: I32 = "max_attempts",
        /// When the event was matched.
        created_at: Time = "created_at",
        /// When this version came about: the start of the attempt, or the end that came without.
        updated_at: Time = "updated_at",
        /// When it is sent again; null when it is not.
        next_retry_at: MaybeTime = "next_retry_at",
        /// The receiver's last answer; 0 where there was none.
        response_code: I32 = "response_code",
        /// What it said, as far as that is kept.
        response_body: Text = "response_body",
        /// The kind of the last failure.
        error_category: Label = "error_category",
        /// The last failure, for people.
        error_message: Text = "error_message",
        /// The record's partition in the log.
        log_partition: Partition = "log_partition",
        /// The record's offset in the log.
        log_offset: Offset = "log_offset",
    }
}

super::declare_table! {
    super::Table::DeliveryAttempts,
    /// One attempt, borrowed from the record that told of it.
    row AttemptRow,
    /// Rows of `delivery_attempts` under construction.
    builder AttemptsBuilder,
    key: (project_id, started_at, id, log_offset),
    {
        /// Delivery and number, so that a record that is in the log twice is one attempt.
        id: Text = "id",
        /// The delivery.
        delivery_id: Text = "delivery_id",
        /// The project.
        project_id: Label = "project_id",
        /// Whose webhook it is.
        consumer: Label = "consumer",
        /// Where it was sent.
        webhook_id: Label = "webhook_id",
        /// The event, as receivers see its id.
        event_id: Text = "event_id",
        /// Its name.
        event_name: Label = "event_name",
        /// Its number, from 1.
        attempt: I32 = "attempt",
        /// `success` or `failed`.
        status: Label = "status",
        /// When it began.
        started_at: Time = "started_at",
        /// Microseconds that the exchange took.
        duration_us: U64 = "duration_us",
        /// The receiver's answer; 0 where there was none.
        response_code: I32 = "response_code",
        /// What it said, as far as that is kept.
        response_body: Text = "response_body",
        /// The kind of the failure.
        error_category: Label = "error_category",
        /// The phase of the exchange that failed.
        phase: Label = "phase",
        /// The failure, for people.
        error_message: Text = "error_message",
        /// The record's partition in the log.
        log_partition: Partition = "log_partition",
        /// The record's offset in the log.
        log_offset: Offset = "log_offset",
    }
}

/// Where a record stands in the log, and the answer that it keeps, as text.
#[derive(Clone, Copy)]
pub struct Beside<'a> {
    /// The record's partition and offset.
    pub at: (u16, u64),
    /// The receiver's answer.
    pub answer: &'a str,
}

/// The version of a delivery that a record tells of.
pub fn delivery_row<'a>(
    record: &AttemptRecord<'a>,
    status: DeliveryStatus,
    beside: Beside<'a>,
) -> DeliveryRow<'a> {
    DeliveryRow {
        id: record.delivery_id,
        project_id: record.project,
        consumer: record.consumer,
        webhook_id: record.webhook_id,
        subscription_id: record.subscription_id,
        event_id: record.event_id,
        event_name: record.event_name,
        event_offset: record.event_offset as i64,
        status: status.as_str(),
        attempt_count: count(record.attempt),
        max_attempts: count(record.attempts_max),
        created_at: record.created_ms,
        updated_at: record.started_ms,
        next_retry_at: (!status.is_final()).then_some(record.due_ms),
        response_code: count(record.response_code),
        response_body: beside.answer,
        error_category: record.error_category,
        error_message: record.error_message,
        log_partition: i32::from(beside.at.0),
        log_offset: beside.at.1 as i64,
    }
}

/// The attempt that a record is of; `id` is scratch.
pub fn attempt_row<'a>(
    record: &AttemptRecord<'a>,
    status: DeliveryStatus,
    id: &'a mut String,
    beside: Beside<'a>,
) -> AttemptRow<'a> {
    use std::fmt::Write as _;
    id.clear();
    let _ = write!(id, "{}-{}", record.delivery_id, record.attempt);
    AttemptRow {
        id,
        delivery_id: record.delivery_id,
        project_id: record.project,
        consumer: record.consumer,
        webhook_id: record.webhook_id,
        event_id: record.event_id,
        event_name: record.event_name,
        attempt: count(record.attempt),
        status: match status {
            DeliveryStatus::Delivered => status,
            _ => DeliveryStatus::Failed,
        }
        .as_str(),
        started_at: record.started_ms,
        duration_us: record.duration_us,
        response_code: count(record.response_code),
        response_body: beside.answer,
        error_category: record.error_category,
        phase: record.phase,
        error_message: record.error_message,
        log_partition: i32::from(beside.at.0),
        log_offset: beside.at.1 as i64,
    }
}

fn count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
