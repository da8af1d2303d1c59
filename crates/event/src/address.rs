//! Addresses in text: IPv4, or IPv6 with an optional zone.

use std::net::Ipv6Addr;

use crate::limits::ADDRESS_BYTES_MAX;

/// True for an IPv4 or IPv6 address of at most 45 bytes in text. An IPv6 address may carry a
/// zone after `%`, which must not be empty and must be UTF-8; octets of an IPv4 address have
/// no leading zeros.
#[inline]
pub fn address_ok(bytes: &[u8]) -> bool {
    bytes.len() <= ADDRESS_BYTES_MAX && (ipv4_ok(bytes) || ipv6_ok(bytes))
}

/// Four octets in decimal, parted by dots.
#[inline]
fn ipv4_ok(bytes: &[u8]) -> bool {
    // "0.0.0.0" to "255.255.255.255".
    if bytes.len() < 7 || bytes.len() > 15 {
        return false;
    }
    let (mut dots, mut digits, mut octet) = (0, 0, 0u32);
    for byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            // A second digit after a zero is a leading zero.
            if digits == 3 || (digits > 0 && octet == 0) {
                return false;
            }
            octet = octet * 10 + u32::from(digit);
            digits += 1;
        } else if *byte == b'.' && digits > 0 && octet < 256 && dots < 3 {
            dots += 1;
            (digits, octet) = (0, 0);
        } else {
            return false;
        }
    }
    dots == 3 && digits > 0 && octet < 256
}

#[inline(never)]
fn ipv6_ok(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let address = match text.split_once('%') {
        Some((_, "")) => return false,
        Some((address, _zone)) => address,
        None => text,
    };
    address.parse::<Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let good: [&str; 12] = [
            "0.0.0.0",
            "255.255.255.255",
            "10.0.0.1",
            "203.0.113.77",
            "::",
            "::1",
            "2001:db8::1",
            "fe80::1%eth0",
            "::ffff:1.2.3.4",
            "1:2:3:4:5:6:7::",
            "ABCD:EF01:2345:6789:abcd:ef01:2345:6789",
            "fe80::1%ü",
        ];
        for text in good {
            assert!(address_ok(text.as_bytes()), "{text}");
        }
        let bad: [&str; 22] = [
            "",
            "1",
            "1.2.3",
            "1.2.3.4.5",
            "256.1.1.1",
            "1.1.1.256",
            "01.2.3.4",
            "1.2.3.04",
            "1.2.3.",
            ".1.2.3",
            "1..2.3",
            "1.2.3.4%eth0",
            " 1.2.3.4",
            "1.2.3.4 ",
            "1.2.3.1000",
            "::1%",
            "%eth0",
            "1:2:3:4:5:6:7:8::",
            "12345::",
            "::g",
            "localhost",
            "1.2.3.-4",
        ];
        for text in bad {
            assert!(!address_ok(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn at_most_45_bytes() {
        let zone = "z".repeat(45 - "fe80::1%".len());
        assert!(address_ok(format!("fe80::1%{zone}").as_bytes()));
        assert!(!address_ok(format!("fe80::1%{zone}z").as_bytes()));
    }

    #[test]
    fn every_octet_agrees_with_the_standard_library() {
        for octet in 0..1_100 {
            for text in [
                format!("{octet}.1.1.1"),
                format!("1.{octet}.0.1"),
                format!("9.9.9.{octet}"),
            ] {
                let parsed = text.parse::<std::net::Ipv4Addr>().is_ok();
                assert_eq!(address_ok(text.as_bytes()), parsed, "{text}");
            }
        }
    }
}
