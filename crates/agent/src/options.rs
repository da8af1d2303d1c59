//! What a caller asks for: door, format, sources, limits, places.

use std::path::PathBuf;
use std::time::Duration;

/// The door that events are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Mutual TLS, protobuf batches, all or nothing.
    Agents,
    /// HTTP(S) with a bearer key, NDJSON, a verdict per event.
    Events,
    /// The SDKs' door, as one of their clients: rows or items, a verdict each.
    Track,
}

impl Door {
    /// The door's name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Door::Agents => "agents",
            Door::Events => "events",
            Door::Track => "track",
        }
    }
}

/// How a source's lines are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenSSH server messages in syslog form.
    Sshd,
    /// Access logs in the combined log format.
    Combined,
    /// The events door's own shape, an object a line.
    Ndjson,
}

impl Format {
    /// The format's name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Sshd => "sshd",
            Format::Combined => "combined",
            Format::Ndjson => "ndjson",
        }
    }
}

/// Where lines come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file, followed over rotation when `follow` is set.
    File(PathBuf),
    /// Standard input, to its end.
    Stdin,
}

/// Where the server is.
#[derive(Clone, Debug)]
pub enum Address {
    /// A data folder on this machine: `addresses.json` in it is read again
    /// before every connection, so that a restarted server is found.
    Folder(PathBuf),
    /// `https://host:port` or `http://host:port`, or `host:port` alone (TLS at
    /// the agents door, plain at the events door).
    Url(String),
}

/// The agents door's identity. All three are PEM files and read again before
/// every connection, so that a rotated certificate needs no restart.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The agent's certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities that the server's certificate must come from.
    pub authorities: PathBuf,
}

/// What the sender proves itself with.
#[derive(Clone, Default)]
pub struct Credentials {
    /// For the agents door.
    pub certificate: Option<CertificateFiles>,
    /// For the events door: the bearer key itself. For the SDKs' door: `ID:SECRET` of a client.
    pub api_key: Option<String>,
    /// For either of them over TLS: PEM authorities of the server.
    pub authorities: Option<PathBuf>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Credentials")
            .field("certificate", &self.certificate)
            .field("api_key", &self.api_key.as_ref().map(|_| "redacted"))
            .field("authorities", &self.authorities)
            .finish()
    }
}

/// When a batch is closed: at whichever bound is met first.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// Events in a batch. Seagull's shipped ceiling is 1,000, ours 10,000.
    pub events_max: usize,
    /// Encoded bytes in a batch; half the default body ceiling of either
    /// door leaves room for framing.
    pub bytes_max: usize,
    /// How long the oldest event waits for company.
    pub age_max: Duration,
}

impl Default for BatchLimits {
    fn default() -> BatchLimits {
        BatchLimits {
            events_max: 1_000,
            bytes_max: 4 << 20,
            age_max: Duration::from_millis(500),
        }
    }
}

/// The default bound of a spool in bytes: hours of a busy host's lines, and
/// small beside any disk that holds logs. At it reading stops.
pub const SPOOL_BYTES_MAX: u64 = 1 << 30;

/// The default longest wait between tries: an operator who mends a server sees
/// events come within half a minute.
pub const RETRY_WAIT_MAX: Duration = Duration::from_secs(30);

/// Everything that `run` needs to know.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// The door to send to.
    pub door: Door,
    /// The shape of the lines.
    pub format: Format,
    /// Read in order, or side by side when followed.
    pub sources: Vec<Source>,
    /// The name that ids are made from; by default the canonical path of a
    /// file and `stdin` for standard input.
    pub source_name: Option<String>,
    /// The zone of year-less stamps by IANA name; by default the machine's.
    pub timezone: Option<String>,
    /// Where the server is.
    pub address: Address,
    /// What to prove identity with.
    pub credentials: Credentials,
    /// The agent's name where the caller knows it; it stands in receipts when
    /// the server does not say whom it saw.
    pub agent: Option<String>,
    /// The project for receipts when the server does not say.
    pub project: Option<String>,
    /// When batches are closed.
    pub limits: BatchLimits,
    /// The spool's folder; by default under the user's state folder.
    pub spool: Option<PathBuf>,
    /// Bytes in the spool at which reading stops.
    pub spool_bytes_max: u64,
    /// Keep reading as the files grow.
    pub follow: bool,
    /// Shift all times so that the newest line is now.
    pub rebase: bool,
    /// A file to which each acknowledged id is appended.
    pub receipts: Option<PathBuf>,
    /// The longest wait between tries, in the doubling from 100 ms.
    pub retry_wait_max: Duration,
    /// No progress line, even on a terminal.
    pub quiet: bool,
}

impl SendOptions {
    /// Options with every default, for a door, a format and a place.
    pub fn new(door: Door, format: Format, address: Address) -> SendOptions {
        SendOptions {
            door,
            format,
            sources: Vec::new(),
            source_name: None,
            timezone: None,
            address,
            credentials: Credentials::default(),
            agent: None,
            project: None,
            limits: BatchLimits::default(),
            spool: None,
            spool_bytes_max: SPOOL_BYTES_MAX,
            follow: false,
            rebase: false,
            receipts: None,
            retry_wait_max: RETRY_WAIT_MAX,
            quiet: false,
        }
    }
}

/// What a sending came to. Counts are of this run, not of runs before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events with a final answer: accepted, duplicates and refused together.
    pub events: u64,
    /// Acknowledged as durable. The agents door looks no duplicate up, so a
    /// repeat counts here too.
    pub accepted: u64,
    /// Answered as duplicates (events door).
    pub duplicates: u64,
    /// Refused by the server, one by one.
    pub refused: u64,
    /// Lines that are no event of this format.
    pub skipped: u64,
    /// Bytes of lines read.
    pub bytes: u64,
    /// Events that still wait in the spool.
    pub pending: u64,
    /// The first refusal, in words.
    pub first_refusal: Option<String>,
    /// Some refusal was about the admission window, which `--rebase` avoids.
    pub window_refused: bool,
    /// The caller interrupted before all was sent.
    pub interrupted: bool,
}
