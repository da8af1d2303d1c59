//! The client's address: from forwarding headers of a trusted proxy, else the socket's.

use std::net::{IpAddr, SocketAddr};

use crate::network::{Network, is_public};

/// Headers that may name the client, in the order in which they are believed.
pub const FORWARDING_HEADERS: [&str; 13] = [
    "openpanel-client-ip",
    "true-client-ip",
    "x-client-ip",
    "cf-connecting-ip",
    "x-forwarded-for",
    "x-real-ip",
    "fastly-client-ip",
    "x-cluster-client-ip",
    "x-appengine-user-ip",
    "do-connecting-ip",
    "x-nf-client-connection-ip",
    "x-forwarded",
    "forwarded",
];

/// The address of the client behind a request.
///
/// `header` gives the first value of a header by its lower-case name, `peer` is the socket's
/// other end. Headers count only when `peer` lies in one of `trusted` (G1): anyone else could
/// write there what they like. The first header of [`FORWARDING_HEADERS`] with a public
/// address wins; with none the client is `peer`. Of a list the first element is read, so a
/// trusted proxy has to replace what its own client sent.
pub fn client_address<'a>(
    header: impl Fn(&str) -> Option<&'a str>,
    peer: IpAddr,
    trusted: &[Network],
) -> IpAddr {
    let peer = peer.to_canonical();
    if !trusted.iter().any(|network| network.holds(peer)) {
        return peer;
    }
    FORWARDING_HEADERS
        .iter()
        .find_map(|name| {
            let value = header(name)?;
            let first = value.split(',').next()?;
            let text = match *name {
                "forwarded" | "x-forwarded" => forwarded_for(first)?,
                _ => first,
            };
            host_address(text.trim()).filter(|address| is_public(*address))
        })
        .unwrap_or(peer)
}

/// The `for=` of one element of `Forwarded` (RFC 7239 section 4), without quotes.
fn forwarded_for(element: &str) -> Option<&str> {
    element.split(';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("for")
            .then(|| value.trim().trim_matches('"'))
    })
}

/// An address, alone, in brackets, or with a port.
fn host_address(text: &str) -> Option<IpAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    let address = bare
        .parse()
        .or_else(|_| text.parse::<SocketAddr>().map(|socket| socket.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(peer: &str, headers: &[(&str, &'static str)]) -> String {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let header = |name: &str| {
            headers
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| *value)
        };
        client_address(header, peer.parse().unwrap(), &trusted).to_string()
    }

    #[test]
    fn a_stranger_cannot_name_another_address() {
        for name in FORWARDING_HEADERS {
            assert_eq!(
                seen("198.51.100.9", &[(name, "203.0.113.1")]),
                "198.51.100.9"
            );
        }
    }

    #[test]
    fn earlier_headers_win_whatever_their_place_in_the_request() {
        let headers = [
            ("x-real-ip", "203.0.113.2"),
            ("cf-connecting-ip", "203.0.113.1"),
        ];
        assert_eq!(seen("10.0.0.1", &headers), "203.0.113.1");
    }

    #[test]
    fn private_and_broken_values_are_passed_over() {
        let headers = [
            ("true-client-ip", "192.168.1.1"),
            ("x-client-ip", "unknown"),
            ("x-real-ip", "203.0.113.2"),
        ];
        assert_eq!(seen("10.0.0.1", &headers), "203.0.113.2");
        assert_eq!(seen("10.0.0.1", &headers[..2]), "10.0.0.1");
    }

    #[test]
    fn only_the_first_element_of_a_list_counts() {
        assert_eq!(
            seen(
                "10.0.0.1",
                &[("x-forwarded-for", " 203.0.113.3 , 203.0.113.4")]
            ),
            "203.0.113.3"
        );
        assert_eq!(
            seen("10.0.0.1", &[("x-forwarded-for", "10.1.1.1, 203.0.113.4")]),
            "10.0.0.1"
        );
    }

    #[test]
    fn forwarded_is_read_as_its_document_writes_it() {
        // The examples of RFC 7239 section 4, and a port.
        let v6 = r#"For="[2001:db8:cafe::17]:4711""#;
        assert_eq!(seen("10.0.0.1", &[("forwarded", v6)]), "2001:db8:cafe::17");
        let v4 = "for=192.0.2.60;proto=http;by=203.0.113.43";
        assert_eq!(seen("10.0.0.1", &[("forwarded", v4)]), "192.0.2.60");
        assert_eq!(
            seen("10.0.0.1", &[("forwarded", "by=203.0.113.43")]),
            "10.0.0.1"
        );
        assert_eq!(
            seen("10.0.0.1", &[("forwarded", "for=_hidden")]),
            "10.0.0.1"
        );
        assert_eq!(
            seen("10.0.0.1", &[("x-real-ip", "203.0.113.2:8080")]),
            "203.0.113.2"
        );
    }
}
