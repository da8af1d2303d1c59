//! Rules of a product event: its name, its time, its revenue.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

/// Characters of an event's name.
pub const NAME_CHARS_MAX: usize = 80;

/// Milliseconds that an event's own time may run ahead of its reception.
pub const EVENT_AHEAD_MS_MAX: i64 = 60_000;

/// Milliseconds after which an event counts as late: it makes no live session.
pub const LATE_AFTER_MS: i64 = 15 * 60_000;

/// The largest revenue, in minor units: the largest whole number that every JSON reader keeps.
pub const REVENUE_MAX: u64 = (1 << 53) - 1;

/// Names that only the session fold writes.
const RESERVED: [&str; 2] = ["session_start", "session_end"];

/// Parts that no producer's event name has and that scanners write into every field they find:
/// one group a kind of attack, in lower case, found whatever the case of the name.
const ATTACKS: &[&str] = &[
    // SQL injection
    "union select",
    "union all select",
    "' or '",
    "\" or \"",
    "' or 1",
    "1=1--",
    "'; drop",
    "sleep(",
    "benchmark(",
    "pg_sleep",
    "waitfor delay",
    "xp_cmdshell",
    "information_schema",
    "extractvalue(",
    "updatexml(",
    "dbms_pipe",
    // Paths out of a folder, and files at their end
    "../",
    "..\\",
    "..%2f",
    "%2e%2e",
    "%252e",
    "/etc/passwd",
    "/proc/self",
    "win.ini",
    "boot.ini",
    // Templates and expressions
    "${",
    "%{",
    "{{",
    "<%=",
    "#{",
    // Scripts
    "<script",
    "</script",
    "javascript:",
    "onerror=",
    "onload=",
    "document.cookie",
    // Commands
    "$(",
    "`id`",
    "|id",
    ";id",
    "/bin/sh",
    "/bin/bash",
    "cmd.exe",
    "powershell",
    "wget http",
    "curl http",
    "php://",
    "data://text",
    "expect://",
    "file:///",
    // Hosts that scanners have answers sent to
    "oast.",
    "interact.sh",
    "burpcollaborator",
    "bxss.me",
    "r87.me",
    "dnslog.",
    "ceye.io",
    // Headers and remote names
    "jndi:",
    "%0d%0a",
    "%00",
];

/// Starts of a path that vulnerability scanners ask for.
const SCANNED_STARTS: [&str; 5] = ["/.env", "/.git", "/.aws", "/wp-", "/cgi-bin/"];

/// Ends of a path whose first character is `/`.
const SCANNED_ENDS: [&str; 5] = [".php", ".asp", ".aspx", ".jsp", ".cgi"];

static ATTACK: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let built = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(ATTACKS);
    built.expect("the list is far below what an automaton can hold")
});

/// A rule that an event breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RuleFault {
    /// No name.
    #[error("the name is empty")]
    NameEmpty,
    /// A name over [`NAME_CHARS_MAX`].
    #[error("the name has more than {NAME_CHARS_MAX} characters")]
    NameTooLong,
    /// A control character in the name.
    #[error("the name has a control character")]
    NameControl,
    /// `session_start` or `session_end`.
    #[error("the name is reserved for sessions")]
    NameReserved,
    /// A name that a vulnerability scanner sends.
    #[error("the name looks like a vulnerability scan")]
    NameBlocked,
    /// A revenue that is no whole number of minor units.
    #[error("revenue is a whole number of minor units from 0 to {REVENUE_MAX}")]
    Revenue,
}

impl RuleFault {
    /// A stable machine code.
    pub fn code(self) -> &'static str {
        match self {
            Self::NameEmpty | Self::NameTooLong | Self::NameControl => "invalid_name",
            Self::NameReserved => "reserved_name",
            Self::NameBlocked => "blocked_name",
            Self::Revenue => "invalid_revenue",
        }
    }

    /// The field at fault, as a path in the request's payload.
    pub fn field(self) -> &'static str {
        match self {
            Self::Revenue => "properties.__revenue",
            _ => "name",
        }
    }
}

/// Checks the name of a product event.
pub fn check_name(name: &str) -> Result<(), RuleFault> {
    if name.is_empty() {
        return Err(RuleFault::NameEmpty);
    }
    if name.chars().nth(NAME_CHARS_MAX).is_some() {
        return Err(RuleFault::NameTooLong);
    }
    if name.chars().any(char::is_control) {
        return Err(RuleFault::NameControl);
    }
    if RESERVED.contains(&name) {
        return Err(RuleFault::NameReserved);
    }
    if ATTACK.is_match(name) || path_scan(name) {
        return Err(RuleFault::NameBlocked);
    }
    Ok(())
}

