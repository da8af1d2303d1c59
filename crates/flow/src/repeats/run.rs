//! A run: an immutable file of sorted hashes, with its filter and its fence in memory.
//!
//! On disk: pages of hashes, then the fence (upper half of each page's first hash, u64), then the
//! filter's lines, then a footer of 64 bytes. All numbers are little-endian.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fulmar_log::disk;
use tracing::warn;

use super::filter::{Filter, LINE_BYTES, lines_for};
use super::hash::IdHash;
use super::page::{PAGE_BYTES, PAGE_HASHES, Page};
use super::reader::RunReader;
use crate::error::{FlowError, Result, io_error};

/// Begins the footer; the last byte is the format.
const MAGIC: [u8; 8] = *b"FULMRUN\x01";
/// Bytes of the footer: magic, ids, pages, filter lines (u64 each), CRC32C of fence, of filter
/// and of the footer before it (u32 each), padding.
const FOOTER_BYTES: usize = 64;
/// Bytes read at once when a filter is loaded or a run is read through.
const READ_BYTES: usize = 64 * PAGE_BYTES;

/// What committed state says of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct RunEntry {
    pub id: u64,
    pub ids: u64,
    /// Log time of the oldest and of the newest block in it.
    pub first_ms: i64,
    pub last_ms: i64,
}

/// An open run.
#[derive(Debug)]
pub(super) struct Run {
    pub entry: RunEntry,
    path: PathBuf,
    file: File,
    fence: Vec<u64>,
    filter: Filter,
    /// Whether the file goes when the last reader does: set while it is not committed, and again
    /// when it is no longer.
    doomed: AtomicBool,
}

/// The numbers of a footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub ids: u64,
    pub pages: u64,
    pub lines: u64,
    pub fence_crc: u32,
    pub filter_crc: u32,
}

impl Footer {
    pub fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.ids.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.pages.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.lines.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.fence_crc.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.filter_crc.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..40]);
        bytes[40..44].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; FOOTER_BYTES]) -> std::result::Result<Footer, &'static str> {
        if bytes[..8] != MAGIC {
            return Err("the footer is none of this version");
        }
        if crc32c::crc32c(&bytes[..40]).to_le_bytes() != bytes[40..44] {
            return Err("the footer does not match its checksum");
        }
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let short = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let (ids, pages, lines) = (long(8), long(16), long(24));
        Ok(Footer {
            ids,
            pages,
            lines,
            fence_crc: short(32),
            filter_crc: short(36),
        })
    }

    /// Length of the whole file.
    fn file_bytes(&self) -> u64 {
        file_bytes(self.pages, self.lines)
    }
}

/// Bytes of a run's file with this many ids.
pub(super) fn file_bytes_for(ids: u64) -> u64 {
    file_bytes(ids.div_ceil(PAGE_HASHES as u64), lines_for(ids))
}

/// Bytes that a run with this many ids has in memory.
pub(super) fn memory_bytes_for(ids: u64) -> u64 {
    lines_for(ids) * LINE_BYTES as u64 + ids.div_ceil(PAGE_HASHES as u64) * 8
}

fn file_bytes(pages: u64, lines: u64) -> u64 {
    pages * (PAGE_BYTES as u64 + 8) + lines * LINE_BYTES as u64 + FOOTER_BYTES as u64
}

/// The file name of a run.
pub(super) fn file_name(id: u64) -> String {
    format!("{id:020}.run")
}

impl Run {
    /// A run that has just been written; its file goes again unless [`Run::keep`] is called.
    pub fn written(
        entry: RunEntry,
        path: PathBuf,
        file: File,
        fence: Vec<u64>,
        filter: Filter,
    ) -> Run {
        Run {
            entry,
            path,
            file,
            fence,
            filter,
            doomed: AtomicBool::new(true),
        }
    }

