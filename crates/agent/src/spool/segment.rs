//! The spool's files: named by their first entry, scanned at the start.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::entry::{self, HEADER_BYTES};
use crate::error::SendError;

const SUFFIX: &str = ".spool";

/// Where an entry stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The entry's sequence number.
    pub sequence: u64,
    /// The segment that holds it, by its first sequence number.
    pub segment: u64,
    /// The frame's first byte in the segment.
    pub byte: u64,
    /// The frame's length in bytes.
    pub length: u64,
    /// Events in it.
    pub events: u64,
}

/// What a scan of one segment found.
pub struct Scan {
    /// Good frames in order.
    pub places: Vec<Place>,
    /// The last positions of each good frame.
    pub positions: Vec<(u64, Vec<entry::Position>)>,
    /// Where the good frames end, in bytes.
    pub good_bytes: u64,
}

/// The file of the segment that starts with `first`.
pub fn path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:020}{SUFFIX}"))
}

/// First sequence numbers of the segments in `dir`, in order.
pub fn list(dir: &Path) -> std::io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for file in std::fs::read_dir(dir)? {
        let name = file?.file_name();
        let first = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
        found.extend(first.and_then(|first| first.parse::<u64>().ok()));
    }
    found.sort_unstable();
    Ok(found)
}

/// Reads every frame. A bad frame with no good one behind it is a torn tail,
/// which ends the scan; a bad frame before a good one is damage.
pub fn scan(dir: &Path, first: u64, is_last: bool) -> Result<Scan, SendError> {
    let file = path(dir, first);
    let bytes = std::fs::read(&file).map_err(|e| SendError::file("read", &file, e))?;
    let mut scan = Scan {
        places: Vec::new(),
        positions: Vec::new(),
        good_bytes: 0,
    };
    let mut at = 0;
    while at < bytes.len() {
        let Some((length, sequence, entry)) = frame_at(&bytes[at..]) else {
            break;
        };
        scan.places.push(Place {
            sequence,
            segment: first,
            byte: at as u64,
            length: length as u64,
            events: entry.items.len() as u64,
        });
        scan.positions.push((sequence, entry.positions));
        at += length;
    }
    scan.good_bytes = at as u64;
    let torn = &bytes[at..];
    if !torn.is_empty() && (!is_last || holds_frame(&torn[1..])) {
        return Err(SendError::SpoolDamaged {
            path: file,
            byte: at as u64,
        });
    }
    Ok(scan)
}

fn frame_at(bytes: &[u8]) -> Option<(usize, u64, entry::Entry)> {
    let header = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
    let length = HEADER_BYTES + entry::payload_bytes(header)?;
    let (sequence, entry) = entry::decode(bytes.get(..length)?)?;
    Some((length, sequence, entry))
}

/// Whether a good frame starts anywhere in `bytes`.
fn holds_frame(bytes: &[u8]) -> bool {
    (0..bytes.len()).any(|at| bytes[at] == b'F' && frame_at(&bytes[at..]).is_some())
}

/// Opens a segment to append at `length` bytes; what stood behind is cut.
pub fn open_to_append(dir: &Path, first: u64, length: u64) -> Result<File, SendError> {
    let file = path(dir, first);
    let fail = |e| SendError::file("open", &file, e);
    let mut opened = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&file)
        .map_err(fail)?;
    opened.set_len(length).map_err(fail)?;
    opened.seek(SeekFrom::Start(length)).map_err(fail)?;
    sync_folder(dir)?;
    Ok(opened)
}

/// Reads the entry at `place`, checked again.
pub fn read(dir: &Path, place: &Place) -> Result<entry::Entry, SendError> {
    let file = path(dir, place.segment);
    let fail = |e| SendError::file("read", &file, e);
    let mut opened = File::open(&file).map_err(fail)?;
    opened.seek(SeekFrom::Start(place.byte)).map_err(fail)?;
    let mut frame = vec![0; place.length as usize];
    opened.read_exact(&mut frame).map_err(fail)?;
    match entry::decode(&frame) {
        Some((sequence, entry)) if sequence == place.sequence => Ok(entry),
        _ => Err(SendError::SpoolDamaged {
            path: file,
            byte: place.byte,
        }),
    }
}

/// Makes creations, renames and removals in `dir` durable.
pub fn sync_folder(dir: &Path) -> Result<(), SendError> {
    File::open(dir)
        .and_then(|folder| folder.sync_all())
        .map_err(|e| SendError::file("sync", dir, e))
}
