//! `fulmar verify` against folders with a planted fault of each kind.

#![allow(clippy::unwrap_used)]

mod server;

use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use fulmar_log::{Log, LogConfig, Records, Topic};
use server::{Folder, sshd_lines};

/// A folder with 200 stored events, its server stopped, and their receipts.
fn stored() -> (Folder, String) {
    let folder = Folder::new();
    let file = folder.write("auth.log", &sshd_lines(200));
    let receipts = folder.path("receipts").to_str().unwrap().to_owned();
    let running = folder.serve(&[]);
    folder.done(&[
        "send",
        "--door",
        "agents",
        "--format",
        "sshd",
        "--receipts",
        &receipts,
        &file,
    ]);
    assert_eq!(running.stop().code(), Some(0));
    (folder, receipts)
}

fn segment(folder: &Folder) -> PathBuf {
    let events = folder.data().join("log/events");
    let mut files: Vec<_> = std::fs::read_dir(events)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.remove(0)
}

#[test]
fn an_acknowledged_id_that_is_nowhere_is_lost_and_named() {
    let (folder, receipts) = stored();
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(&receipts)
        .unwrap();
    writeln!(
        file,
        r#"{{"project":"default","source":"local","id":"gone-1"}}"#
    )
    .unwrap();
    let ran = folder.run(&["verify", "--receipts", &receipts]);
    assert_eq!(ran.code, Some(11), "{}", ran.all());
    assert!(
        ran.stdout.contains("lost      1") && ran.stdout.contains("gone-1"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_flipped_byte_is_damage_and_is_named_with_its_place() {
    let (folder, receipts) = stored();
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(segment(&folder))
        .unwrap();
    // In the first frame's payload: behind the segment's header and the frame's own.
    let at = 4_096 + 64 + 100;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    for args in [&["log", "verify"][..], &["verify", "--receipts", &receipts]] {
        let ran = folder.run(args);
        assert_eq!(ran.code, Some(10), "{args:?}: {}", ran.all());
        assert!(
            ran.stdout.contains("damage in events"),
            "{args:?}: {}",
            ran.stdout
        );
    }
}

/// The one file of a table, as the list names it.
fn table_file(folder: &Folder) -> PathBuf {
    let files = folder.done(&["lake", "files", "--json"]);
    let files: serde_json::Value = serde_json::from_str(&files).unwrap();
    PathBuf::from(files[0]["path"].as_str().unwrap())
}

#[test]
fn a_table_file_that_changed_or_is_gone_is_damage_and_is_named() {
    let (folder, receipts) = stored();
    let path = table_file(&folder);
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 3] ^= 1;
    let faults: [(&str, Option<&[u8]>); 3] = [
        ("CRC32C", Some(&flipped)),
        ("bytes, listed with", Some(&whole[..whole.len() - 1])),
        ("No such file", None),
    ];
    for (said, contents) in faults {
        match contents {
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        for args in [&["lake", "check"][..], &["verify", "--receipts", &receipts]] {
            let ran = folder.run(args);
            assert_eq!(ran.code, Some(10), "{args:?}: {}", ran.all());
            let name = path.file_name().unwrap().to_str().unwrap();
            let named = ran.stdout.contains(name) && ran.stdout.contains(said);
            assert!(named, "{args:?}, {said}: {}", ran.stdout);
        }
        // Receipts and log are compared all the same: what only this file
        // may hold is counted apart, and nothing is said to be lost.
        let ran = folder.run(&["verify", "--receipts", &receipts, "--json"]);
        let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let counts = ["in_damaged_files", "logged"].map(|name| &report[name]);
        assert_eq!(counts, [200, 200], "{said}");
        assert_eq!(report["lost"]["count"], 0, "{said}");
    }
    std::fs::write(&path, &whole).unwrap();
    folder.done(&["verify", "--receipts", &receipts]);
}

#[test]
fn a_record_that_cannot_be_stored_is_neither_lost_nor_stored() {
    let (folder, receipts) = stored();
    let lock = fulmar_log::lock_folder(&folder.data()).unwrap();
    let log = Log::open(&folder.data().join("log"), LogConfig::default()).unwrap();
    let mut records = Records::new();
    records.push(3, b"\xff\xff no event");
    log.journal(Topic::Events).append_blocking(records).unwrap();
    log.close();
    drop(lock);

    let report = folder.json(&["verify", "--receipts", &receipts, "--json"]);
    assert_eq!(
        (&report["verdict"], &report["quarantined"]),
        (&"ok".into(), &1.into())
    );
    let listed = folder.json(&["quarantine", "list", "--json"]);
    assert_eq!(listed[0]["reason"], "undecodable");
    assert_eq!(
        (&listed[0]["offset"], &listed[0]["topic"]),
        (&200.into(), &"events".into())
    );
    let id = listed[0]["id"].to_string();
    let shown = folder.json(&["quarantine", "show", &id, "--json"]);
    assert_eq!(shown["original_hex"], "ffff206e6f206576656e74");
    // Replayed it is a new record, which ends there again.
    folder.done(&["quarantine", "replay", &id]);
    let report = folder.json(&["verify", "--receipts", &receipts, "--json"]);
    assert_eq!(
        (&report["verdict"], &report["quarantined"]),
        (&"ok".into(), &2.into())
    );
    let status = folder.json(&["status", "--json"]);
    assert_eq!(status["ledger"]["quarantined"], 2);
    assert_eq!(status["balanced"], true);
}

#[test]
fn verify_runs_the_writer_to_the_end_of_the_log_first() {
    let folder = Folder::new();
    let file = folder.write("auth.log", &sshd_lines(300));
    let receipts = folder.path("receipts").to_str().unwrap().to_owned();
    // A writer that is held back stores nothing; then the server is killed.
    let running = folder.serve(&["--bench-control"]);
    server::http(&running.ops, "POST", "/bench/hold", None, "");
    folder.done(&[
        "send",
        "--door",
        "agents",
        "--format",
        "sshd",
        "--receipts",
        &receipts,
        &file,
    ]);
    running.kill();
    let before = folder.json(&["status", "--json"]);
    assert_eq!(
        (&before["ledger"]["stored"], &before["backlog"]),
        (&0.into(), &300.into())
    );
    let report = folder.json(&["verify", "--receipts", &receipts, "--json"]);
    assert_eq!(
        (&report["verdict"], &report["stored"]),
        (&"ok".into(), &300.into())
    );
}

#[test]
fn damage_stops_the_writer_until_an_operator_gives_the_range_up() {
    let folder = Folder::new();
    let file = folder.write("auth.log", &sshd_lines(100));
    let running = folder.serve(&["--bench-control"]);
    server::http(&running.ops, "POST", "/bench/hold", None, "");
    // One batch is one frame.
    folder.done(&[
        "send", "--door", "agents", "--format", "sshd", "--batch", "100", &file,
    ]);
    // The seal after it proves the frame synced (L1): until then it could be a torn tail.
    let proven = || folder.json(&["log", "inspect", "events", "--json"])[0]["end"].clone();
    while proven() != 100 {}
    running.kill();
    let log = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(segment(&folder))
        .unwrap();
    let mut byte = [0];
    log.read_exact_at(&mut byte, 4_096 + 64 + 100).unwrap();
    log.write_all_at(&[byte[0] ^ 1], 4_096 + 64 + 100).unwrap();

    let running = folder.serve(&[]);
    assert_eq!(folder.run(&["verify"]).code, Some(10));
    let status = folder.json(&["status", "--json"]);
    assert_eq!(
        (&status["folds"][0]["state"], &status["backlog"]),
        (&"damaged".into(), &100.into())
    );
    // The doors go on meanwhile.
    let later = folder.write("later.log", &sshd_lines(3));
    folder.done(&["send", "--door", "agents", "--format", "sshd", &later]);

    folder.done(&["log", "accept-loss", "events", "0-99"]);
    folder.done(&["drain"]);
    let report = folder.json(&["verify", "--json"]);
    assert_eq!(
        (&report["verdict"], &report["given_up"]),
        (&"ok".into(), &100.into())
    );
    assert_eq!(report["stored"], 3);
    let status = folder.json(&["status", "--json"]);
    assert_eq!(
        (&status["ledger"]["dropped"]["damage"], &status["balanced"]),
        (&100.into(), &true.into())
    );
    assert_eq!(running.stop().code(), Some(0));
    // The decision is in the log: a later start passes the range too.
    assert_eq!(folder.json(&["verify", "--json"])["verdict"], "ok");
}
