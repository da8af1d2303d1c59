//! `kill -9` at random under load: each time everything acknowledged is stored once (I1, I2).

#![allow(clippy::unwrap_used)]

mod server;

use std::process::Stdio;

use server::{Folder, sshd_lines};

/// Lines that are sent while the server dies again and again.
const LINES: usize = 20_000;
/// Events in a batch: small, so that there are many answers to be killed between.
const BATCH: &str = "50";

/// Kills of one run: a sample, or many.
fn kills() -> usize {
    if std::env::var("FULMAR_TORTURE").is_ok_and(|all| all == "all") {
        100
    } else {
        10
    }
}

/// A seed that a failed run prints, so that it can be run again.
fn seed() -> u64 {
    let given = std::env::var("FULMAR_KILL_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| u64::from(std::process::id()))
}

/// xorshift64*: any stream of numbers does, as long as the seed decides it.
fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D)
}

fn count_lines(path: &std::path::Path) -> usize {
    std::fs::read(path).map_or(0, |bytes| {
        bytes.iter().filter(|byte| **byte == b'\n').count()
    })
}

#[test]
fn whatever_is_killed_what_was_acknowledged_is_stored_once() {
    let seed = seed();
    println!("FULMAR_KILL_SEED={seed}");
    let mut random = seed | 1;
    let folder = Folder::new();
    let file = folder.write("auth.log", &sshd_lines(LINES));
    let receipts_path = folder.path("receipts");
    let receipts = receipts_path.to_str().unwrap().to_owned();
    let mut running = folder.serve(&[]);
    let mut sender = folder
        .command(&[
            "send",
            "--door",
            "agents",
            "--format",
            "sshd",
            "--quiet",
            "--batch",
            BATCH,
            "--receipts",
            &receipts,
            &file,
        ])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let kills = kills();
    for kill in 1..=kills {
        // Die somewhere in the next stretch of answers, then somewhere behind one of them.
        let target = LINES * (kill - 1) / kills + (next(&mut random) as usize) % (LINES / kills);
        while count_lines(&receipts_path) < target && sender.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let pause_us = next(&mut random) % 20_000;
        std::thread::sleep(std::time::Duration::from_micros(pause_us));
        running.kill();
        // Every other time the folder itself is proved before a server opens it again.
        if next(&mut random).is_multiple_of(2) {
            let ran = folder.run(&["verify", "--receipts", &receipts]);
            assert_eq!(ran.code, Some(0), "seed {seed}, kill {kill}: {}", ran.all());
        }
        running = folder.serve(&[]);
    }
    assert_eq!(sender.wait().unwrap().code(), Some(0), "seed {seed}");
    let report = folder.json(&["verify", "--receipts", &receipts, "--json"]);
    assert_eq!(report["verdict"], "ok", "seed {seed}: {report}");
    assert_eq!(report["acknowledged"], LINES, "seed {seed}: {report}");
    assert_eq!(report["stored"], LINES, "seed {seed}: {report}");
    let status = folder.json(&["status", "--json"]);
    assert_eq!(status["balanced"], true, "seed {seed}: {status}");
    assert_eq!(running.stop().code(), Some(0), "seed {seed}");
}

#[test]
fn a_stop_under_load_loses_nothing_and_answers_nothing_falsely() {
    let folder = Folder::new();
    let lines = 4_000;
    let file = folder.write("auth.log", &sshd_lines(lines));
    let receipts_path = folder.path("receipts");
    let receipts = receipts_path.to_str().unwrap().to_owned();
    let running = folder.serve(&[]);
    let args = [
        "send",
        "--door",
        "agents",
        "--format",
        "sshd",
        "--quiet",
        "--batch",
        "20",
        "--receipts",
        &receipts,
        &file,
    ];
    let mut sender = folder.command(&args).stderr(Stdio::null()).spawn().unwrap();
    while count_lines(&receipts_path) < lines / 4 {
        std::thread::yield_now();
    }
    assert_eq!(running.stop().code(), Some(0), "the drain is complete");
    let status = folder.json(&["status", "--json"]);
    assert_eq!(
        status["backlog"], 0,
        "everything that was logged is stored: {status}"
    );
    let ran = folder.run(&["verify", "--receipts", &receipts]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());

    let _running = folder.serve(&[]);
    assert_eq!(sender.wait().unwrap().code(), Some(0));
    let report = folder.json(&["verify", "--receipts", &receipts, "--json"]);
    assert_eq!(
        (&report["verdict"], &report["stored"]),
        (&"ok".into(), &lines.into()),
        "{report}"
    );
}
