//! The spool on disk: batches stand here until the door has answered for every
//! event of theirs, and with each batch how far its sources were read.
//!
//! An entry is one checked frame, so that after a crash its events and its read
//! positions are both there or both not: nothing is lost, and what is sent
//! again carries the same ids. Freeing is recorded without a sync, since a
//! batch freed twice is only a repeat.

pub mod entry;
mod segment;
mod state;

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;

use crate::error::SendError;
use entry::{Entry, Position};
use segment::Place;
pub use state::Saved;

/// Bytes at which a segment is closed: few files at the spool's bound, and
/// disk space comes back soon after an acknowledgement.
const SEGMENT_BYTES: u64 = 8 << 20;

/// How often a writer that waits for room looks whether it should stop.
const STOP_CHECK: Duration = Duration::from_millis(200);

/// A spool that this process holds alone.
pub struct Spool {
    dir: PathBuf,
    bytes_max: u64,
    state: Mutex<State>,
    room: Condvar,
    added: Notify,
    _lock: File,
}

struct State {
    saved: Saved,
    pending: VecDeque<Place>,
    pending_bytes: u64,
    next_sequence: u64,
    segments: VecDeque<u64>,
    tail: Option<Tail>,
    closed: bool,
}

struct Tail {
    file: File,
    bytes: u64,
}

