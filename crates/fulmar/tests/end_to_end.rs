//! The program as users run it: send, ask, prove, stop, start again.

#![allow(clippy::unwrap_used)]

mod server;

use rustix::process::Signal;
use serde_json::{Value, json};
use server::{Folder, http, sshd_lines};

fn send_sshd(folder: &Folder, file: &str, more: &[&str]) -> server::Ran {
    let mut args = vec!["send", "--door", "agents", "--format", "sshd"];
    args.extend(more);
    args.push(file);
    folder.run(&args)
}

fn rows(folder: &Folder, sql: &str) -> Value {
    folder.json(&["query", "--format", "json", sql])
}

fn key(folder: &Folder, name: &str) -> String {
    let path = folder.data().join(format!("keys/{name}.key"));
    std::fs::read_to_string(path).unwrap().trim().to_owned()
}

#[test]
fn a_start_tells_where_it_listens_and_a_stop_is_clean() {
    let folder = Folder::new();
    let running = folder.serve(&[]);
    let text = std::fs::read_to_string(folder.data().join("addresses.json")).unwrap();
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["public"], running.public.as_str());
    assert_eq!(told["agents"], running.agents.as_str());
    assert_eq!(told["ops"], running.ops.as_str());
    assert!(
        running
            .start
            .iter()
            .any(|line| line.contains("fulmar send")),
        "{:?}",
        running.start
    );
    let secret = key(&folder, "admin");
    assert!(!running.start.iter().any(|line| line.contains(&secret)));

    let ok = (200, r#"{"status":"ok"}"#.to_owned());
    for path in ["/healthz", "/readyz"] {
        assert_eq!(http(&running.ops, "GET", path, None, ""), ok, "{path}");
    }
    for path in [
        "/health",
        "/ready",
        "/healthcheck",
        "/healthz/live",
        "/healthz/ready",
    ] {
        assert_eq!(http(&running.public, "GET", path, None, ""), ok, "{path}");
    }
    let (status, metrics) = http(&running.ops, "GET", "/metrics", None, "");
    assert_eq!(status, 200);
    for family in [
        "fulmar_build_info",
        "fulmar_ledger_records",
        "fulmar_fold_lag_records",
    ] {
        assert!(metrics.contains(family), "{family}");
    }
    assert_eq!(running.stop().code(), Some(0));
    assert!(!folder.data().join("addresses.json").exists());
}

