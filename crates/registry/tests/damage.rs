//! A damaged control topic: what is lost is named, what a copy holds is not lost (L1).

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use fulmar_log::{Journal, Log, LogConfig, ReadOnly, Topic};
use fulmar_registry::{Change, Folded, Registry, RegistryError, Snapshot};

const NOW: i64 = 1_700_000_000_000;
/// A segment's header, then frames; the first record is `default`, then a, b, c, d.
const FIRST_FRAME: u64 = 4_096;

fn open(dir: &Path) -> (Log, Arc<Journal>) {
    let config = LogConfig {
        disk_floor_bytes: Some(0),
        ..LogConfig::default()
    };
    let log = Log::open(dir, config).unwrap();
    let control = log.journal(Topic::Control);
    (log, control)
}

/// A closed log whose projects are `default`, a, b, c, d, one record each.
fn five_projects() -> (tempfile::TempDir, Snapshot) {
    let dir = tempfile::tempdir().unwrap();
    let (log, control) = open(dir.path());
    let registry = Registry::open(control).unwrap();
    registry.ensure_default_project(NOW).unwrap();
    for project in ["a", "b", "c", "d"] {
        let project = project.to_owned();
        registry
            .change(Change::ProjectCreated { project }, NOW)
            .unwrap();
    }
    log.close();
    let state = (*registry.current()).clone();
    (dir, state)
}

/// Flips a byte in the payload of the frame of record `record`.
fn damage(dir: &Path, record: u64) {
    let folder = dir.join("control");
    let path = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap();
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path.path())
        .unwrap();
    let mut at = FIRST_FRAME;
    let mut seen = 0;
    loop {
        let mut header = [0; 64];
        file.read_exact_at(&mut header, at).unwrap();
        let payload = u64::from(u32::from_le_bytes(header[8..12].try_into().unwrap()));
        let is_record = header[4] == 1;
        if is_record && seen == record {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at + 64 + 10).unwrap();
            return file.write_all_at(&[byte[0] ^ 1], at + 64 + 10).unwrap();
        }
        seen += u64::from(is_record);
        at += 64 + payload.next_multiple_of(64);
    }
}

fn projects(state: &Snapshot) -> Vec<&str> {
    state.projects.keys().map(String::as_str).collect()
}

#[test]
fn a_lost_record_is_named_with_the_command_that_gives_it_up() {
    let (dir, _) = five_projects();
    damage(dir.path(), 2);
    let (_log, control) = open(dir.path());
    let refused = Registry::open(control).err().unwrap();
    assert!(matches!(
        refused,
        RegistryError::Damaged { from: 2, to: 2, .. }
    ));
    let told = refused.to_string();
    for part in [
        "damage in control, segment 0000000000-00000000000000000000.seg, byte ",
        "a key revoked",
        "`fulmar log accept-loss control 2-2`",
    ] {
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn what_was_given_up_is_passed_from_then_on() {
    let (dir, _) = five_projects();
    damage(dir.path(), 2);
    let (log, control) = open(dir.path());
    let folded = Folded::of(&control, None).unwrap();
    assert_eq!(projects(&folded.state), ["a", "c", "d", "default"]);
    assert_eq!(folded.state.revision, 5, "offsets are not used again");
    let registry = Registry::of(control, folded.state);
    let loss = Change::LossAccepted {
        topic: "control".to_owned(),
        from: 2,
        to: 2,
    };
    assert_eq!(registry.change(loss, NOW).unwrap(), 6);
    log.close();

    let (_log, control) = open(dir.path());
    let registry = Registry::open(control).unwrap();
    assert_eq!(projects(&registry.current()), ["a", "c", "d", "default"]);
    let beside = ReadOnly::open(dir.path(), Topic::Control).unwrap();
    let folded = Folded::of(&beside, None).unwrap();
    assert_eq!(folded.state, *registry.current(), "from outside too");
    assert!(folded.lost.is_empty());
}

#[test]
fn a_copy_that_holds_the_lost_records_loses_nothing() {
    let (dir, whole) = five_projects();
    for record in [0, 2, 4] {
        damage(dir.path(), record);
    }
    let (_log, control) = open(dir.path());
    let saved = Snapshot::of_saved(&whole.save()).unwrap();
    let folded = Folded::of(&control, Some(saved)).unwrap();
    assert_eq!((&folded.state, folded.lost.len()), (&whole, 0));
}

#[test]
fn a_copy_that_is_older_than_the_damage_does_not_hide_it() {
    let (dir, whole) = five_projects();
    let early = {
        let (_log, control) = open(dir.path());
        let mut early = Registry::open(control).unwrap().current().as_ref().clone();
        early.projects.retain(|id, _| id == "a" || id == "default");
        early.revision = 2;
        early
    };
    damage(dir.path(), 0);
    damage(dir.path(), 3);
    let (_log, control) = open(dir.path());
    let folded = Folded::of(&control, Some(early)).unwrap();
    assert_eq!(projects(&folded.state), ["a", "b", "d", "default"]);
    let lost: Vec<_> = folded.lost.iter().map(|it| (it.from, it.end)).collect();
    assert_eq!(lost, [(3, 4)], "the first record is in the copy");
    assert_eq!(folded.state.revision, whole.revision);
}

#[test]
fn a_cut_tail_of_control_is_lost_and_a_copy_brings_it_back() {
    let (dir, whole) = five_projects();
    let folder = dir.path().join("control");
    let path = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(path.path())
        .unwrap();
    // Two frames are left, of 64 bytes of header and 128 of payload each.
    file.set_len(FIRST_FRAME + 2 * 192).unwrap();
    let (_log, control) = open(dir.path());
    let folded = Folded::of(&control, None).unwrap();
    let lost: Vec<_> = folded.lost.iter().map(|it| (it.from, it.end)).collect();
    assert_eq!(lost, [(2, 5)]);
    let folded = Folded::of(&control, Some(whole.clone())).unwrap();
    assert_eq!((folded.state, folded.lost.len()), (whole, 0));
}

#[test]
fn ranges_that_touch_give_up_what_they_cover_together() {
    let mut state = Snapshot::default();
    let loss = |from, to| fulmar_registry::AcceptedLoss {
        topic: "control".to_owned(),
        from,
        to,
    };
    state.losses = vec![loss(5, 6), loss(2, 4), loss(9, 9)];
    assert!(state.gave_up("control", 2, 7));
    assert!(state.gave_up("control", 3, 6));
    assert!(!state.gave_up("control", 2, 8));
    assert!(!state.gave_up("control", 1, 3));
    assert!(!state.gave_up("events", 2, 3));
}

#[test]
fn a_copy_of_another_version_is_none() {
    let (_dir, whole) = five_projects();
    let text = String::from_utf8(whole.save()).unwrap();
    let newer = text.replacen("\"format\":1", "\"format\":2", 1);
    assert_ne!(text, newer);
    assert!(Snapshot::of_saved(newer.as_bytes()).is_none());
    assert!(Snapshot::of_saved(b"{").is_none());
}
