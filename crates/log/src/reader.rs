//! Sequential reading: large reads straight from a segment's file, every frame
//! checked.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::chunk::Chunk;
use crate::error::{At, LogError, Result};
use crate::parse::{Parse, Stop};
use crate::scan::{Step, Walk};
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentFile};
use crate::survey::MISSING_RECORDS;
use crate::{Damage, Topic};

/// Least bytes asked of the disk at once; what a read keeps of it may be less.
const READ_BYTES_MIN: usize = 1 << 20;

/// A segment and how far it may be read.
#[derive(Clone)]
pub(crate) struct Extent {
    pub segment: Arc<SegmentFile>,
    /// `None` when the next segment's header is damaged: then offsets tell.
    pub limit_bytes: Option<u64>,
    pub limit_offset: u64,
}

/// Where a reader finds segments: a journal, or a folder of another process.
pub(crate) trait Extents: Send + Sync {
    fn topic(&self) -> Topic;
    /// The segment that holds the offset; `None` at the end.
    fn find(&self, offset: u64) -> Result<Option<Extent>>;
    fn accepted(&self) -> Arc<[Range<u64>]>;
    fn note_damage(&self, damage: &Damage);
}

/// A frame's place.
struct Place {
    sequence: u64,
    file: File,
    byte: u64,
    offset: u64,
    time_ms: i64,
    /// Byte, offset and time where the last chunk began: a block may end
    /// within a chunk, and its reader comes back to the rest.
    chunk_start: Option<(u64, u64, i64)>,
}

/// Reads a topic in order and remembers its place. It never passes the synced
/// end (L2).
pub struct Reader {
    source: Arc<dyn Extents>,
    place: Option<Place>,
    next: u64,
    accepted: Vec<Range<u64>>,
    spare: Vec<u8>,
}

