//! Which addresses deliveries may go to: none that is private, reserved or the machine's own,
//! unless an operator allowed its network.
//!
//! Judged is the address itself, never its spelling: at registration every address of a name, at
//! each new connection the very one that is dialled, so that a name that changes its mind gains
//! nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use fulmar_enrich::Network;
use url::{Host, Url};

/// Networks that are refused, each with the rule that an error names (IANA's special-purpose
/// registries; 168.63.129.16 is Azure's host). Those that hold an IPv4 address are judged by it.
const REFUSED: [(&str, &str); 29] = [
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "carrier-grade NAT"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("192.88.99.0/24", "6to4 relay"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("168.63.129.16/32", "a cloud's host"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::/96", "IPv4-compatible"),
    ("64:ff9b:1::/48", "local NAT64"),
    ("2001::/23", "protocol assignments"),
    ("2001:db8::/32", "documentation"),
    ("3fff::/20", "documentation"),
    ("5f00::/16", "segment routing"),
    ("100::/64", "discard"),
    ("fc00::/7", "unique local"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
];

/// Names that are the machine's own or its network's, whatever they resolve to.
const REFUSED_NAMES: [&str; 3] = ["localhost", "internal", "local"];

/// Ports above 1023 of services that speak no HTTP and act on what they are sent.
const REFUSED_PORTS: [u16; 12] = [
    1433, 2049, 2379, 3306, 3389, 5432, 5672, 6000, 6379, 9042, 11211, 27017,
];

/// The table as networks: they are the same for every connection.
static REFUSED_NETWORKS: LazyLock<Vec<Network>> = LazyLock::new(|| {
    let networks = REFUSED.iter().map(|(network, _)| network.parse());
    networks
        .map(|one| one.expect("the table is of networks"))
        .collect()
});

/// Why a receiver is refused. The words name the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The address lies in a refused network.
    #[error("{address} is refused: {network} is {rule}; webhooks.allowed_networks opens it")]
    Address {
        /// The address.
        address: IpAddr,
        /// The network that it lies in.
        network: &'static str,
        /// What that is.
        rule: &'static str,
    },
    /// The name is the machine's own or its network's.
    #[error(
        "the host `{0}` is refused: such names are local; webhooks.allowed_networks opens what they resolve to"
    )]
    Name(String),
    /// The port is not for HTTP.
    #[error(
        "port {0} is refused: below 1024 only 80 and 443 are taken, above it none of a known service; webhooks.allowed_ports opens it"
    )]
    Port(u16),
    /// The URL is none that can be delivered to.
    #[error("{0}")]
    Url(&'static str),
}

/// What is refused and what an operator opened.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    allowed: Vec<Network>,
    allowed_ports: Vec<u16>,
}

impl Guard {
    /// A guard that lets these networks and ports through.
    #[must_use]
    pub fn new(allowed: Vec<Network>, allowed_ports: Vec<u16>) -> Self {
        Self {
            allowed,
            allowed_ports,
        }
    }

    /// One that lets every address through, and these ports too: for commands, where who types them
    /// says what is sent to.
    #[must_use]
    pub fn open(allowed_ports: Vec<u16>) -> Self {
        let everywhere = ["0.0.0.0/0", "::/0"].map(|net| net.parse().expect("a network"));
        Self::new(everywhere.into(), allowed_ports)
    }

    /// Judges one address, as it would be dialled.
    ///
    /// # Errors
    /// [`Refused::Address`].
    pub fn judge(&self, address: IpAddr) -> Result<(), Refused> {
        if self.allowed.iter().any(|network| network.holds(address)) {
            return Ok(());
        }
        if let IpAddr::V6(v6) = address
            && let Some(inner) = embedded(v6)
        {
            // Whoever writes one of these means, and reaches, its inner one.
            return self.judge(IpAddr::V4(inner));
        }
        let found = REFUSED_NETWORKS.iter().position(|one| one.holds(address));
        if let Some((network, rule)) = found.map(|place| REFUSED[place]) {
            return Err(Refused::Address {
                address,
                network,
                rule,
            });
        }
        Ok(())
    }

    /// Judges a URL as far as it can be without resolving its name, and gives it parsed.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn judge_url(&self, text: &str) -> Result<Url, Refused> {
        let url = Url::parse(text).map_err(|_| Refused::Url("is not an absolute URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused::Url("takes the schemes http and https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::Url(
                "takes no user name or password: use secret_headers",
            ));
        }
        if url.fragment().is_some() {
            return Err(Refused::Url("takes no fragment: it is never sent"));
        }
        let port = url.port_or_known_default().unwrap_or(0);
        let usual = matches!(port, 80 | 443) || port >= 1024 && !REFUSED_PORTS.contains(&port);
        if port == 0 || !(usual || self.allowed_ports.contains(&port)) {
            return Err(Refused::Port(port));
        }
        match url.host() {
            None => Err(Refused::Url("has no host")),
            Some(Host::Ipv4(v4)) => self.judge(IpAddr::V4(v4)).map(|()| url),
            Some(Host::Ipv6(v6)) => self.judge(IpAddr::V6(v6)).map(|()| url),
            Some(Host::Domain(name)) => self.judge_name(name).map(|()| url),
        }
    }

    fn judge_name(&self, name: &str) -> Result<(), Refused> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let last = name.rsplit('.').next().unwrap_or_default();
        // Where private networks are open, what such a name resolves to is judged like any other.
        match REFUSED_NAMES.contains(&last) && self.allowed.is_empty() {
            true => Err(Refused::Name(name)),
            false => Ok(()),
        }
    }
}