#[test]
fn a_file_sent_twice_is_stored_once_and_verify_is_exact() {
    let folder = Folder::new();
    let running = folder.serve(&[]);
    let file = Folder::sample("sshd.log");
    let receipts = folder.path("receipts").to_str().unwrap().to_owned();
    let more = ["--rebase", "--receipts", receipts.as_str()];
    let first = send_sshd(&folder, &file, &more);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let sql = "select count(*) n, count(distinct event_id) ids from security_events";
    let once = rows(&folder, sql);
    assert!(once[0]["n"].as_u64().unwrap() > 20, "{once}");
    assert_eq!(once[0]["n"], once[0]["ids"]);
    assert_eq!(send_sshd(&folder, &file, &more).code, Some(0));
    assert_eq!(rows(&folder, sql), once, "the second time stores nothing");

    let report = folder.json(&["verify", "--receipts", &receipts, "--json"]);
    assert_eq!(report["verdict"], "ok");
    assert_eq!(report["stored"], once[0]["n"]);
    assert_eq!(report["acknowledged"], once[0]["n"]);
    assert_eq!(
        report["repeats"], once[0]["n"],
        "each line was logged twice"
    );
    let status = folder.json(&["status", "--json"]);
    assert_eq!(status["balanced"], true);
    assert_eq!(status["ledger"]["stored"], once[0]["n"]);
    assert_eq!(status["ledger"]["repeats"], once[0]["n"]);

    // The same beside no server.
    assert_eq!(running.stop().code(), Some(0));
    assert_eq!(rows(&folder, sql), once);
    let ran = folder.run(&["verify", "--receipts", &receipts]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(ran.stderr.contains("no server runs"), "{}", ran.stderr);
    assert_eq!(
        folder.json(&["status", "--json"])["ledger"],
        status["ledger"]
    );
}

#[test]
fn one_bad_event_never_costs_its_neighbours() {
    let folder = Folder::new();
    let running = folder.serve(&[]);
    let events = Folder::sample("events.ndjson");
    let ran = folder.run(&["send", "--door", "events", "--format", "ndjson", &events]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let one_bad = Folder::sample("events-one-bad.ndjson");
    let ran = folder.run(&["send", "--door", "events", "--format", "ndjson", &one_bad]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    let found = rows(
        &folder,
        "select event_id from messages where event_id like 'order-800%' order by 1",
    );
    assert_eq!(
        found,
        json!([{"event_id": "order-8001"}, {"event_id": "order-8003"}])
    );
    // 20 events, one of them sent twice; two of the other three.
    assert_eq!(
        rows(&folder, "select count(*) n from messages"),
        json!([{"n": 21}])
    );
    let body = r#"{"type":"order.placed","id":"order-8001"}"#;
    let ingest = key(&folder, "ingest");
    let (status, answer) = http(&running.public, "POST", "/v1/events", Some(&ingest), body);
    assert_eq!(status, 200);
    assert_eq!(
        serde_json::from_str::<Value>(&answer).unwrap()["duplicates"],
        1
    );
}

#[test]
fn killed_and_started_again_it_has_everything_that_it_acknowledged() {
    let folder = Folder::new();
    let file = folder.write("auth.log", &sshd_lines(500));
    let receipts = folder.path("receipts").to_str().unwrap().to_owned();
    let running = folder.serve(&[]);
    let ran = send_sshd(&folder, &file, &["--receipts", &receipts]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    running.kill();
    assert!(
        folder.data().join("addresses.json").exists(),
        "a kill leaves the file"
    );
    // As a query that was killed with the server leaves it.
    let spill = folder.data().join("spill/4711-0");
    std::fs::create_dir_all(&spill).unwrap();
    let running = folder.serve(&[]);
    assert!(!spill.exists());
    assert_eq!(
        rows(&folder, "select count(*) n from security_events"),
        json!([{"n": 500}])
    );
    assert_eq!(
        folder.json(&["verify", "--receipts", &receipts, "--json"])["verdict"],
        "ok"
    );
    assert_eq!(running.stop().code(), Some(0));
}

#[test]
fn a_server_that_hangs_is_told_by_its_process() {
    let folder = Folder::new();
    let running = folder.serve(&[]);
    running.signal(Signal::STOP);
    let ran = folder.run(&["status"]);
    running.signal(Signal::CONT);
    assert_eq!(ran.code, Some(75), "{}", ran.all());
    let who = format!("(process {}) does not answer", running.pid());
    assert!(ran.stderr.contains(&who), "{}", ran.stderr);
    assert_eq!(folder.run(&["status"]).code, Some(0));
    assert_eq!(running.stop().code(), Some(0));
}

#[test]
fn keys_open_what_their_scopes_say() {
    let folder = Folder::new();
    let running = folder.serve(&[]);
    let (ingest, admin) = (key(&folder, "ingest"), key(&folder, "admin"));
    let list = r#"{"op":"list"}"#;
    let ask = |path: &str, key: Option<&str>| http(&running.public, "POST", path, key, list).0;
    for path in ["/v1/admin/keys", "/v1/admin/status", "/v1/query"] {
        assert_eq!(ask(path, None), 401, "{path}");
        assert_eq!(ask(path, Some("fulmar_000000000000_0")), 401, "{path}");
        assert_eq!(ask(path, Some(&ingest)), 403, "{path}");
    }
    assert_eq!(ask("/v1/admin/keys", Some(&admin)), 200);
    assert_eq!(ask("/v1/admin/moon", Some(&admin)), 404);
    let event = r#"{"type":"a"}"#;
    let send = |key: &str| http(&running.public, "POST", "/v1/events", Some(key), event).0;
    assert_eq!((send(&ingest), send(&admin)), (200, 403));

    let level = |key: Option<&str>| http(&running.ops, "PUT", "/log-level", key, "debug").0;
    assert_eq!(
        (level(None), level(Some(&ingest)), level(Some(&admin))),
        (401, 403, 200)
    );

    folder.done(&["keys", "create", "shop"]);
    let old = key(&folder, "shop");
    let again = folder.run(&["keys", "create", "shop"]);
    assert!(
        again.code == Some(64) && again.stderr.contains("fulmar keys rotate shop"),
        "{}",
        again.all()
    );
    assert_eq!(key(&folder, "shop"), old, "the first key is still there");
    folder.done(&["keys", "rotate", "shop", "--overlap", "1h"]);
    let new = key(&folder, "shop");
    assert_eq!(
        (send(&old), send(&new)),
        (200, 200),
        "both live in the overlap"
    );
    folder.done(&["keys", "revoke", &old[..19]]);
    assert_eq!((send(&old), send(&new)), (401, 200));

    // Admin is over all projects, so that a client of one of them cannot have it.
    folder.done(&["projects", "create", "north"]);
    let keys = [
        "keys",
        "create",
        "n",
        "--project",
        "north",
        "--scope",
        "admin",
    ];
    let refused = folder.run(&keys);
    assert!(
        refused.code == Some(1) && refused.stderr.contains("only for clients of the project"),
        "{}",
        refused.all()
    );
}

#[test]
fn a_roster_admits_who_is_registered_until_it_is_revoked() {
    let folder = Folder::new();
    let _running = folder.serve(&["--set", "agents.admission=roster"]);
    let send = |line: usize| {
        let name = format!("auth-{line}.log");
        let file = folder.write(&name, &sshd_lines(1));
        let mut command = folder.command(&[
            "send", "--door", "agents", "--format", "sshd", "--agent", "web-1", &file,
        ]);
        command.env("FULMAR_SPOOL", folder.path(&format!("spool-{line}")));
        command
    };
    folder.done(&["projects", "create", "shop"]);
    folder.done(&["agents", "register", "web-1", "--project", "shop"]);
    let ran = server::Ran::of(send(1));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let found = rows(&folder, "select tenant_id, agent_id from security_events");
    assert_eq!(found, json!([{"tenant_id": "shop", "agent_id": "web-1"}]));

    // A refused agent keeps its batch and tries again until it is let in.
    folder.done(&["agents", "disable", "web-1"]);
    let waiting = send(2).spawn().unwrap();
    folder.done(&["agents", "enable", "web-1"]);
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        rows(&folder, "select count(*) n from security_events"),
        json!([{"n": 2}])
    );
}

#[test]
fn draining_is_visible_before_a_door_closes_and_a_second_signal_ends_at_once() {
    let folder = Folder::new();
    let running = folder.serve(&["--set", "server.settle=1m"]);
    running.signal(Signal::TERM);
    running.wait_line("draining");
    let draining = (503, r#"{"status":"draining"}"#.to_owned());
    assert_eq!(http(&running.ops, "GET", "/readyz", None, ""), draining);
    assert_eq!(http(&running.public, "GET", "/ready", None, ""), draining);
    let event = r#"{"type":"a"}"#;
    let ingest = key(&folder, "ingest");
    let (status, _) = http(&running.public, "POST", "/v1/events", Some(&ingest), event);
    assert_eq!(
        status, 200,
        "the door still takes what comes while it settles"
    );
    running.signal(Signal::TERM);
    assert_eq!(running.wait().code(), Some(1));
    assert_eq!(
        rows(&folder, "select count(*) n from messages"),
        json!([{"n": 1}])
    );
}

#[test]
fn a_query_reads_and_nothing_else() {
    let folder = Folder::new();
    let _running = folder.serve(&[]);
    assert_eq!(rows(&folder, "select 1 as one"), json!([{"one": 1}]));
    for sql in [
        "drop table messages",
        "select 1; select 2",
        "copy messages to 'x'",
        "set x = 1",
    ] {
        let ran = folder.run(&["query", sql]);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(1), ""),
            "{sql}: {}",
            ran.stderr
        );
    }
    let csv = folder.done(&["query", "--format", "csv", "select 1 as a, 'x' as b"]);
    assert_eq!(csv.replace('\r', ""), "a,b\n1,x\n");
}

#[test]
fn a_server_elsewhere_is_asked_by_url_and_key_file() {
    let folder = Folder::new();
    let running = folder.serve(&[]);
    let url = format!("http://{}", running.public);
    let file = folder.data().join("keys/admin.key");
    let elsewhere = ["--server", &url, "--key-file", file.to_str().unwrap()];
    let mut command = folder.command(&[&["status", "--json"][..], &elsewhere].concat());
    command.env("FULMAR_DATA", folder.path("nothing-here"));
    let ran = server::Ran::of(command);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let status: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(status["state"], "ready");
    let without = folder.run(&["status", "--server", &url]);
    assert_eq!(without.code, Some(1));
    assert!(
        without.stderr.contains("does not know this key"),
        "{}",
        without.stderr
    );
}

#[test]
fn a_backup_under_a_running_server_is_restored_whole() {
    let folder = Folder::new();
    let running = folder.serve(&[]);
    let file = folder.write("auth.log", &sshd_lines(300));
    assert_eq!(send_sshd(&folder, &file, &[]).code, Some(0));
    let backup = folder.path("backup").to_str().unwrap().to_owned();
    let inside = folder.data().join("backup").to_str().unwrap().to_owned();
    let refused = folder.run(&["backup", &inside]);
    assert!(refused.code == Some(1) && refused.stderr.contains("inside of the data folder"));
    folder.done(&["backup", &backup]);
    // What came after the backup is not in it.
    let later = folder.write("later.log", &sshd_lines(7));
    assert_eq!(send_sshd(&folder, &later, &[]).code, Some(0));
    assert_eq!(
        folder.run(&["backup", &backup]).code,
        Some(1),
        "it is not empty"
    );
    assert_eq!(running.stop().code(), Some(0));
    assert!(!folder.path("backup/keys").exists() && !folder.path("backup/pki").exists());

    let restored = folder.path("restored").to_str().unwrap().to_owned();
    let ran = folder.run(&["restore", &backup, "--data", &restored]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for missing in ["restored/pki", "restored/keys"] {
        assert!(ran.stderr.contains(missing), "{}", ran.stderr);
    }
    assert_eq!(
        folder.run(&["restore", &backup, "--data", &restored]).code,
        Some(64)
    );
    let report = folder.json(&["verify", "--data", &restored, "--json"]);
    assert_eq!(
        (&report["verdict"], &report["stored"]),
        (&"ok".into(), &300.into())
    );
    let sql = "select count(*) n from security_events";
    let found = folder.json(&["query", "--data", &restored, "--format", "json", sql]);
    assert_eq!(found, json!([{"n": 300}]));
    assert_eq!(rows(&folder, sql), json!([{"n": 307}]));
}

#[test]
fn tail_prints_the_records_of_the_log() {
    let folder = Folder::new();
    let _running = folder.serve(&[]);
    let events = Folder::sample("events-one-bad.ndjson");
    folder.run(&["send", "--door", "events", "--format", "ndjson", &events]);
    let lines = folder.done(&["tail", "--from", "0", "--no-follow"]);
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["offset"], &first["id"]),
        (&0.into(), &"order-8001".into())
    );
    assert_eq!(
        (&first["key"], &first["data"]),
        (&"cust-20".into(), &json!({"total": 40}))
    );
    assert_eq!(lines.lines().count(), 2);
}

#[test]
fn a_public_listener_with_tls_is_found_by_its_folder() {
    let folder = Folder::new();
    folder.done(&["init"]);
    let file = |name: &str| folder.data().join(name).to_str().unwrap().to_owned();
    let cert = format!("public.tls_cert={}", file("pki/server.pem"));
    let key_file = format!("public.tls_key={}", file("pki/server.key"));
    let running = folder.serve(&["--set", &cert, "--set", &key_file]);
    assert_eq!(folder.json(&["status", "--json"])["state"], "ready");
    let url = format!("https://{}", running.public);
    let (ca, admin) = (file("pki/servers-ca.pem"), file("keys/admin.key"));
    let elsewhere = [
        "status",
        "--json",
        "--server",
        &url,
        "--key-file",
        &admin,
        "--ca",
    ];
    let with = |ca: &str| folder.run(&[&elsewhere[..], &[ca]].concat());
    assert_eq!(with(&ca).code, Some(0));
    assert_eq!(
        with(&file("pki/agents-ca.pem")).code,
        Some(1),
        "another authority is not trusted"
    );
    assert_eq!(
        folder.run(&["status", "--server", &url]).code,
        Some(64),
        "https needs --ca"
    );
}

#[test]
fn lines_from_a_pipe_outlive_an_interrupt() {
    use std::io::{BufRead as _, Write as _};
    let folder = Folder::new();
    folder.done(&["init"]);
    // No server runs: every try fails, and is told.
    let args = ["send", "--door", "events", "--format", "ndjson", "-"];
    let mut command = folder.command(&args);
    command.stdin(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut producer = child.stdin.take().unwrap();
    let mut told = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
    let mut write = |from: u32, to: u32| {
        for n in from..to {
            writeln!(producer, r#"{{"type":"t","id":"line-{n}"}}"#).unwrap();
        }
    };
    write(0, 3);
    assert!(told.next().unwrap().unwrap().contains("trying again"));
    write(3, 7);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let said: Vec<String> = told.map_while(Result::ok).collect();
    let waiting = "7 events wait in the spool for the next run";
    assert!(said.iter().any(|line| line == waiting), "{said:?}");
}

#[test]
fn a_file_of_another_format_is_told_and_is_no_success() {
    let folder = Folder::new();
    let running = folder.serve(&[]);
    let file = Folder::sample("sshd.log");
    let ran = folder.run(&["send", "--door", "events", "--format", "combined", &file]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("no line is of the format combined"));
    assert_eq!(running.stop().code(), Some(0));
}
