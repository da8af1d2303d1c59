//! A flipped byte is damage with a place, or, only behind the last synced
//! position, a torn tail (L1).

use super::*;

fn flipped(content: &[u8], at: usize) -> Vec<u8> {
    let mut flipped = content.to_vec();
    flipped[at] ^= 0x20;
    flipped
}

/// Frame `lost` of the sample is bad and must be named; all else is readable
/// and appends go on.
fn check_damage(sample: &Sample, content: &[u8], lost: usize, at: usize) {
    let dir = folder_with(&sample.name, content);
    let journal = open(dir.path());
    let damages = journal.stats().damages;
    assert_eq!(damages.len(), 1, "byte {at}: {damages:?}");
    let damage = &damages[0];
    assert_eq!(damage.byte as usize, sample.starts[lost], "byte {at}");
    assert_eq!(
        (damage.first_offset, damage.end_offset),
        (lost as u64, lost as u64 + 1)
    );
    assert_eq!(
        sample.name.file_name().unwrap().to_str(),
        Some(&*damage.segment)
    );
    let (texts, error) = read_until_error(&journal, 0);
    assert_eq!(texts, TEXTS[..lost], "byte {at}");
    let Some(LogError::Damaged(named)) = error else {
        panic!("byte {at}: {error:?}")
    };
    assert_eq!(named.first_offset, lost as u64);
    let (texts, error) = read_until_error(&journal, lost as u64 + 1);
    assert!(error.is_none());
    assert_eq!(texts, TEXTS[lost + 1..], "byte {at}");
    if !at.is_multiple_of(5) {
        return;
    }
    assert_eq!(append(&journal, "new"), TEXTS.len() as u64, "byte {at}");
    let (texts, _) = read_until_error(&journal, TEXTS.len() as u64);
    assert_eq!(texts, ["new"]);
    assert_eq!(
        std::fs::read(&segments(dir.path())[0]).unwrap(),
        content,
        "left as it is"
    );
}

#[test]
fn any_flipped_byte_of_frames_is_damage_or_behind_the_synced_position() {
    let sample = sample();
    let last = TEXTS.len() - 1;
    for at in 4096..sample.starts[TEXTS.len()] {
        let content = flipped(&sample.killed, at);
        let hit = sample.starts.iter().filter(|&&start| start <= at).count() - 1;
        if hit < last {
            check_damage(&sample, &content, hit, at);
            continue;
        }
        // No later frame says that the last one was synced.
        let dir = folder_with(&sample.name, &content);
        let journal = open(dir.path());
        assert_eq!(read_all(&journal), TEXTS[..last], "byte {at}");
        assert!(journal.stats().damages.is_empty());
        assert!(journal.stats().torn_tail_bytes > 0);
    }
}

#[test]
fn a_flipped_byte_in_the_last_acknowledged_frame_is_damage_once_a_seal_followed() {
    let sample = sample();
    let last = TEXTS.len() - 1;
    for at in sample.starts[last]..sample.starts[last + 1] {
        check_damage(&sample, &flipped(&sample.closed, at), last, at);
    }
}

#[test]
fn a_flipped_byte_in_the_seal_loses_nothing() {
    let sample = sample();
    let seal = sample.starts[TEXTS.len()];
    for at in seal..seal + 64 {
        let dir = folder_with(&sample.name, &flipped(&sample.closed, at));
        let journal = open(dir.path());
        assert_eq!(read_all(&journal), TEXTS, "byte {at}");
        assert_eq!(append(&journal, "new"), TEXTS.len() as u64);
        drop(journal);
        assert_eq!(
            read_all(&open(dir.path())).len(),
            TEXTS.len() + 1,
            "byte {at}"
        );
    }
}

#[test]
fn a_flipped_byte_in_a_segment_header_is_named_and_loses_no_record() {
    let sample = sample();
    for at in (0..4096).step_by(61).chain([0, 8, 48, 4095]) {
        let dir = folder_with(&sample.name, &flipped(&sample.closed, at));
        let journal = open(dir.path());
        let damages = journal.stats().damages;
        assert_eq!(damages.len(), 1, "byte {at}");
        assert_eq!((damages[0].byte, damages[0].end_offset), (0, 0));
        assert_eq!(read_all(&journal), TEXTS, "byte {at}");
        append(&journal, "new");
        assert_eq!(read_all(&journal).len(), TEXTS.len() + 1);
    }
}

