//! Networks in CIDR notation, and which addresses the public internet routes.

use std::net::IpAddr;
use std::str::FromStr;

/// A network: an address and the bits of it that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// Why a text is no network.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a network: {rule}")]
pub struct NetworkError {
    text: String,
    rule: &'static str,
}

impl FromStr for Network {
    type Err = NetworkError;

    /// Reads `10.0.0.0/8`, `2001:db8::/32`, or an address alone, which is itself only.
    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let fault = |rule| NetworkError {
            text: text.to_owned(),
            rule,
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address
            .parse()
            .map_err(|_| fault("an IPv4 or IPv6 address is expected"))?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => bits_max,
            Some(bits) => bits
                .parse()
                .ok()
                .filter(|bits| *bits <= bits_max)
                .ok_or_else(|| fault("the prefix is a number of bits of the address"))?,
        };
        Ok(Self { address, bits })
    }
}

impl Network {
    /// Whether `address` lies in this network. An IPv4 address written as IPv6
    /// (`::ffff:a.b.c.d`, as a dual-stack socket shows it) counts as IPv4.
    pub fn holds(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let differing = ours.to_bits() ^ theirs.to_bits();
                differing.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let differing = ours.to_bits() ^ theirs.to_bits();
                differing.leading_zeros() >= u32::from(self.bits)
            }
            _ => false,
        }
    }
}

/// Whether a client on the internet can have this address: not unspecified, loopback,
/// private (RFC 1918, RFC 4193), link-local, multicast or broadcast.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            !(v4.is_unspecified()
                || v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast())
        }
        IpAddr::V6(v6) => {
            !(v6.is_unspecified()
                || v6.is_loopback()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
                || v6.is_multicast())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(network: &str, address: &str) -> bool {
        let network: Network = network.parse().unwrap();
        network.holds(address.parse().unwrap())
    }

    #[test]
    fn a_prefix_ends_at_its_bit() {
        assert!(holds("10.1.0.0/16", "10.1.255.255"));
        assert!(!holds("10.1.0.0/16", "10.2.0.0"));
        assert!(holds("2001:db8::/33", "2001:db8:7fff::1"));
        assert!(!holds("2001:db8::/33", "2001:db8:8000::1"));
        assert!(holds("192.0.2.1", "192.0.2.1"));
        assert!(!holds("192.0.2.1", "192.0.2.2"));
        assert!(holds("0.0.0.0/0", "203.0.113.9"));
        assert!(!holds("0.0.0.0/0", "2001:db8::1"));
    }

    #[test]
    fn a_mapped_address_is_its_ipv4_one() {
        assert!(holds("10.0.0.0/8", "::ffff:10.2.3.4"));
        assert!(!is_public("::ffff:127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn a_bad_network_is_named_with_its_rule() {
        for text in [
            "10.0.0.0/33",
            "10.0.0/8",
            "::/129",
            "1.2.3.4/",
            "1.2.3.4/-1",
            "",
        ] {
            let error = text.parse::<Network>().unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("`{text}` is not a network: "))
            );
        }
    }

    #[test]
    fn private_ranges_end_where_their_documents_say() {
        for address in [
            "0.0.0.0",
            "127.0.0.1",
            "10.255.255.255",
            "172.16.0.0",
            "172.31.255.255",
            "192.168.0.1",
            "169.254.1.1",
            "::",
            "::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "11.0.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.169.0.1",
            "2a00::1",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }
}
