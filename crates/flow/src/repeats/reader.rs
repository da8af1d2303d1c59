//! Reads a run through, for merges and rebuilds.

use super::hash::IdHash;
use super::page::{PAGE_BYTES, Page};
use super::run::Run;
use crate::error::Result;

/// Pages read at once: 256 KiB, so that a merge reads in long strides.
const PAGES_AT_ONCE: u64 = 64;

/// A run's hashes in ascending order.
pub(super) struct RunReader<'a> {
    run: &'a Run,
    next_page: u64,
    bytes: Vec<u8>,
    hashes: Vec<IdHash>,
    next: usize,
}

impl<'a> RunReader<'a> {
    /// Before the first hash.
    pub fn new(run: &'a Run) -> Result<RunReader<'a>> {
        let (bytes, hashes) = (Vec::new(), Vec::new());
        let mut reader = RunReader {
            run,
            next_page: 0,
            bytes,
            hashes,
            next: 0,
        };
        reader.fill()?;
        Ok(reader)
    }

    /// The hash at hand; none at the end.
    pub fn head(&self) -> Option<IdHash> {
        self.hashes.get(self.next).copied()
    }

    /// Goes on to the next hash.
    pub fn advance(&mut self) -> Result<()> {
        self.next += 1;
        if self.next < self.hashes.len() {
            return Ok(());
        }
        self.fill()
    }

    fn fill(&mut self) -> Result<()> {
        let pages = (self.run.pages() - self.next_page).min(PAGES_AT_ONCE);
        self.hashes.clear();
        self.next = 0;
        self.bytes.resize(pages as usize * PAGE_BYTES, 0);
        self.run.read_pages(self.next_page, &mut self.bytes)?;
        for bytes in self.bytes.chunks_exact(PAGE_BYTES) {
            let number = self.next_page;
            let damaged = |reason| self.run.damaged(number * PAGE_BYTES as u64, reason);
            self.hashes
                .extend(Page::check(number, bytes).map_err(damaged)?.hashes());
            self.next_page += 1;
        }
        Ok(())
    }
}
