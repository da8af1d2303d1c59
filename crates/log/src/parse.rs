//! Frames out of a buffer: every check of L1, no I/O.

use crate::chunk::FrameSpan;
use crate::frame::{FrameHeader, HEADER_BYTES};
use fulmar_event::RecordIter;

/// Why a parse ended.
pub(crate) enum Stop {
    /// The buffer ends within a frame of so many bytes (at least).
    Short(usize),
    /// Enough was taken, or the limit was reached.
    Full,
    Bad(&'static str),
}

/// A parse: where it stands, and what it found so far.
pub(crate) struct Parse<'b> {
    pub buffer: &'b [u8],
    /// The file's byte at the buffer's start.
    pub base: u64,
    pub nonce: Option<u64>,
    pub at: usize,
    pub offset: u64,
    pub time_ms: i64,
    pub frames: Vec<FrameSpan>,
    pub from: u64,
    pub payload_bytes_max: usize,
}

impl Parse<'_> {
    /// Takes frames until enough, the limit or something bad.
    pub(crate) fn run(&mut self, limit_offset: u64) -> Stop {
        let mut payload_bytes = 0;
        loop {
            let rest = &self.buffer[self.at..];
            // Seals behind the last record need not be looked at.
            let is_full = !self.frames.is_empty() && payload_bytes >= self.payload_bytes_max;
            if is_full || self.offset >= limit_offset {
                return Stop::Full;
            }
            let Some(header) = rest.first_chunk::<HEADER_BYTES>() else {
                return Stop::Short(HEADER_BYTES);
            };
            let header = match FrameHeader::decode(header, self.nonce) {
                Ok(header) => header,
                Err(reason) => return Stop::Bad(reason),
            };
            let at = self.base + self.at as u64;
            if let Err(reason) = header.check_place(at, self.offset, self.time_ms) {
                return Stop::Bad(reason);
            }
            let frame_bytes = header.frame_bytes() as usize;
            let Some(frame) = rest.get(..frame_bytes) else {
                return Stop::Short(frame_bytes);
            };
            let payload_end = HEADER_BYTES + header.payload_bytes as usize;
            if let Err(reason) = check_payload(&header, &frame[HEADER_BYTES..payload_end]) {
                return Stop::Bad(reason);
            }
            if frame[payload_end..].iter().any(|&byte| byte != 0) {
                return Stop::Bad("bytes behind the payload are not zero");
            }
            if header.end_offset() > self.from && header.count > 0 {
                payload_bytes += header.payload_bytes as usize;
                self.frames.push(FrameSpan {
                    payload: self.at + HEADER_BYTES..self.at + payload_end,
                    first_offset: header.first_offset,
                    append_time_ms: header.append_time_ms,
                });
            }
            self.at += frame_bytes;
            self.offset = header.end_offset();
            self.time_ms = header.append_time_ms;
        }
    }
}

fn check_payload(header: &FrameHeader, payload: &[u8]) -> std::result::Result<(), &'static str> {
    if crc32c::crc32c(payload) != header.payload_crc {
        return Err("the payload's checksum does not match");
    }
    let mut count = 0;
    for record in RecordIter::new(payload) {
        if record.is_err() {
            return Err("the payload is no run of records");
        }
        count += 1;
    }
    if count != header.count {
        return Err("the payload holds another number of records than its header says");
    }
    Ok(())
}
