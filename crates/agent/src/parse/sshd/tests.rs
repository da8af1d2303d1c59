use super::*;
use proptest::prelude::*;

const NOW: &str = "2026-12-10T12:00:00Z";

fn parser() -> SshdParser {
    SshdParser::new(TimeZone::UTC)
}

fn line(message: &str) -> String {
    format!("Dec 10 06:55:08 web-01 sshd[42]: {message}")
}

/// (message, logon success or logoff, reason, method, user, ip, port, repeats)
type Row = (
    &'static str,
    Option<bool>,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    u16,
    u32,
);

#[test]
fn each_kind_of_line_gives_its_fields() {
    let ok = Some(true);
    let no = Some(false);
    let wrong = "invalid_credentials";
    let unknown = "invalid_user";
    let rows: &[Row] = &[
        (
            "Accepted password for bob from 203.0.113.7 port 50022 ssh2",
            ok,
            "",
            "password",
            "bob",
            "203.0.113.7",
            50022,
            1,
        ),
        (
            "Accepted publickey for git from 2001:db8::7 port 1 ssh2: ED25519 SHA256:abc",
            ok,
            "",
            "publickey",
            "git",
            "2001:db8::7",
            1,
            1,
        ),
        (
            "Accepted keyboard-interactive/pam for a.b from fe80::1%eth0 port 65535 ssh2",
            ok,
            "",
            "keyboard-interactive/pam",
            "a.b",
            "fe80::1%eth0",
            65535,
            1,
        ),
        (
            "Failed password for root from 203.0.113.7 port 22 ssh2",
            no,
            wrong,
            "password",
            "root",
            "203.0.113.7",
            22,
            1,
        ),
        (
            "Failed none for invalid user admin from 203.0.113.7 port 22 ssh2",
            no,
            unknown,
            "none",
            "admin",
            "203.0.113.7",
            22,
            1,
        ),
        (
            "Failed password for invalid user a b from 203.0.113.7 port 22 ssh2",
            no,
            unknown,
            "password",
            "a b",
            "203.0.113.7",
            22,
            1,
        ),
        (
            "Failed password for invalid user from from 203.0.113.7 port 22 ssh2",
            no,
            unknown,
            "password",
            "from",
            "203.0.113.7",
            22,
            1,
        ),
        (
            "Failed password for invalid user  from 203.0.113.7 port 22 ssh2",
            no,
            unknown,
            "password",
            "",
            "203.0.113.7",
            22,
            1,
        ),
        (
            "Failed password for invalid user from 203.0.113.7 port 22 ssh2",
            no,
            unknown,
            "password",
            "",
            "203.0.113.7",
            22,
            1,
        ),
        (
            "Failed password for  from 203.0.113.7 port 22 ssh2",
            no,
            wrong,
            "password",
            "",
            "203.0.113.7",
            22,
            1,
        ),
        (
            "Failed password for invalid user süß from 203.0.113.7 port 22 ssh2",
            no,
            unknown,
            "password",
            "süß",
            "203.0.113.7",
            22,
            1,
        ),
        // A name typed to look like the end of a line does not move the peer.
        (
            "Failed none for invalid user x from ::6 port 1 ssh2 from 203.0.113.7 port 22 ssh2",
            no,
            unknown,
            "none",
            "x from ::6 port 1 ssh2",
            "203.0.113.7",
            22,
            1,
        ),
        (
            "Failed none for invalid user x from ::6 port 1 ssh2: y from 203.0.113.7 port 22 ssh2",
            no,
            unknown,
            "none",
            "x from ::6 port 1 ssh2: y",
            "203.0.113.7",
            22,
            1,
        ),
        (
            "message repeated 3 times: [ Failed password for root from 203.0.113.7 port 22 ssh2]",
            no,
            wrong,
            "password",
            "root",
            "203.0.113.7",
            22,
            3,
        ),
        (
            "message repeated 10000 times: [ Failed none for root from 203.0.113.7 port 22 ssh2]",
            no,
            wrong,
            "none",
            "root",
            "203.0.113.7",
            22,
            10_000,
        ),
        (
            "Disconnected from user bob 203.0.113.7 port 22",
            None,
            "",
            "",
            "bob",
            "203.0.113.7",
            22,
            1,
        ),
        (
            "Disconnected from user a b 2001:db8::7 port 22",
            None,
            "",
            "",
            "a b",
            "2001:db8::7",
            22,
            1,
        ),
        (
            "Disconnected from user  203.0.113.7 port 22",
            None,
            "",
            "",
            "",
            "203.0.113.7",
            22,
            1,
        ),
        (
            "pam_unix(sshd:session): session closed for user bob",
            None,
            "",
            "",
            "bob",
            "",
            0,
            1,
        ),
    ];
    for (message, logon, reason, method, user, ip, port, repeats) in rows {
        let text = line(message);
        let got = parser()
            .parse(&text, NOW.parse().unwrap())
            .unwrap_or_else(|| panic!("{message}"));
        let activity = match logon {
            Some(success) => Activity::Logon { success: *success },
            None => Activity::Logoff,
        };
        let want = SshdLine {
            time: "2026-12-10T06:55:08Z".parse().unwrap(),
            host: "web-01",
            activity,
            reason,
            method,
            user,
            ip,
            port: *port,
            repeats: *repeats,
        };
        assert_eq!(got, want, "{message}");
    }
}