impl Spool {
    /// Opens or makes the spool in `dir`: takes its lock, cuts a torn tail and
    /// finds what was not acknowledged.
    pub fn open(dir: &Path, bytes_max: u64) -> Result<Spool, SendError> {
        std::fs::create_dir_all(dir).map_err(|e| SendError::file("create the spool", dir, e))?;
        let lock = lock(dir)?;
        let mut saved = state::load(dir);
        let segments = segment::list(dir).map_err(|e| SendError::file("list", dir, e))?;
        let mut pending = VecDeque::new();
        let mut next_sequence = saved.freed;
        let mut good_bytes = 0;
        for (index, first) in segments.iter().enumerate() {
            let scan = segment::scan(dir, *first, index + 1 == segments.len())?;
            good_bytes = scan.good_bytes;
            for (sequence, positions) in scan.positions {
                // An old entry's positions are behind those saved since.
                if sequence >= saved.freed {
                    saved.merge(positions);
                }
                next_sequence = next_sequence.max(sequence + 1);
            }
            pending.extend(
                scan.places
                    .into_iter()
                    .filter(|p| p.sequence >= saved.freed),
            );
        }
        let tail = match segments.last() {
            Some(first) => Some(Tail {
                file: segment::open_to_append(dir, *first, good_bytes)?,
                bytes: good_bytes,
            }),
            None => None,
        };
        let pending_bytes = pending.iter().map(|place| place.length).sum();
        Ok(Spool {
            dir: dir.to_owned(),
            bytes_max,
            state: Mutex::new(State {
                saved,
                pending,
                pending_bytes,
                next_sequence,
                segments: segments.into(),
                tail,
                closed: false,
            }),
            room: Condvar::new(),
            added: Notify::new(),
            _lock: lock,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no holder of the spool's lock panics")
    }

    /// Where to read on, source by source, and the shift of times in force.
    pub fn saved(&self) -> Saved {
        self.state().saved.clone()
    }

    /// Remembers the shift of times, so that a sending that goes on after a
    /// crash shifts its later lines alike.
    pub fn save_shift(&self, shift_ns: i64) -> Result<(), SendError> {
        let mut state = self.state();
        state.saved.shift_ns = Some(shift_ns);
        state::store(&self.dir, &state.saved, true)
    }

    /// Events that are not acknowledged.
    pub fn pending_events(&self) -> u64 {
        self.state().pending.iter().map(|place| place.events).sum()
    }

    /// Writes and syncs an entry. Blocks while the spool is at its bound (an
    /// empty spool takes any one entry); false when `stop` was set meanwhile.
    pub fn append(&self, entry: &Entry, stop: &AtomicBool) -> Result<bool, SendError> {
        let mut state = self.state();
        let frame = entry::encode(state.next_sequence, entry);
        let length = frame.len() as u64;
        while !state.pending.is_empty() && state.pending_bytes + length > self.bytes_max {
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let waited = self.room.wait_timeout(state, STOP_CHECK);
            state = waited.expect("no holder of the spool's lock panics").0;
        }
        state.write(&self.dir, &frame, entry)?;
        drop(state);
        self.added.notify_one();
        Ok(true)
    }

    /// No more entries will come.
    pub fn close(&self) {
        self.state().closed = true;
        self.added.notify_one();
    }

    /// The oldest entry with its sequence number; waits for one. `None` once
    /// the spool is closed and empty. The entry stays until it is freed.
    pub async fn next(&self) -> Result<Option<(u64, Entry)>, SendError> {
        loop {
            let place = {
                let state = self.state();
                if state.pending.is_empty() && state.closed {
                    return Ok(None);
                }
                state.pending.front().cloned()
            };
            match place {
                Some(place) => {
                    let entry = segment::read(&self.dir, &place)?;
                    return Ok(Some((place.sequence, entry)));
                }
                None => self.added.notified().await,
            }
        }
    }

    /// Gives up the oldest entry, which must be `sequence`: every event of it
    /// has its answer (I6).
    pub fn free(&self, sequence: u64, positions: Vec<Position>) -> Result<(), SendError> {
        let mut state = self.state();
        let Some(place) = state.pending.pop_front() else {
            return Ok(());
        };
        assert_eq!(place.sequence, sequence, "entries are freed in their order");
        state.pending_bytes -= place.length;
        state.saved.freed = sequence + 1;
        state.saved.merge(positions);
        let done = state.segments_done();
        state::store(&self.dir, &state.saved, !done.is_empty())?;
        for first in done {
            let file = segment::path(&self.dir, first);
            std::fs::remove_file(&file).map_err(|e| SendError::file("remove", file, e))?;
        }
        drop(state);
        self.room.notify_all();
        Ok(())
    }

    /// Forgets everything: the sources were read to their end and every event
    /// has its answer.
    pub fn clear(&self) -> Result<(), SendError> {
        let mut state = self.state();
        assert!(state.pending.is_empty(), "only an empty spool is cleared");
        state.tail = None;
        for first in std::mem::take(&mut state.segments) {
            let file = segment::path(&self.dir, first);
            std::fs::remove_file(&file).map_err(|e| SendError::file("remove", file, e))?;
        }
        state.saved = Saved {
            freed: state.next_sequence,
            ..Saved::default()
        };
        state::store(&self.dir, &state.saved, true)
    }
}

impl State {
    fn write(&mut self, dir: &Path, frame: &[u8], entry: &Entry) -> Result<(), SendError> {
        if self
            .tail
            .as_ref()
            .is_none_or(|tail| tail.bytes >= SEGMENT_BYTES)
        {
            let file = segment::open_to_append(dir, self.next_sequence, 0)?;
            self.segments.push_back(self.next_sequence);
            self.tail = Some(Tail { file, bytes: 0 });
        }
        let first = *self.segments.back().expect("a tail has its segment");
        let tail = self.tail.as_mut().expect("it was just made");
        let written = tail
            .file
            .write_all(frame)
            .and_then(|()| tail.file.sync_data());
        written.map_err(|e| SendError::file("write", segment::path(dir, first), e))?;
        self.pending.push_back(Place {
            sequence: self.next_sequence,
            segment: first,
            byte: tail.bytes,
            length: frame.len() as u64,
            events: entry.items.len() as u64,
        });
        tail.bytes += frame.len() as u64;
        self.pending_bytes += frame.len() as u64;
        self.next_sequence += 1;
        Ok(())
    }

    /// Takes off the list every segment before the one that is still needed;
    /// the last one stays, as it is written to.
    fn segments_done(&mut self) -> Vec<u64> {
        let needed = match self.pending.front() {
            Some(place) => place.segment,
            None => self.segments.back().copied().unwrap_or(0),
        };
        let count = self
            .segments
            .iter()
            .take_while(|first| **first < needed)
            .count();
        self.segments.drain(..count).collect()
    }
}

fn lock(dir: &Path) -> Result<File, SendError> {
    let path = dir.join("lock");
    let file = File::create(&path).map_err(|e| SendError::file("open", &path, e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(SendError::SpoolLocked(dir.to_owned())),
        Err(std::fs::TryLockError::Error(e)) => Err(SendError::file("lock", path, e)),
    }
}

#[cfg(test)]
mod tests;
