//! Access logs in the combined log format.

use std::borrow::Cow;

use jiff::Timestamp;

use super::stamp::access_time;

/// One request as the log has it. A `-` is `None`; a `-` for bytes is 0, as
/// that is what servers mean by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLine<'a> {
    /// The peer: an address or a host name.
    pub remote_addr: &'a str,
    /// The authenticated user.
    pub user: Option<Cow<'a, str>>,
    /// When the request came.
    pub time: Timestamp,
    /// `GET`; none where the request line has no such shape.
    pub method: Option<Cow<'a, str>>,
    /// The target; the whole request line where it has no other shape.
    pub target: Option<Cow<'a, str>>,
    /// `HTTP/1.1`; none for an HTTP/0.9 request.
    pub protocol: Option<Cow<'a, str>>,
    /// The status, 100 to 599 in sane logs.
    pub status: u16,
    /// Bytes of the answer's body.
    pub bytes: u64,
    /// The referrer.
    pub referrer: Option<Cow<'a, str>>,
    /// The user agent.
    pub user_agent: Option<Cow<'a, str>>,
}

/// Reads `ADDR IDENT USER [TIME] "REQUEST" STATUS BYTES "REFERRER" "AGENT"`;
/// further fields behind a blank are let pass. `None` for anything else.
///
/// In quoted fields `\"` and `\\` are taken back; `\xHH` stays as written, as
/// it stands for bytes that need not be text.
pub fn parse(line: &str) -> Option<AccessLine<'_>> {
    let (remote_addr, rest) = line.split_once(' ')?;
    let (_ident, rest) = rest.split_once(' ')?;
    // A user may hold blanks, so that it ends at the bracket.
    let (user, rest) = rest.split_once(" [")?;
    let (time, rest) = rest.split_once("] ")?;
    let (request, rest) = quoted(rest)?;
    let rest = rest.strip_prefix(' ')?;
    let (status, rest) = rest.split_once(' ')?;
    let (bytes, rest) = rest.split_once(' ')?;
    let (referrer, rest) = quoted(rest)?;
    let (user_agent, rest) = quoted(rest.strip_prefix(' ')?)?;
    if remote_addr.is_empty() || !(rest.is_empty() || rest.starts_with(' ')) {
        return None;
    }
    let (method, target, protocol) = split_request(request);
    Some(AccessLine {
        remote_addr,
        user: text(user),
        time: access_time(time)?,
        method,
        target,
        protocol,
        status: status_number(status)?,
        bytes: byte_count(bytes)?,
        referrer: text(referrer),
        user_agent: text(user_agent),
    })
}

/// The inside of a quoted field and what follows its closing quote.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut escaped = false;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some((&inner[..at], &inner[at + 1..])),
            _ => {}
        }
    }
    None
}

type Parts<'a> = (
    Option<Cow<'a, str>>,
    Option<Cow<'a, str>>,
    Option<Cow<'a, str>>,
);

/// `METHOD TARGET PROTOCOL`. What has no method (a TLS hello at a plain port)
/// is all target, so that nothing of the line is lost.
fn split_request(request: &str) -> Parts<'_> {
    let Some((method, rest)) = request.split_once(' ') else {
        return (None, text(request), None);
    };
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if method.is_empty() || !method.bytes().all(token) {
        return (None, text(request), None);
    }
    match rest.rsplit_once(' ') {
        Some((target, protocol)) if protocol.starts_with("HTTP/") => {
            (text(method), text(target), text(protocol))
        }
        _ => (text(method), text(rest), None),
    }
}

fn text(field: &str) -> Option<Cow<'_, str>> {
    if field == "-" || field.is_empty() {
        return None;
    }
    if !field.contains('\\') {
        return Some(Cow::Borrowed(field));
    }
    let mut plain = String::with_capacity(field.len());
    let mut chars = field.chars().peekable();
    while let Some(char) = chars.next() {
        match (char, chars.peek()) {
            ('\\', Some(next @ ('"' | '\\'))) => {
                plain.push(*next);
                chars.next();
            }
            _ => plain.push(char),
        }
    }
    Some(Cow::Owned(plain))
}

fn status_number(text: &str) -> Option<u16> {
    let shape = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    shape.then(|| text.parse().ok()).flatten()
}

