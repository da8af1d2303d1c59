//! `fulmar delete` as users run it: gone from every query at once, from files after a compaction,
//! from what folds remember; and still nothing is called lost.

#![allow(clippy::unwrap_used)]

mod server;

use serde_json::{Value, json};
use server::{Folder, Server, http_with};

const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/// A client of a project, that sends as a browser does.
struct Client {
    id: String,
    secret: String,
}

impl Client {
    fn new(folder: &Folder, project: &str) -> Self {
        let made = folder.json(&["clients", "create", "web", "--project", project]);
        let secret = std::fs::read_to_string(made["file"].as_str().unwrap()).unwrap();
        Self {
            id: made["client"].as_str().unwrap().to_owned(),
            secret: secret.trim().to_owned(),
        }
    }

    fn send(&self, server: &Server, device: &str, kind: &str, payload: &Value) -> u16 {
        let agent = format!("{BROWSER} {device}");
        let headers = format!(
            "openpanel-client-id: {}\r\nopenpanel-client-secret: {}\r\nuser-agent: {agent}\r\n",
            self.id, self.secret
        );
        let body = json!({ "type": kind, "payload": payload }).to_string();
        http_with(&server.public, "POST", "/track", &headers, &body).0
    }

    /// One visit of a person: a profile with a property, an event, a recording of the session.
    fn visit(&self, server: &Server, person: &str) {
        let identify = json!({ "profileId": person, "properties": { "plan": "pro" } });
        let event = json!({ "name": "seen", "profileId": person });
        let visits = json!({ "profileId": person, "property": "visits" });
        let at = format!("{:.3}", jiff::Timestamp::now());
        let chunk = json!({
            "chunk_index": 0, "events_count": 1, "is_full_snapshot": true,
            "started_at": at, "ended_at": at, "payload": "[]",
        });
        let all = [
            ("identify", identify),
            ("track", event),
            ("increment", visits),
            ("replay", chunk),
        ];
        for (kind, payload) in &all {
            assert_eq!(self.send(server, person, kind, payload), 200, "{kind}");
        }
    }
}

/// Rows by table, in the order of the names below.
fn counts(folder: &Folder) -> Vec<u64> {
    let tables = [
        "events",
        "sessions_latest",
        "sessions",
        "profiles_latest",
        "session_replay_chunks",
    ];
    tables
        .iter()
        .map(|table| {
            let sql = format!("select count(*) as n from {table}");
            let rows = folder.json(&["query", "--format", "json", &sql]);
            rows[0]["n"].as_u64().unwrap()
        })
        .collect()
}

fn properties(folder: &Folder, person: &str) -> Value {
    let sql = format!(
        "select properties['plan'] as plan, properties['visits'] as visits \
         from profiles_latest where id = '{person}'"
    );
    folder.json(&["query", "--format", "json", &sql])
}

fn verified(folder: &Folder) -> Value {
    let report = folder.json(&["verify", "--json"]);
    assert_eq!(report["verdict"], "ok", "{report}");
    report
}

