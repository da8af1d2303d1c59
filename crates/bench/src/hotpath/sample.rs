//! The batches that are measured: failed and accepted SSH logons, each event different, about
//! 290 bytes, the same on every run.

use fulmar_event::{
    AuthenticationDraft, BatchBuilder, BatchRules, Timestamp, limits, partition_of,
};

/// The time of the door in the bench.
pub const NOW: Timestamp = Timestamp {
    seconds: 1_790_000_000,
    nanos: 125_000_000,
};

/// The agent that sends.
const AGENT: &str = "web-042.fra.example.net";

/// The door's rules, with the limits as shipped.
pub fn rules() -> BatchRules<'static> {
    BatchRules {
        agent_id: AGENT,
        project: "default",
        gateway: "gateway-1",
        now: NOW,
        age_max_seconds: limits::EVENT_AGE_MAX_SECONDS,
        skew_max_seconds: limits::CLOCK_SKEW_MAX_SECONDS,
        events_max: limits::EVENTS_PER_BATCH_MAX,
        event_bytes_max: limits::EVENT_BYTES_MAX,
        control_offset: 12,
        partition: partition_of(AGENT.as_bytes(), 16),
    }
}

/// A mix of the index's bits, so that neighbours differ everywhere (the finaliser of
/// splitmix64).
fn mixed(index: u64) -> u64 {
    let mut bits = index.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The id of event `index`, as a UUID.
pub fn event_id(index: u64) -> String {
    let (high, low) = (mixed(2 * index), mixed(2 * index + 1));
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        0x8000 | low >> 48 & 0x3fff,
        low & 0xffff_ffff_ffff
    )
}

/// A batch of `events` events from the one of index `first` on.
pub fn batch_from(first: usize, events: usize) -> Vec<u8> {
    let mut batch = BatchBuilder::new("9f2d1c84-0a52-4d8e-b7f5-2f1f2b8f4e11");
    for index in first..first + events {
        push(index as u64, &mut batch);
    }
    batch.into_bytes()
}

fn push(index: u64, batch: &mut BatchBuilder) {
    const USERS: [&str; 8] = [
        "root",
        "admin",
        "ubuntu",
        "deploy",
        "postgres",
        "jürgen",
        "backup-operator",
        "git",
    ];
    let bits = mixed(index);
    let user = USERS[(bits & 7) as usize];
    let accepted = bits >> 3 & 7 == 0;
    let [a, b, c, _, ..] = bits.to_le_bytes();
    let address = format!("{}.{}.{}.{}", 1 + a % 223, b, c, 1 + index % 254);
    let port = 1_024 + (bits >> 40) as u32 % 60_000;
    let verb = if accepted { "Accepted" } else { "Failed" };
    let line = format!("{verb} password for {user} from {address} port {port} ssh2");
    let age_seconds = (bits >> 20) as i64 % 86_400;
    batch.push(&AuthenticationDraft {
        event_id: &event_id(index),
        event_time: Timestamp {
            seconds: NOW.seconds - age_seconds,
            nanos: bits as u32 % 999_999_999,
        },
        observed_time: Timestamp {
            seconds: NOW.seconds - age_seconds + 1,
            nanos: 0,
        },
        host_hostname: "web-042.fra.example.net",
        host_ip: "10.20.30.42",
        host_os: "linux",
        host_architecture: "x86_64",
        collector: "sshd",
        collection_source: "/var/log/auth.log",
        sequence: index,
        activity: 1,
        outcome: if accepted { 1 } else { 2 },
        outcome_reason: if accepted { "" } else { "invalid_credentials" },
        method: "password",
        user_name: user,
        service_name: "sshd",
        service_protocol: "ssh",
        source_ip: &address,
        source_port: port,
        destination_port: 22,
        transport: 1,
        raw_record: &line,
        ..AuthenticationDraft::default()
    });
}
