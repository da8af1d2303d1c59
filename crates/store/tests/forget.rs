//! What operators have forgotten: no query shows it, compaction removes it, and what comes later
//! begins anew.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::SystemTime;

use fulmar_event::{Door, Enrichment, Head, Records, ReplayView, Timestamp, TrackView, session_id};
use fulmar_store::Table;
use support::{Folder, Open, forget, open_with_workers, rows, track};

fn now_ms() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64
}

/// An event of a device, and of a profile where one is named.
fn view(id: &str, device: &str, profile: &str, out: &mut Records) {
    let event = TrackView {
        name: "screen_view",
        device_id: device,
        profile_id: profile,
        ..TrackView::default()
    };
    track(id, now_ms(), &event, out);
}

/// A part of a session's recording.
fn recording(id: &str, session: &str, out: &mut Records) {
    let time = Timestamp::from_millis(now_ms());
    let head = Head {
        event_id: id,
        time,
        ingest_time: time,
        gateway: "",
        batch_id: "",
        project: "shop",
        client: "client",
        key: "d-1",
        door: Door::Track,
        control_offset: 0,
        enrichment: Enrichment::default(),
    };
    let view = ReplayView {
        session_id: session,
        device_id: "d-1",
        started_at: Some(time),
        ended_at: Some(time),
        payload: b"[]",
        ..ReplayView::default()
    };
    head.append_to(&view, 0, out);
}

fn column(open: &Open, table: Table, column: &'static str) -> Vec<String> {
    let mut values: Vec<String> = rows(open, table)
        .iter()
        .map(|row| row[column].clone())
        .collect();
    values.sort();
    values
}

#[test]
fn rows_of_before_go_in_every_file_and_those_of_later_stay() {
    for workers in [1, 3] {
        let folder = Folder::new();
        let mut open = open_with_workers(folder.path(), workers);
        let mut records = Records::new();
        view("e-1", "d-1", "", &mut records);
        view("e-2", "d-1", "u-1", &mut records);
        view("e-3", "d-2", "u-2", &mut records);
        open.append(records);
        open.fold_all();
        // One day's file beside a block: both hold rows of the profile.
        open.lake.compact_now().unwrap();
        let mut records = Records::new();
        view("e-4", "d-1", "u-1", &mut records);
        forget("f-1", "shop", "u-1", &mut records);
        view("e-5", "d-1", "u-1", &mut records);
        open.append(records);
        open.fold_all();
        let snapshot = open.lake.snapshot();
        let [asked] = snapshot.forgotten() else {
            panic!("one is noted");
        };
        assert_eq!((asked.profile.as_deref(), asked.before), (Some("u-1"), 4));

        let report = open.lake.compact_now().unwrap();
        // e-1 and the session's start are from before it was identified: the device's.
        let left = column(&open, Table::Events, "event_id");
        let starts = left.iter().filter(|id| id.ends_with("-start")).count();
        let sent: Vec<&str> = left
            .iter()
            .map(String::as_str)
            .filter(|id| id.len() == 3)
            .collect();
        assert_eq!(
            (sent, starts),
            // The new session of d-1 begins in the bucket of the old one, and has its id.
            (vec!["e-1", "e-3", "e-5"], 2),
            "{workers} workers"
        );
        assert_eq!(column(&open, Table::Sessions, "profile_id"), ["u-1", "u-2"]);
        let versions = column(&open, Table::Sessions, "version");
        assert_eq!(versions, ["1", "1"], "what comes later is a new session");
        assert_eq!(report.rows_forgotten, 3, "e-2, e-4, the session");
        let snapshot = open.lake.snapshot();
        assert!(snapshot.forgotten()[0].removed_ms.is_some());
        assert!(
            !snapshot.forgotten()[0].concerns(Table::Events),
            "nothing is hidden any more"
        );
    }
}

#[test]
fn a_sessions_versions_from_before_it_was_identified_go_with_it() {
    let folder = Folder::new();
    let mut open = folder.open();
    for (id, profile) in [("e-1", ""), ("e-2", "u-1")] {
        let mut records = Records::new();
        view(id, "d-1", profile, &mut records);
        open.append(records);
        open.fold_all();
    }
    assert_eq!(column(&open, Table::Sessions, "profile_id"), ["d-1", "u-1"]);
    let mut records = Records::new();
    forget("f-1", "shop", "u-1", &mut records);
    open.append(records);
    open.fold_all();
    open.lake.compact_now().unwrap();
    assert!(rows(&open, Table::Sessions).is_empty());
}

