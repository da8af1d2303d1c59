//! A device's sessions as bytes, for the state store.
//!
//! Form 1: one byte of version, then each session: its id (22 bytes), flags, numbers as 8 bytes
//! little-endian, texts led by their length as 4 bytes.

use fulmar_event::SessionId;

use crate::interner::{Interner, Symbol};
use crate::session::{Page, Session};

const VERSION: u8 = 1;
const ID_BYTES: usize = 22;

/// Why a committed value can't be taken up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateFault {
    /// Written by another build.
    #[error("sessions of form {found}, this build knows {VERSION}")]
    Version {
        /// The form found.
        found: u8,
    },
    /// Not what was written.
    #[error("sessions that can't be read: {0}")]
    Malformed(&'static str),
}

/// The key of a device: its project's name, a zero, the device.
pub(crate) fn key(project: &str, device: &str) -> Vec<u8> {
    [project.as_bytes(), b"\0", device.as_bytes()].concat()
}

/// Project and device of a key: names of projects hold no zero.
pub(crate) fn names(key: &[u8]) -> Option<(&str, &str)> {
    std::str::from_utf8(key).ok()?.split_once('\0')
}

/// Begins a value.
pub(crate) fn begin(out: &mut Vec<u8>) {
    out.clear();
    out.push(VERSION);
}

/// Appends a session.
pub(crate) fn write(session: &Session, texts: &Interner, out: &mut Vec<u8>) {
    out.extend_from_slice(session.id.as_str().as_bytes());
    out.push(u8::from(session.closed));
    let numbers = [
        session.created_ms,
        session.ended_ms,
        session.touched_ms,
        session.profile_ms,
        session.entry.at_ms,
        session.exit.at_ms,
        i64::from(session.screen_views),
        i64::from(session.events),
        session.revenue as i64,
        i64::from(session.place_micros.0),
        i64::from(session.place_micros.1),
        i64::from(session.partition),
        session.offset as i64,
        i64::from(session.device_bytes),
    ];
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let texts = session.symbols().map(|symbol| texts.get(symbol));
    for text in [session.names.as_bytes()].into_iter().chain(texts) {
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        out.extend_from_slice(text);
    }
}

/// Reads a value; `each` gets the sessions in the order they were written.
pub(crate) fn read(
    bytes: &[u8],
    texts: &mut Interner,
    mut each: impl FnMut(Session),
) -> Result<(), StateFault> {
    let mut reader = Reader(bytes);
    let [found] = reader.array()?;
    if found != VERSION {
        return Err(StateFault::Version { found });
    }
    while !reader.0.is_empty() {
        each(session(&mut reader, texts)?);
    }
    Ok(())
}

fn session(reader: &mut Reader<'_>, texts: &mut Interner) -> Result<Session, StateFault> {
    let id = SessionId::parse(&reader.array::<ID_BYTES>()?);
    let id = id.ok_or(StateFault::Malformed("its id"))?;
    let [closed] = reader.array()?;
    let mut numbers = [0_i64; 14];
    for number in &mut numbers {
        *number = i64::from_le_bytes(reader.array()?);
    }
    let names =
        std::str::from_utf8(reader.text()?).map_err(|_| StateFault::Malformed("its names"))?;
    let device_bytes = numbers[13] as u32;
    if !names.is_char_boundary(device_bytes as usize) {
        return Err(StateFault::Malformed("its device"));
    }
    let mut symbols = [Symbol::default(); 9];
    for symbol in &mut symbols {
        *symbol = texts.hold(reader.text()?);
    }
    let page = |origin: usize, at_ms| Page {
        origin: symbols[origin],
        path: symbols[origin + 1],
        at_ms,
    };
    Ok(Session {
        id,
        life: 0,
        project: symbols[0],
        names: names.into(),
        device_bytes,
        profile_ms: numbers[3],
        created_ms: numbers[0],
        ended_ms: numbers[1],
        touched_ms: numbers[2],
        closed: closed != 0,
        changed: false,
        screen_views: numbers[6] as u32,
        events: numbers[7] as u32,
        revenue: numbers[8] as u64,
        entry: page(1, numbers[4]),
        exit: page(3, numbers[5]),
        groups: symbols[5],
        surroundings: symbols[6],
        place_micros: (numbers[9] as i32, numbers[10] as i32),
        campaign: symbols[7],
        referrer: symbols[8],
        partition: numbers[11] as u16,
        offset: numbers[12] as u64,
        earlier: None,
    })
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], StateFault> {
        let (head, rest) = self
            .0
            .split_first_chunk()
            .ok_or(StateFault::Malformed("its end"))?;
        self.0 = rest;
        Ok(*head)
    }

    fn text(&mut self) -> Result<&'a [u8], StateFault> {
        let bytes = u32::from_le_bytes(self.array()?) as usize;
        let (text, rest) = self
            .0
            .split_at_checked(bytes)
            .ok_or(StateFault::Malformed("a text"))?;
        self.0 = rest;
        Ok(text)
    }
}
