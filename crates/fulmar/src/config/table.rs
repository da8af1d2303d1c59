//! The one table of every configuration key: `config print`, `config check`, the reference and the
//! typed [`super::Config`] all come from it.

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// What a key takes, with its bounds (inclusive).
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A plain number.
    Count(u64, u64),
    /// Bytes, such as `8MiB`.
    Size(u64, u64),
    /// Milliseconds, written such as `10s`.
    Duration(u64, u64),
    /// `host:port`; port 0 picks a free one.
    Address,
    /// Free text of at most so many bytes; empty is unset.
    Text(usize),
    /// A path; relative ones are relative to the working folder. Empty is unset.
    Path,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// A secret; also taken from the file that `NAME_file` names. Never printed.
    Secret,
}

/// One key.
#[derive(Debug)]
pub struct Key {
    /// `section.name`. Its environment variable is `FULMAR_SECTION_NAME`.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Its default, as it would be written.
    pub default: &'static str,
    /// What it does, one line.
    pub doc: &'static str,
}

impl Key {
    /// The name of its environment variable.
    pub fn env(&self) -> String {
        format!(
            "FULMAR_{}",
            self.name.to_ascii_uppercase().replace('.', "_")
        )
    }
}

const fn key(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key {
        name,
        kind,
        default,
        doc,
    }
}

/// How long a table's rows are kept.
const fn kept(name: &'static str, default: &'static str, doc: &'static str) -> Key {
    key(name, Kind::Duration(DAY, 36_500 * DAY), default, doc)
}

use Kind::{Address, Bool, Choice, Count, Duration, Path, Secret, Size, Text};

