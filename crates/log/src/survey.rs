//! One segment walked from end to end: where it ends, what is proven, what is
//! torn and what is damaged (L1).

use std::fs::File;
use std::io;

use crate::frame::{FrameHeader, Kind, NO_FRAME};
use crate::scan::{Step, Walk};
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentFile};
use crate::{Damage, Topic};

/// The reason when a segment ends before the next one's first offset.
pub(crate) const MISSING_RECORDS: &str = "records are missing before the next segment";

/// How far a segment is known to reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// A later segment says so: all before is synced, all behind is void.
    /// `bytes` is `None` when that segment's header is damaged.
    Closed { bytes: Option<u64>, offset: u64 },
    /// It is the last one: its own frames must tell.
    Open,
}

/// How much of each frame is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Headers only.
    Headers,
    /// Payloads too, against their checksums.
    Whole,
}

/// What was found.
#[derive(Clone, Debug)]
pub(crate) struct Survey {
    /// End of the last good frame, or where a torn tail begins.
    pub end_bytes: u64,
    pub end_offset: u64,
    /// Append time of the last good frame.
    pub last_time_ms: Option<i64>,
    /// Highest position that a frame proves synced, and its offset.
    pub proven_bytes: u64,
    pub proven_offset: u64,
    /// Bytes behind the end that are not zero.
    pub torn_bytes: u64,
    /// The last frame is a seal with nothing behind it.
    pub sealed: bool,
    pub damages: Vec<Damage>,
}

/// Walks a segment. `visit` sees every good frame and its place; when it
/// gives false the walk ends there, without more findings.
pub(crate) fn survey(
    topic: Topic,
    segment: &SegmentFile,
    file: &File,
    bound: Bound,
    depth: Depth,
    visit: &mut dyn FnMut(u64, &FrameHeader) -> bool,
) -> io::Result<Survey> {
    let limit_bytes = match bound {
        Bound::Closed {
            bytes: Some(bytes), ..
        } => bytes,
        _ => file.metadata()?.len(),
    };
    let mut walk = Walk::new(file, segment.nonce(), segment.first_offset, limit_bytes);
    if depth == Depth::Headers {
        walk.read_headers_only();
    }
    let mut surveyor = Surveyor {
        topic,
        segment,
        bound,
        depth,
        walk,
        marks: Vec::new(),
        read_again: None,
        found: Survey {
            end_bytes: SEGMENT_HEADER_BYTES,
            end_offset: segment.first_offset,
            last_time_ms: None,
            proven_bytes: SEGMENT_HEADER_BYTES,
            proven_offset: segment.first_offset,
            torn_bytes: 0,
            sealed: false,
            damages: segment.header_damage(topic).into_iter().collect(),
        },
    };
    surveyor.run(visit)?;
    Ok(surveyor.found)
}

struct Surveyor<'a> {
    topic: Topic,
    segment: &'a SegmentFile,
    bound: Bound,
    depth: Depth,
    walk: Walk<'a>,
    /// Byte and offset of the frames since the proven position, to know the
    /// offset of the next one.
    marks: Vec<(u64, u64)>,
    /// The place of a bad frame that was read a second time.
    read_again: Option<u64>,
    found: Survey,
}

