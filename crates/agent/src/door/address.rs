//! Where the server listens, looked up again before every connection.

use std::path::Path;

use crate::options::{Address, Door};

/// A resolved place to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Host name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Whether to speak TLS.
    pub tls: bool,
}

impl Endpoint {
    /// `host:port`, an IPv6 address in brackets.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Finds the door. The error is in words, as it is only ever retried.
pub fn resolve(address: &Address, door: Door) -> Result<Endpoint, String> {
    match address {
        Address::Url(url) => parse(url, door),
        Address::Folder(dir) => parse(&read_folder(dir, door)?, door),
    }
}

fn read_folder(dir: &Path, door: Door) -> Result<String, String> {
    let path = dir.join("addresses.json");
    let text = std::fs::read_to_string(&path)
        .map_err(|_| format!("no server runs on {} (no addresses.json)", dir.display()))?;
    let json: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let name = match door {
        Door::Agents => "agents",
        Door::Events | Door::Track => "public",
    };
    let found = json.get(name).and_then(|value| value.as_str());
    found
        .map(str::to_owned)
        .ok_or_else(|| format!("{} names no {name}", path.display()))
}

fn parse(url: &str, door: Door) -> Result<Endpoint, String> {
    let (tls, rest) = match url.split_once("://") {
        Some(("https", rest)) => (true, rest),
        Some(("http", rest)) => (false, rest),
        Some((scheme, _)) => return Err(format!("unknown scheme {scheme} in {url}")),
        None => (door == Door::Agents, url),
    };
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    let default_port = if tls { 443 } else { 80 };
    let (host, port) = match authority.rsplit_once(':') {
        // A colon inside of brackets is the address's own.
        Some((host, port)) if !port.ends_with(']') => (
            host,
            port.parse().map_err(|_| format!("bad port in {url}"))?,
        ),
        _ => (authority, default_port),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(format!("no host in {url}"));
    }
    // What a server binds to is not where a client can go.
    let host = if host == "0.0.0.0" || host == "::" {
        "localhost"
    } else {
        host
    };
    if door == Door::Agents && !tls {
        return Err("the agents door speaks TLS only: give an https:// address".to_owned());
    }
    Ok(Endpoint {
        host: host.to_owned(),
        port,
        tls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_every_shape() {
        let rows = [
            ("https://h:8443", Door::Agents, "h:8443", true),
            ("https://h/", Door::Agents, "h:443", true),
            ("h:8443", Door::Agents, "h:8443", true),
            ("0.0.0.0:8443", Door::Agents, "localhost:8443", true),
            ("[::]:8443", Door::Agents, "localhost:8443", true),
            ("127.0.0.1:8080", Door::Events, "127.0.0.1:8080", false),
            ("http://h", Door::Events, "h:80", false),
            (
                "https://[2001:db8::7]:1/v1/events",
                Door::Events,
                "[2001:db8::7]:1",
                true,
            ),
            ("http://[::1]", Door::Events, "[::1]:80", false),
        ];
        for (url, door, authority, tls) in rows {
            let got = parse(url, door).unwrap_or_else(|why| panic!("{url}: {why}"));
            assert_eq!(
                (got.authority().as_str(), got.tls),
                (authority, tls),
                "{url}"
            );
        }
        for url in ["ftp://h", "http://", "h:99999", "https://:1"] {
            assert!(parse(url, Door::Events).is_err(), "{url}");
        }
        assert!(parse("http://h", Door::Agents).is_err());
    }

    #[test]
    fn a_folder_is_read_again_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let address = Address::Folder(dir.path().to_owned());
        assert!(
            resolve(&address, Door::Events)
                .unwrap_err()
                .contains("no server runs")
        );
        let text = r#"{"public":"127.0.0.1:1","agents":"0.0.0.0:2","ops":"127.0.0.1:3"}"#;
        std::fs::write(dir.path().join("addresses.json"), text).unwrap();
        assert_eq!(
            resolve(&address, Door::Events).unwrap().authority(),
            "127.0.0.1:1"
        );
        assert_eq!(
            resolve(&address, Door::Agents).unwrap().authority(),
            "localhost:2"
        );
    }
}
