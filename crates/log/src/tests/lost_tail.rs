//! A tail that is known to have been synced and is gone is damage, not a torn
//! tail, whatever the frames that are left say (L1).

use super::*;
use crate::{Damage, Ends, Log};

/// The texts of a journal that was opened by one who knows of six records,
/// with the gap at the end given up.
fn check_lost(dir: &Path, whole: usize) -> Damage {
    let before: Vec<_> = segments(dir).iter().map(std::fs::read).collect();
    let journal = open_knowing(dir, &config(1 << 16), 6);
    assert_eq!(journal.end(), 6, "no offset is used twice");
    let damages = journal.stats().damages;
    assert_eq!(damages.len(), 1, "{damages:?}");
    let lost = damages[0].clone();
    assert_eq!((lost.first_offset, lost.end_offset), (whole as u64, 6));
    assert_eq!(journal.stats().torn_tail_bytes, 0);
    let (texts, error) = read_until_error(&journal, 0);
    assert_eq!(texts, TEXTS[..whole]);
    let Some(LogError::Damaged(found)) = error else {
        panic!("{error:?}")
    };
    assert_eq!(found, lost, "a read finds what the start named");
    assert_eq!(append(&journal, "new"), 6);
    assert_eq!(read_until_error(&journal, 6).0, ["new"]);
    drop(journal);
    for (path, before) in segments(dir).iter().zip(before) {
        assert_eq!(std::fs::read(path).unwrap(), before.unwrap(), "left as is");
    }

    // The loss is in the log: who knows of nothing finds it too.
    let journal = open(dir);
    assert_eq!(journal.stats().damages, std::slice::from_ref(&lost));
    journal.accept_loss(vec![whole as u64..6]);
    let gap = format!("gap {whole}..6");
    let mut expected = TEXTS[..whole].to_vec();
    expected.extend([gap.as_str(), "new"]);
    assert_eq!(read_all(&journal), expected);
    lost
}

#[test]
fn a_tail_that_was_cut_off_below_its_seal_is_damage_wherever_it_was_cut() {
    let sample = sample();
    for cut in 4096..sample.starts[TEXTS.len()] {
        let ends = &sample.starts[1..];
        let whole = ends.iter().filter(|&&end| end <= cut).count();
        let dir = folder_with(&sample.name, &sample.closed[..cut]);
        let lost = check_lost(dir.path(), whole);
        assert_eq!(lost.byte as usize, sample.starts[whole], "cut at {cut}");
    }
}

#[test]
fn a_flipped_byte_in_the_last_frame_is_no_torn_tail_for_one_who_knows_better() {
    let sample = sample();
    let last = TEXTS.len() - 1;
    for at in (sample.starts[last]..sample.starts[last + 1]).step_by(7) {
        let mut content = sample.killed.clone();
        content[at] ^= 0x20;
        check_lost(folder_with(&sample.name, &content).path(), last);
    }
}

#[test]
fn a_last_segment_that_is_gone_is_damage() {
    let dir = scratch();
    let journal = open(dir.path());
    for (index, text) in TEXTS.into_iter().enumerate() {
        append(&journal, text);
        if index == 3 {
            journal.roll().unwrap();
        }
    }
    drop(journal);
    std::fs::remove_file(&segments(dir.path())[1]).unwrap();
    check_lost(dir.path(), 4);
}

#[test]
fn a_topic_whose_segments_are_all_gone_is_damage() {
    check_lost(scratch().path(), 0);
}

#[test]
fn a_loss_is_kept_in_sight_as_long_as_records_are() {
    let dir = scratch();
    let journal = open_knowing(dir.path(), &config(1 << 16), 6);
    let now_ms = crate::commit::now_ms();
    journal.release("fold", 6);
    let week_ms = 7 * 24 * 3_600_000;
    journal
        .shared
        .expire(now_ms + week_ms - 3_600_000, &|| false);
    assert_eq!(journal.start(), 0, "within the week that records are kept");
    journal
        .shared
        .expire(now_ms + week_ms + 3_600_000, &|| false);
    assert_eq!(journal.start(), 6);
}

#[test]
fn one_who_knows_of_less_than_there_is_changes_nothing() {
    let sample = sample();
    let last = sample.starts[TEXTS.len() - 1];
    for known in [0, 4, 5] {
        let dir = folder_with(&sample.name, &sample.killed[..last + 80]);
        let journal = open_knowing(dir.path(), &config(1 << 16), known);
        assert_eq!(read_all(&journal), TEXTS[..5]);
        assert_eq!(journal.stats().torn_tail_bytes, 80, "a torn tail is cut");
        assert!(journal.stats().damages.is_empty());
        assert_eq!(segments(dir.path()).len(), 1);
    }
}

/// A log of six records in `events`, closed; its folder and the segment.
fn closed_log() -> (tempfile::TempDir, PathBuf) {
    let dir = scratch();
    let log = Log::open(dir.path(), config(1 << 16)).unwrap();
    for text in TEXTS {
        append(&log.journal(Topic::Events), text);
    }
    log.close();
    let path = segments(&dir.path().join("events")).remove(0);
    (dir, path)
}