#[test]
fn several_bad_frames_in_a_row_are_one_place() {
    let sample = sample();
    let mut content = sample.closed.clone();
    content[sample.starts[1]..sample.starts[4]].fill(0xff);
    let dir = folder_with(&sample.name, &content);
    let journal = open(dir.path());
    let damages = journal.stats().damages;
    assert_eq!(damages.len(), 1);
    assert_eq!((damages[0].first_offset, damages[0].end_offset), (1, 4));
}

#[test]
fn an_accepted_range_is_passed_as_a_gap() {
    let sample = sample();
    let dir = folder_with(
        &sample.name,
        &flipped(&sample.closed, sample.starts[2] + 70),
    );
    let journal = open(dir.path());
    journal.accept_loss(vec![0..2]);
    assert!(
        read_until_error(&journal, 0).1.is_some(),
        "another range is no leave"
    );
    journal.accept_loss(vec![2..2, 2..3]);
    let expected = ["alpha", "beta", "gap 2..3", "delta", "epsilon", "zeta"];
    assert_eq!(read_all(&journal), expected);
    journal.accept_loss(Vec::new());
    let mut reader = journal.reader(2);
    assert!(reader.next(1).is_err());
    reader.accept_loss(vec![0..6]);
    assert_eq!(
        reader.next(1).unwrap().unwrap().gap(),
        Some(2..3),
        "no more than is lost"
    );
}

/// Three segments of two records each.
fn three_segments() -> tempfile::TempDir {
    let dir = scratch();
    let journal = open(dir.path());
    for (index, text) in TEXTS.into_iter().enumerate() {
        append(&journal, text);
        if index % 2 == 1 && index < 5 {
            journal.roll().unwrap();
        }
    }
    drop(journal);
    assert_eq!(segments(dir.path()).len(), 3);
    dir
}

#[test]
fn damage_in_an_older_segment_is_found_by_reads_and_by_verify() {
    let dir = three_segments();
    let path = &segments(dir.path())[1];
    let content = flipped(&std::fs::read(path).unwrap(), 4096 + 70);
    std::fs::write(path, content).unwrap();
    let journal = open(dir.path());
    assert!(
        journal.stats().damages.is_empty(),
        "older segments are not read at start"
    );
    let (texts, error) = read_until_error(&journal, 0);
    assert_eq!(texts, TEXTS[..2]);
    assert!(matches!(error, Some(LogError::Damaged(_))));
    assert_eq!(journal.stats().damages.len(), 1);
    assert_eq!(read_until_error(&journal, 3).0, TEXTS[3..]);
    let data = scratch();
    std::fs::rename(dir.path(), data.path().join("events")).unwrap();
    let report = crate::verify(data.path(), Topic::Events, &mut |_| {}).unwrap();
    assert_eq!(report.damages, journal.stats().damages);
    let report = crate::inspect(data.path(), Topic::Events, &mut |_| {}).unwrap();
    assert!(report.damages.is_empty(), "inspect reads headers only");
    assert_eq!((report.start, report.end, report.records), (0, 6, 6));
}

#[test]
fn a_segment_that_is_gone_is_named_with_its_records() {
    let dir = three_segments();
    std::fs::remove_file(&segments(dir.path())[1]).unwrap();
    let journal = open(dir.path());
    assert_eq!(
        journal.stats().damages.len(),
        1,
        "the hole is seen at start"
    );
    let (texts, error) = read_until_error(&journal, 0);
    assert_eq!(texts, TEXTS[..2]);
    let Some(LogError::Damaged(damage)) = error else {
        panic!("{error:?}")
    };
    assert_eq!((damage.first_offset, damage.end_offset), (2, 4));
    journal.accept_loss(vec![2..4]);
    assert_eq!(
        read_all(&journal),
        ["alpha", "beta", "gap 2..4", "epsilon", "zeta"]
    );
}

#[test]
fn a_damaged_header_between_segments_loses_no_record() {
    let dir = three_segments();
    let path = &segments(dir.path())[1];
    let content = flipped(&std::fs::read(path).unwrap(), 100);
    std::fs::write(path, content).unwrap();
    let journal = open(dir.path());
    assert_eq!(journal.stats().damages.len(), 1);
    assert_eq!(read_all(&journal), TEXTS);
}
