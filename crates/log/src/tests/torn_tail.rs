//! Cut at any byte, the log is a prefix of itself (L1).

use super::*;
use crate::frame::{FrameHeader, Kind};

fn check_prefix(sample: &Sample, content: &[u8], whole: usize, cut: usize) {
    let dir = folder_with(&sample.name, content);
    let journal = open(dir.path());
    assert_eq!(read_all(&journal), TEXTS[..whole], "cut at {cut}");
    assert!(journal.stats().damages.is_empty(), "cut at {cut}");
    // What follows is found again, and nothing of the cut tail with it.
    if cut.is_multiple_of(7) {
        append(&journal, "new");
        drop(journal);
        let mut expected = TEXTS[..whole].to_vec();
        expected.push("new");
        assert_eq!(read_all(&open(dir.path())), expected, "cut at {cut}");
    }
}

#[test]
fn a_file_cut_at_every_byte_gives_a_prefix() {
    let sample = sample();
    let end = sample.starts[TEXTS.len()];
    for cut in 4096..=end {
        let whole = sample.starts[1..]
            .iter()
            .filter(|&&frame_end| frame_end <= cut)
            .count();
        check_prefix(&sample, &sample.killed[..cut], whole, cut);
    }
}

#[test]
fn a_tail_of_zeros_from_every_byte_gives_a_prefix() {
    let sample = sample();
    let end = sample.starts[TEXTS.len()];
    for cut in 4096..end {
        let mut content = sample.killed.clone();
        content[cut..].fill(0);
        // A frame whose last bytes are zeros anyway is whole without them.
        let is_whole = |&&frame_end: &&usize| content[..frame_end] == sample.killed[..frame_end];
        let whole = sample.starts[1..].iter().filter(is_whole).count();
        check_prefix(&sample, &content, whole, cut);
    }
}

#[test]
fn a_cut_tail_is_counted() {
    let sample = sample();
    let last = sample.starts[TEXTS.len() - 1];
    let dir = folder_with(&sample.name, &sample.killed[..last + 80]);
    let journal = open(dir.path());
    assert_eq!(journal.stats().torn_tail_bytes, 80);
    drop(journal);
    assert_eq!(open(dir.path()).stats().torn_tail_bytes, 0, "cut once");
}

/// A frame of this sample's segment that no sync followed.
fn unsynced_frame(sample: &Sample, text: &str, first_offset: u64) -> Vec<u8> {
    let first = sample.killed[4096..4160].first_chunk().unwrap();
    let like = FrameHeader::decode(first, None).unwrap();
    let payload = one(text).into_bytes();
    let header = FrameHeader {
        kind: Kind::Records,
        payload_bytes: payload.len() as u32,
        payload_crc: crc32c::crc32c(&payload),
        count: 1,
        first_offset,
        append_time_ms: i64::MAX,
        synced_bytes: sample.starts[TEXTS.len()] as u64,
        nonce: like.nonce,
    };
    let mut frame = header.encode().to_vec();
    frame.extend(&payload);
    frame.resize(frame.len().next_multiple_of(64), 0);
    frame
}

#[test]
fn of_a_group_without_its_first_frame_nothing_is_kept_or_comes_back() {
    let sample = sample();
    let end = sample.starts[TEXTS.len()];
    let mut content = sample.killed[..end].to_vec();
    let mut torn = unsynced_frame(&sample, "torn", 6);
    torn[70] ^= 1;
    content.extend(torn);
    content.extend(unsynced_frame(&sample, "late", 7));
    content.resize(1 << 16, 0);
    let dir = folder_with(&sample.name, &content);
    let journal = open(dir.path());
    assert_eq!(read_all(&journal), TEXTS);
    assert_eq!(journal.stats().torn_tail_bytes, 256);
    // A frame of the same size where the torn one was: the stale one behind
    // it would seem to follow, had it stayed.
    assert_eq!(append(&journal, "next"), 6);
    drop(journal);
    let texts = read_all(&open(dir.path()));
    assert_eq!(texts[6..], ["next"]);
}

#[test]
fn good_frames_that_no_sync_followed_are_kept() {
    let sample = sample();
    let mut content = sample.killed[..sample.starts[TEXTS.len()]].to_vec();
    content.extend(unsynced_frame(&sample, "six", 6));
    content.extend(unsynced_frame(&sample, "seven", 7));
    let dir = folder_with(&sample.name, &content);
    let texts = read_all(&open(dir.path()));
    assert_eq!(texts[6..], ["six", "seven"]);
}
