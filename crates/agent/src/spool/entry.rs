//! A batch with the read positions behind it, as bytes in a checked frame.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::item::Item;

/// Bytes before a frame's payload: magic, payload length, check.
pub const HEADER_BYTES: usize = 16;

const MAGIC: [u8; 4] = *b"FSP1";

/// Bytes of a payload that a frame may claim: a batch, its ids and positions.
/// Larger claims are damage, and are not believed with an allocation.
const PAYLOAD_BYTES_MAX: usize = 256 << 20;

/// How far a source has been read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The source's path, canonical.
    pub path: String,
    /// Device of the file.
    pub device: u64,
    /// Inode of the file, which a rename keeps.
    pub inode: u64,
    /// Bytes read: the start of the next line.
    pub offset: u64,
    /// The file's first bytes (hex of their SHA-256), since inodes are reused
    /// and files rewritten in place.
    pub head: String,
    /// How many bytes `head` covers.
    pub head_bytes: u64,
}

/// One batch in the spool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Events in the order of sending.
    pub items: Vec<Item>,
    /// Where to read on once these events are safe.
    pub positions: Vec<Position>,
}

/// The frame of an entry.
pub fn encode(sequence: u64, entry: &Entry) -> Vec<u8> {
    let items: usize = entry
        .items
        .iter()
        .map(|item| item.bytes.len() + item.id.len() + 24)
        .sum();
    let mut frame = Vec::with_capacity(HEADER_BYTES + 1_024 + items);
    frame.resize(HEADER_BYTES, 0);
    frame.extend_from_slice(&sequence.to_le_bytes());
    let positions = serde_json::to_vec(&entry.positions).expect("positions are plain fields");
    put(&positions, &mut frame);
    frame.extend_from_slice(&(entry.items.len() as u64).to_le_bytes());
    for item in &entry.items {
        put(item.id.as_bytes(), &mut frame);
        frame.extend_from_slice(&item.time_ms.unwrap_or(i64::MIN).to_le_bytes());
        put(&item.bytes, &mut frame);
    }
    let payload_bytes = (frame.len() - HEADER_BYTES) as u32;
    frame[..4].copy_from_slice(&MAGIC);
    frame[4..8].copy_from_slice(&payload_bytes.to_le_bytes());
    let check = check(&frame[4..8], &frame[HEADER_BYTES..]);
    frame[8..16].copy_from_slice(&check);
    frame
}

/// The payload's length that a header claims, if it is a header at all.
pub fn payload_bytes(header: &[u8; HEADER_BYTES]) -> Option<usize> {
    let length = u32::from_le_bytes(header[4..8].try_into().ok()?) as usize;
    (header[..4] == MAGIC && length <= PAYLOAD_BYTES_MAX).then_some(length)
}

/// The sequence and entry of a whole frame; `None` if anything in it is off.
pub fn decode(frame: &[u8]) -> Option<(u64, Entry)> {
    let header: &[u8; HEADER_BYTES] = frame.get(..HEADER_BYTES)?.try_into().ok()?;
    let payload = frame.get(HEADER_BYTES..HEADER_BYTES + payload_bytes(header)?)?;
    if header[8..16] != check(&header[4..8], payload) {
        return None;
    }
    let mut rest = payload;
    let sequence = u64::from_le_bytes(take(&mut rest, 8)?.try_into().ok()?);
    let positions = serde_json::from_slice(take_block(&mut rest)?).ok()?;
    let count = u64::from_le_bytes(take(&mut rest, 8)?.try_into().ok()?);
    let mut items = Vec::new();
    for _ in 0..count {
        let id = std::str::from_utf8(take_block(&mut rest)?).ok()?.to_owned();
        let time = i64::from_le_bytes(take(&mut rest, 8)?.try_into().ok()?);
        let time_ms = (time != i64::MIN).then_some(time);
        let bytes = take_block(&mut rest)?.to_vec();
        items.push(Item { id, time_ms, bytes });
    }
    rest.is_empty()
        .then_some((sequence, Entry { items, positions }))
}

/// The first eight bytes of SHA-256, as there is no checksum at hand that is
/// cheaper to build with; it runs far above the rate of any log.
fn check(length: &[u8], payload: &[u8]) -> [u8; 8] {
    let digest = Sha256::new()
        .chain_update(length)
        .chain_update(payload)
        .finalize();
    digest[..8].try_into().expect("a digest has 32 bytes")
}

fn put(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

fn take_block<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_le_bytes(take(rest, 4)?.try_into().ok()?);
    take(rest, length as usize)
}
