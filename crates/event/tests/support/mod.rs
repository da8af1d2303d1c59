//! What the crate's tests share: a full decode of the contract, the rules written over it,
//! a generic reader of fields, and a valid event to start from.
#![allow(dead_code, reason = "each test uses a part")]

pub mod fields;
pub mod mirror;
pub mod reference;

use fulmar_event::{AuthenticationDraft, BatchBuilder, BatchRules, Timestamp, limits};

/// The time of every test's door.
pub const NOW: Timestamp = Timestamp {
    seconds: 1_700_000_000,
    nanos: 250_000_000,
};

/// The rules of every test's door.
pub fn rules() -> BatchRules<'static> {
    BatchRules {
        agent_id: "agent-7",
        project: "default",
        gateway: "door-1",
        now: NOW,
        age_max_seconds: limits::EVENT_AGE_MAX_SECONDS,
        skew_max_seconds: limits::CLOCK_SKEW_MAX_SECONDS,
        events_max: limits::EVENTS_PER_BATCH_MAX,
        event_bytes_max: limits::EVENT_BYTES_MAX,
        control_offset: 41,
        partition: 9,
    }
}

/// A valid event with every field set.
pub fn draft() -> AuthenticationDraft<'static> {
    AuthenticationDraft {
        event_id: "0b1f7f2e-53a5-4a86-9c67-6c5a8cc1d4a7",
        event_time: Timestamp {
            seconds: 1_699_999_990,
            nanos: 1,
        },
        observed_time: Timestamp {
            seconds: 1_699_999_991,
            nanos: 2,
        },
        host_hostname: "web-3.example.org",
        host_ip: "10.1.2.3",
        host_os: "linux",
        host_architecture: "x86_64",
        collector: "sshd",
        collection_source: "/var/log/auth.log",
        sequence: 77,
        activity: 1,
        outcome: 2,
        outcome_reason: "invalid_credentials",
        method: "password",
        user_name: "röot",
        user_domain: "example.org",
        user_uid: "1000",
        service_name: "sshd",
        service_protocol: "ssh",
        source_ip: "203.0.113.77",
        source_port: 52_144,
        destination_ip: "2001:db8::1",
        destination_port: 22,
        transport: 1,
        raw_record: "Failed password for root from 203.0.113.77 port 52144 ssh2",
    }
}

/// The draft as one `Event`.
pub fn encoded(draft: &AuthenticationDraft<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    fulmar_event::encode_event(draft, &mut bytes);
    bytes
}

/// A batch of encoded events.
pub fn batch_of(events: &[&[u8]]) -> Vec<u8> {
    let mut batch = BatchBuilder::new("batch-1");
    for event in events {
        batch.push_encoded(event);
    }
    batch.into_bytes()
}
