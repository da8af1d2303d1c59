//! Addresses in text: IPv4, or IPv6 with an optional zone.

use std::net::Ipv6Addr;

use crate::limits::ADDRESS_BYTES_MAX;

/// True for an IPv4 or IPv6 address of at most 45 bytes in text. An IPv6 address may carry a
/// zone after `%`, which must not be empty and must be UTF-8; octets of an IPv4 address have
/// no leading zeros.
#[inline(never)]
pub fn address_ok(bytes: &[u8]) -> bool {
    bytes.len() <= ADDRESS_BYTES_MAX && (ipv4_ok(bytes) || ipv6_ok(bytes))
}

/// One in each byte of a word.
const ONES: u128 = u128::MAX / 255;
/// The high bit of each byte of a word.
const HIGH_BITS: u128 = ONES * 0x80;

/// Four octets in decimal, parted by dots: all bytes at once, since where the dots stand
/// differs from address to address and would be guessed wrong.
#[inline]
fn ipv4_ok(bytes: &[u8]) -> bool {
    // "0.0.0.0" to "255.255.255.255".
    if bytes.len() < 7 || bytes.len() > 15 {
        return false;
    }
    let word = little_endian(bytes);
    if word & HIGH_BITS != 0 {
        return false;
    }
    // With every byte under 0x80, no byte's sum carries into the next. A high bit says: not a
    // dot; not a digit. The bytes behind the address are zero, which is neither.
    let not_dots = ((word ^ (ONES * u128::from(b'.'))) + ONES * 0x7f) & HIGH_BITS;
    let digits = word ^ (ONES * u128::from(b'0'));
    let not_digits = (digits + ONES * (0x80 - 10)) & HIGH_BITS;
    let dots = not_dots ^ HIGH_BITS;
    if not_digits != dots | HIGH_BITS << (8 * bytes.len()) {
        return false;
    }
    let dots = bit_per_byte(dots);
    let after_first = dots & dots.wrapping_sub(1);
    let after_second = after_first & after_first.wrapping_sub(1);
    if after_second == 0 || after_second & (after_second - 1) != 0 {
        return false;
    }
    let [first, second, third] =
        [dots, after_first, after_second].map(|dots| dots.trailing_zeros() as usize);
    // Padded, so that four bytes can be read from any place.
    let mut padded = [0; 20];
    padded[..16].copy_from_slice(&digits.to_le_bytes());
    octet_ok(&padded, 0, first)
        & octet_ok(&padded, first + 1, second)
        & octet_ok(&padded, second + 1, third)
        & octet_ok(&padded, third + 1, bytes.len())
}

/// The high bit of each byte, one bit a byte.
#[inline(always)]
fn bit_per_byte(high_bits: u128) -> u32 {
    // The product's top byte gathers the eight bits, each shifted to a place of its own.
    let gather = |word: u64| ((word >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32;
    gather(high_bits as u64) | gather((high_bits >> 64) as u64) << 8
}

/// True if the digits from `start` to `end` are a number of at most 255 without a leading
/// zero.
#[inline(always)]
fn octet_ok(digits: &[u8; 20], start: usize, end: usize) -> bool {
    let length = end.wrapping_sub(start);
    let Some(chunk) = digits.get(start..).and_then(|rest| rest.first_chunk::<4>()) else {
        return false;
    };
    if length.wrapping_sub(1) > 2 {
        return false;
    }
    let beyond = 8 * (3 - length as u32);
    // The ones stand in the third byte, whatever the length; what is behind them is cut off.
    let placed = u32::from_le_bytes(*chunk) << beyond & 0xff_ffff;
    let leading_zero = length > 1 && chunk[0] == 0;
    let value = (placed & 0xff) * 100 + (placed >> 8 & 0xff) * 10 + (placed >> 16);
    !leading_zero & (value < 256)
}

/// Seven to fifteen bytes as a number, the first byte lowest: two loads that overlap.
#[inline(always)]
fn little_endian(bytes: &[u8]) -> u128 {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
        return u128::from(first) | u128::from(last) << (8 * (bytes.len() - 8));
    }
    bytes
        .iter()
        .rev()
        .fold(0, |word, byte| word << 8 | u128::from(*byte))
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