/// Every key, by section.
pub const KEYS: &[Key] = &[
    key(
        "server.id",
        Text(64),
        "fulmar",
        "name of this gateway, stamped into every record",
    ),
    key(
        "server.memory_max",
        Size(128 * MIB, 1 << 46),
        "768MiB",
        "resident memory of the serve process that its bounds must fit into",
    ),
    key(
        "server.shutdown_timeout",
        Duration(SECOND, 5 * MINUTE),
        "20s",
        "longest graceful stop; what is not done then ends the process with exit code 1",
    ),
    key(
        "server.settle",
        Duration(0, MINUTE),
        "200ms",
        "how long readiness says draining before the doors stop accepting",
    ),
    key(
        "server.log_level",
        Choice(&["error", "warn", "info", "debug", "trace"]),
        "info",
        "least level that is logged",
    ),
    key(
        "server.log_format",
        Choice(&["text", "json"]),
        "text",
        "shape of log lines",
    ),
    key(
        "public.address",
        Address,
        "127.0.0.1:8080",
        "public listener: events door, query, admin",
    ),
    key(
        "public.behind_proxy",
        Bool,
        "false",
        "a proxy in front ends TLS, so that plain HTTP on a public address is meant",
    ),
    key(
        "public.trusted_proxies",
        Text(4_096),
        "",
        "networks such as 10.0.0.0/8, with commas, whose forwarding headers name the client",
    ),
    key(
        "public.tls_cert",
        Path,
        "",
        "certificate chain of the public listener (PEM)",
    ),
    key(
        "public.tls_key",
        Path,
        "",
        "private key of the public listener (PEM)",
    ),
    key(
        "agents.address",
        Address,
        "0.0.0.0:8443",
        "agents listener: mutual TLS 1.3",
    ),
    key(
        "agents.tls_cert",
        Path,
        "",
        "server certificate (PEM); default pki/server.pem",
    ),
    key(
        "agents.tls_key",
        Path,
        "",
        "server key (PEM); default pki/server.key",
    ),
    key(
        "agents.ca",
        Path,
        "",
        "authorities of agents (PEM); default pki/agents-ca.pem",
    ),
    key(
        "agents.admission",
        Choice(&["certificate", "roster"]),
        "certificate",
        "who is let in: any certificate of the authority, or registered agents only",
    ),
    key(
        "agents.requests_per_second",
        Count(0, 1_000_000),
        "200",
        "requests of one agent; 0 lifts the bound",
    ),
    key(
        "agents.events_per_second",
        Count(0, 1_000_000_000),
        "50000",
        "events of one agent; 0 lifts the bound",
    ),
    key(
        "agents.bytes_per_second",
        Size(0, 1 << 40),
        "32MiB",
        "body bytes of one agent; 0 lifts the bound",
    ),
    key(
        "keys.requests_per_second",
        Count(0, 10_000_000),
        "50000",
        "requests of one API key; 0 lifts the bound",
    ),
    key(
        "keys.events_per_second",
        Count(0, 1_000_000_000),
        "200000",
        "events of one API key; 0 lifts the bound",
    ),
    key(
        "keys.bytes_per_second",
        Size(0, 1 << 40),
        "128MiB",
        "body bytes of one API key; 0 lifts the bound",
    ),
    key(
        "keys.ingest",
        Secret,
        "",
        "ingest key that a first start takes instead of a random one",
    ),
    key(
        "keys.admin",
        Secret,
        "",
        "admin key that a first start takes instead of a random one",
    ),
    key(
        "projects.requests_per_second",
        Count(0, 10_000_000),
        "0",
        "requests of one project; 0 lifts the bound",
    ),
    key(
        "projects.events_per_second",
        Count(0, 1_000_000_000),
        "0",
        "events of one project; 0 lifts the bound",
    ),
    key(
        "projects.bytes_per_second",
        Size(0, 1 << 40),
        "0",
        "body bytes of one project; 0 lifts the bound",
    ),
    key(
        "gateway.events_max",
        Count(1, 100_000),
        "10000",
        "events of one request",
    ),
    key(
        "gateway.body_max",
        Size(64 * KIB, 64 * MIB),
        "8MiB",
        "bytes of one request body, compressed and inflated alike",
    ),
    key(
        "gateway.event_bytes_max",
        Size(KIB, MIB),
        "64KiB",
        "bytes of one event",
    ),
    key(
        "gateway.age_max",
        Duration(MINUTE, 365 * DAY),
        "168h",
        "oldest event and observed time that the agents door admits",
    ),
    key(
        "gateway.skew_max",
        Duration(SECOND, HOUR),
        "5m",
        "how far an event may lie ahead of the server's clock",
    ),
    key(
        "gateway.in_flight_bytes_max",
        Size(8 * MIB, 16 * GIB),
        "128MiB",
        "body bytes of all requests in flight, reserved before a body is read",
    ),
    key(
        "gateway.in_flight_requests_max",
        Count(1, 100_000),
        "512",
        "requests in flight",
    ),
    key(
        "gateway.connections_max",
        Count(1, 1_000_000),
        "8192",
        "open connections of all doors",
    ),
    key(
        "gateway.append_timeout",
        Duration(SECOND, MINUTE),
        "10s",
        "longest wait for the log before a request is answered 503",
    ),
    key(
        "gateway.read_timeout",
        Duration(SECOND, 5 * MINUTE),
        "30s",
        "longest read of one request",
    ),
    key(
        "gateway.idle_timeout",
        Duration(SECOND, 30 * MINUTE),
        "90s",
        "longest rest of a connection between requests",
    ),
    key(
        "ops.address",
        Address,
        "127.0.0.1:9100",
        "operations listener: health, metrics, log level",
    ),
    key(
        "log.partitions",
        Count(1, 1_000),
        "16",
        "partitions of `events` and `profiles`; fixed when the folder is made",
    ),
    key(
        "log.events_age_max",
        Duration(HOUR, 3_650 * DAY),
        "7d",
        "retention of `events` by age",
    ),
    key(
        "log.events_bytes_max",
        Size(0, 1 << 50),
        "0",
        "retention of `events` by bytes; 0 is the smaller of 64 GiB and a third of the disk",
    ),
    key(
        "log.quarantine_age_max",
        Duration(HOUR, 3_650 * DAY),
        "30d",
        "retention of `quarantine`",
    ),
    key(
        "log.segment_bytes",
        Size(MIB, GIB),
        "128MiB",
        "size of one segment file",
    ),
    key(
        "writer.workers",
        Count(1, 256),
        "1",
        "threads that share a large block, each its own partitions",
    ),
    key(
        "writer.block_rows",
        Count(1, 1_000_000),
        "50000",
        "records that close a block",
    ),
    key(
        "writer.block_bytes",
        Size(64 * KIB, 256 * MIB),
        "16MiB",
        "bytes that close a block",
    ),
    key(
        "writer.block_age",
        Duration(50, MINUTE),
        "1s",
        "age of its oldest record that closes a block",
    ),
    kept(
        "lake.security_events_age_max",
        "365d",
        "retention, by event day",
    ),
    kept("lake.messages_age_max", "365d", "retention, by event day"),
    kept("lake.events_age_max", "365d", "retention, by event day"),
    kept(
        "lake.sessions_age_max",
        "365d",
        "retention, by the day of their start",
    ),
    kept(
        "lake.events_bots_age_max",
        "365d",
        "retention, by event day",
    ),
    kept(
        "lake.session_replay_chunks_age_max",
        "30d",
        "retention, by the day of their start",
    ),
    kept(
        "lake.deliveries_age_max",
        "90d",
        "retention, by the day of their event's match",
    ),
    kept(
        "lake.delivery_attempts_age_max",
        "90d",
        "retention, by the day of their start",
    ),
    key(
        "lake.file_bytes_max",
        Size(MIB, GIB),
        "256MiB",
        "largest compacted file",
    ),
    key(
        "enrich.geo_city",
        Path,
        "",
        "MaxMind database of cities (.mmdb): country, region, city and place of an address",
    ),
    key(
        "enrich.geo_asn",
        Path,
        "",
        "MaxMind database of autonomous systems (.mmdb): tells addresses of data centres",
    ),
    key(
        "sessions.timeout",
        Duration(SECOND, DAY),
        "30m",
        "silence of a device that ends its session",
    ),
    key(
        "sessions.late_max",
        Duration(0, DAY),
        "15m",
        "how far behind its device's newest event a late one still belongs to a session",
    ),
    key(
        "repeats.window",
        Duration(MINUTE, 365 * DAY),
        "168h5m",
        "how long an event id is remembered to drop repeats",
    ),
    key(
        "repeats.disk_max",
        Size(MIB, 1 << 44),
        "4GiB",
        "bytes on disk of the repeats index; status shows the window that they allow",
    ),
    key(
        "repeats.memory_max",
        Size(MIB, 64 * GIB),
        "256MiB",
        "filters of the repeats index in memory",
    ),
    key(
        "query.memory_max",
        Size(64 * MIB, 1 << 44),
        "512MiB",
        "memory of one query's process",
    ),
    key(
        "query.timeout",
        Duration(SECOND, HOUR),
        "30s",
        "longest run of one query",
    ),
    key("query.concurrent_max", Count(1, 64), "4", "queries at once"),
    key(
        "query.program",
        Path,
        "",
        "the program fulmar-sql; default beside fulmar",
    ),
    key(
        "webhooks.allowed_networks",
        Text(4_096),
        "",
        "networks such as 10.0.0.0/8, with commas, that webhooks may reach though they are private",
    ),
    key(
        "webhooks.allowed_ports",
        Text(1_024),
        "",
        "ports, with commas, that webhooks may reach beside 80, 443 and the usual ones above 1023",
    ),
    key(
        "webhooks.auto_register_event_types",
        Bool,
        "false",
        "take events of a type that nobody registered, and register it; else they are refused",
    ),
    key(
        "webhooks.in_flight_max",
        Count(1, 65_536),
        "4096",
        "deliveries sent at once; each needs a connection",
    ),
    key(
        "webhooks.in_flight_per_webhook",
        Count(1, 1_024),
        "64",
        "deliveries sent at once to a webhook that names no bound of its own",
    ),
];

/// The key of a name.
pub fn find(name: &str) -> Option<usize> {
    KEYS.iter().position(|key| key.name == name)
}
