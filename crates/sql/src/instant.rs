//! Dates and times as text: RFC 3339, in UTC, with milliseconds.

use std::io::Write as _;

const SECONDS_PER_DAY: i64 = 86_400;

/// DuckDB's infinite times, in microseconds; printed by name.
const INFINITY_MICROS: i64 = i64::MAX;

/// Writes `2026-01-02T03:04:05.678Z` for milliseconds since 1970.
pub fn write_millis(millis: i64, out: &mut Vec<u8>) {
    let seconds = millis.div_euclid(1000);
    write_date(seconds.div_euclid(SECONDS_PER_DAY), out);
    out.push(b'T');
    let of_day = seconds.rem_euclid(SECONDS_PER_DAY);
    write_clock(of_day, out);
    write!(out, ".{:03}Z", millis.rem_euclid(1000)).expect("writing to memory does not fail");
}

/// Writes microseconds since 1970, cut to milliseconds; infinite ones by name.
pub fn write_micros(micros: i64, out: &mut Vec<u8>) {
    match micros {
        INFINITY_MICROS => out.extend_from_slice(b"infinity"),
        micros if micros == -INFINITY_MICROS => out.extend_from_slice(b"-infinity"),
        micros => write_millis(micros.div_euclid(1000), out),
    }
}

/// Writes `2026-01-02` for days since 1970; years past 9999 and before 0 carry a sign.
pub fn write_date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil_from_days(days);
    let written = match year {
        0..=9999 => write!(out, "{year:04}-{month:02}-{day:02}"),
        _ => write!(out, "{year:+05}-{month:02}-{day:02}"),
    };
    written.expect("writing to memory does not fail");
}

/// Writes `03:04:05` and, when there are any, six digits of microseconds.
pub fn write_time_of_day(micros: i64, out: &mut Vec<u8>) {
    write_clock(micros.div_euclid(1_000_000), out);
    let fraction = micros.rem_euclid(1_000_000);
    if fraction != 0 {
        write!(out, ".{fraction:06}").expect("writing to memory does not fail");
    }
}

/// Writes an ISO 8601 duration such as `P1M2DT3.5S`.
pub fn write_interval(months: i32, days: i32, nanos: i64, out: &mut Vec<u8>) {
    let mut text = String::from("P");
    if months != 0 {
        text.push_str(&format!("{months}M"));
    }
    if days != 0 {
        text.push_str(&format!("{days}D"));
    }
    if nanos != 0 || text.len() == 1 {
        let sign = if nanos < 0 { "-" } else { "" };
        let micros = nanos.unsigned_abs() / 1000;
        let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
        text.push_str(&format!("T{sign}{seconds}"));
        if fraction != 0 {
            text.push_str(format!(".{fraction:06}").trim_end_matches('0'));
        }
        text.push('S');
    }
    out.extend_from_slice(text.as_bytes());
}

fn write_clock(second_of_day: i64, out: &mut Vec<u8>) {
    let (hour, minute) = (second_of_day / 3600, second_of_day / 60 % 60);
    write!(out, "{hour:02}:{minute:02}:{:02}", second_of_day % 60)
        .expect("writing to memory does not fail");
}

/// Proleptic Gregorian date of a day number: eras of 400 years that start on 1 March, so
/// that the leap day is the last of its year.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_are_rfc_3339_with_milliseconds() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (1_700_000_000_678, "2023-11-14T22:13:20.678Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "+10000-01-01T00:00:00.000Z"),
            (-62_167_219_200_001, "-0001-12-31T23:59:59.999Z"),
        ];
        for (millis, expected) in cases {
            assert_eq!(text(|out| write_millis(millis, out)), expected);
        }
    }

    #[test]
    fn microseconds_are_cut_and_infinity_is_named() {
        assert_eq!(
            text(|out| write_micros(-1, out)),
            "1969-12-31T23:59:59.999Z"
        );
        assert_eq!(
            text(|out| write_micros(1_999, out)),
            "1970-01-01T00:00:00.001Z"
        );
        assert_eq!(text(|out| write_micros(i64::MAX, out)), "infinity");
        assert_eq!(text(|out| write_micros(-i64::MAX, out)), "-infinity");
    }

    #[test]
    fn clocks_and_intervals() {
        assert_eq!(
            text(|out| write_time_of_day(3_723_000_000, out)),
            "01:02:03"
        );
        assert_eq!(
            text(|out| write_time_of_day(86_399_000_001, out)),
            "23:59:59.000001"
        );
        assert_eq!(text(|out| write_interval(0, 0, 0, out)), "PT0S");
        assert_eq!(
            text(|out| write_interval(14, 2, 3_500_000_000, out)),
            "P14M2DT3.5S"
        );
        assert_eq!(
            text(|out| write_interval(0, -1, -250_000_000, out)),
            "P-1DT-0.25S"
        );
    }
}