fn byte_count(text: &str) -> Option<u64> {
    if text == "-" {
        return Some(0);
    }
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn some(text: &str) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(text))
    }

    #[test]
    fn a_full_line_gives_every_field() {
        let line = "198.18.0.1 - bob [17/May/2015:10:05:03 +0200] \"GET /a?b=c HTTP/1.1\" 200 \
                    203023 \"http://x/\" \"Mozilla/5.0 (X11)\"";
        let want = AccessLine {
            remote_addr: "198.18.0.1",
            user: some("bob"),
            time: "2015-05-17T08:05:03Z".parse().unwrap(),
            method: some("GET"),
            target: some("/a?b=c"),
            protocol: some("HTTP/1.1"),
            status: 200,
            bytes: 203_023,
            referrer: some("http://x/"),
            user_agent: some("Mozilla/5.0 (X11)"),
        };
        assert_eq!(parse(line), Some(want));
    }

    fn with_request(request: &str) -> String {
        format!("::1 - - [17/May/2015:10:05:03 +0000] \"{request}\" 408 - \"-\" \"-\"")
    }

    #[test]
    fn requests_of_every_shape_are_kept() {
        let rows = [
            ("-", None, None, None),
            ("", None, None, None),
            ("GET /", Some("GET"), Some("/"), None),
            ("GET / HTTP/1.0", Some("GET"), Some("/"), Some("HTTP/1.0")),
            (
                "GET /a b HTTP/1.0",
                Some("GET"),
                Some("/a b"),
                Some("HTTP/1.0"),
            ),
            (r"\x16\x03\x01", None, Some(r"\x16\x03\x01"), None),
            (
                r#"GET /\"q\"\\ HTTP/1.1"#,
                Some("GET"),
                Some(r#"/"q"\"#),
                Some("HTTP/1.1"),
            ),
        ];
        for (request, method, target, protocol) in rows {
            let line = with_request(request);
            let got = parse(&line).unwrap_or_else(|| panic!("{request}"));
            assert_eq!(got.method.as_deref(), method, "{request}");
            assert_eq!(got.target.as_deref(), target, "{request}");
            assert_eq!(got.protocol.as_deref(), protocol, "{request}");
            assert_eq!(
                (got.bytes, got.user, got.referrer, got.user_agent),
                (0, None, None, None)
            );
        }
    }

    #[test]
    fn users_with_blanks_and_further_fields_are_let_pass() {
        let line =
            "::1 - a b [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\" 0.1 x";
        assert_eq!(parse(line).unwrap().user.as_deref(), Some("a b"));
    }

    #[test]
    fn bad_lines_are_none() {
        let good = with_request("GET / HTTP/1.1");
        assert!(parse(&good).is_some());
        // Every cut of a good line lacks its last quote.
        for cut in 0..good.len() {
            assert_eq!(parse(&good[..cut]), None, "{cut}");
        }
        for (from, to) in [
            ("408", "4o8"),
            ("408", "4080"),
            ("408 -", "408 x"),
            ("May", "Mai"),
            ("\"-\" \"-\"", "- -"),
            ("+0000]", "+0000"),
            ("\"-\" \"-\"", "\"-\" \"-\"x"),
        ] {
            assert_eq!(parse(&good.replace(from, to)), None, "{to}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC*", request in "\\PC*") {
            let _ = parse(&text);
            let _ = parse(&with_request(&request));
        }

        #[test]
        fn a_rendered_line_gives_its_fields_back(
            user in "[a-z@ü]{1,9}",
            target in "/[^ \\p{C}]{0,30}",
            agent in "[^\\p{C}]{2,30}",
            status in 100u16..600,
            bytes in any::<u64>(),
        ) {
            let escape = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
            let line = format!(
                "203.0.113.9 - {user} [01/Jan/2026:00:00:00 +0000] \"PUT {} HTTP/1.1\" {status} \
                 {bytes} \"-\" \"{}\"", escape(&target), escape(&agent));
            let got = parse(&line).expect("a good line");
            prop_assert_eq!(got.user.as_deref(), Some(user.as_str()));
            prop_assert_eq!(got.target.as_deref(), Some(target.as_str()));
            prop_assert_eq!(got.user_agent.as_deref(), Some(agent.as_str()));
            prop_assert_eq!((got.status, got.bytes), (status, bytes));
        }
    }
}
