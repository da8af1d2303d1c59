//! A damaged folder: the doors go on, what is lost is named, and an operator settles it (L1).

#![allow(clippy::unwrap_used)]

mod server;

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use fulmar_flow::{State, StateBatch};
use serde_json::Value;
use server::{Folder, Ran, Server, sshd_lines};

/// Bytes of a segment before its first frame, and of a frame before its payload.
const SEGMENT_HEADER: u64 = 4_096;
const FRAME_HEADER: u64 = 64;

fn send(folder: &Folder, name: &str, lines: usize) {
    let file = folder.write(name, &sshd_lines(lines));
    let args = ["send", "--door", "agents", "--format", "sshd", "--batch"];
    folder.done(&[&args[..], &["50", "--rebase", &file]].concat());
}

/// A folder with 200 stored events in four frames, its server stopped.
fn stored() -> Folder {
    let folder = Folder::new();
    let running = folder.serve(&[]);
    send(&folder, "auth.log", 200);
    assert_eq!(running.stop().code(), Some(0));
    folder
}

/// The same with a writer that was held back: nothing is stored.
fn logged() -> Folder {
    let folder = Folder::new();
    let running = folder.serve(&["--bench-control"]);
    server::http(&running.ops, "POST", "/bench/hold", None, "");
    send(&folder, "auth.log", 200);
    running.stop();
    folder
}

fn segments(folder: &Folder, topic: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.data().join("log").join(topic)).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn open(path: &Path) -> std::fs::File {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).open(path).unwrap()
}

/// Cuts a segment behind so many frames of records; seals may stand between them.
fn keep_frames(path: &Path, frames: usize) {
    let file = open(path);
    let (mut at, mut seen) = (SEGMENT_HEADER, 0);
    while seen < frames {
        let mut header = [0; FRAME_HEADER as usize];
        file.read_exact_at(&mut header, at).unwrap();
        let payload = u32::from_le_bytes(header[8..12].try_into().unwrap());
        seen += usize::from(header[4] == 1);
        at += FRAME_HEADER + u64::from(payload).next_multiple_of(FRAME_HEADER);
    }
    file.set_len(at).unwrap();
}

fn flip(path: &Path, at: u64) {
    let file = open(path);
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

fn ends_with(folder: &Folder, args: &[&str], code: i32, text: &str) -> Ran {
    let ran = folder.run(args);
    assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.all());
    assert!(ran.all().contains(text), "{args:?}: {}", ran.all());
    ran
}

fn status(folder: &Folder) -> Value {
    let status = folder.json(&["status", "--json"]);
    assert_eq!(status["balanced"], true, "{status}");
    status
}

/// What a start says when it must refuse.
fn refused(folder: &Folder) -> String {
    Server::try_start(folder.serve_command(&[], &[]))
        .map(drop)
        .unwrap_err()
}

#[test]
fn a_lost_tail_that_was_stored_is_named_and_the_writer_goes_on_behind_it() {
    let folder = stored();
    keep_frames(&segments(&folder, "events")[0], 3);
    let before = ends_with(&folder, &["log", "verify"], 10, "records 150 to 200");
    assert!(
        before.stdout.contains("damage in events"),
        "{}",
        before.stdout
    );

    let running = folder.serve(&[]);
    send(&folder, "later.log", 3);
    folder.done(&["drain"]);
    let now = status(&folder);
    assert_eq!(now["folds"][0]["state"], "running");
    assert_eq!(
        (&now["ledger"]["logged"], &now["ledger"]["stored"]),
        (&203.into(), &203.into())
    );
    let place = &now["topics"][0]["damages"][0];
    assert_eq!(
        (&place["first_offset"], &place["end_offset"]),
        (&150.into(), &200.into())
    );
    ends_with(
        &folder,
        &["status"],
        0,
        "damage    events: records 150 to 200",
    );
    ends_with(&folder, &["verify"], 10, "records 150 to 200");

    let answer = folder.json(&["log", "accept-loss", "events", "150-199"]);
    assert_eq!(answer["given_up"][0]["records"], 50);
    let report = folder.json(&["verify", "--json"]);
    assert_eq!(
        (&report["verdict"], &report["given_up"]),
        (&"ok".into(), &50.into())
    );
    ends_with(
        &folder,
        &["log", "verify"],
        0,
        "what is damaged was given up",
    );
    assert_eq!(running.stop().code(), Some(0));
    assert_eq!(folder.json(&["verify", "--json"])["verdict"], "ok");
}