#[test]
fn a_profile_is_gone_at_once_and_begins_anew() {
    let folder = Folder::new();
    let running = folder.serve(&[]);
    let client = Client::new(&folder, "default");
    for person in ["u1", "u2"] {
        client.visit(&running, person);
    }
    // An event and the session's start; a session; a profile; a recording, of each.
    let [events, sessions, _, profiles, chunks] = counts(&folder)[..] else {
        panic!("five tables");
    };
    assert_eq!((events, sessions, profiles, chunks), (4, 2, 2, 2));

    let summed = "select sum(events) as a, (select sum(events) from event_names) as b, \
                  (select max(visitors) from daily_visitors) as c from events_per_minute";
    let summed = || folder.json(&["query", "--format", "json", summed])[0].clone();
    assert_eq!(summed(), json!({ "a": 4, "b": 4, "c": 2 }));

    let refused = folder.run(&["delete", "profile", "u1"]);
    assert_eq!(refused.code, Some(64), "{}", refused.all());
    assert!(refused.stderr.contains("--yes"), "{}", refused.stderr);
    let deleted = folder.json(&["delete", "profile", "u1", "--yes", "--json"]);
    assert_eq!(deleted["hidden"], true, "{deleted}");
    let of_one = counts(&folder);
    assert_eq!((of_one[0], of_one[1]), (2, 1), "{of_one:?}");
    assert_eq!((of_one[3], of_one[4]), (1, 1), "{of_one:?}");
    assert_eq!(summed(), json!({ "a": 2, "b": 2, "c": 1 }));
    assert_eq!(properties(&folder, "u1"), json!([]));
    // Files hold the rows still, so that nothing misses.
    assert_eq!(verified(&folder)["deleted"], 0);

    let compacted = folder.json(&["lake", "compact", "--json"]);
    assert!(
        compacted["rows_forgotten"].as_u64().unwrap() >= 5,
        "{compacted}"
    );
    assert_eq!(counts(&folder)[0], of_one[0]);
    let report = verified(&folder);
    assert_eq!(
        report["deleted"], 2,
        "the event and the recording: {report}"
    );
    let listed = folder.json(&["delete", "list", "--json"]);
    let listed = listed["deletions"].as_array().unwrap();
    assert!(
        listed.iter().all(|one| one["removed"].is_string()),
        "{listed:?}"
    );

    let add = json!({ "profileId": "u1", "property": "visits" });
    assert_eq!(client.send(&running, "u1", "increment", &add), 200);
    let fresh = json!([{ "plan": null, "visits": "1" }]);
    assert_eq!(
        properties(&folder, "u1"),
        fresh,
        "nothing of before is left"
    );
    let kept = json!([{ "plan": "pro", "visits": "1" }]);
    assert_eq!(properties(&folder, "u2"), kept);
    assert!(running.stop().success());

    // What is read again from the log comes to the same, the deletion included.
    let copy = folder.path("copy");
    let into = format!("lake:{}", copy.display());
    folder.done(&["replay", "--into", &into]);
    let digest = |data: &std::path::Path| {
        let data = data.to_str().unwrap();
        folder.json(&["lake", "digest", "--json", "--data", data])
    };
    assert_eq!(digest(&copy), digest(&folder.data()));
}

#[test]
fn a_project_is_gone_with_its_clients() {
    let folder = Folder::new();
    let running = folder.serve(&[]);
    folder.done(&["projects", "create", "shop"]);
    let (stays, goes) = (
        Client::new(&folder, "default"),
        Client::new(&folder, "shop"),
    );
    stays.visit(&running, "u1");
    goes.visit(&running, "u1");
    let rows = folder.json(&[
        "delete",
        "project",
        "shop",
        "--rows-only",
        "--yes",
        "--json",
    ]);
    assert_eq!(rows["hidden"], true);
    assert_eq!(counts(&folder), [2, 1, counts(&folder)[2], 1, 1]);
    goes.visit(&running, "u1");
    assert_eq!(counts(&folder)[0], 4, "the project goes on");

    let refused = folder.run(&["delete", "project", "default", "--yes"]);
    assert_eq!(refused.code, Some(1), "{}", refused.all());
    folder.done(&["delete", "project", "shop", "--yes"]);
    let event = json!({ "name": "seen" });
    assert_eq!(goes.send(&running, "u1", "track", &event), 401);
    assert_eq!(stays.send(&running, "u1", "track", &event), 200);
    let projects = folder.done(&["projects", "list"]);
    assert!(!projects.contains("shop"), "{projects}");
    folder.done(&["lake", "compact"]);
    assert_eq!(counts(&folder)[0], 3);
    verified(&folder);
    let unknown = folder.run(&["delete", "project", "shop", "--yes"]);
    assert_eq!(unknown.code, Some(1), "{}", unknown.all());
}