    /// Opens a committed run. A damaged filter or fence is rebuilt from the pages.
    pub fn open(dir: &Path, entry: RunEntry) -> Result<Run> {
        let path = dir.join(file_name(entry.id));
        let file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(FlowError::MissingRun { path });
            }
            opened => opened.map_err(io_error("open", &path))?,
        };
        let fence = Vec::new();
        let filter = Filter::with_lines(1);
        let doomed = AtomicBool::new(false);
        let mut run = Run {
            entry,
            path,
            file,
            fence,
            filter,
            doomed,
        };
        let footer = run.read_footer()?;
        if !run.load(&footer)? {
            warn!(run = %run.path.display(), "the filter is damaged: building it again");
            run.rebuild(&footer)?;
        }
        Ok(run)
    }

    fn read_footer(&self) -> Result<Footer> {
        let len = self
            .file
            .metadata()
            .map_err(io_error("look at", &self.path))?
            .len();
        let Some(at) = len.checked_sub(FOOTER_BYTES as u64) else {
            return Err(self.damaged(0, "the file is cut off"));
        };
        let mut bytes = [0; FOOTER_BYTES];
        self.file
            .read_exact_at(&mut bytes, at)
            .map_err(io_error("read", &self.path))?;
        let footer = Footer::decode(&bytes).map_err(|reason| self.damaged(at, reason))?;
        let pages = footer.ids.div_ceil(PAGE_HASHES as u64);
        if footer.file_bytes() != len || footer.ids != self.entry.ids || footer.pages != pages {
            return Err(self.damaged(at, "the file is not as long as its footer says"));
        }
        Ok(footer)
    }

    /// Loads fence and filter; false when one does not match its checksum.
    fn load(&mut self, footer: &Footer) -> Result<bool> {
        let mut bytes = vec![0; READ_BYTES];
        let mut at = footer.pages * PAGE_BYTES as u64;
        let (mut crc, mut left) = (0, footer.pages as usize * 8);
        self.fence = Vec::with_capacity(footer.pages as usize);
        while left > 0 {
            let part = &mut bytes[..left.min(READ_BYTES)];
            self.file
                .read_exact_at(part, at)
                .map_err(io_error("read", &self.path))?;
            crc = crc32c::crc32c_append(crc, part);
            let words = part.chunks_exact(8);
            let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
            self.fence.extend(words);
            at += part.len() as u64;
            left -= part.len();
        }
        if crc != footer.fence_crc {
            return Ok(false);
        }
        self.filter = Filter::with_lines(footer.lines);
        let (mut crc, mut left, mut line) = (0, footer.lines as usize * LINE_BYTES, 0);
        while left > 0 {
            let part = &mut bytes[..left.min(READ_BYTES)];
            self.file
                .read_exact_at(part, at)
                .map_err(io_error("read", &self.path))?;
            crc = crc32c::crc32c_append(crc, part);
            self.filter.read_lines(line, part);
            line += part.len() / LINE_BYTES;
            at += part.len() as u64;
            left -= part.len();
        }
        Ok(crc == footer.filter_crc)
    }

    fn rebuild(&mut self, footer: &Footer) -> Result<()> {
        let mut fence = Vec::with_capacity(footer.pages as usize);
        let mut filter = Filter::with_lines(footer.lines);
        let mut hashes = RunReader::new(self)?;
        let mut index = 0;
        while let Some(hash) = hashes.head() {
            if index % PAGE_HASHES == 0 {
                fence.push(hash.upper());
            }
            filter.insert(hash);
            index += 1;
            hashes.advance()?;
        }
        (self.fence, self.filter) = (fence, filter);
        Ok(())
    }

    /// Bytes of its file.
    pub fn disk_bytes(&self) -> u64 {
        file_bytes(self.fence.len() as u64, self.filter.lines())
    }

    /// Bytes of its filter and its fence.
    pub fn memory_bytes(&self) -> u64 {
        self.filter.bytes() + self.fence.len() as u64 * 8
    }

    pub fn may_contain(&self, hash: IdHash) -> bool {
        self.filter.may_contain(hash)
    }

    /// Whether the hash is in the run: one page is read, two in a case that hashes make about
    /// impossible. `pages` keeps the last page, which a sorted batch may ask for again.
    pub fn contains(&self, hash: IdHash, cache: &mut PageCache) -> Result<bool> {
        let upper = hash.upper();
        // The last page that begins at or below the hash; hashes with the same upper half may
        // begin several pages, and may end the one before them.
        let mut page = self.fence.partition_point(|first| *first <= upper);
        while page > 0 {
            page -= 1;
            if self.read_page(page as u64, cache)?.contains(hash) {
                return Ok(true);
            }
            if self.fence[page] < upper {
                break;
            }
        }
        Ok(false)
    }

    fn read_page<'c>(&self, number: u64, cache: &'c mut PageCache) -> Result<Page<'c>> {
        let at = number * PAGE_BYTES as u64;
        if cache.holds != Some((self.entry.id, number)) {
            cache.holds = None;
            self.read_pages(number, &mut cache.bytes[..])?;
            Page::check(number, &cache.bytes[..]).map_err(|reason| self.damaged(at, reason))?;
            cache.holds = Some((self.entry.id, number));
        }
        Ok(Page::checked(&cache.bytes))
    }

    /// Reads whole pages from page `number` on into `bytes`.
    pub fn read_pages(&self, number: u64, bytes: &mut [u8]) -> Result<()> {
        let at = number * PAGE_BYTES as u64;
        self.file
            .read_exact_at(bytes, at)
            .map_err(io_error("read", &self.path))
    }

    /// Pages of its file.
    pub fn pages(&self) -> u64 {
        self.entry.ids.div_ceil(PAGE_HASHES as u64)
    }

    pub fn damaged(&self, byte: u64, reason: &'static str) -> FlowError {
        FlowError::DamagedRun {
            path: self.path.clone(),
            byte,
            reason,
        }
    }

    /// It is committed: the file stays.
    pub fn keep(&self) {
        self.doomed.store(false, Ordering::Release);
    }

    /// It is no longer committed: the file goes with its last reader.
    pub fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !*self.doomed.get_mut() {
            return;
        }
        // What is left here is removed at the next open.
        if let Err(error) = disk::unlink(&self.path) {
            warn!(run = %self.path.display(), %error, "cannot remove");
        }
    }
}

/// The last page read.
pub(super) struct PageCache {
    holds: Option<(u64, u64)>,
    bytes: Box<[u8; PAGE_BYTES]>,
}

impl PageCache {
    pub fn new() -> PageCache {
        PageCache {
            holds: None,
            bytes: Box::new([0; PAGE_BYTES]),
        }
    }
}

/// The files of runs in `dir`, without unfinished ones.
pub(super) fn run_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for found in fs::read_dir(dir).map_err(io_error("list", dir))? {
        let path = found.map_err(io_error("list", dir))?.path();
        if path.extension().is_some_and(|extension| extension == "run") {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Removes files of `dir` that no committed run names: leftovers of a crash.
pub(super) fn remove_orphans(dir: &Path, committed: &[RunEntry]) -> Result<()> {
    for found in fs::read_dir(dir).map_err(io_error("list", dir))? {
        let path = found.map_err(io_error("list", dir))?.path();
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let is_run = name.ends_with(".run") || name.ends_with(".run.tmp");
        if is_run && !committed.iter().any(|entry| file_name(entry.id) == name) {
            disk::unlink(&path).map_err(io_error("remove", &path))?;
        }
    }
    Ok(())
}