impl Surveyor<'_> {
    fn run(&mut self, visit: &mut dyn FnMut(u64, &FrameHeader) -> bool) -> io::Result<()> {
        loop {
            let step = match self.depth {
                Depth::Headers => self.walk.step_header()?,
                Depth::Whole => self.walk.step()?,
            };
            let more = match step {
                Step::Frame(at, header) => {
                    self.frame(at, &header);
                    visit(at, &header)
                }
                Step::Bad(at, reason) => match self.bound {
                    Bound::Open => self.bad_in_open(at, reason)?,
                    Bound::Closed { bytes, offset } => {
                        self.bad_in_closed(at, reason, bytes.is_some(), offset)?
                    }
                },
                Step::End => {
                    self.end();
                    false
                }
            };
            self.found.end_bytes = self.walk.byte;
            self.found.end_offset = self.walk.offset;
            if !more {
                return Ok(());
            }
        }
    }

    fn frame(&mut self, at: u64, header: &FrameHeader) {
        self.marks.push((at, header.first_offset));
        self.prove(header.synced_bytes);
        self.found.last_time_ms = Some(header.append_time_ms);
        self.found.sealed = header.kind == Kind::Seal && header.synced_bytes == at;
    }

    /// Moves the proven position up to the first frame at or behind it.
    fn prove(&mut self, synced_bytes: u64) {
        if synced_bytes <= self.found.proven_bytes {
            return;
        }
        let reached = self.marks.partition_point(|&(at, _)| at < synced_bytes);
        if let Some(&(at, offset)) = self.marks.get(reached) {
            self.found.proven_bytes = at;
            self.found.proven_offset = offset;
            self.marks.drain(..reached);
        }
    }

    /// In the last segment only a later header with a higher synced position
    /// makes a bad frame damage; else it is the torn tail, or the plain end.
    fn bad_in_open(&mut self, at: u64, reason: &'static str) -> io::Result<bool> {
        let behind = self.walk.look_behind(at, false)?;
        // Beside a running server the bad frame may have been written after
        // this place was read and before those behind it were: it is read
        // again, and by now it must be there.
        if behind.synced_bytes > at && self.read_again != Some(at) {
            self.read_again = Some(at);
            self.walk.forget();
            return Ok(true);
        }
        self.marks.push((at, self.walk.offset));
        if behind.synced_bytes <= at {
            self.prove(behind.synced_bytes);
            self.found.torn_bytes = behind.content_end - at;
            self.found.sealed &= self.found.torn_bytes == 0;
            return Ok(false);
        }
        self.found.sealed = false;
        match behind.next {
            Some((next, header)) => {
                self.damage(at, reason, header.first_offset);
                self.walk.byte = next;
                self.walk.offset = header.first_offset;
                Ok(true)
            }
            None => {
                // A header that claims more than stands before it, with an
                // offset that was passed: nothing can be read behind here.
                self.damage(at, reason, self.walk.offset);
                self.walk.byte = behind.content_end;
                Ok(false)
            }
        }
    }

    fn bad_in_closed(
        &mut self,
        at: u64,
        reason: &'static str,
        end_is_known: bool,
        limit_offset: u64,
    ) -> io::Result<bool> {
        if !end_is_known && self.walk.offset >= limit_offset {
            return Ok(false);
        }
        let behind = self.walk.look_behind(at, true)?;
        match behind
            .next
            .filter(|(_, header)| header.first_offset <= limit_offset)
        {
            Some((next, header)) => {
                self.damage(at, reason, header.first_offset);
                self.walk.byte = next;
                self.walk.offset = header.first_offset;
                Ok(true)
            }
            None => {
                self.damage(at, reason, limit_offset);
                self.walk.offset = limit_offset;
                Ok(false)
            }
        }
    }

    /// The limit in bytes was reached.
    fn end(&mut self) {
        let Bound::Closed { offset, .. } = self.bound else {
            return;
        };
        if self.walk.offset < offset {
            self.damage(self.walk.byte, MISSING_RECORDS, offset);
            self.walk.offset = offset;
        }
    }

    fn damage(&mut self, byte: u64, reason: &str, end_offset: u64) {
        self.found.damages.push(Damage {
            topic: self.topic,
            segment: self.segment.name(),
            byte,
            first_offset: self.walk.offset,
            end_offset,
            reason: if reason == NO_FRAME {
                "zeros where a frame was"
            } else {
                reason
            }
            .to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::{Log, LogConfig, Records, segment};

    #[test]
    fn frames_that_are_written_during_the_walk_are_no_damage() {
        let dir = tempfile::tempdir().unwrap();
        let config = LogConfig {
            disk_floor_bytes: Some(0),
            ..LogConfig::default()
        };
        let log = Log::open(dir.path(), config).unwrap();
        let journal = log.journal(Topic::Events);
        // The second frame is larger than what a walk has in memory.
        for size in [10, 400_000, 10, 10] {
            let mut records = Records::new();
            records.push(0, &vec![7; size]);
            journal.append_blocking(records).unwrap();
        }
        drop(journal);
        log.close();
        let listed = segment::list(&dir.path().join("events"), Topic::Events).unwrap();
        let whole = std::fs::read(&listed[0].path).unwrap();
        let file = std::fs::OpenOptions::new()
            .write(true)
            .read(true)
            .open(&listed[0].path);
        let file = file.unwrap();
        file.write_all_at(&vec![0; 1 << 20], 4096 + 128).unwrap();
        let mut frames = 0;
        let mut write_the_rest = |at: u64, _: &FrameHeader| {
            if at == 4096 {
                file.write_all_at(&whole, 0).unwrap();
            }
            frames += 1;
            true
        };
        let found = survey(
            Topic::Events,
            &listed[0],
            &file,
            Bound::Open,
            Depth::Whole,
            &mut write_the_rest,
        );
        let found = found.unwrap();
        assert!(found.damages.is_empty(), "{:?}", found.damages);
        assert_eq!(found.end_offset, 4);
        assert!(frames >= 5, "four of records and a seal");
    }
}