fn path_scan(name: &str) -> bool {
    if !name.starts_with('/') {
        return false;
    }
    let path = name.to_ascii_lowercase();
    SCANNED_STARTS.iter().any(|start| path.starts_with(start))
        || SCANNED_ENDS.iter().any(|end| path.ends_with(end))
}

/// The time of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTime {
    /// Unix milliseconds.
    pub ms: i64,
    /// Older than [`LATE_AFTER_MS`] at its reception.
    pub late: bool,
}

/// The time of an event: the producer's (`claimed_ms`, none when absent or unreadable) unless
/// it runs more than [`EVENT_AHEAD_MS_MAX`] ahead, else its reception. Unix milliseconds; there
/// is no lower bound.
pub fn event_time(claimed_ms: Option<i64>, received_ms: i64) -> EventTime {
    let latest = received_ms.saturating_add(EVENT_AHEAD_MS_MAX);
    let ms = claimed_ms
        .filter(|claimed| *claimed <= latest)
        .unwrap_or(received_ms);
    EventTime {
        ms,
        late: received_ms.saturating_sub(ms) > LATE_AFTER_MS,
    }
}

/// The revenue of an event named `revenue`, in minor units of its currency, from the JSON token
/// of `__revenue`: digits alone, at most [`REVENUE_MAX`].
pub fn revenue(token: &str) -> Result<u64, RuleFault> {
    let digits = token.bytes().all(|byte| byte.is_ascii_digit());
    let value = token
        .parse()
        .ok()
        .filter(|value| digits && *value <= REVENUE_MAX);
    value.ok_or(RuleFault::Revenue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_products_use_pass() {
        for name in [
            "signup",
            "screen_view",
            "revenue",
            "Add to cart",
            "order.created",
            "Сохранить",
            "/pricing",
            "session_started",
            "php",
            "user selects union",
            "50% off",
            "a & b; c",
            "wp-login",
        ] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn length_counts_characters() {
        assert_eq!(check_name(&"é".repeat(80)), Ok(()));
        assert_eq!(check_name(&"é".repeat(81)), Err(RuleFault::NameTooLong));
        assert_eq!(check_name(""), Err(RuleFault::NameEmpty));
    }

    #[test]
    fn control_and_reserved_names_are_told_apart() {
        for name in ["a\rb", "a\nb", "\0", "a\u{7f}"] {
            assert_eq!(check_name(name), Err(RuleFault::NameControl), "{name:?}");
        }
        for name in RESERVED {
            assert_eq!(check_name(name), Err(RuleFault::NameReserved));
        }
    }

    #[test]
    fn scans_are_blocked_whatever_their_case() {
        for name in [
            "1 UNION Select x",
            "../../x",
            "${jndi:ldap://x}",
            "a.oast.fun",
            "<ScRiPt>",
            "/x.PHP",
            "/.env",
            "/.env.local",
            "/WP-admin",
            "/cgi-bin/x",
            "/a/b.jsp",
        ] {
            assert_eq!(check_name(name), Err(RuleFault::NameBlocked), "{name}");
        }
    }

    #[test]
    fn a_time_is_believed_up_to_a_minute_ahead() {
        let at = |claimed| event_time(claimed, 1_000_000_000);
        assert_eq!(
            at(Some(1_000_060_000)),
            EventTime {
                ms: 1_000_060_000,
                late: false
            }
        );
        assert_eq!(
            at(Some(1_000_060_001)),
            EventTime {
                ms: 1_000_000_000,
                late: false
            }
        );
        assert_eq!(
            at(Some(999_100_000)),
            EventTime {
                ms: 999_100_000,
                late: false
            }
        );
        assert_eq!(
            at(Some(999_099_999)),
            EventTime {
                ms: 999_099_999,
                late: true
            }
        );
        assert_eq!(
            at(None),
            EventTime {
                ms: 1_000_000_000,
                late: false
            }
        );
        assert_eq!(
            at(Some(i64::MIN)),
            EventTime {
                ms: i64::MIN,
                late: true
            }
        );
    }

    #[test]
    fn revenue_is_whole_minor_units() {
        assert_eq!(revenue("0"), Ok(0));
        assert_eq!(revenue("1999"), Ok(1_999));
        assert_eq!(revenue("9007199254740991"), Ok(REVENUE_MAX));
        for token in [
            "9007199254740992",
            "-1",
            "+1",
            "1.5",
            "1e3",
            "\"5\"",
            "null",
            "",
            "99999999999999999999",
        ] {
            assert_eq!(revenue(token), Err(RuleFault::Revenue), "{token}");
        }
    }
}