/// The IPv4 address that an IPv6 one stands for: mapped, NAT64 or 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    if let Some(v4) = address.to_ipv4_mapped() {
        return Some(v4);
    }
    let words = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match words {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(of(high, low)),
        [0x2002, high, low, ..] => Some(of(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> bool {
        Guard::default().judge(text.parse().unwrap()).is_err()
    }

    #[test]
    fn the_first_and_the_last_address_of_every_network_are_refused() {
        let embedding = ["::ffff:0:0/96", "64:ff9b::/96", "2002::/16"];
        for text in REFUSED.map(|(text, _)| text).into_iter().chain(embedding) {
            let (first, bits) = text.split_once('/').unwrap();
            let (first, width) = match first.parse().unwrap() {
                IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
                IpAddr::V6(v6) => (v6.to_bits(), 128),
            };
            let size = width - bits.parse::<u32>().unwrap();
            let last = first | ((1_u128 << size) - 1);
            for number in [first, last] {
                let address = match width {
                    32 => IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(number).unwrap())),
                    _ => IpAddr::V6(Ipv6Addr::from_bits(number)),
                };
                // Those that hold an IPv4 address are as good as it is.
                let holds_public = matches!(address, IpAddr::V6(v6)
                    if embedded(v6).is_some_and(|v4| Guard::default().judge(v4.into()).is_ok()));
                assert!(
                    holds_public || Guard::default().judge(address).is_err(),
                    "{address}"
                );
            }
        }
    }

    #[test]
    fn public_addresses_are_let_through_and_their_neighbours_are_not() {
        for text in [
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "172.32.0.0",
            "1.1.1.1",
            "169.253.255.255",
            "192.0.1.0",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
        ] {
            assert!(!refused(text), "{text}");
        }
        for text in [
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "fe80::1",
            "fd00::1",
            "::",
            "::1",
            "::7f00:1",
            "168.63.129.16",
            "255.255.255.255",
        ] {
            assert!(refused(text), "{text}");
        }
        assert!(!refused("::ffff:1.1.1.1") && !refused("2002:101:101::1"));
    }

    #[test]
    fn odd_spellings_of_an_address_are_that_address() {
        for host in [
            "127.1",
            "0x7f.1",
            "2130706433",
            "017700000001",
            "0",
            "[::ffff:7f00:1]",
            "127.0.0.1.",
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "metadata.google.internal",
            "printer.local",
            "１２７.0.0.1",
            "[::]",
        ] {
            let url = format!("http://{host}/");
            assert!(Guard::default().judge_url(&url).is_err(), "{url}");
        }
        assert!(
            Guard::default()
                .judge_url("https://example.com/hook?x=1")
                .is_ok()
        );
    }

    #[test]
    fn ports_and_parts_that_no_webhook_has_are_refused() {
        let guard = Guard::default();
        for url in [
            "ftp://example.com/",
            "https://a:b@example.com/",
            "https://example.com/#x",
            "/hook",
            "https://",
            "http://example.com:22/",
            "http://example.com:0/",
            "http://example.com:6379/",
            "http://example.com:1023/",
        ] {
            assert!(guard.judge_url(url).is_err(), "{url}");
        }
        for url in ["http://example.com:8080/", "https://example.com:1024/"] {
            assert!(guard.judge_url(url).is_ok(), "{url}");
        }
        let open = Guard::new(Vec::new(), vec![22]);
        assert!(open.judge_url("http://example.com:22/").is_ok());
    }

    #[test]
    fn an_operator_opens_a_network_and_nothing_beside_it() {
        let guard = Guard::new(vec!["127.0.0.1/32".parse().unwrap()], Vec::new());
        assert!(guard.judge("127.0.0.1".parse().unwrap()).is_ok());
        assert!(guard.judge("::ffff:127.0.0.1".parse().unwrap()).is_ok());
        for text in ["127.0.0.2", "10.0.0.1", "::1"] {
            assert!(guard.judge(text.parse().unwrap()).is_err(), "{text}");
        }
        assert!(guard.judge_url("http://localhost:9000/").is_ok());
        for text in ["10.0.0.0/33", "x/8", "10.0.0.0/", ""] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
