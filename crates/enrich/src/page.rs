//! The page of an event: `__path` split into origin, path, query and hash.

use std::borrow::Cow;

/// A page's parts, each empty when absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageUrl<'a> {
    /// `scheme://host[:port]` in lower case, without user information and default port.
    pub origin: Cow<'a, str>,
    /// The path as sent, `/` for an absolute URL without one; or a route's name, verbatim.
    pub path: &'a str,
    /// What stands between `?` and `#`, still encoded.
    pub query: &'a str,
    /// The fragment, with its `#`; empty when nothing follows the `#`.
    pub hash: &'a str,
}

impl PageUrl<'_> {
    /// The host of the origin, without port; empty when there is no origin.
    pub fn host(&self) -> &str {
        let authority = self
            .origin
            .split_once("://")
            .map_or("", |(_, authority)| authority);
        split_port(authority).0
    }
}

/// Splits a page as SDKs send it: an absolute URL (`https://a.b/c?d#e`), a path from the root
/// (`/c?d#e`), or else the name of a route, which is kept verbatim as the path.
///
/// Components are split as RFC 3986 appendix B does; nothing is decoded or resolved.
pub fn split_page(page: &str) -> PageUrl<'_> {
    if page.starts_with('/') {
        return split_path(Cow::Borrowed(""), page);
    }
    let Some((scheme, rest)) = page
        .split_once("://")
        .filter(|(scheme, _)| scheme_ok(scheme))
    else {
        return PageUrl {
            path: page,
            ..PageUrl::default()
        };
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let authority = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    if split_port(authority).0.is_empty() {
        return PageUrl {
            path: page,
            ..PageUrl::default()
        };
    }
    split_path(Cow::Owned(origin(scheme, authority)), tail)
}

fn split_path<'a>(origin: Cow<'a, str>, tail: &'a str) -> PageUrl<'a> {
    let (before_hash, hash) = tail.split_at(tail.find('#').unwrap_or(tail.len()));
    let (path, query) = before_hash.split_once('?').unwrap_or((before_hash, ""));
    PageUrl {
        origin,
        path: if path.is_empty() { "/" } else { path },
        query,
        hash: if hash == "#" { "" } else { hash },
    }
}

/// RFC 3986 section 3.1: a letter, then letters, digits, `+`, `-`, `.`.
fn scheme_ok(scheme: &str) -> bool {
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn origin(scheme: &str, authority: &str) -> String {
    let scheme = scheme.to_ascii_lowercase();
    let (host, port) = split_port(authority);
    let port = match (scheme.as_str(), port) {
        (_, "") | ("http", "80") | ("https", "443") => String::new(),
        (_, port) => format!(":{port}"),
    };
    format!("{scheme}://{}{port}", host.to_lowercase())
}

/// Host and port; the colons of an IPv6 address stand inside its brackets.
fn split_port(authority: &str) -> (&str, &str) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (authority, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(page: &str) -> [String; 4] {
        let url = split_page(page);
        [&url.origin, url.path, url.query, url.hash].map(str::to_owned)
    }

    #[test]
    fn an_absolute_url_has_four_parts() {
        assert_eq!(
            parts("https://shop.example.com/a?utm_source=google&utm_campaign=x#h"),
            [
                "https://shop.example.com",
                "/a",
                "utm_source=google&utm_campaign=x",
                "#h"
            ]
        );
        assert_eq!(
            parts("HTTPS://Shop.Example:443"),
            ["https://shop.example", "/", "", ""]
        );
        assert_eq!(
            parts("http://a.b:8080?q#"),
            ["http://a.b:8080", "/", "q", ""]
        );
        assert_eq!(parts("app://host/x"), ["app://host", "/x", "", ""]);
    }

    #[test]
    fn user_information_never_reaches_the_origin() {
        assert_eq!(
            parts("https://me:secret@a.b/c"),
            ["https://a.b", "/c", "", ""]
        );
        // An `@` or `:` behind the authority is the path's.
        assert_eq!(
            parts("https://a.b/c@d:e"),
            ["https://a.b", "/c@d:e", "", ""]
        );
    }

    #[test]
    fn a_path_from_the_root_has_no_origin() {
        assert_eq!(parts("/b?x=1#y?z"), ["", "/b", "x=1", "#y?z"]);
    }

    #[test]
    fn anything_else_is_the_name_of_a_route() {
        for page in [
            "Settings",
            "checkout?step=2#x",
            "",
            "1x://a",
            "https://",
            "https://:80/a",
        ] {
            assert_eq!(parts(page), ["", page, "", ""]);
        }
    }

    #[test]
    fn the_host_has_no_port() {
        assert_eq!(split_page("http://A.b:8080/c").host(), "a.b");
        assert_eq!(
            split_page("http://[2001:DB8::1]:8080/c").host(),
            "[2001:db8::1]"
        );
        assert_eq!(split_page("http://[::1]/").host(), "[::1]");
        assert_eq!(split_page("/c").host(), "");
    }
}
