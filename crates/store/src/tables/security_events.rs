//! `security_events`: authentication events, with the names that Seagull's
//! store gave their columns.

use super::column;

super::declare_table! {
    super::Table::SecurityEvents,
    /// One row, borrowed from the record that it came from.
    row SecurityEventRow,
    /// Rows of `security_events` under construction.
    builder SecurityEventsBuilder,
    key: (tenant_id, event_time, event_id, log_offset),
    {
        /// The producer's id.
        event_id: Text = "event_id",
        /// The contract's version that the producer wrote.
        schema_version: U32 = "schema_version",
        /// Which body the event has.
        event_class: Name = "event_class",
        /// When it happened.
        event_time: Time = "event_time",
        /// When the collector saw it.
        observed_time: Time = "observed_time",
        /// When the door accepted it.
        ingest_time: Time = "ingest_time",
        /// The project.
        tenant_id: Label = "tenant_id",
        /// The authenticated agent.
        agent_id: Label = "agent_id",
        /// The host's name.
        host_hostname: Label = "host_hostname",
        /// The host's address.
        host_ip: Label = "host_ip",
        /// The host's operating system.
        host_os: Label = "host_os",
        /// The host's architecture.
        host_architecture: Label = "host_architecture",
        /// What collected it.
        collector: Label = "collector",
        /// Where it was read, often a path.
        source: Label = "source",
        /// The collector's own count.
        sequence: U64 = "sequence",
        /// The door's name.
        gateway: Label = "gateway",
        /// The request that brought it.
        batch_id: Label = "batch_id",
        /// Logon or logoff.
        auth_activity: Name = "auth_activity",
        /// Success or failure.
        auth_outcome: Name = "auth_outcome",
        /// Why so.
        auth_outcome_reason: Label = "auth_outcome_reason",
        /// Password, publickey and so on.
        auth_method: Label = "auth_method",
        /// The user's name.
        auth_user_name: Label = "auth_user_name",
        /// The user's domain.
        auth_user_domain: Label = "auth_user_domain",
        /// The user's number.
        auth_user_uid: Label = "auth_user_uid",
        /// The service logged on to.
        auth_service_name: Label = "auth_service_name",
        /// Its protocol.
        auth_service_protocol: Label = "auth_service_protocol",
        /// Where the user came from.
        auth_source_ip: Label = "auth_source_ip",
        /// The port there; 0 when unknown.
        auth_source_port: U16 = "auth_source_port",
        /// Where the user went to.
        auth_destination_ip: Label = "auth_destination_ip",
        /// The port there; 0 when unknown.
        auth_destination_port: U16 = "auth_destination_port",
        /// TCP or UDP.
        auth_transport: Name = "auth_transport",
        /// The line as collected.
        auth_raw_record: Text = "auth_raw_record",
        /// The record's partition in the log.
        log_partition: Partition = "log_partition",
        /// The record's offset in the log.
        log_offset: Offset = "log_offset",
    }
}
