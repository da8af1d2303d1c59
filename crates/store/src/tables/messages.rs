//! `messages`: published events with the producer's own payload bytes.

use super::column;

super::declare_table! {
    super::Table::Messages,
    /// One row, borrowed from the record that it came from.
    row MessageRow,
    /// Rows of `messages` under construction.
    builder MessagesBuilder,
    key: (project_id, event_time, event_id, log_offset),
    {
        /// The producer's id, or the door's.
        event_id: Text = "event_id",
        /// What kind of event it is.
        kind: Label = "type",
        /// When it happened.
        event_time: Time = "event_time",
        /// When the door accepted it.
        ingest_time: Time = "ingest_time",
        /// The project.
        project_id: Label = "project_id",
        /// The authenticated client.
        client_id: Label = "client_id",
        /// Where the producer says that it came from.
        source: Label = "source",
        /// What it is about.
        subject: Text = "subject",
        /// The ordering key.
        key: Text = "key",
        /// Whom it is for.
        consumer: Label = "consumer",
        /// The producer's bytes, as text; null where it sent none.
        data: MaybeText = "data",
        /// The type of `data`.
        data_content_type: Label = "data_content_type",
        /// Whether `data` is the base64 of binary data.
        data_base64: Flag = "data_base64",
        /// CloudEvents extension attributes, a JSON object.
        extensions: Label = "extensions",
        /// Labels, a JSON object of strings.
        labels: Label = "labels",
        /// The producer's idempotency key.
        idempotency_key: Text = "idempotency_key",
        /// Whether the payload matched its type's schema; null without one.
        schema_valid: MaybeFlag = "schema_valid",
        /// The registry's version that the door had applied.
        control_offset: Offset = "control_offset",
        /// The record's partition in the log.
        log_partition: Partition = "log_partition",
        /// The record's offset in the log.
        log_offset: Offset = "log_offset",
    }
}
