//! Death at counted calls of the fault hooks: every write, sync, rename and link of the log, the
//! state's neighbours and the tables (M5). Needs the feature `faults`.

#![allow(clippy::unwrap_used)]

mod server;

use server::deaths::{at_each, counted, deadly, exchange};
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
    counted(&count)
}

/// Kills the server at one call; then a sound one goes on, and everything must be there once.
fn die_at(call: u64, power_loss: bool) {
    let folder = Folder::new();
    let file = folder.write("auth.log", &sshd_lines(LINES));
    let receipts = folder.path("receipts").to_str().unwrap().to_owned();
    // The folder is made first: only a running server dies here, and the sender needs its keys.
    folder.done(&["init"]);
    let at = call.to_string();
    let variables = deadly(&at, power_loss);
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
    at_each(calls(), die_at);
}

/// Devices, each with a profile, and when their events are made, in seconds from the first: with
/// a time-out of ten, three belong to one session and two to another.
const DEVICES: usize = 8;
const MADE_AT_S: [i64; 5] = [0, 4, 8, 60, 65];
const SESSIONS: [&str; 6] = [
    "--set",
    "writer.block_rows=20",
    "--set",
    "writer.block_age=50ms",
    "--set",
    "sessions.timeout=10s",
];

/// Each with its user agent: batches of events and changes of profiles of devices, and of events
/// of servers. All have ids, so that they can be sent again.
fn requests(start_ms: i64) -> Vec<(&'static str, String)> {
    let mut requests = Vec::new();
    for (turn, made_at_s) in MADE_AT_S.iter().enumerate() {
        let (mut items, mut of_servers) = (Vec::new(), Vec::new());
        for device in 0..DEVICES {
            let time_ms = start_ms + made_at_s * 1_000;
            items.push(format!(
                r#"{{"type":"track","id":"e-{turn}-{device}","timestamp":{time_ms},"payload":{{
                "name":"seen","profileId":"p-{device}","properties":{{"__deviceId":"d-{device}"}}}}}}"#
            ));
            items.push(format!(
                r#"{{"type":"increment","id":"i-{turn}-{device}","payload":{{
                "profileId":"p-{device}","property":"visits"}}}}"#
            ));
            of_servers.push(format!(
                r#"{{"type":"track","id":"s-{turn}-{device}","timestamp":{time_ms},"payload":{{
                "name":"charged","profileId":"p-{device}"}}}}"#
            ));
        }
        let browser = "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0";
        requests.push((browser, format!("[{}]", items.join(","))));
        requests.push(("node", format!("[{}]", of_servers.join(","))));
    }
    requests
}

/// Sends a batch of items; the status of the answer.
fn post(address: &str, client: &(String, String), agent: &str, body: &str) -> Option<u16> {
    let headers = format!(
        "user-agent: {agent}\r\nopenpanel-client-id: {}\r\nopenpanel-client-secret: {}\r\n",
        client.0, client.1
    );
    exchange(address, "/track/batch", &headers, body).map(|(status, _)| status)
}

/// A folder with a client.
fn folder_with_client() -> (Folder, (String, String)) {
    let folder = Folder::new();
    folder.done(&["init"]);
    let made = folder.json(&["clients", "create", "shop"]);
    let secret = std::fs::read_to_string(made["file"].as_str().unwrap()).unwrap();
    let client = made["client"].as_str().unwrap().to_owned();
    (folder, (client, secret.trim().to_owned()))
}

