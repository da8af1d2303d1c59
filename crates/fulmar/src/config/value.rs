//! Typed values of the configuration: sizes such as `8MiB`, durations such as `10s`.

use std::fmt;

/// Units of sizes, longest name first where one is the end of another.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];

/// Units of durations in milliseconds, `ms` before `m` and `s`.
const DURATION_UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// A value of one key.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A plain number.
    Count(u64),
    /// Bytes.
    Size(u64),
    /// Milliseconds.
    Duration(u64),
    /// Text, an address or a path; empty means unset.
    Text(String),
    /// Text that is never shown; empty means unset.
    Secret(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Count(value) => write!(f, "{value}"),
            Self::Size(bytes) => f.write_str(&size_text(*bytes)),
            Self::Duration(ms) => f.write_str(&duration_text(*ms)),
            Self::Text(text) => f.write_str(text),
            Self::Secret(text) if text.is_empty() => Ok(()),
            Self::Secret(_) => f.write_str("(secret)"),
        }
    }
}

/// So that no secret reaches a log by `{:?}`.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Bytes of a size such as `8MiB`, `64KB`, `512B` or `1024`; `None` when it is none.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    for (unit, bytes) in SIZE_UNITS {
        if let Some(number) = text.strip_suffix(unit) {
            return number.trim_end().parse::<u64>().ok()?.checked_mul(bytes);
        }
    }
    text.parse().ok()
}

/// Milliseconds of a duration such as `10s` or `168h5m`; `None` when it is none. A number without
/// a unit is refused: seconds and milliseconds are too easily taken for each other.
pub fn parse_duration_ms(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(0);
    }
    let mut total_ms = 0_u64;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = &rest[..letters];
        let (_, unit_ms) = DURATION_UNITS.iter().find(|(name, _)| *name == unit)?;
        total_ms = total_ms.checked_add(number.checked_mul(*unit_ms)?)?;
        rest = &rest[letters..];
    }
    (!text.trim().is_empty()).then_some(total_ms)
}

/// The shortest exact text of a size, which [`parse_size`] reads back.
pub fn size_text(bytes: u64) -> String {
    let exact = [
        (1_u64 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    for (unit, name) in exact {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    format!("{bytes}B")
}

/// The exact text of a duration in falling units, which [`parse_duration_ms`] reads back.
pub fn duration_text(total_ms: u64) -> String {
    if total_ms == 0 {
        return "0".to_owned();
    }
    // Whole days read better than hours only when nothing else remains.
    if total_ms.is_multiple_of(86_400_000) {
        return format!("{}d", total_ms / 86_400_000);
    }
    let mut text = String::new();
    let mut rest_ms = total_ms;
    for (name, unit_ms) in [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
        if rest_ms >= unit_ms {
            text.push_str(&format!("{}{name}", rest_ms / unit_ms));
            rest_ms %= unit_ms;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_have_units_of_both_kinds() {
        let cases = [
            ("8MiB", Some(8_388_608)),
            ("64 KiB", Some(65_536)),
            ("64KB", Some(64_000)),
            ("512B", Some(512)),
            ("1024", Some(1_024)),
            ("2TiB", Some(2_199_023_255_552)),
            ("", None),
            ("MiB", None),
            ("1.5GiB", None),
            ("8mib", None),
            ("-1B", None),
            ("99999999999TiB", None),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        let cases = [
            ("10s", Some(10_000)),
            ("500ms", Some(500)),
            ("168h5m", Some(605_100_000)),
            ("365d", Some(31_536_000_000)),
            ("0", Some(0)),
            ("10", None),
            ("", None),
            ("s", None),
            ("5 m", None),
            ("1w", None),
            ("-5s", None),
            ("99999999999999999d", None),
        ];
        for (text, ms) in cases {
            assert_eq!(parse_duration_ms(text), ms, "{text}");
        }
    }

    #[test]
    fn a_secret_is_shown_by_no_formatter() {
        let secret = Value::Secret("hunter2".to_owned());
        assert_eq!(format!("{secret} {secret:?}"), "(secret) (secret)");
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(bytes: u64, ms in 0..u64::MAX / 2) {
            prop_assert_eq!(parse_size(&size_text(bytes)), Some(bytes));
            prop_assert_eq!(parse_duration_ms(&duration_text(ms)), Some(ms));
        }
    }
}
