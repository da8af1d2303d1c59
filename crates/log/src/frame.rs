//! A frame's header on disk. Format 1.
//!
//! ```text
//!  0 magic "FLMf"       4 kind          5 zero (3 bytes)
//!  8 payload bytes     12 payload CRC  16 records      20 zero (4 bytes)
//! 24 first offset      32 append time, ms since the epoch
//! 40 synced bytes      48 nonce of the segment
//! 56 zero (4 bytes)    60 CRC of bytes 0 to 60
//! ```
//! Integers are little endian, CRCs are CRC32C. The payload follows, then
//! zeros up to the next multiple of 64, where the next frame starts; so a
//! search for later frames looks at one place in 64 (L1).

/// Size of a header, and what frames are aligned to.
pub(crate) const HEADER_BYTES: usize = 64;

const MAGIC: [u8; 4] = *b"FLMf";

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Records; the only kind that takes offsets.
    Records = 1,
    /// No records: says that all before it is synced (L1).
    Seal = 2,
}

/// A header, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub kind: Kind,
    pub payload_bytes: u32,
    pub payload_crc: u32,
    pub count: u32,
    /// Offset of the first record; without records, of the next one.
    pub first_offset: u64,
    pub append_time_ms: i64,
    /// All bytes of the segment below this were synced before the frame was
    /// written (L1).
    pub synced_bytes: u64,
    /// The segment's own random number, so that what an old file or a payload
    /// holds is never taken for a frame.
    pub nonce: u64,
}

/// Bytes that a payload takes with its header and the zeros behind it.
pub(crate) fn frame_bytes(payload_bytes: usize) -> u64 {
    (HEADER_BYTES + payload_bytes.next_multiple_of(HEADER_BYTES)) as u64
}

fn word32(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn word64(bytes: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from(word32(bytes, at)) | u64::from(word32(bytes, at + 4)) << 32
}

impl FrameHeader {
    /// As it stands on disk.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4] = self.kind as u8;
        bytes[8..12].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.count.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_offset.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.append_time_ms.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.synced_bytes.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.nonce.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes a header of this segment. `nonce` is `None` when the segment's
    /// header is damaged and the frame itself must be believed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn decode(
        bytes: &[u8; HEADER_BYTES],
        nonce: Option<u64>,
    ) -> Result<FrameHeader, &'static str> {
        if bytes[0..4] != MAGIC {
            return Err(if bytes == &[0; HEADER_BYTES] {
                NO_FRAME
            } else {
                "no frame header"
            });
        }
        if crc32c::crc32c(&bytes[..60]) != word32(bytes, 60) {
            return Err("the header's checksum does not match");
        }
        let kind = match bytes[4] {
            1 => Kind::Records,
            2 => Kind::Seal,
            _ => return Err("a frame of unknown kind"),
        };
        let header = FrameHeader {
            kind,
            payload_bytes: word32(bytes, 8),
            payload_crc: word32(bytes, 12),
            count: word32(bytes, 16),
            first_offset: word64(bytes, 24),
            append_time_ms: word64(bytes, 32) as i64,
            synced_bytes: word64(bytes, 40),
            nonce: word64(bytes, 48),
        };
        if nonce.is_some_and(|nonce| nonce != header.nonce) {
            return Err("a frame of another segment");
        }
        if header.payload_bytes as usize > crate::APPEND_BYTES_MAX {
            return Err("a frame over the size limit");
        }
        Ok(header)
    }

    /// Bytes up to the next frame.
    pub(crate) fn frame_bytes(&self) -> u64 {
        frame_bytes(self.payload_bytes as usize)
    }

    /// Offset after this frame.
    pub(crate) fn end_offset(&self) -> u64 {
        self.first_offset.saturating_add(u64::from(self.count))
    }

    /// Checks what a header says against its place: byte `at`, expected
    /// offset, time of the frame before.
    pub(crate) fn check_place(
        &self,
        at: u64,
        offset: u64,
        time_ms: i64,
    ) -> Result<(), &'static str> {
        if self.first_offset != offset {
            return Err("the frame's offset does not follow");
        }
        if self.synced_bytes > at {
            return Err("the frame claims a sync past itself");
        }
        if self.append_time_ms < time_ms {
            return Err("the frame's time runs backwards");
        }
        if (self.kind == Kind::Records) != (self.count > 0) {
            return Err("the frame's record count does not fit its kind");
        }
        Ok(())
    }
}

/// The reason that [`FrameHeader::decode`] gives for plain zeros: the usual end
/// of a preallocated segment.
pub(crate) const NO_FRAME: &str = "zeros where a frame should be";

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> FrameHeader {
        FrameHeader {
            kind: Kind::Records,
            payload_bytes: 130,
            payload_crc: 0xdead_beef,
            count: 3,
            first_offset: 41,
            append_time_ms: 1_700_000_000_123,
            synced_bytes: 4096,
            nonce: 0x0102_0304_0506_0708,
        }
    }

    #[test]
    fn a_header_reads_back_and_says_where_the_next_frame_is() {
        let encoded = header().encode();
        assert_eq!(
            FrameHeader::decode(&encoded, Some(header().nonce)),
            Ok(header())
        );
        assert_eq!(header().frame_bytes(), 64 + 192);
        assert_eq!(header().end_offset(), 44);
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_seen() {
        for bit in 0..HEADER_BYTES * 8 {
            let mut encoded = header().encode();
            encoded[bit / 8] ^= 1 << (bit % 8);
            assert!(FrameHeader::decode(&encoded, None).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_frame_of_another_segment_is_none() {
        assert!(FrameHeader::decode(&header().encode(), Some(1)).is_err());
    }

    #[test]
    fn the_layout_of_format_1_is_fixed() {
        let encoded = header().encode();
        assert_eq!(&encoded[0..8], b"FLMf\x01\0\0\0");
        assert_eq!(encoded[8..12], [130, 0, 0, 0]);
        assert_eq!(encoded[24..32], [41, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(encoded[48..56], [8, 7, 6, 5, 4, 3, 2, 1]);
    }
}
