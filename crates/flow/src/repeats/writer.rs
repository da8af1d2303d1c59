//! Writes a run: under a temporary name, synced, then renamed (F4).

use std::fs::File;
use std::path::{Path, PathBuf};

use fulmar_log::disk;

use super::filter::{Filter, LINE_BYTES};
use super::hash::IdHash;
use super::page::{PAGE_BYTES, PAGE_HASHES, write_page};
use super::run::{Footer, Run, RunEntry, file_name};
use crate::error::{Result, io_error};

/// Bytes gathered before a write.
const WRITE_BYTES: usize = 64 * PAGE_BYTES;
/// Bytes written before they are synced: a merge must not leave hundreds of MiB to one sync, which
/// the log's own syncs would wait behind.
const SYNC_BYTES: u64 = 8 * 1024 * 1024;

/// A run being written. Dropped before its end it removes its file.
pub(super) struct RunWriter {
    entry: RunEntry,
    temporary: PathBuf,
    path: PathBuf,
    file: Option<File>,
    written: u64,
    synced: u64,
    bytes: Vec<u8>,
    page: Vec<IdHash>,
    last: Option<IdHash>,
    fence: Vec<u64>,
    filter: Filter,
}

impl RunWriter {
    /// Begins run `id` of at most `ids_max` ids.
    pub fn create(dir: &Path, id: u64, ids_max: u64) -> Result<RunWriter> {
        let path = dir.join(file_name(id));
        let temporary = dir.join(format!("{}.tmp", file_name(id)));
        let file = disk::create(&temporary).map_err(io_error("create", &temporary))?;
        Ok(RunWriter {
            entry: RunEntry {
                id,
                ids: 0,
                first_ms: i64::MAX,
                last_ms: i64::MIN,
            },
            temporary,
            path,
            file: Some(file),
            written: 0,
            synced: 0,
            bytes: Vec::with_capacity(WRITE_BYTES + PAGE_BYTES),
            page: Vec::with_capacity(PAGE_HASHES),
            last: None,
            fence: Vec::with_capacity(ids_max.div_ceil(PAGE_HASHES as u64) as usize),
            filter: Filter::for_ids(ids_max),
        })
    }

    /// Adds a hash; they come in ascending order, and one that comes twice is taken once.
    pub fn push(&mut self, hash: IdHash) -> Result<()> {
        if self.last == Some(hash) {
            return Ok(());
        }
        assert!(self.last < Some(hash), "hashes come sorted");
        self.last = Some(hash);
        self.filter.insert(hash);
        if self.page.is_empty() {
            self.fence.push(hash.upper());
        }
        self.page.push(hash);
        self.entry.ids += 1;
        if self.page.len() == PAGE_HASHES {
            self.end_page()
        } else {
            Ok(())
        }
    }

    /// Ends the run, which holds the ids of log times `first_ms` to `last_ms`: it is on disk and
    /// synced under its name when this returns, and committed nowhere.
    pub fn finish(mut self, first_ms: i64, last_ms: i64) -> Result<Run> {
        if !self.page.is_empty() {
            self.end_page()?;
        }
        (self.entry.first_ms, self.entry.last_ms) = (first_ms, last_ms);
        let fence_crc = self.write_fence()?;
        let filter_crc = self.write_filter()?;
        let footer = Footer {
            ids: self.entry.ids,
            pages: self.fence.len() as u64,
            lines: self.filter.lines(),
            fence_crc,
            filter_crc,
        };
        self.bytes.extend_from_slice(&footer.encode());
        self.write_out()?;
        let file = self.file.take().expect("only taken here");
        let dir = self
            .path
            .parent()
            .expect("a run lies in the folder of the index");
        let placed = disk::fsync(&file)
            .and_then(|()| disk::rename(&self.temporary, &self.path))
            .and_then(|()| disk::sync_dir(dir));
        if let Err(error) = placed {
            self.file = Some(file);
            return Err(io_error("place", &self.path)(error));
        }
        let fence = std::mem::take(&mut self.fence);
        let filter = std::mem::replace(&mut self.filter, Filter::with_lines(1));
        Ok(Run::written(
            self.entry,
            self.path.clone(),
            file,
            fence,
            filter,
        ))
    }

    fn end_page(&mut self) -> Result<()> {
        write_page(self.fence.len() as u64 - 1, &self.page, &mut self.bytes);
        self.page.clear();
        self.write_when_long()
    }

    fn write_fence(&mut self) -> Result<u32> {
        let mut crc = 0;
        for index in 0..self.fence.len() {
            let word = self.fence[index].to_le_bytes();
            crc = crc32c::crc32c_append(crc, &word);
            self.bytes.extend_from_slice(&word);
            self.write_when_long()?;
        }
        Ok(crc)
    }

    fn write_filter(&mut self) -> Result<u32> {
        let (mut crc, mut line) = (0, 0);
        let lines = self.filter.lines() as usize;
        while line < lines {
            let to = lines.min(line + WRITE_BYTES / LINE_BYTES);
            let begin = self.bytes.len();
            self.filter.write_lines(line, to, &mut self.bytes);
            crc = crc32c::crc32c_append(crc, &self.bytes[begin..]);
            line = to;
            self.write_when_long()?;
        }
        Ok(crc)
    }

    fn write_when_long(&mut self) -> Result<()> {
        if self.bytes.len() < WRITE_BYTES {
            return Ok(());
        }
        self.write_out()?;
        if self.written - self.synced < SYNC_BYTES {
            return Ok(());
        }
        let file = self.file.as_ref().expect("open until the end");
        disk::fdatasync(file).map_err(io_error("sync", &self.temporary))?;
        self.synced = self.written;
        Ok(())
    }

    fn write_out(&mut self) -> Result<()> {
        let file = self.file.as_ref().expect("open until the end");
        let written = disk::write_all_at(file, &self.bytes, self.written);
        written.map_err(io_error("write", &self.temporary))?;
        self.written += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }
}

impl Drop for RunWriter {
    fn drop(&mut self) {
        if self.file.is_none() {
            return;
        }
        // Whichever name it had reached; what can't be removed now is an orphan at the next open.
        let _ = disk::unlink(&self.temporary);
        let _ = disk::unlink(&self.path);
    }
}
