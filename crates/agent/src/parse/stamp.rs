//! Times as logs write them.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

/// How far ahead of now a year-less stamp may lie before it is taken for last
/// year's: clocks and zones differ by less than a day.
const AHEAD_MAX: SignedDuration = SignedDuration::from_hours(24);

/// Years to look back for a date that exists: 29 February is at most eight
/// years away, over a century that is no leap year.
const YEARS_BACK_MAX: i16 = 8;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Splits a syslog line into its time and the rest after one space.
///
/// The stamp is RFC 3339 (`2024-12-10T06:55:08.5+01:00`) or year-less
/// (`Dec 10 06:55:08`, in `zone`; the latest year that puts it at most a day
/// ahead of `now`). `None` when the line starts with neither.
pub fn split_syslog_stamp<'a>(
    line: &'a str,
    now: Timestamp,
    zone: &TimeZone,
) -> Option<(Timestamp, &'a str)> {
    if line.as_bytes().first()?.is_ascii_digit() {
        let (stamp, rest) = line.split_once(' ')?;
        return Some((stamp.parse().ok()?, rest));
    }
    let stamp = line.get(..15)?;
    let rest = line.get(15..)?.strip_prefix(' ')?;
    Some((yearless(stamp, now, zone)?, rest))
}

/// `Mmm dd hh:mm:ss`, exactly 15 bytes, the day padded by a space or a zero.
fn yearless(stamp: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let bytes = stamp.as_bytes();
    let shape = bytes[3] == b' ' && bytes[6] == b' ' && bytes[9] == b':' && bytes[12] == b':';
    if !shape {
        return None;
    }
    let month = month(stamp.get(..3)?)?;
    let day = match bytes[4] {
        b' ' => digits(&bytes[5..6])?,
        _ => digits(&bytes[4..6])?,
    };
    let time = clock(&bytes[7..9], &bytes[10..12], &bytes[13..15])?;
    let newest = now.checked_add(AHEAD_MAX).ok()?;
    let year_now = zone.to_datetime(newest).year();
    for back in 0..=YEARS_BACK_MAX {
        let Ok(date) = Date::new(year_now - back, month, i8::try_from(day).ok()?) else {
            continue;
        };
        let Ok(zoned) = zone.to_ambiguous_zoned(date.to_datetime(time)).compatible() else {
            continue;
        };
        if zoned.timestamp() <= newest {
            return Some(zoned.timestamp());
        }
    }
    None
}

/// The time of an access log, `17/May/2015:10:05:03 +0000`.
pub fn access_time(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    if bytes.len() != 26 || !text.is_ascii() {
        return None;
    }
    let marks = [
        (2, b'/'),
        (6, b'/'),
        (11, b':'),
        (14, b':'),
        (17, b':'),
        (20, b' '),
    ];
    if marks.iter().any(|(at, mark)| bytes[*at] != *mark) {
        return None;
    }
    let year = i16::try_from(digits(&bytes[7..11])?).ok()?;
    let day = i8::try_from(digits(&bytes[..2])?).ok()?;
    let date = Date::new(year, month(&text[3..6])?, day).ok()?;
    let time = clock(&bytes[12..14], &bytes[15..17], &bytes[18..20])?;
    let minutes = digits(&bytes[22..24])? * 60 + digits(&bytes[24..26])?;
    let seconds = match bytes[21] {
        b'+' => i32::try_from(minutes).ok()? * 60,
        b'-' => -i32::try_from(minutes).ok()? * 60,
        _ => return None,
    };
    let offset = Offset::from_seconds(seconds).ok()?;
    offset.to_timestamp(DateTime::from_parts(date, time)).ok()
}

fn month(name: &str) -> Option<i8> {
    let index = MONTHS.iter().position(|month| *month == name)?;
    i8::try_from(index + 1).ok()
}

/// A leap second is read as the second before it, as clocks that have none do.
fn clock(hour: &[u8], minute: &[u8], second: &[u8]) -> Option<Time> {
    let hour = i8::try_from(digits(hour)?).ok()?;
    let minute = i8::try_from(digits(minute)?).ok()?;
    let second = i8::try_from(digits(second)?).ok()?;
    Time::new(hour, minute, if second == 60 { 59 } else { second }, 0).ok()
}

