//! Death at counted calls of the fault hooks: every write, sync, rename and link of the log, the
//! state's neighbours and the tables (M5). Needs the feature `faults`.

#![allow(clippy::unwrap_used)]

mod server;

use server::{Folder, Server, died, sshd_lines};

/// Lines sent in each run: several blocks with the small limits below.
const LINES: usize = 400;
/// Small blocks and often, so that one run passes every kind of call.
const SMALL: [&str; 4] = [
    "--set",
    "writer.block_rows=50",
    "--set",
    "writer.block_age=50ms",
];

fn send(folder: &Folder, file: &str, receipts: &str) -> std::process::Child {
    let args = [
        "send",
        "--door",
        "agents",
        "--format",
        "sshd",
        "--quiet",
        "--batch",
        "25",
        "--receipts",
        receipts,
        file,
    ];
    folder
        .command(&args)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// Calls of one whole run: start, send, stop.
fn calls() -> u64 {
    let folder = Folder::new();
    let file = folder.write("auth.log", &sshd_lines(LINES));
    let receipts = folder.path("receipts").to_str().unwrap().to_owned();
    let count = folder.path("count").to_str().unwrap().to_owned();
    let running = folder.serve_with(&SMALL, &[("FULMAR_FAULT_COUNT_FILE", &count)]);
    assert_eq!(
        send(&folder, &file, &receipts).wait().unwrap().code(),
        Some(0)
    );
    assert_eq!(running.stop().code(), Some(0));
    std::fs::read_to_string(count)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// Kills the server at one call; then a sound one goes on, and everything must be there once.
fn die_at(call: u64, power_loss: bool) {
    let folder = Folder::new();
    let file = folder.write("auth.log", &sshd_lines(LINES));
    let receipts = folder.path("receipts").to_str().unwrap().to_owned();
    // The folder is made first: only a running server dies here, and the sender needs its keys.
    folder.done(&["init"]);
    let at = call.to_string();
    let mut variables = vec![("FULMAR_FAULT_KILL_AT", at.as_str())];
    if power_loss {
        variables.push(("FULMAR_FAULT_POWER_LOSS", at.as_str()));
    }
    let first = Server::try_start(folder.serve_command(&SMALL, &variables));
    let mut sender = send(&folder, &file, &receipts);
    if let Ok(mut first) = first {
        while first.ended().is_none() && sender.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        // A call that only comes at the stop.
        let status = first.stop();
        assert!(
            died(status) || status.code() == Some(0),
            "call {call}: {status}"
        );
    }
    let second = folder.serve(&SMALL);
    assert_eq!(sender.wait().unwrap().code(), Some(0), "call {call}");
    let report = folder.json(&["verify", "--receipts", &receipts, "--json"]);
    assert_eq!(
        report["verdict"], "ok",
        "call {call}, power loss {power_loss}: {report}"
    );
    assert_eq!(
        report["stored"], LINES,
        "call {call}, power loss {power_loss}: {report}"
    );
    assert_eq!(second.stop().code(), Some(0), "call {call}");
}

#[test]
fn death_at_any_call_loses_and_doubles_nothing() {
    let calls = calls();
    assert!(calls > 50, "the hooks are compiled in: {calls}");
    let all = std::env::var("FULMAR_TORTURE").is_ok_and(|all| all == "all");
    let seed: u64 = std::env::var("FULMAR_KILL_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| u64::from(std::process::id()));
    println!("FULMAR_KILL_SEED={seed}, {calls} calls");
    let step = if all { 1 } else { (calls / 10).max(1) };
    for call in (1 + seed % step..=calls).step_by(usize::try_from(step).unwrap()) {
        die_at(call, call % 2 == 0);
    }
}