#[test]
fn a_position_tells_of_a_lost_tail_when_nothing_else_does() {
    let folder = stored();
    keep_frames(&segments(&folder, "events")[0], 3);
    std::fs::remove_file(folder.data().join("log/ends")).unwrap();
    ends_with(&folder, &["verify"], 10, "records 150 to 200");
    let running = folder.serve(&[]);
    assert_eq!(status(&folder)["folds"][0]["state"], "running");
    assert_eq!(running.stop().code(), Some(0));
}

#[test]
fn a_lost_tail_that_the_writer_needs_stops_it_until_it_is_given_up() {
    let folder = logged();
    keep_frames(&segments(&folder, "events")[0], 3);
    let running = folder.serve(&[]);
    send(&folder, "later.log", 3);
    let mut now = status(&folder);
    while now["folds"][0]["state"] != "damaged" {
        now = status(&folder);
    }
    assert_eq!(
        (&now["folds"][0]["position"], &now["backlog"]),
        (&150.into(), &53.into())
    );
    let error = now["folds"][0]["error"].as_str().unwrap();
    assert!(error.contains("records 150 to 200"), "{error}");

    folder.done(&["log", "accept-loss", "events", "150-199"]);
    folder.done(&["drain"]);
    let ledger = &status(&folder)["ledger"];
    assert_eq!(
        (&ledger["stored"], &ledger["dropped"]["damage"]),
        (&153.into(), &50.into())
    );
    assert_eq!(folder.json(&["verify", "--json"])["verdict"], "ok");
    assert_eq!(running.stop().code(), Some(0));
}

#[test]
fn a_last_segment_that_is_gone_is_damage() {
    let folder = stored();
    let last = segments(&folder, "events").pop().unwrap();
    std::fs::remove_file(last).unwrap();
    let running = folder.serve(&[]);
    send(&folder, "later.log", 3);
    folder.done(&["drain"]);
    ends_with(&folder, &["verify"], 10, "records 0 to 200");
    folder.done(&["log", "accept-loss", "events", "0-199"]);
    assert_eq!(folder.json(&["verify", "--json"])["verdict"], "ok");
    assert_eq!(status(&folder)["ledger"]["stored"], 203);
    assert_eq!(running.stop().code(), Some(0));
}

#[test]
fn first_segments_that_the_writer_needs_and_that_are_gone_are_damage() {
    let folder = Folder::new();
    let small = ["--set", "log.segment_bytes=1MiB"];
    let running = folder.serve(&small);
    send(&folder, "auth.log", 200);
    assert_eq!(running.stop().code(), Some(0));
    let running = folder.serve(&[&small[..], &["--bench-control"]].concat());
    server::http(&running.ops, "POST", "/bench/hold", None, "");
    for name in ["a.log", "b.log", "c.log"] {
        send(&folder, name, 4_000);
    }
    running.stop();
    let files = segments(&folder, "events");
    assert!(files.len() > 2, "{files:?}");
    std::fs::remove_file(&files[0]).unwrap();
    let name = files[1].file_stem().unwrap().to_str().unwrap();
    let start: u64 = name.split('-').nth(1).unwrap().parse().unwrap();

    let running = folder.serve(&small);
    let place = format!("records 200 to {start}");
    ends_with(&folder, &["verify"], 10, &place);
    ends_with(
        &folder,
        &["status"],
        0,
        &format!("damage    events: {place}"),
    );
    while status(&folder)["folds"][0]["state"] != "damaged" {}
    folder.done(&[
        "log",
        "accept-loss",
        "events",
        &format!("200-{}", start - 1),
    ]);
    folder.done(&["drain"]);
    let ledger = &status(&folder)["ledger"];
    assert_eq!(ledger["dropped"]["damage"], start - 200);
    assert_eq!(ledger["stored"], 200 + 12_200 - start);
    assert_eq!(folder.json(&["verify", "--json"])["verdict"], "ok");
    assert_eq!(running.stop().code(), Some(0));
}

#[test]
fn only_whole_damaged_places_are_given_up_and_once() {
    let folder = stored();
    flip(
        &segments(&folder, "events")[0],
        SEGMENT_HEADER + FRAME_HEADER + 100,
    );
    let accept = |range| ["log", "accept-loss", "events", range];
    ends_with(
        &folder,
        &accept("50-199"),
        1,
        "nothing in events from 50 to 199 is damaged",
    );
    ends_with(
        &folder,
        &accept("0-200"),
        1,
        "goes beyond events, which holds 0 to 200",
    );
    ends_with(&folder, &accept("10-49"), 1, "it is 0-49");
    let wide = folder.json(&accept("0-120"));
    let place = &wide["given_up"][0];
    assert_eq!(
        (&place["from"], &place["to"]),
        (&0.into(), &49.into()),
        "no more than is lost"
    );
    assert_eq!(place["new"], true);
    let again = folder.json(&accept("0-49"));
    assert_eq!(again["given_up"][0]["new"], false);
    assert_eq!(again["revision"], wide["revision"]);
    // The writer had passed it: its rows stay, and count as given up.
    let report = folder.json(&["verify", "--json"]);
    assert_eq!(
        (&report["verdict"], &report["stored"]),
        (&"ok".into(), &200.into())
    );
}