fn now_ms() -> i64 {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// Kills the server at one call while sessions start, go on and end; a sound one is sent all of it
/// again. Each event is in its table and in its session once, each increment in its profile once,
/// and a replay of the log comes to the same rows.
fn die_with_sessions_open(call: u64, power_loss: bool) {
    let (folder, client) = folder_with_client();
    let requests = requests(now_ms() - 90_000);
    let at = call.to_string();
    let variables = deadly(&at, power_loss);
    if let Ok(first) = Server::try_start(folder.serve_command(&SESSIONS, &variables)) {
        let all_of = |request: &&(&str, String)| {
            post(&first.public, &client, request.0, &request.1) == Some(200)
        };
        let _ = requests.iter().take_while(all_of).count();
        let status = first.stop();
        assert!(
            died(status) || status.code() == Some(0),
            "call {call}: {status}"
        );
    }
    let second = folder.serve(&SESSIONS);
    for (agent, body) in &requests {
        assert_eq!(
            post(&second.public, &client, agent, body),
            Some(200),
            "call {call}"
        );
    }
    folder.done(&["drain"]);
    let rows = |sql: &str| folder.json(&["query", "--format", "json", sql]).to_string();
    let stored =
        "select count(*) n, count(distinct event_id) ids from events where client_id != ''";
    let both = 2 * DEVICES * MADE_AT_S.len();
    assert_eq!(
        rows(stored),
        format!(r#"[{{"ids":{both},"n":{both}}}]"#),
        "call {call}"
    );
    // A server's event that finds its profile's session open is in it, too.
    let own = "select device_id, list(n order by began) as counts from (select device_id, \
        session_id, count(*) n, min(created_at) began from events where name = 'seen' \
        group by 1, 2) group by 1 having counts != [3, 2]";
    assert_eq!(rows(own), "[]", "call {call}");
    let devices = "select count(distinct device_id) n, count(*) s from sessions_latest";
    assert_eq!(
        rows(devices),
        format!(r#"[{{"n":{DEVICES},"s":{}}}]"#, 2 * DEVICES),
        "call {call}"
    );
    let visits = "select count(*) n from profiles_latest where properties['visits'] = '5'";
    assert_eq!(
        rows(visits),
        format!(r#"[{{"n":{DEVICES}}}]"#),
        "call {call}"
    );
    let digest = folder.done(&["lake", "digest", "--json"]);
    let (rebuilt, set) = (folder.path("rebuilt"), &SESSIONS[4..]);
    let into = format!("lake:{}", rebuilt.display());
    let replay = [&["replay", "--into", &into, "--json"], set].concat();
    assert_eq!(folder.json(&replay)["exact"], true, "call {call}");
    let again = folder.done(&[
        "lake",
        "digest",
        "--json",
        "--data",
        rebuilt.to_str().unwrap(),
    ]);
    assert_eq!(again, digest, "call {call}, power loss {power_loss}");
    assert_eq!(second.stop().code(), Some(0), "call {call}");
}

#[test]
fn death_with_sessions_open_leaves_each_event_in_its_session_once() {
    let (folder, client) = folder_with_client();
    let count = folder.path("count").to_str().unwrap().to_owned();
    let running = folder.serve_with(&SESSIONS, &[("FULMAR_FAULT_COUNT_FILE", &count)]);
    for (agent, body) in requests(now_ms() - 90_000) {
        assert_eq!(post(&running.public, &client, agent, &body), Some(200));
    }
    assert_eq!(running.stop().code(), Some(0));
    at_each(counted(&count), die_with_sessions_open);
}

/// Deletes the first profile and removes its rows; none when the server died of it.
fn delete_first(server: &Server, folder: &Folder) -> Option<()> {
    let key = std::fs::read_to_string(folder.data().join("keys/admin.key")).unwrap();
    let headers = format!("authorization: Bearer {}\r\n", key.trim());
    let admin = |area: &str, body: &str| {
        let path = format!("/v1/admin/{area}");
        let (status, answer) = exchange(&server.public, &path, &headers, body)?;
        (status == 200).then_some(answer)
    };
    let delete = r#"{"op":"profile","project":"default","profile":"p-0"}"#;
    let answer = admin("delete", delete)?;
    assert!(answer.contains(r#""hidden":true"#), "{answer}");
    admin("lake", r#"{"op":"compact"}"#).map(drop)
}

/// Kills the server at one call while it forgets a profile and rewrites files; a sound one is asked
/// for the same again. Nothing of that profile is left anywhere, all of the others is.
fn die_while_forgetting(call: u64, power_loss: bool) {
    let (folder, client) = folder_with_client();
    let requests = requests(now_ms() - 90_000);
    let at = call.to_string();
    let variables = deadly(&at, power_loss);
    let all_of = |server: &Server| {
        let mut requests = requests.iter();
        let sent = |(agent, body): &(&str, String)| {
            post(&server.public, &client, agent, body) == Some(200)
        };
        let done = requests.all(sent) && delete_first(server, &folder).is_some();
        done.then_some(())
    };
    if let Ok(first) = Server::try_start(folder.serve_command(&SESSIONS, &variables)) {
        let _ = all_of(&first);
        let status = first.stop();
        assert!(
            died(status) || status.code() == Some(0),
            "call {call}: {status}"
        );
    }
    let second = folder.serve(&SESSIONS);
    assert!(all_of(&second).is_some(), "call {call}");
    let others = DEVICES - 1;
    let sql = "select (select count(*) from events where profile_id = 'p-0') as rows, \
        (select count(*) from sessions where profile_id = 'p-0' or device_id = 'd-0') as versions, \
        (select count(*) from profiles where id = 'p-0') as profiles, \
        (select count(distinct event_id) from events where client_id != '') as others, \
        (select count(*) from profiles_latest where properties['visits'] = '5') as visits";
    let found = folder.json(&["query", "--format", "json", sql]);
    let expected = serde_json::json!([{
        "rows": 0, "versions": 0, "profiles": 0,
        "others": 2 * others * MADE_AT_S.len(), "visits": others,
    }]);
    assert_eq!(found, expected, "call {call}, power loss {power_loss}");
    let listed = folder.json(&["delete", "list", "--json"]);
    let mut listed = listed["deletions"].as_array().unwrap().iter();
    assert!(
        listed.all(|one| one["removed"].is_string()),
        "call {call}: files hold some of it"
    );
    let report = folder.json(&["verify", "--json"]);
    assert_eq!(report["verdict"], "ok", "call {call}: {report}");
    assert_eq!(second.stop().code(), Some(0), "call {call}");
}

#[test]
fn death_while_a_profile_is_forgotten_leaves_nothing_of_it_and_all_of_the_others() {
    let (folder, client) = folder_with_client();
    let count = folder.path("count").to_str().unwrap().to_owned();
    let running = folder.serve_with(&SESSIONS, &[("FULMAR_FAULT_COUNT_FILE", &count)]);
    for (agent, body) in requests(now_ms() - 90_000) {
        assert_eq!(post(&running.public, &client, agent, &body), Some(200));
    }
    delete_first(&running, &folder).unwrap();
    assert_eq!(running.stop().code(), Some(0));
    at_each(counted(&count), die_while_forgetting);
}