#[test]
fn lines_that_are_none_are_none() {
    let messages = [
        "",
        "Invalid user admin from 203.0.113.7 port 22",
        "Connection closed by invalid user admin 203.0.113.7 port 22 [preauth]",
        "Received disconnect from 203.0.113.7 port 22:11: Bye Bye [preauth]",
        "Disconnected from 203.0.113.7 port 22",
        "Disconnected from invalid user admin 203.0.113.7 port 22 [preauth]",
        "Disconnected from authenticating user root 203.0.113.7 port 22 [preauth]",
        "Postponed publickey for bob from 203.0.113.7 port 22 ssh2",
        "Partial publickey for bob from 203.0.113.7 port 22 ssh2",
        "pam_unix(sshd:session): session opened for user bob(uid=1000) by (uid=0)",
        "pam_unix(sshd:auth): authentication failure; logname= uid=0",
        "Failed password for root from 203.0.113.7 port 99999 ssh2",
        "Failed password for root from 203.0.113.7 port +2 ssh2",
        "Failed password for root from 203.0.113.7 ssh2",
        "Failed password for root from nowhere port 22 ssh2",
        "Failed password for root from 203.0.113.7 port 22 ssh1",
        "message repeated 0 times: [ Failed password for root from 203.0.113.7 port 22 ssh2]",
        "message repeated 10001 times: [ Failed password for root from 203.0.113.7 port 22 ssh2]",
        "message repeated x times: [ Failed password for root from 203.0.113.7 port 22 ssh2]",
        "message repeated 2 times: [ Received disconnect from 203.0.113.7 port 22:11: Bye]",
    ];
    for message in messages {
        let text = line(message);
        assert_eq!(
            parser().parse(&text, NOW.parse().unwrap()),
            None,
            "{message}"
        );
    }
    let good = "Failed password for root from 203.0.113.7 port 22 ssh2";
    for program in [
        "sudo[1]",
        "sshd-auth[1]",
        "sshdx",
        "sshd[x]",
        "sshd[]",
        "xsshd[1]",
    ] {
        let text = format!("Dec 10 06:55:08 web-01 {program}: {good}");
        assert_eq!(
            parser().parse(&text, NOW.parse().unwrap()),
            None,
            "{program}"
        );
    }
    for program in ["sshd[1]", "sshd", "sshd-session[77]"] {
        let text = format!("2026-12-10T06:55:08Z web-01 {program}: {good}");
        assert!(
            parser().parse(&text, NOW.parse().unwrap()).is_some(),
            "{program}"
        );
    }
}

/// Each line with whether it counts, in one run of the parser.
#[test]
fn a_closed_session_counts_only_without_a_disconnect_just_before() {
    let gone = "Disconnected from user bob 203.0.113.7 port 22";
    let closed = "pam_unix(sshd:session): session closed for user bob";
    let steps = [
        ("06:55:01", closed, true),
        ("06:55:10", gone, true),
        ("06:55:10", closed, false),
        ("06:55:12", closed, false),
        ("06:55:13", closed, true),
        ("06:55:20", gone, true),
        // Before it in time, and another user's.
        ("06:55:19", closed, true),
        (
            "06:55:21",
            "pam_unix(sshd:session): session closed for user rob",
            true,
        ),
    ];
    let mut parser = parser();
    for (time, message, counts) in steps {
        let text = format!("Dec 10 {time} web-01 sshd[42]: {message}");
        let got = parser.parse(&text, NOW.parse().unwrap());
        assert_eq!(got.is_some(), counts, "{time} {message}");
    }
}

#[test]
fn remembered_logoffs_are_bounded() {
    let mut parser = parser();
    for user in 0..LOGOFFS_REMEMBERED_MAX + 10 {
        let text = line(&format!(
            "Disconnected from user u{user} 203.0.113.7 port 22"
        ));
        assert!(parser.parse(&text, NOW.parse().unwrap()).is_some());
    }
    assert_eq!(parser.logoffs.len(), LOGOFFS_REMEMBERED_MAX);
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(text in "\\PC*") {
        let _ = parser().parse(&text, NOW.parse().unwrap());
        let _ = parser().parse(&line(&text), NOW.parse().unwrap());
    }

    #[test]
    fn any_cut_of_a_good_line_is_read_without_a_panic(cut in 0usize..200) {
        let text = line("message repeated 3 times: [ Failed password for süß from ::1 port 22 ssh2]");
        let cut = text.floor_char_boundary(cut);
        let _ = parser().parse(&text[..cut], NOW.parse().unwrap());
    }

    #[test]
    fn a_rendered_line_gives_its_fields_back(
        user in "[^\\p{C}\\p{Zl}\\p{Zp}]{0,40}",
        pieces in proptest::collection::vec(
            prop_oneof![Just(" from "), Just(" port 22"), Just(" ssh2"), Just(": "), Just("a")],
            0..5,
        ),
        ip in any::<std::net::Ipv6Addr>(),
        port in any::<u16>(),
        accepted in any::<bool>(),
    ) {
        let user = format!("{user}{}", pieces.concat());
        prop_assume!(!user.starts_with("invalid user"));
        let (word, invalid) = if accepted { ("Accepted", "") } else { ("Failed", "invalid user ") };
        let text = line(&format!("{word} password for {invalid}{user} from {ip} port {port} ssh2"));
        let ip = ip.to_string();
        let mut parser = parser();
        let got = parser.parse(&text, NOW.parse().unwrap()).expect("a good line");
        prop_assert_eq!(got.user, user.as_str());
        prop_assert_eq!(got.ip, ip.as_str());
        prop_assert_eq!(got.port, port);
        prop_assert_eq!(got.activity, Activity::Logon { success: accepted });
    }
}