fn digits(bytes: &[u8]) -> Option<u32> {
    let mut number = 0;
    for byte in bytes {
        if !byte.is_ascii_digit() {
            return None;
        }
        number = number * 10 + u32::from(byte - b'0');
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn syslog(line: &str, now: &str, zone: &TimeZone) -> Option<String> {
        split_syslog_stamp(line, at(now), zone).map(|(time, _)| time.to_string())
    }

    #[test]
    fn a_yearless_stamp_takes_the_latest_year_at_most_a_day_ahead() {
        let utc = TimeZone::UTC;
        let cases = [
            (
                "Dec 10 06:55:08 h",
                "2026-12-10T07:00:00Z",
                "2026-12-10T06:55:08Z",
            ),
            (
                "Dec 10 06:55:08 h",
                "2026-12-09T06:55:08Z",
                "2026-12-10T06:55:08Z",
            ),
            (
                "Dec 10 06:55:09 h",
                "2026-12-09T06:55:08Z",
                "2025-12-10T06:55:09Z",
            ),
            (
                "Dec 31 23:59:59 h",
                "2027-01-01T00:00:01Z",
                "2026-12-31T23:59:59Z",
            ),
            (
                "Jan  1 00:30:00 h",
                "2026-12-31T23:59:00Z",
                "2027-01-01T00:30:00Z",
            ),
            (
                "Feb 29 12:00:00 h",
                "2027-03-01T00:00:00Z",
                "2024-02-29T12:00:00Z",
            ),
            (
                "Feb 29 12:00:00 h",
                "2103-03-01T00:00:00Z",
                "2096-02-29T12:00:00Z",
            ),
            (
                "Jun 30 23:59:60 h",
                "2026-12-01T00:00:00Z",
                "2026-06-30T23:59:59Z",
            ),
        ];
        for (line, now, want) in cases {
            assert_eq!(
                syslog(line, now, &utc).as_deref(),
                Some(want),
                "{line} at {now}"
            );
        }
    }

    #[test]
    fn a_yearless_stamp_is_read_in_the_zone_given() {
        let east = TimeZone::fixed(jiff::tz::offset(2));
        let got = syslog("Dec 10 00:30:00 h", "2026-12-10T12:00:00Z", &east);
        assert_eq!(got.as_deref(), Some("2026-12-09T22:30:00Z"));
    }

    #[test]
    fn rfc_3339_keeps_its_own_zone_and_fraction() {
        let east = TimeZone::fixed(jiff::tz::offset(2));
        let got = syslog(
            "2024-12-10T06:55:08.25-05:00 h",
            "2026-12-10T12:00:00Z",
            &east,
        );
        assert_eq!(got.as_deref(), Some("2024-12-10T11:55:08.25Z"));
    }

    #[test]
    fn what_is_no_stamp_is_none() {
        let bad = [
            "",
            "Dec",
            "Dec 10 06:55:08",
            "Dez 10 06:55:08 h",
            "Dec 32 06:55:08 h",
            "Dec 10 24:55:08 h",
            "Dec 10 06:60:08 h",
            "Dec 10 06:55:61 h",
            "Dec  a 06:55:08 h",
            "2024-12-10 06:55:08 h",
            "2024-13-10T06:55:08Z h",
            "Dec 10 06:55:0ü h",
        ];
        for line in bad {
            assert_eq!(
                syslog(line, "2026-12-10T12:00:00Z", &TimeZone::UTC),
                None,
                "{line}"
            );
        }
    }

    #[test]
    fn access_times_have_their_offset() {
        let cases = [
            ("17/May/2015:10:05:03 +0000", Some("2015-05-17T10:05:03Z")),
            ("17/May/2015:10:05:03 +0530", Some("2015-05-17T04:35:03Z")),
            ("17/May/2015:10:05:03 -0700", Some("2015-05-17T17:05:03Z")),
            ("31/Feb/2015:10:05:03 +0000", None),
            ("17/May/2015:10:05:03 0000", None),
            ("17-May/2015:10:05:03 +0000", None),
        ];
        for (text, want) in cases {
            assert_eq!(
                access_time(text).map(|t| t.to_string()).as_deref(),
                want,
                "{text}"
            );
        }
    }
}
