//! RFC 3339 times, strictly: what the JSON doors take as `time`.

use fulmar_event::Timestamp;

/// Seconds of a day.
pub(crate) const DAY_SECONDS: i64 = 86_400;

/// Reads `2026-11-30T21:04:05.123456789Z` or with `+hh:mm`. Finer digits than
/// nanoseconds are cut off; a leap second is the first of the next minute.
pub(crate) fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    // The shortest is 20 bytes; 64 leaves room for more digits than mean
    // anything.
    if bytes.len() < 20 || bytes.len() > 64 {
        return None;
    }
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if separators.iter().any(|(at, byte)| bytes[*at] != *byte) || !matches!(bytes[10], b'T' | b't')
    {
        return None;
    }
    let (year, month, day) = (
        number(&bytes[0..4])?,
        number(&bytes[5..7])?,
        number(&bytes[8..10])?,
    );
    let (hour, minute, second) = (
        number(&bytes[11..13])?,
        number(&bytes[14..16])?,
        number(&bytes[17..19])?,
    );
    let in_range = (1..=12).contains(&month)
        && (1..=days_of_month(year, month)).contains(&day)
        && hour <= 23
        && minute <= 59
        && second <= 60;
    if !in_range {
        return None;
    }
    let (nanos, zone) = fraction(&bytes[19..])?;
    let offset_seconds = offset(zone)?;
    let days = days_from_civil(year, month, day);
    let of_day = hour * 3_600 + minute * 60 + second;
    let seconds = days * DAY_SECONDS + of_day - offset_seconds;
    let time = Timestamp {
        seconds,
        nanos: if second == 60 { 0 } else { nanos },
    };
    time.is_valid().then_some(time)
}

fn number(digits: &[u8]) -> Option<i64> {
    let mut value = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(digit - b'0');
    }
    Some(value)
}

/// The nanoseconds of `.digits`, if there, and what follows.
fn fraction(rest: &[u8]) -> Option<(u32, &[u8])> {
    let Some((b'.', digits)) = rest.split_first() else {
        return Some((0, rest));
    };
    let count = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if count == 0 {
        return None;
    }
    let mut nanos = 0;
    for place in 0..9 {
        let digit = digits[..count]
            .get(place)
            .map_or(0, |digit| u32::from(digit - b'0'));
        nanos = nanos * 10 + digit;
    }
    Some((nanos, &digits[count..]))
}

fn offset(zone: &[u8]) -> Option<i64> {
    match zone {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let seconds = hours * 3_600 + minutes * 60;
            Some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

fn days_of_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since the epoch of a date of the proleptic Gregorian calendar: counted
/// from the first of March, so that the leap day is the last of its year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let year = if month > 2 { year } else { year - 1 };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(text: &str) -> Option<i64> {
        parse_rfc3339(text).map(|time| time.seconds)
    }

    #[test]
    fn known_times() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2000-02-29T12:00:00Z"), Some(951_825_600));
        assert_eq!(seconds("2026-11-30T21:56:06Z"), Some(1_796_075_766));
        assert_eq!(seconds("2026-11-30t23:56:06+02:00"), Some(1_796_075_766));
        assert_eq!(seconds("1969-12-31T23:59:59z"), Some(-1));
        assert_eq!(
            seconds("2016-12-31T23:59:60Z"),
            seconds("2017-01-01T00:00:00Z")
        );
        let nanos = |text| parse_rfc3339(text).unwrap().nanos;
        assert_eq!(nanos("2026-11-30T21:56:06.5Z"), 500_000_000);
        assert_eq!(nanos("2026-11-30T21:56:06.1234567899-01:30"), 123_456_789);
    }

    #[test]
    fn what_is_no_such_time() {
        for text in [
            "",
            "now",
            "2026-11-30",
            "2026-11-30T21:56:06",
            "2026-11-30 21:56:06Z",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-11-31T00:00:00Z",
            "2026-11-30T24:00:00Z",
            "2026-11-30T21:60:00Z",
            "2026-11-30T21:56:61Z",
            "2026-11-30T21:56:06.Z",
            "2026-11-30T21:56:06+2:00",
            "2026-11-30T21:56:06+24:00",
            "2026-11-30T21:56:06Z ",
            "+026-11-30T21:56:06Z",
            "1796075766",
            "0000-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_jiff(millis in -62_000_000_000_000_i64..253_000_000_000_000) {
            let text = jiff::Timestamp::from_millisecond(millis).unwrap().to_string();
            prop_assert_eq!(parse_rfc3339(&text).map(Timestamp::as_millis), Some(millis));
        }
    }
}
