//! Who sent a request, as its headers and its socket tell.

use std::net::IpAddr;

use fulmar_enrich::{Network, client_address};
use hyper::HeaderMap;
use hyper::header::{ORIGIN, USER_AGENT};

use super::segment::of_basic;

/// Bytes of a header that goes into the record: an SDK's name or version, a request's id.
const NAME_BYTES_MAX: usize = 64;
/// Bytes of a `User-Agent` that are looked at: browsers send 100 to 250, and what is longer is
/// noise that tables would have to read.
const AGENT_BYTES_MAX: usize = 1_024;

/// The headers of a client's id and secret; the second of each is of older SDKs.
const ID_HEADERS: [&str; 2] = ["openpanel-client-id", "mixan-client-id"];
const SECRET_HEADERS: [&str; 2] = ["openpanel-client-secret", "mixan-client-secret"];

/// What headers and socket tell of a request. It outlives the headers, which stand in the
/// connection's read buffer.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) address: IpAddr,
    pub(super) user_agent: String,
    pub(super) origin: Option<String>,
    pub(super) client_id: Option<String>,
    pub(super) client_secret: Option<String>,
    pub(super) sdk_name: String,
    pub(super) sdk_version: String,
    pub(super) request_id: Option<String>,
}

impl Caller {
    pub(super) fn of(headers: &HeaderMap, peer: IpAddr, trusted: &[Network]) -> Self {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let first = |names: [&str; 2]| {
            let found = names.iter().find_map(|name| text(name));
            found.filter(|value| !value.is_empty()).map(str::to_owned)
        };
        let short = |name: &str| {
            let value = text(name).map(str::trim);
            value.filter(|value| (1..=NAME_BYTES_MAX).contains(&value.len()))
        };
        // Segment's SDKs show their write key.
        let (client, secret) = text("authorization")
            .and_then(of_basic)
            .map_or((None, None), |key| (Some(key.client), key.secret));
        Self {
            address: client_address(text, peer, trusted),
            user_agent: agent_text(headers),
            origin: text(ORIGIN.as_str()).map(str::to_owned),
            client_id: first(ID_HEADERS).or(client),
            client_secret: first(SECRET_HEADERS).or(secret),
            sdk_name: short("openpanel-sdk-name").unwrap_or_default().to_owned(),
            sdk_version: short("openpanel-sdk-version")
                .unwrap_or_default()
                .to_owned(),
            request_id: short("request-id").map(str::to_owned),
        }
    }
}

/// The `User-Agent`, cut on a character; bytes that are no text are replaced.
fn agent_text(headers: &HeaderMap) -> String {
    let Some(value) = headers.get(USER_AGENT) else {
        return String::new();
    };
    let bytes = value.as_bytes();
    let bytes = &bytes[..bytes.len().min(AGENT_BYTES_MAX)];
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    fn caller(headers: &[(&'static str, &str)]) -> Caller {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_static(name);
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        Caller::of(&map, "192.0.2.7".parse().unwrap(), &[])
    }

    #[test]
    fn the_legacy_headers_count_where_the_new_ones_are_missing() {
        let old = caller(&[("mixan-client-id", "a"), ("mixan-client-secret", "b")]);
        assert_eq!(old.client_id.as_deref(), Some("a"));
        assert_eq!(old.client_secret.as_deref(), Some("b"));
        let both = caller(&[("mixan-client-id", "a"), ("openpanel-client-id", "c")]);
        assert_eq!(both.client_id.as_deref(), Some("c"));
    }

    #[test]
    fn an_address_comes_from_the_socket_unless_a_proxy_is_trusted() {
        let claimed = caller(&[("openpanel-client-ip", "203.0.113.1")]);
        assert_eq!(claimed.address.to_string(), "192.0.2.7");
    }

    #[test]
    fn long_headers_are_cut_or_left_out() {
        let long = "x".repeat(2_000);
        let seen = caller(&[("user-agent", &long), ("openpanel-sdk-name", &long)]);
        assert_eq!((seen.user_agent.len(), &*seen.sdk_name), (1_024, ""));
    }
}
