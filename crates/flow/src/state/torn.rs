//! Takes back a batch that a power cut left half on disk.
//!
//! The store's journal is written ahead in pages, which a disk may take in any order until the
//! sync. A power cut before it can leave a batch whose begin and end are there while a page
//! between them is zero. The store refuses to open on its checksum, though the batch was never
//! answered for: it can only be the last one, because each is synced before the next begins.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use fulmar_log::disk;

/// Tags of the journal's entries, and bytes of each without keys and values.
const START: (u8, usize) = (1, 13);
const ITEM: (u8, usize) = (2, 21);
const END: (u8, usize) = (3, 13);
const CLEAR: (u8, usize) = (4, 9);

/// The last batch of a journal, cut off and kept.
pub(super) struct Cut {
    path: PathBuf,
    at: u64,
    batch: Vec<u8>,
}

/// Cuts the last batch off the newest journal in `dir`; none when what stands there does not end
/// with a batch of whole shape.
pub(super) fn cut_last_batch(dir: &Path) -> io::Result<Option<Cut>> {
    let Some(path) = newest_journal(dir)? else {
        return Ok(None);
    };
    let bytes = fs::read(&path)?;
    let Some(at) = last_batch(&bytes) else {
        return Ok(None);
    };
    let file = disk::open(&path)?;
    let cut = Cut {
        path,
        at: at as u64,
        batch: bytes[at..].to_vec(),
    };
    disk::set_len(&file, cut.at)?;
    disk::fsync(&file)?;
    Ok(Some(cut))
}

impl Cut {
    /// Puts the batch back: it was not what kept the store from opening.
    pub fn undo(self) -> io::Result<()> {
        let file: File = disk::open(&self.path)?;
        disk::write_all_at(&file, &self.batch, self.at)?;
        disk::fsync(&file)
    }
}

/// Writes the newest journal's content over itself and syncs it: after a failed sync the system may
/// hold what was written before as clean pages that never reached the disk (L2).
pub(super) fn write_again(dir: &Path) -> io::Result<()> {
    let Some(path) = newest_journal(dir)? else {
        return Ok(());
    };
    let bytes = fs::read(&path)?;
    let content = bytes.iter().rposition(|byte| *byte != 0);
    let file = disk::open(&path)?;
    disk::write_all_at(&file, &bytes[..content.map_or(0, |last| last + 1)], 0)?;
    disk::fsync(&file)
}

fn newest_journal(dir: &Path) -> io::Result<Option<PathBuf>> {
    let mut newest = None;
    for found in fs::read_dir(dir)? {
        let path = found?.path();
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let number = name.as_deref().and_then(|name| name.strip_suffix(".jnl"));
        let Some(number) = number.and_then(|number| number.parse::<u64>().ok()) else {
            continue;
        };
        newest = newest.max(Some((number, path)));
    }
    Ok(newest.map(|(_, path)| path))
}

/// Where the last batch begins, when the entries end with its end and only zeros follow.
fn last_batch(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut begin, mut ends) = (0, None, false);
    while let Some(tag) = bytes.get(at).copied().filter(|tag| *tag != 0) {
        ends = tag == END.0;
        if tag == START.0 {
            begin = Some(at);
        }
        let whole = match tag {
            tag if tag == START.0 => START.1,
            tag if tag == END.0 => END.1,
            tag if tag == CLEAR.0 => CLEAR.1,
            tag if tag == ITEM.0 => item_bytes(bytes.get(at..at + ITEM.1)?),
            _ => return None,
        };
        at += whole;
    }
    let padding = bytes.get(at..)?;
    let is_last = ends && padding.iter().all(|byte| *byte == 0);
    begin.filter(|_| is_last)
}

/// Bytes of an item: its header ends with the key's length (u16), the value's (u32), and the
/// value's length as written (u32).
fn item_bytes(header: &[u8]) -> usize {
    let key = u16::from_le_bytes(header[11..13].try_into().expect("two bytes"));
    let value = u32::from_le_bytes(header[17..21].try_into().expect("four bytes"));
    ITEM.1 + usize::from(key) + value as usize
}
