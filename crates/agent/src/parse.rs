//! From a line to the events that it stands for, in the bytes of a door.

pub mod combined;
pub mod ndjson;
pub mod sshd;
pub mod stamp;

mod message;
mod product_event;
mod security_event;

use std::borrow::Cow;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::item::Item;
use crate::options::{Door, Format};
use sshd::SshdParser;

/// Where a line stands and how its times are to be written.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The source's name, as ids are made from it.
    pub source: &'a str,
    /// The byte offset of the line's start in its source.
    pub offset: u64,
    /// The line's bytes without its line end.
    pub line: &'a [u8],
    /// When the line is read; the observed time of its events.
    pub now: Timestamp,
    /// Added to every event time (`--rebase`).
    pub shift: SignedDuration,
}

/// A format's parser for one door. It is fed every line of a source in order.
pub struct Parser {
    door: Door,
    kind: Kind,
}

enum Kind {
    Sshd(SshdParser),
    Combined,
    Ndjson,
}

impl Parser {
    /// `None` when the door does not take the format.
    pub fn new(door: Door, format: Format, zone: TimeZone) -> Option<Parser> {
        let kind = match (door, format) {
            (Door::Track, Format::Sshd) => return None,
            (_, Format::Sshd) => Kind::Sshd(SshdParser::new(zone)),
            (Door::Events | Door::Track, Format::Combined) => Kind::Combined,
            (Door::Events | Door::Track, Format::Ndjson) => Kind::Ndjson,
            (Door::Agents, _) => return None,
        };
        Some(Parser { door, kind })
    }

    /// Appends the line's events to `out`; appends none where it is no line of
    /// this format.
    pub fn parse(&mut self, place: Place<'_>, out: &mut Vec<Item>) {
        // Logs hold what peers typed: what is no UTF-8 is replaced, since both
        // doors take text only. The id is made from the bytes as they are.
        let text = String::from_utf8_lossy(place.line);
        match &mut self.kind {
            Kind::Sshd(parser) => {
                let Some(line) = parser.parse(&text, place.now) else {
                    return;
                };
                match self.door {
                    Door::Agents => security_event::append(&line, &text, place, out),
                    Door::Events | Door::Track => message::append_sshd(&line, &text, place, out),
                }
            }
            Kind::Combined => {
                let Some(line) = combined::parse(&text) else {
                    return;
                };
                match self.door {
                    Door::Track => product_event::append_view(&line, place, out),
                    Door::Agents | Door::Events => message::append_access(&line, place, out),
                }
            }
            Kind::Ndjson => {
                let Some(line) = ndjson::parse(&text) else {
                    return;
                };
                message::append_json(&line, place, out);
            }
        }
    }

    /// The time of a line, as the first reading of `--rebase` needs it.
    pub fn time(&mut self, line: &[u8], now: Timestamp) -> Option<Timestamp> {
        let text: Cow<'_, str> = String::from_utf8_lossy(line);
        match &mut self.kind {
            Kind::Sshd(parser) => parser.parse(&text, now).map(|line| line.time),
            Kind::Combined => combined::parse(&text).map(|line| line.time),
            Kind::Ndjson => ndjson::parse(&text)
                .and_then(|line| line.time)
                .map(|(time, _)| time),
        }
    }
}

/// The longest start of `text` of at most `bytes_max` bytes that ends on a
/// character.
fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// `time` moved by `shift`, or as it was where that leaves the calendar.
fn moved(time: Timestamp, shift: SignedDuration) -> Timestamp {
    time.checked_add(shift).unwrap_or(time)
}

#[cfg(test)]
mod tests;
