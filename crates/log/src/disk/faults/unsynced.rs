//! What a power cut may still take: changes that no sync has covered.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A write survives or is lost in pieces of this size.
const PAGE_BYTES: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Not synced yet.
    Pending,
    /// Its sync failed; later syncs don't bring it back.
    Failed,
    /// Synced, and kept here only since an older failed change is under it.
    Durable,
}

enum Kind {
    Write {
        offset: u64,
        old: Vec<u8>,
        new: Vec<u8>,
    },
    Len {
        old_tail: Vec<u8>,
        new_len: u64,
    },
}

struct Change {
    fate: Fate,
    len_before: u64,
    kind: Kind,
}

struct Changes {
    file: File,
    list: Vec<Change>,
}

enum Entry {
    Made {
        path: PathBuf,
    },
    Unlinked {
        path: PathBuf,
        content: Vec<u8>,
    },
    Renamed {
        from: PathBuf,
        to: PathBuf,
        replaced: Option<Vec<u8>>,
    },
    Exchanged {
        one: PathBuf,
        other: PathBuf,
    },
}

/// All unsynced changes of this process.
#[derive(Default)]
pub(super) struct Unsynced {
    files: HashMap<(u64, u64), Changes>,
    entries: Vec<(PathBuf, Entry)>,
}

/// A small generator, so that a seed names one outcome (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn coin(&mut self) -> bool {
        self.roll() & 1 == 0
    }
}

fn read_range(file: &File, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut read = 0;
    while read < len {
        match file.read_at(&mut bytes[read..], offset + read as u64) {
            Ok(0) | Err(_) => break,
            Ok(count) => read += count,
        }
    }
    bytes.truncate(read);
    bytes
}

impl Unsynced {
    fn changes(&mut self, file: &File) -> Option<(&mut Changes, u64)> {
        let metadata = file.metadata().ok()?;
        let copy = file.try_clone().ok()?;
        let changes = self
            .files
            .entry((metadata.dev(), metadata.ino()))
            .or_insert_with(|| Changes {
                file: copy,
                list: Vec::new(),
            });
        Some((changes, metadata.len()))
    }

    pub(super) fn note_write(&mut self, file: &File, offset: u64, new: &[u8]) {
        let Some((changes, len_before)) = self.changes(file) else {
            return;
        };
        let old = read_range(&changes.file, offset, new.len());
        let kind = Kind::Write {
            offset,
            old,
            new: new.to_vec(),
        };
        changes.list.push(Change {
            fate: Fate::Pending,
            len_before,
            kind,
        });
    }

    pub(super) fn note_len(&mut self, file: &File, new_len: u64) {
        let Some((changes, len_before)) = self.changes(file) else {
            return;
        };
        let cut = len_before.saturating_sub(new_len) as usize;
        let old_tail = read_range(&changes.file, new_len, cut);
        let kind = Kind::Len { old_tail, new_len };
        changes.list.push(Change {
            fate: Fate::Pending,
            len_before,
            kind,
        });
    }

    pub(super) fn note_sync(&mut self, file: &File) {
        let Some((changes, _)) = self.changes(file) else {
            return;
        };
        for change in &mut changes.list {
            if change.fate == Fate::Pending {
                change.fate = Fate::Durable;
            }
        }
        if changes
            .list
            .iter()
            .all(|change| change.fate == Fate::Durable)
        {
            changes.list.clear();
        }
    }

    pub(super) fn note_failed_sync(&mut self, file: &File) {
        let Some((changes, _)) = self.changes(file) else {
            return;
        };
        for change in &mut changes.list {
            if change.fate == Fate::Pending {
                change.fate = Fate::Failed;
            }
        }
    }

    fn note_entry(&mut self, path: &Path, entry: Entry) {
        self.entries.push((super::super::parent(path), entry));
    }

    pub(super) fn note_made(&mut self, path: &Path) {
        self.note_entry(
            path,
            Entry::Made {
                path: path.to_path_buf(),
            },
        );
    }

    pub(super) fn note_unlink(&mut self, path: &Path) {
        let Ok(content) = fs::read(path) else { return };
        self.note_entry(
            path,
            Entry::Unlinked {
                path: path.to_path_buf(),
                content,
            },
        );
    }

    pub(super) fn note_rename(&mut self, from: &Path, to: &Path) {
        let entry = Entry::Renamed {
            from: from.to_path_buf(),
            to: to.to_path_buf(),
            replaced: fs::read(to).ok(),
        };
        self.note_entry(to, entry);
    }

    pub(super) fn note_exchange(&mut self, one: &Path, other: &Path) {
        let entry = Entry::Exchanged {
            one: one.to_path_buf(),
            other: other.to_path_buf(),
        };
        self.note_entry(other, entry);
    }

    pub(super) fn note_sync_dir(&mut self, dir: &Path) {
        self.entries.retain(|(of, _)| of != dir);
    }

    /// Undoes a seeded part of everything that is not durable.
    pub(super) fn lose_power(&mut self, seed: u64) {
        let mut dice = Dice(seed);
        let mut ids: Vec<(u64, u64)> = self.files.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            if let Some(changes) = self.files.get(&id) {
                changes.lose(&mut dice);
            }
        }
        let kept = dice.roll() as usize % (self.entries.len() + 1);
        for (_, entry) in self.entries.drain(kept..).rev() {
            entry.undo();
        }
    }
}

impl Changes {
    /// Back to the last durable content, then forward again with what lives.
    fn lose(&self, dice: &mut Dice) {
        for change in self.list.iter().rev() {
            match &change.kind {
                Kind::Write { offset, old, .. } => drop(self.file.write_all_at(old, *offset)),
                Kind::Len { old_tail, new_len } => {
                    drop(self.file.write_all_at(old_tail, *new_len));
                }
            }
            drop(self.file.set_len(change.len_before));
        }
        for change in &self.list {
            let durable = change.fate == Fate::Durable;
            let mode = if durable { 0 } else { dice.roll() % 3 };
            match &change.kind {
                Kind::Len { new_len, .. } if mode != 1 => drop(self.file.set_len(*new_len)),
                Kind::Write { offset, new, .. } if mode != 1 => {
                    for (index, page) in new.chunks(PAGE_BYTES).enumerate() {
                        if mode == 0 || dice.coin() {
                            let at = offset + (index * PAGE_BYTES) as u64;
                            drop(self.file.write_all_at(page, at));
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

impl Entry {
    fn undo(self) {
        match self {
            Entry::Made { path } => drop(fs::remove_file(path)),
            Entry::Unlinked { path, content } => drop(fs::write(path, content)),
            Entry::Renamed { from, to, replaced } => {
                drop(fs::rename(&to, from));
                if let Some(content) = replaced {
                    drop(fs::write(to, content));
                }
            }
            Entry::Exchanged { one, other } => drop(rustix::fs::renameat_with(
                rustix::fs::CWD,
                one,
                rustix::fs::CWD,
                other,
                rustix::fs::RenameFlags::EXCHANGE,
            )),
        }
    }
}
