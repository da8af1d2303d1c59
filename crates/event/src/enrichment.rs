//! What a door looked up for a record: place, program, signs of a bot.

use crate::encode;
use crate::wire::{Cursor, Malformed, block_key, varint_key};

/// What a door looked up, by the tables of its day (F3). Absent text is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Enrichment<'a> {
    /// ISO 3166 code of two letters.
    pub country: &'a str,
    /// Region, in English.
    pub region: &'a str,
    /// City, in English.
    pub city: &'a str,
    /// Latitude and longitude in millionths of a degree.
    pub place_micros: Option<(i32, i32)>,
    /// Operating system.
    pub os: &'a str,
    /// Its version.
    pub os_version: &'a str,
    /// Browser.
    pub browser: &'a str,
    /// Its version.
    pub browser_version: &'a str,
    /// Kind of device: `desktop`, `mobile`, `tablet`, `server` and others.
    pub device: &'a str,
    /// Who makes it.
    pub brand: &'a str,
    /// What they call it.
    pub model: &'a str,
    /// Why the request looks like a bot's, separated by commas; empty if it does not.
    pub bot_reasons: &'a str,
}

/// Bias that makes every coordinate a positive number, so that it takes at most five bytes.
const PLACE_BIAS_MICROS: i64 = 180_000_000;

impl<'a> Enrichment<'a> {
    /// Reads the bytes of `Event.enrichment`.
    ///
    /// # Errors
    /// [`Malformed`] if they are not that message.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        const COUNTRY: u32 = block_key(1);
        const REGION: u32 = block_key(2);
        const CITY: u32 = block_key(3);
        const LATITUDE: u32 = varint_key(4);
        const LONGITUDE: u32 = varint_key(5);
        const OS: u32 = block_key(6);
        const OS_VERSION: u32 = block_key(7);
        const BROWSER: u32 = block_key(8);
        const BROWSER_VERSION: u32 = block_key(9);
        const DEVICE: u32 = block_key(10);
        const BRAND: u32 = block_key(11);
        const MODEL: u32 = block_key(12);
        const BOT_REASONS: u32 = block_key(13);
        // Fields 1 to 13.
        const KNOWN: u64 = (1 << 14) - 2;
        let mut found = Self::default();
        let (mut latitude, mut longitude) = (0, 0);
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            match cursor.key()? {
                COUNTRY => found.country = cursor.text()?,
                REGION => found.region = cursor.text()?,
                CITY => found.city = cursor.text()?,
                LATITUDE => latitude = cursor.varint()?,
                LONGITUDE => longitude = cursor.varint()?,
                OS => found.os = cursor.text()?,
                OS_VERSION => found.os_version = cursor.text()?,
                BROWSER => found.browser = cursor.text()?,
                BROWSER_VERSION => found.browser_version = cursor.text()?,
                DEVICE => found.device = cursor.text()?,
                BRAND => found.brand = cursor.text()?,
                MODEL => found.model = cursor.text()?,
                BOT_REASONS => found.bot_reasons = cursor.text()?,
                key => cursor = cursor.skip_unknown(key, KNOWN)?,
            }
        }
        found.place_micros = place(latitude, longitude);
        Ok(found)
    }

    /// Appends `Event.enrichment`, or nothing if nothing was found.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        encode::optional_message(101, out, |out| {
            encode::text(1, self.country, out);
            encode::text(2, self.region, out);
            encode::text(3, self.city, out);
            if let Some((latitude, longitude)) = self.place_micros {
                encode::number(4, biased(latitude), out);
                encode::number(5, biased(longitude), out);
            }
            encode::text(6, self.os, out);
            encode::text(7, self.os_version, out);
            encode::text(8, self.browser, out);
            encode::text(9, self.browser_version, out);
            encode::text(10, self.device, out);
            encode::text(11, self.brand, out);
            encode::text(12, self.model, out);
            encode::text(13, self.bot_reasons, out);
        });
    }
}

/// A coordinate as it is written: never 0, which would be left out.
fn biased(micros: i32) -> u64 {
    (i64::from(micros) + PLACE_BIAS_MICROS + 1).max(1) as u64
}

fn place(latitude: u64, longitude: u64) -> Option<(i32, i32)> {
    let unbiased = |value: u64| {
        let micros = i64::try_from(value).ok()? - 1 - PLACE_BIAS_MICROS;
        i32::try_from(micros).ok()
    };
    if latitude == 0 || longitude == 0 {
        return None;
    }
    Some((unbiased(latitude)?, unbiased(longitude)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let (latitude, longitude) = (-33_868_800, 151_209_300);
        let found = Enrichment {
            country: "AU",
            city: "Sydney",
            place_micros: Some((latitude, longitude)),
            os: "Windows",
            bot_reasons: "datacenter_ip:AS1",
            ..Enrichment::default()
        };
        let mut out = Vec::new();
        found.encode(&mut out);
        let mut cursor = Cursor::new(&out);
        assert_eq!(cursor.key(), Ok(block_key(101)));
        assert_eq!(Enrichment::parse(cursor.block().unwrap()), Ok(found));
    }

    #[test]
    fn every_corner_of_the_world_has_a_place() {
        for corner in [
            (-90_000_000, -180_000_000),
            (90_000_000, 180_000_000),
            (0, 0),
        ] {
            let (latitude, longitude) = (biased(corner.0), biased(corner.1));
            assert_eq!(place(latitude, longitude), Some(corner));
        }
        assert_eq!(place(0, 0), None);
    }
}