enum Outcome {
    Chunk(Chunk),
    /// No record that was wanted; the place has moved on.
    Passed,
    Bad(&'static str),
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Reader")
            .field("topic", &self.source.topic())
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Reader {
    pub(crate) fn new(source: Arc<dyn Extents>, from: u64) -> Reader {
        Reader {
            source,
            place: None,
            next: from,
            accepted: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Offset of the next record that [`Reader::next`] gives.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Goes on at another offset.
    pub fn seek(&mut self, offset: u64) {
        if self
            .place
            .as_ref()
            .is_some_and(|place| place.offset > offset)
        {
            self.place = None;
        }
        self.next = offset;
    }

    /// Ranges that this reader passes as gaps, beside those of its journal.
    pub fn accept_loss(&mut self, ranges: Vec<Range<u64>>) {
        self.accepted = merge_ranges(ranges);
    }

    fn accepts(&self, lost: &Range<u64>) -> bool {
        let covers = |range: &Range<u64>| range.start <= lost.start && lost.end <= range.end;
        self.accepted.iter().any(covers) || self.source.accepted().iter().any(covers)
    }

    /// Whether going on at `offset` needs no search from a segment's start.
    pub(crate) fn is_near(&self, offset: u64) -> bool {
        let starts = self.place.as_ref().and_then(|place| place.chunk_start);
        self.next == offset || starts.is_some_and(|start| start.1 <= offset && offset <= self.next)
    }

    /// Gives a chunk's memory back for the next read.
    pub fn recycle(&mut self, chunk: Chunk) {
        if chunk.buffer.capacity() > self.spare.capacity() {
            self.spare = chunk.buffer;
        }
    }

    /// The next records: whole frames of about `bytes_max` bytes together, at
    /// least one frame. `None` at the synced end.
    ///
    /// # Errors
    /// [`LogError::Damaged`] at damage, each time, until its range is
    /// accepted: then a chunk that is a gap passes it (L1).
    /// [`LogError::OutOfRange`] when retention took the offset.
    pub fn next(&mut self, bytes_max: usize) -> Result<Option<Chunk>> {
        loop {
            let extent = match self.source.find(self.next) {
                Err(LogError::OutOfRange { offset, start, .. })
                    if offset < start && self.accepts(&(offset..start)) =>
                {
                    return Ok(Some(self.gap(start)));
                }
                found => found?,
            };
            let Some(extent) = extent else {
                return Ok(None);
            };
            self.go_to(&extent)?;
            match self.read_window(&extent, bytes_max)? {
                Outcome::Chunk(chunk) => {
                    self.next = chunk.end_offset();
                    return Ok(Some(chunk));
                }
                Outcome::Passed => {}
                Outcome::Bad(reason) => {
                    if let Some(gap) = self.damage(&extent, reason)? {
                        return Ok(Some(gap));
                    }
                }
            }
        }
    }

    /// Opens the extent's segment, unless the reader stands in it already, and
    /// goes to the frame that holds the next offset.
    fn go_to(&mut self, extent: &Extent) -> Result<()> {
        let sequence = extent.segment.sequence;
        let stands_there = self
            .place
            .as_ref()
            .is_some_and(|place| place.sequence == sequence && place.offset <= self.next);
        if !stands_there {
            let file = self.open(extent)?;
            self.place = Some(Place {
                sequence,
                file,
                byte: SEGMENT_HEADER_BYTES,
                offset: extent.segment.first_offset,
                time_ms: i64::MIN,
                chunk_start: None,
            });
        }
        let Some(place) = &mut self.place else {
            return Ok(());
        };
        if place.offset == self.next {
            return Ok(());
        }
        place.approach(extent, self.next).at(&extent.segment.path)
    }

    fn open(&self, extent: &Extent) -> Result<File> {
        let path = &extent.segment.path;
        match File::open(path) {
            // Retention may have taken it since it was found: then the source
            // says so, and names what it still holds.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.source.find(self.next)?;
                Err(LogError::io(path, error))
            }
            opened => opened.at(path),
        }
    }

    fn read_window(&mut self, extent: &Extent, bytes_max: usize) -> Result<Outcome> {
        let Some(place) = &mut self.place else {
            return Ok(Outcome::Passed);
        };
        let path = &extent.segment.path;
        let limit = match extent.limit_bytes {
            Some(bytes) => bytes,
            None => place.file.metadata().at(path)?.len(),
        };
        let left = usize::try_from(limit.saturating_sub(place.byte)).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(Outcome::Bad(MISSING_RECORDS));
        }
        let mut want = bytes_max.max(READ_BYTES_MIN).min(left);
        let mut buffer = std::mem::take(&mut self.spare);
        loop {
            read_up_to(&place.file, place.byte, want, &mut buffer).at(path)?;
            let mut parse = Parse {
                buffer: &buffer,
                base: place.byte,
                nonce: extent.segment.nonce(),
                at: 0,
                offset: place.offset,
                time_ms: place.time_ms,
                frames: Vec::new(),
                from: self.next,
                payload_bytes_max: bytes_max,
            };
            let stop = parse.run(extent.limit_offset);
            let Parse {
                at,
                offset,
                time_ms,
                frames,
                ..
            } = parse;
            if let (0, Stop::Short(frame_bytes)) = (at, &stop)
                && buffer.len() == want
                && *frame_bytes <= left
            {
                want = *frame_bytes;
                continue;
            }
            place.chunk_start = Some((place.byte, place.offset, place.time_ms));
            place.byte += at as u64;
            place.offset = offset;
            place.time_ms = time_ms;
            if !frames.is_empty() {
                let chunk = Chunk {
                    buffer,
                    frames,
                    from: self.next,
                    end: offset,
                    is_gap: false,
                };
                return Ok(Outcome::Chunk(chunk));
            }
            self.spare = buffer;
            return Ok(match stop {
                Stop::Bad(reason) => Outcome::Bad(reason),
                Stop::Short(_) if at == 0 => Outcome::Bad("the file ends within a frame"),
                Stop::Short(_) | Stop::Full => Outcome::Passed,
            });
        }
    }

    /// Names the damage at the place; passes it when that is allowed.
    fn damage(&mut self, extent: &Extent, reason: &str) -> Result<Option<Chunk>> {
        let Some(place) = &self.place else {
            return Ok(None);
        };
        let path = &extent.segment.path;
        let mut walk = place.walk(extent).at(path)?;
        let behind = walk.look_behind(place.byte, true).at(path)?;
        let next = behind
            .next
            .filter(|(_, header)| header.first_offset <= extent.limit_offset);
        let end_offset = next.map_or(extent.limit_offset, |(_, header)| header.first_offset);
        let damage = Damage {
            topic: self.source.topic(),
            segment: extent.segment.name(),
            byte: place.byte,
            first_offset: place.offset,
            end_offset,
            reason: reason.to_owned(),
        };
        self.source.note_damage(&damage);
        let lost = self.next.max(place.offset)..end_offset;
        let is_accepted = self.accepts(&lost);
        let Some(place) = &mut self.place else {
            return Ok(None);
        };
        if !lost.is_empty() && !is_accepted {
            return Err(LogError::Damaged(damage));
        }
        match next {
            Some((byte, header)) => {
                place.byte = byte;
                place.offset = header.first_offset;
            }
            // The rest of the segment is lost; the next one starts there.
            None => self.place = None,
        }
        if lost.is_empty() {
            // A bad seal, or records that were not asked for: nothing is lost.
            return Ok(None);
        }
        Ok(Some(self.gap(lost.end)))
    }

    /// Passes what was given up, from the next offset on.
    fn gap(&mut self, end: u64) -> Chunk {
        let from = std::mem::replace(&mut self.next, end);
        Chunk::of_gap(from..end)
    }
}

impl Place {
    fn walk(&self, extent: &Extent) -> io::Result<Walk<'_>> {
        let limit = match extent.limit_bytes {
            Some(bytes) => bytes,
            None => self.file.metadata()?.len(),
        };
        let nonce = extent.segment.nonce();
        let mut walk = Walk::new(&self.file, nonce, extent.segment.first_offset, limit);
        walk.byte = self.byte;
        walk.offset = self.offset;
        walk.time_ms = self.time_ms;
        Ok(walk)
    }

    /// Steps from header to header up to the frame that holds `offset`, over
    /// bad ones that lie wholly before it.
    fn approach(&mut self, extent: &Extent, offset: u64) -> io::Result<()> {
        let mut walk = self.walk(extent)?;
        let mut before = (walk.byte, walk.offset, walk.time_ms);
        while walk.offset <= offset {
            before = (walk.byte, walk.offset, walk.time_ms);
            match walk.step_header()? {
                Step::Frame(..) => {}
                Step::End => break,
                Step::Bad(at, _) => {
                    let next = walk.look_behind(at, true)?.next;
                    let Some((byte, header)) = next.filter(|(_, it)| it.first_offset <= offset)
                    else {
                        break;
                    };
                    walk.byte = byte;
                    walk.offset = header.first_offset;
                }
            }
        }
        (self.byte, self.offset, self.time_ms) = before;
        Ok(())
    }
}

/// Fills the buffer with up to `want` bytes; fewer only at the file's end.
fn read_up_to(file: &File, at: u64, want: usize, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.resize(want, 0);
    let mut filled = 0;
    while filled < want {
        match file.read_at(&mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(filled);
    Ok(())
}

/// Sorted, without empty ones; ranges that touch are one.
pub(crate) fn merge_ranges(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}