#[test]
fn a_clean_stop_notes_how_far_it_came_and_the_next_start_asks_for_it() {
    let (dir, path) = closed_log();
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(4096 + 3 * 128).unwrap();
    let verify = || crate::verify(dir.path(), Topic::Events, &mut |_| {}).unwrap();
    let told = verify().damages;
    assert_eq!(told.len(), 1, "also before a start: {told:?}");
    assert_eq!((told[0].first_offset, told[0].end_offset), (3, 6));

    let log = Log::open(dir.path(), config(1 << 16)).unwrap();
    let journal = log.journal(Topic::Events);
    assert_eq!(read_until_error(&journal, 0).0, TEXTS[..3]);
    assert_eq!(append(&journal, "new"), 6);
    log.close();
    let report = verify();
    assert_eq!((report.end, report.records), (7, 4));
    assert_eq!(report.damages.len(), 1);
    let found = &report.damages[0];
    assert_eq!((found.first_offset, found.end_offset), (3, 6));
}

#[test]
fn what_a_fold_committed_is_a_witness_too() {
    let (dir, path) = closed_log();
    std::fs::remove_file(dir.path().join("ends")).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(4096 + 3 * 128).unwrap();
    let mut witness = Ends::default();
    witness.raise(Topic::Events, 5);
    let log = Log::open_with_witness(dir.path(), config(1 << 16), &witness).unwrap();
    let damages = log.stats().remove(0).damages;
    assert_eq!((damages[0].first_offset, damages[0].end_offset), (3, 5));
}

#[test]
fn a_topic_without_its_folder_is_named_before_a_start() {
    let (dir, _) = closed_log();
    std::fs::remove_dir_all(dir.path().join("events")).unwrap();
    let report = crate::inspect(dir.path(), Topic::Events, &mut |_| {}).unwrap();
    let damages = report.damages;
    assert_eq!((damages[0].first_offset, damages[0].end_offset), (0, 6));
}

#[test]
fn a_first_segment_that_a_fold_needs_and_that_is_gone_is_damage() {
    let dir = scratch();
    let journal = open(dir.path());
    for text in TEXTS {
        append(&journal, text);
        journal.roll().unwrap();
    }
    drop(journal);
    for path in &segments(dir.path())[..4] {
        std::fs::remove_file(path).unwrap();
    }
    let journal = open(dir.path());
    assert!(journal.stats().damages.is_empty(), "it may be retention");
    journal.release("ahead", 5);
    assert!(journal.stats().damages.is_empty());
    journal.release("behind", 2);
    let damages = journal.stats().damages;
    let lost: Vec<_> = damages
        .iter()
        .map(|it| it.first_offset..it.end_offset)
        .collect();
    assert_eq!(lost, [2..4]);
    assert_eq!(journal.damages_in(&(0..6)).unwrap(), damages);
    assert!(journal.read(2, 1).is_err());
    journal.accept_loss(vec![2..4]);
    let (texts, error) = read_until_error(&journal, 2);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(texts, ["gap 2..4", "epsilon", "zeta"]);
    assert!(journal.read(1, 1).is_err(), "no more than was given up");
}

const CHILD_DIR: &str = "FULMAR_TEST_LOST_TAIL_DIR";

/// A start that finds a loss, an append behind it, and a stop.
#[test]
fn child_starts_behind_a_loss() {
    let Some(dir) = std::env::var_os(CHILD_DIR).map(PathBuf::from) else {
        return;
    };
    let log = Log::open(&dir, config(1 << 16)).unwrap();
    assert!(append(&log.journal(Topic::Events), "child") >= 6);
    log.close();
}

/// Runs the child on a log that lost three of six records; the log after it.
fn starts_behind_a_loss(faults: &[(&str, String)]) -> tempfile::TempDir {
    let (dir, path) = closed_log();
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(4096 + 3 * 128).unwrap();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "tests::lost_tail::child_starts_behind_a_loss"])
        .env(CHILD_DIR, dir.path())
        .envs(faults.iter().map(|(name, value)| (name, value)));
    command.output().unwrap();
    dir
}

#[test]
fn death_at_any_call_of_a_start_that_finds_a_loss_hides_nothing_of_it() {
    let count = tempfile::NamedTempFile::new().unwrap();
    let count_path = count.path().display().to_string();
    starts_behind_a_loss(&[("FULMAR_FAULT_COUNT_FILE", count_path)]);
    let calls = std::fs::read_to_string(count.path()).unwrap();
    let calls: u64 = calls.trim().parse().unwrap();
    assert!(calls > 10, "the hooks are compiled in: {calls}");
    for call in 1..=calls {
        let mut faults = vec![("FULMAR_FAULT_KILL_AT", call.to_string())];
        if call % 2 == 0 {
            faults.push(("FULMAR_FAULT_POWER_LOSS", call.to_string()));
        }
        let dir = starts_behind_a_loss(&faults);
        let log = Log::open(dir.path(), config(1 << 16)).unwrap();
        let journal = log.journal(Topic::Events);
        let damages = journal.stats().damages;
        assert_eq!(damages.len(), 1, "call {call}: {damages:?}");
        let lost = damages[0].first_offset..damages[0].end_offset;
        assert_eq!(lost, 3..6, "call {call}");
        assert_eq!(read_until_error(&journal, 0).0, TEXTS[..3], "call {call}");
        assert!(append(&journal, "new") >= 6, "call {call}");
        let texts = read_until_error(&journal, 6).0;
        assert!(
            texts == ["new"] || texts == ["child", "new"],
            "call {call}: {texts:?}"
        );
    }
}
