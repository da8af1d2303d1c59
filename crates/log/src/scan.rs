//! Walks the frames of one segment with little memory: for opening, for the
//! background check, for `verify` and `inspect`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::frame::{FrameHeader, HEADER_BYTES};
use crate::segment::SEGMENT_HEADER_BYTES;

/// Bytes read at once; also what a walk keeps in memory.
const WINDOW_BYTES: usize = 256 << 10;

/// The same for walks that skip payloads.
const HEADERS_WINDOW_BYTES: usize = 4 << 10;

/// One step of a walk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A good frame at this byte.
    Frame(u64, FrameHeader),
    /// No good frame at this byte, and why. The walk stays there.
    Bad(u64, &'static str),
    /// The limit was reached exactly.
    End,
}

/// A walk. The fields say where it stands and may be set to go on elsewhere.
pub(crate) struct Walk<'f> {
    window: Window<'f>,
    nonce: Option<u64>,
    /// Where the next frame starts.
    pub byte: u64,
    /// The offset that it must have.
    pub offset: u64,
    /// It must not be older than this.
    pub time_ms: i64,
    /// Where the segment ends, as far as it is known.
    pub limit_bytes: u64,
}

impl<'f> Walk<'f> {
    /// From a segment's first frame to `limit_bytes`.
    pub(crate) fn new(
        file: &'f File,
        nonce: Option<u64>,
        first_offset: u64,
        limit_bytes: u64,
    ) -> Walk<'f> {
        Walk {
            window: Window {
                file,
                size: WINDOW_BYTES,
                start: 0,
                bytes: Vec::new(),
            },
            nonce,
            byte: SEGMENT_HEADER_BYTES,
            offset: first_offset,
            time_ms: i64::MIN,
            limit_bytes,
        }
    }

    /// Reads little around each header: for walks by [`Walk::step_header`].
    pub(crate) fn read_headers_only(&mut self) {
        self.window.size = HEADERS_WINDOW_BYTES;
    }

    /// Drops what is in memory, so that the next step reads the file anew.
    pub(crate) fn forget(&mut self) {
        self.window.bytes.clear();
    }

    /// Checks the frame at [`Walk::byte`] and steps over it.
    pub(crate) fn step(&mut self) -> io::Result<Step> {
        let at = self.byte;
        if at >= self.limit_bytes {
            return Ok(Step::End);
        }
        let header = match self.header_at(at)? {
            Ok(header) => header,
            Err(reason) => return Ok(Step::Bad(at, reason)),
        };
        if let Err(reason) = header.check_place(at, self.offset, self.time_ms) {
            return Ok(Step::Bad(at, reason));
        }
        if at + header.frame_bytes() > self.limit_bytes {
            return Ok(Step::Bad(at, "the frame reaches past the segment's end"));
        }
        if let Err(reason) = self.check_payload(at, &header)? {
            return Ok(Step::Bad(at, reason));
        }
        self.step_over(at, &header);
        Ok(Step::Frame(at, header))
    }

    /// As [`Walk::step`], without reading the payload.
    pub(crate) fn step_header(&mut self) -> io::Result<Step> {
        let at = self.byte;
        if at >= self.limit_bytes {
            return Ok(Step::End);
        }
        let header = match self.header_at(at)? {
            Ok(header) => header,
            Err(reason) => return Ok(Step::Bad(at, reason)),
        };
        if let Err(reason) = header.check_place(at, self.offset, self.time_ms) {
            return Ok(Step::Bad(at, reason));
        }
        if at + header.frame_bytes() > self.limit_bytes {
            return Ok(Step::Bad(at, "the frame reaches past the segment's end"));
        }
        self.step_over(at, &header);
        Ok(Step::Frame(at, header))
    }

    fn step_over(&mut self, at: u64, header: &FrameHeader) {
        self.nonce = Some(header.nonce);
        self.byte = at + header.frame_bytes();
        self.offset = header.end_offset();
        self.time_ms = header.append_time_ms;
    }

    fn header_at(&mut self, at: u64) -> io::Result<Result<FrameHeader, &'static str>> {
        let nonce = self.nonce;
        let bytes = self.window.at(at, HEADER_BYTES)?;
        Ok(match bytes.first_chunk::<HEADER_BYTES>() {
            Some(header) => FrameHeader::decode(header, nonce),
            None => Err("the file ends within a frame header"),
        })
    }

    fn check_payload(
        &mut self,
        at: u64,
        header: &FrameHeader,
    ) -> io::Result<Result<(), &'static str>> {
        let payload_bytes = u64::from(header.payload_bytes);
        let end = header.frame_bytes();
        let mut crc = 0;
        let mut done = HEADER_BYTES as u64;
        while done < end {
            let bytes = self
                .window
                .at(at + done, WINDOW_BYTES.min((end - done) as usize))?;
            if bytes.is_empty() {
                return Ok(Err("the file ends within a frame"));
            }
            let piece = bytes.len().min((end - done) as usize);
            let payload_left = (HEADER_BYTES as u64 + payload_bytes).saturating_sub(done);
            let (payload, padding) = bytes[..piece].split_at(piece.min(payload_left as usize));
            crc = crc32c::crc32c_append(crc, payload);
            if padding.iter().any(|&byte| byte != 0) {
                return Ok(Err("bytes behind the payload are not zero"));
            }
            done += piece as u64;
        }
        if crc != header.payload_crc {
            return Ok(Err("the payload's checksum does not match"));
        }
        Ok(Ok(()))
    }

    /// Looks for later headers of this segment behind a bad frame, up to the
    /// limit, until one is found that may follow and that comes after
    /// something synced behind the bad frame; with `any_next` the first that
    /// may follow is enough. So much damage does not mean many long searches.
    pub(crate) fn look_behind(&mut self, bad: u64, any_next: bool) -> io::Result<Behind> {
        let mut behind = Behind {
            next: None,
            synced_bytes: 0,
            content_end: bad,
        };
        let mut at = bad;
        while at < self.limit_bytes {
            let nonce = self.nonce;
            let bytes = self.window.at(at, HEADER_BYTES)?;
            let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
                if bytes.iter().any(|&byte| byte != 0) {
                    behind.content_end = at + bytes.len() as u64;
                }
                break;
            };
            if header != &[0; HEADER_BYTES] {
                behind.content_end = at + HEADER_BYTES as u64;
            }
            let found = FrameHeader::decode(header, nonce).ok();
            if let Some(found) = found.filter(|it| at > bad && it.synced_bytes <= at) {
                behind.synced_bytes = behind.synced_bytes.max(found.synced_bytes);
                if behind.next.is_none() && found.first_offset >= self.offset {
                    behind.next = Some((at, found));
                }
                if behind.next.is_some() && (any_next || behind.synced_bytes > bad) {
                    break;
                }
            }
            at += HEADER_BYTES as u64;
        }
        Ok(behind)
    }
}

