//! OpenSSH server messages, as syslog writes them, into logons and logoffs.

use std::collections::VecDeque;
use std::net::IpAddr;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::stamp::split_syslog_stamp;

/// Repeats that one line may stand for. syslog daemons count a flood in one
/// line; more than this is taken for a forged count and skipped.
pub const REPEATS_MAX: u32 = 10_000;

/// How long after a `Disconnected` line a `session closed` line says nothing
/// new.
const SAME_LOGOFF_MAX: SignedDuration = SignedDuration::from_secs(2);

/// `Disconnected` lines remembered for that: what a busy host writes in two
/// seconds. The oldest goes first.
const LOGOFFS_REMEMBERED_MAX: usize = 4_096;

/// What a line says happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Someone tried to log on.
    Logon {
        /// Whether they were let in.
        success: bool,
    },
    /// A session ended.
    Logoff,
}

/// One line as fields. Every slice is of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshdLine<'a> {
    /// When it happened.
    pub time: Timestamp,
    /// The host that wrote the line.
    pub host: &'a str,
    /// What happened.
    pub activity: Activity,
    /// Why a logon failed: `invalid_user`, `invalid_credentials`; else empty.
    pub reason: &'static str,
    /// `password`, `publickey` …; empty for a logoff.
    pub method: &'a str,
    /// The user as the line has it, which may be empty or hold blanks.
    pub user: &'a str,
    /// The peer's address; empty where the line has none.
    pub ip: &'a str,
    /// The peer's port; 0 where the line has none.
    pub port: u16,
    /// How many events the line stands for, 1 to `REPEATS_MAX`.
    pub repeats: u32,
}

/// Reads lines in their order; it remembers the last few logoffs.
pub struct SshdParser {
    zone: TimeZone,
    logoffs: VecDeque<(Timestamp, String)>,
}

impl SshdParser {
    /// A parser that reads year-less stamps in `zone`.
    pub fn new(zone: TimeZone) -> SshdParser {
        SshdParser {
            zone,
            logoffs: VecDeque::new(),
        }
    }

    /// The event of a line, or `None` where it is none. `now` only serves to
    /// find the year of a stamp without one.
    pub fn parse<'a>(&mut self, line: &'a str, now: Timestamp) -> Option<SshdLine<'a>> {
        let (time, rest) = split_syslog_stamp(line, now, &self.zone)?;
        let (host, rest) = rest.trim_start().split_once(' ')?;
        let (program, message) = rest.split_once(": ")?;
        if !is_sshd(program) {
            return None;
        }
        let (repeats, message) = unrepeat(message)?;
        let mut found = read_message(message)?;
        found.time = time;
        found.host = host;
        found.repeats = repeats;
        if found.activity == Activity::Logoff && !self.admit_logoff(&found) {
            return None;
        }
        Some(found)
    }

    /// False for a `session closed` (it has no address) that follows the same
    /// user's `Disconnected` within two seconds.
    fn admit_logoff(&mut self, line: &SshdLine<'_>) -> bool {
        if line.ip.is_empty() {
            return !self.logoffs.iter().any(|(time, user)| {
                let after = line.time.duration_since(*time);
                user == line.user && !after.is_negative() && after <= SAME_LOGOFF_MAX
            });
        }
        if self.logoffs.len() == LOGOFFS_REMEMBERED_MAX {
            self.logoffs.pop_front();
        }
        self.logoffs.push_back((line.time, line.user.to_owned()));
        true
    }
}

/// `sshd` or `sshd-session`, with or without `[pid]`.
fn is_sshd(program: &str) -> bool {
    let name = match program
        .strip_suffix(']')
        .and_then(|name| name.rsplit_once('['))
    {
        Some((name, pid)) if !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()) => name,
        Some(_) => return false,
        None => program,
    };
    name == "sshd" || name == "sshd-session"
}

/// Takes `message repeated N times: [ … ]` apart; any other message is itself
/// once. `None` when the count is 0, beyond the bound, or no number.
fn unrepeat(message: &str) -> Option<(u32, &str)> {
    let Some(rest) = message.strip_prefix("message repeated ") else {
        return Some((1, message));
    };
    let (count, rest) = rest.split_once(" times: [")?;
    let inner = rest.trim_end().strip_suffix(']')?.trim_start();
    let count: u32 = count.parse().ok()?;
    (1..=REPEATS_MAX).contains(&count).then_some((count, inner))
}

