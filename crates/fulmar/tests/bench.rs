//! The exit codes of the benches: a bound that is not met is 4, a run that proves nothing is 3.

#![allow(clippy::unwrap_used)]

mod server;

use serde_json::Value;
use server::{Folder, Ran, Server};

/// Runs a short `bench ingest` against a server, with more arguments.
fn ingest(folder: &Folder, running: &Server, authority: &str, more: &[&str]) -> (Ran, Value) {
    let target = format!("https://{}", running.agents);
    let pki = folder.data().join("pki");
    let path = |name: &str| pki.join(name).to_str().unwrap().to_owned();
    let (cert, key, ca) = (path("agents/a.pem"), path("agents/a.key"), path(authority));
    let mut args = vec!["bench", "ingest", "--target", &target, "--cert", &cert];
    args.extend(["--key", &key, "--ca", &ca, "--agents", "1", "--batch", "10"]);
    args.extend(["--duration", "1s", "--rounds", "1", "--json"]);
    let ran = folder.run(&[&args[..], more].concat());
    let report =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.all()));
    (ran, report)
}

#[test]
fn a_bound_that_is_not_met_or_not_measured_is_an_exit_of_its_own() {
    let folder = Folder::new();
    let running = folder.serve(&[]);
    let data = folder.data();
    folder.done(&["pki", "agent", "a", "--data", data.to_str().unwrap()]);
    let servers = "servers-ca.pem";
    let (ran, report) = ingest(&folder, &running, servers, &["--whole-min", "1"]);
    assert_eq!(
        (ran.code, &report["verdict"]),
        (Some(0), &"ok".into()),
        "{}",
        ran.all()
    );
    assert!(
        report["ledger"]["stored"].is_null(),
        "nobody looked into that server"
    );
    let (ran, report) = ingest(&folder, &running, servers, &["--whole-min", "1e12"]);
    assert_eq!(ran.code, Some(4));
    let verdict = report["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("events_per_second ") && verdict.contains(" is below "));
    // The door alone is measured on a server of one's own only.
    let (ran, report) = ingest(&folder, &running, servers, &["--door-min", "1"]);
    assert_eq!(ran.code, Some(4));
    let verdict = report["verdict"].as_str().unwrap();
    assert!(
        verdict.contains("door_events_per_second was not measured"),
        "{verdict}"
    );
    // Nothing that no authority of ours signed is sent to.
    let (ran, report) = ingest(&folder, &running, "agents-ca.pem", &[]);
    assert_eq!(ran.code, Some(3));
    let error = report["first_error"].as_str().unwrap();
    assert!(error.contains("invalid peer certificate"), "{error}");
    assert_eq!(report["ledger"]["accepted"], 0);
}