#[test]
fn a_recording_goes_with_a_session_that_never_had_a_row() {
    let folder = Folder::new();
    let mut open = folder.open();
    let mut records = Records::new();
    view("e-1", "d-1", "u-1", &mut records);
    let id = session_id("shop", "d-1", now_ms(), 30 * 60_000);
    for (chunk, session) in [("c-1", id.as_str()), ("c-2", "another")] {
        recording(chunk, session, &mut records);
    }
    forget("f-1", "shop", "u-1", &mut records);
    open.append(records);
    open.fold_all();
    assert!(rows(&open, Table::Sessions).is_empty());
    let noted = open.lake.snapshot().forgotten()[0].sessions.clone();
    assert_eq!(noted, [id.as_str()]);
    open.lake.compact_now().unwrap();
    assert_eq!(column(&open, Table::SessionReplayChunks, "id"), ["c-2"]);
}

#[test]
fn a_project_goes_whole_and_no_other_with_it() {
    let folder = Folder::new();
    let mut open = folder.open();
    let mut records = Records::new();
    view("e-1", "d-1", "u-1", &mut records);
    support::message("till", "m-1", now_ms(), b"{}", &mut records);
    forget("f-1", "nobody", "", &mut records);
    open.append(records);
    let counts = open.fold_block(&open.block(0, 2));
    assert_eq!(
        (counts.stored, counts.ticks),
        (2, 1),
        "it stands in no ledger"
    );
    open.lake.compact_now().unwrap();
    let messages = rows(&open, Table::Messages).len();
    assert_eq!((messages, rows(&open, Table::Events).len()), (1, 2));
    let mut records = Records::new();
    forget("f-2", "shop", "", &mut records);
    open.append(records);
    open.fold_all();
    assert!(open.live.is_empty(), "no door finds its sessions");
    open.lake.compact_now().unwrap();
    for table in [Table::Events, Table::Sessions] {
        assert!(rows(&open, table).is_empty(), "{}", table.name());
    }
    let left = column(&open, Table::Messages, "project_id");
    assert_eq!(left, ["default"]);
}

#[test]
fn a_damaged_file_keeps_what_it_may_hold_hidden_and_no_other_file_from_being_mended() {
    for damaged_table in [Table::Events, Table::Sessions] {
        let folder = Folder::new();
        let mut open = folder.open();
        for (id, device) in [("e-1", "d-1"), ("e-2", "d-2")] {
            let mut records = Records::new();
            view(id, device, "u-1", &mut records);
            open.append(records);
            open.fold_all();
        }
        let mut records = Records::new();
        forget("f-1", "shop", "u-1", &mut records);
        open.append(records);
        open.fold_all();
        let path = open.lake.snapshot().files(damaged_table)[0].path.clone();
        let length = std::fs::metadata(&*path).unwrap().len() as usize;
        std::fs::write(&*path, vec![0; length]).unwrap();
        assert!(open.lake.compact_now().is_err(), "damage is told");
        let snapshot = open.lake.snapshot();
        let others = snapshot.all().filter(|file| file.path != path);
        let sound: Vec<u64> = others
            .filter(|file| file.table == Table::Events)
            .map(|file| file.entry.rows)
            .collect();
        // Starts of sessions are named for the profile, too: nothing of it is in a sound file.
        assert_eq!(sound.iter().sum::<u64>(), 0, "{}", damaged_table.name());
        let asked = &snapshot.forgotten()[0];
        assert!(asked.removed_ms.is_none() && asked.concerns(Table::Events));
    }
}

#[test]
fn what_was_asked_survives_a_restart_and_a_repeat_asks_nothing() {
    let folder = Folder::new();
    let mut open = folder.open();
    let mut records = Records::new();
    view("e-1", "d-1", "u-1", &mut records);
    forget("f-1", "shop", "u-1", &mut records);
    view("e-2", "d-1", "u-1", &mut records);
    forget("f-1", "shop", "u-1", &mut records);
    open.append(records);
    open.fold_all();
    drop(open);
    let open = folder.open();
    let snapshot = open.lake.snapshot();
    let before: Vec<u64> = snapshot.forgotten().iter().map(|one| one.before).collect();
    assert_eq!(before, [1], "the second is a repeat of the first");
    open.lake.compact_now().unwrap();
    let left = column(&open, Table::Events, "event_id");
    assert!(left.contains(&"e-2".to_owned()) && !left.contains(&"e-1".to_owned()));
}