/// What stands behind a bad frame.
#[derive(Debug)]
pub(crate) struct Behind {
    /// The first later frame header of this segment that may follow.
    pub next: Option<(u64, FrameHeader)>,
    /// The highest synced position of the headers that were looked at: of all,
    /// unless it is behind the bad frame.
    pub synced_bytes: u64,
    /// Where the last bytes that are not zero end, of those looked at.
    pub content_end: u64,
}

/// A piece of the file in memory.
struct Window<'f> {
    file: &'f File,
    size: usize,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// At least `want` bytes from `at`, fewer only at the file's end.
    fn at(&mut self, at: u64, want: usize) -> io::Result<&[u8]> {
        let end = self.start + self.bytes.len() as u64;
        if at < self.start || at + want as u64 > end {
            self.fill(at)?;
        }
        Ok(&self.bytes[(at - self.start) as usize..])
    }

    fn fill(&mut self, at: u64) -> io::Result<()> {
        self.bytes.resize(self.size, 0);
        self.start = at;
        let mut filled = 0;
        while filled < self.size {
            match self
                .file
                .read_at(&mut self.bytes[filled..], at + filled as u64)
            {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.bytes.clear();
                    return Err(error);
                }
            }
        }
        self.bytes.truncate(filled);
        Ok(())
    }
}