#[test]
fn damage_in_control_that_a_copy_covers_keeps_nobody_out() {
    let folder = stored();
    flip(
        &segments(&folder, "control")[0],
        SEGMENT_HEADER + FRAME_HEADER + 10,
    );
    let running = folder.serve(&[]);
    send(&folder, "later.log", 3);
    folder.done(&["drain"]);
    ends_with(&folder, &["verify"], 10, "damage in control");
    ends_with(&folder, &["status"], 0, "damage    control: records 0 to 1");
    folder.done(&["log", "accept-loss", "control", "0-0"]);
    assert_eq!(folder.json(&["verify", "--json"])["stored"], 203);
    assert_eq!(running.stop().code(), Some(0));
}

/// Damage in the record of the default project, and no copy of the registry.
fn without_registry() -> Folder {
    let folder = stored();
    flip(
        &segments(&folder, "control")[0],
        SEGMENT_HEADER + FRAME_HEADER + 10,
    );
    let state = State::open(&folder.data().join("state")).unwrap();
    let mut batch = StateBatch::new();
    batch.delete("registry", *b"copy");
    state.commit(batch).unwrap();
    folder
}

#[test]
fn damage_in_control_without_a_copy_is_refused_until_it_is_given_up() {
    let folder = without_registry();
    let told = refused(&folder);
    for part in [
        "damage in control, segment 0000000000-00000000000000000000.seg, byte 4096",
        "a key revoked",
        "`fulmar log accept-loss control 0-0`",
    ] {
        assert!(told.contains(part), "{told}");
    }
    for args in [
        &["verify"][..],
        &["lake", "check"],
        &["log", "verify"],
        &["status"],
    ] {
        ends_with(&folder, args, 10, "damage in control");
    }
    let answer = folder.json(&["log", "accept-loss", "control", "0-0"]);
    assert_eq!(answer["given_up"][0]["new"], true);
    let running = folder.serve(&[]);
    send(&folder, "later.log", 3);
    folder.done(&["drain"]);
    assert_eq!(folder.json(&["verify", "--json"])["stored"], 203);
    assert_eq!(running.stop().code(), Some(0));
}

/// Spoils the journal of the state store at a byte.
fn spoil_state(folder: &Folder, at: u64, bytes: &[u8]) {
    let entries = std::fs::read_dir(folder.data().join("state")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_journal = |path: &PathBuf| path.extension().is_some_and(|it| it == "jnl");
    let journals: Vec<_> = paths.filter(is_journal).collect();
    assert!(!journals.is_empty(), "the store has a journal");
    for path in journals {
        open(&path).write_all_at(bytes, at).unwrap();
    }
}

#[test]
fn a_damaged_state_store_is_told_with_what_to_do_and_no_table_is_touched() {
    let cases = [
        // In the key of the first change: the batch's checksum tells.
        (36, 1, "cannot open the state store"),
        // No batch at all: the store opens without a word, and empty.
        (0, 64, "has lost what it had committed"),
    ];
    for (at, count, why) in cases {
        let folder = stored();
        spoil_state(&folder, at, &vec![0xff; count]);
        let tables = || files_below(&folder.data().join("lake"));
        let before = tables();
        let told = refused(&folder);
        for part in [why, "fulmar restore", "list of the tables' files"] {
            assert!(told.contains(part), "{told}");
        }
        ends_with(&folder, &["verify"], 10, why);
        assert_eq!(tables(), before, "{why}");
    }
}

#[test]
fn a_state_store_that_is_gone_is_not_made_anew_over_tables() {
    let folder = stored();
    let tables = || files_below(&folder.data().join("lake"));
    let before = tables();
    assert!(!before.is_empty());
    std::fs::remove_dir_all(folder.data().join("state")).unwrap();
    assert!(refused(&folder).contains("is missing, and tables are there"));
    ends_with(&folder, &["verify"], 10, "is missing, and tables are there");
    assert_eq!(tables(), before);
    // As told: with the tables out of the way they are filled anew from the log.
    for name in ["lake", "tables"] {
        std::fs::rename(folder.data().join(name), folder.path(name)).unwrap();
    }
    let report = folder.json(&["verify", "--json"]);
    assert_eq!(
        (&report["verdict"], &report["stored"]),
        (&"ok".into(), &200.into())
    );
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files_below(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}