fn read_message(message: &str) -> Option<SshdLine<'_>> {
    if let Some(rest) = message.strip_prefix("Accepted ") {
        return read_logon(rest, true);
    }
    if let Some(rest) = message.strip_prefix("Failed ") {
        return read_logon(rest, false);
    }
    if let Some(rest) = message.strip_prefix("Disconnected from user ") {
        return read_disconnect(rest);
    }
    let user = message.strip_prefix("pam_unix(sshd:session): session closed for user ")?;
    Some(logoff(user.trim_end(), "", 0))
}

/// `METHOD for [invalid user ]USER from IP port N ssh2[: …]`, read from the
/// right: the user is whatever its sender typed, ` from ` included.
fn read_logon(text: &str, success: bool) -> Option<SshdLine<'_>> {
    let (method, rest) = text.split_once(" for ")?;
    if method.is_empty() || method.contains(' ') {
        return None;
    }
    let (named, ip, port) = rest
        .rmatch_indices(" ssh2")
        .filter(|(at, mark)| ends_logon(&rest[at + mark.len()..]))
        .find_map(|(at, _)| split_peer(&rest[..at]))?;
    let invalid = (!success).then(|| after_invalid_user(named)).flatten();
    let reason = match (success, invalid.is_some()) {
        (true, _) => "",
        (false, true) => "invalid_user",
        (false, false) => "invalid_credentials",
    };
    Some(SshdLine {
        time: Timestamp::UNIX_EPOCH,
        host: "",
        activity: Activity::Logon { success },
        reason,
        method,
        user: invalid.unwrap_or(named),
        ip,
        port,
        repeats: 1,
    })
}

/// What may stand behind `ssh2`: nothing, the key that was used, or the mark
/// of the unprivileged process.
fn ends_logon(tail: &str) -> bool {
    tail.trim_end().is_empty() || tail.starts_with(": ") || tail.trim() == "[preauth]"
}

/// An empty user leaves one blank less where a daemon trims what it writes.
fn after_invalid_user(named: &str) -> Option<&str> {
    match named {
        "invalid user" => Some(""),
        _ => named.strip_prefix("invalid user "),
    }
}

/// `USER from IP port N`. The user may be empty (`for  from …`).
fn split_peer(text: &str) -> Option<(&str, &str, u16)> {
    let (named, port) = text.rsplit_once(" port ")?;
    let port = port_number(port)?;
    let (user, ip) = match named.rsplit_once(" from ") {
        Some(parts) => parts,
        None => ("", named.strip_prefix("from ")?),
    };
    is_ip(ip).then_some((user, ip, port))
}

/// `USER IP port N`.
fn read_disconnect(text: &str) -> Option<SshdLine<'_>> {
    let text = text.trim_end();
    let text = text.strip_suffix(" [preauth]").unwrap_or(text);
    let (named, port) = text.rsplit_once(" port ")?;
    let port = port_number(port)?;
    let (user, ip) = named.rsplit_once(' ').unwrap_or(("", named));
    is_ip(ip).then(|| logoff(user, ip, port))
}

fn logoff<'a>(user: &'a str, ip: &'a str, port: u16) -> SshdLine<'a> {
    SshdLine {
        time: Timestamp::UNIX_EPOCH,
        host: "",
        activity: Activity::Logoff,
        reason: "",
        method: "",
        user,
        ip,
        port,
        repeats: 1,
    }
}

/// Digits only: `+22` is no port.
fn port_number(text: &str) -> Option<u16> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

/// An address as the contract takes it: at most 45 bytes, a zone allowed.
fn is_ip(text: &str) -> bool {
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (text, None),
    };
    match (text.len() <= 45, address.parse::<IpAddr>(), zone) {
        (true, Ok(_), None) => true,
        (true, Ok(IpAddr::V6(_)), Some(zone)) => !zone.is_empty() && !zone.contains(' '),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
