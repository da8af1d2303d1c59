//! An open log file: which one it is, and whether it still is the one read.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::id::hex;
use crate::spool::entry::Position;

/// Bytes at a file's start that tell it from another with its inode. The first
/// stamp and the first line of two logs differ well within them.
const HEAD_BYTES_MAX: u64 = 256;

/// What became of a followed file.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    /// It is as it was, perhaps longer.
    None,
    /// Another file stands at its path.
    Rotated,
    /// It was cut or written anew in place.
    Truncated,
}

/// A file with its identity.
pub struct LogFile {
    file: File,
    device: u64,
    inode: u64,
    /// The first bytes as they were when they were read; never read again, so
    /// that a file written anew in place shows.
    head: Vec<u8>,
}

impl LogFile {
    /// Opens the file at `path`.
    pub fn open(path: &Path) -> std::io::Result<LogFile> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory));
        }
        Ok(LogFile {
            file,
            device: metadata.dev(),
            inode: metadata.ino(),
            head: Vec::new(),
        })
    }

    /// The read position `offset` of this file under the name `path`.
    pub fn position(&mut self, path: &str, offset: u64) -> std::io::Result<Position> {
        let head_bytes = offset.min(HEAD_BYTES_MAX);
        let known = self.head.len();
        if known < head_bytes as usize {
            self.head.resize(head_bytes as usize, 0);
            let read = self
                .file
                .read_exact_at(&mut self.head[known..], known as u64);
            if let Err(error) = read {
                self.head.truncate(known);
                return Err(error);
            }
        }
        Ok(Position {
            path: path.to_owned(),
            device: self.device,
            inode: self.inode,
            offset,
            head: hex(&Sha256::digest(&self.head[..head_bytes as usize])),
            head_bytes,
        })
    }

    /// Whether `position` was taken of this file as it still is.
    pub fn holds(&self, position: &Position) -> bool {
        let same = position.device == self.device && position.inode == self.inode;
        let long = self
            .file
            .metadata()
            .is_ok_and(|now| now.len() >= position.offset);
        let head_bytes = position.head_bytes.min(HEAD_BYTES_MAX);
        same && long
            && self
                .head_now(head_bytes)
                .is_ok_and(|head| head == position.head)
    }

    /// Moves to `offset`; to start over also forgets what the file began with.
    pub fn seek(&mut self, offset: u64) -> std::io::Result<()> {
        if offset == 0 {
            self.head.clear();
        }
        self.file.seek(SeekFrom::Start(offset)).map(|_| ())
    }

    /// What happened to the file at `path` since `last`, a position of it.
    /// While nothing stands at the path the old file is kept.
    pub fn change(&self, path: &Path, last: &Position) -> Change {
        if !self.holds(last) {
            return Change::Truncated;
        }
        match std::fs::metadata(path) {
            Ok(now) if (now.dev(), now.ino()) != (self.device, self.inode) => Change::Rotated,
            _ => Change::None,
        }
    }

    fn head_now(&self, bytes: u64) -> std::io::Result<String> {
        let mut head = vec![0; bytes as usize];
        self.file.read_exact_at(&mut head, 0)?;
        Ok(hex(&Sha256::digest(&head)))
    }
}

impl Read for LogFile {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.file.read(out)
    }
}

/// The file that `position` was taken of, where rotation renamed it within its
/// folder while nobody read.
pub fn find_renamed(path: &Path, position: &Position) -> Option<PathBuf> {
    let folder = path.parent()?;
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let candidate = entry.path();
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.ino() != position.inode || !metadata.is_file() || candidate == path {
            continue;
        }
        if LogFile::open(&candidate).is_ok_and(|file| file.holds(position)) {
            return Some(candidate);
        }
    }
    None
}
