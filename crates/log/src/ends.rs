//! The file `ends`: how far each topic was synced when the log was last opened
//! or closed. A second witness beside the frames, which can't tell of a tail
//! that was cut off below their own last seal (L1).

use std::io;
use std::path::Path;

use crate::error::{LogError, Result};
use crate::{Topic, disk};

const FILE: &str = "ends";
const FIRST_LINE: &str = "fulmar log ends 1";

/// Ends of topics that something outside of the journals knows to have been
/// synced: a journal that ends before its own has lost what is between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    by_topic: [u64; Topic::ALL.len()],
}

impl Ends {
    /// One past the highest offset that is known to have been synced.
    pub fn get(&self, topic: Topic) -> u64 {
        self.by_topic[topic as usize]
    }

    /// A further witness; the highest counts.
    pub fn raise(&mut self, topic: Topic, end: u64) {
        let known = &mut self.by_topic[topic as usize];
        *known = (*known).max(end);
    }

    fn encode(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        for topic in Topic::ALL {
            text.push_str(&format!("{topic} {}\n", self.get(topic)));
        }
        let crc = crc32c::crc32c(text.as_bytes());
        text.push_str(&format!("crc32c {crc:08x}\n"));
        text
    }

    fn decode(text: &str) -> Option<Ends> {
        let mut ends = Ends::default();
        for line in text.lines().skip(1) {
            let (name, number) = line.split_once(' ')?;
            if let Ok(topic) = name.parse() {
                ends.raise(topic, number.parse().ok()?);
            }
        }
        // What is written again must be what was read: so the checksum counts.
        (ends.encode() == text).then_some(ends)
    }
}

/// What the file of `dir` (`DIR/log`) says; nothing when it is not there. One
/// that can't be read is named and passed over: no record stands in it.
pub(crate) fn read(dir: &Path) -> Result<Ends> {
    let path = dir.join(FILE);
    let bytes = match std::fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ends::default()),
        read => read.map_err(|error| LogError::io(&path, error))?,
    };
    let text = String::from_utf8_lossy(&bytes);
    Ok(Ends::decode(&text).unwrap_or_else(|| {
        tracing::warn!(path = %path.display(), "is no list of ends, passed over");
        Ends::default()
    }))
}

/// Writes the file, durably. A failure costs a witness and nothing else, so
/// that it stops neither a start on a full disk nor a stop.
pub(crate) fn write(dir: &Path, ends: &Ends) {
    let path = dir.join(FILE);
    if let Err(error) = disk::write_atomic(&path, ends.encode().as_bytes()) {
        tracing::warn!(path = %path.display(), %error, "the ends of topics are not noted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_back_and_the_highest_witness_counts() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()).unwrap(), Ends::default());
        let mut ends = Ends::default();
        for (topic, end) in [(Topic::Events, 7), (Topic::Control, 3), (Topic::Events, 5)] {
            ends.raise(topic, end);
        }
        write(dir.path(), &ends);
        let read = read(dir.path()).unwrap();
        assert_eq!(
            Topic::ALL.map(|topic| read.get(topic)),
            [7, 0, 0, 3, 0],
            "events, profiles, quarantine, control, deliveries"
        );
    }

    #[test]
    fn any_flipped_byte_of_the_file_makes_it_no_witness() {
        let dir = tempfile::tempdir().unwrap();
        let mut ends = Ends::default();
        ends.raise(Topic::Events, 41);
        let whole = ends.encode().into_bytes();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            std::fs::write(dir.path().join(FILE), flipped).unwrap();
            assert_eq!(read(dir.path()).unwrap(), Ends::default(), "byte {at}");
        }
        std::fs::write(dir.path().join(FILE), &whole[..whole.len() - 1]).unwrap();
        assert_eq!(read(dir.path()).unwrap(), Ends::default());
    }
}
