//! The SDK door as users run it: a client from the command line, a request, a power cut.

#![allow(clippy::unwrap_used)]

mod server;

use serde_json::{Value, json};
use server::{Folder, Server, http, http_with};

fn send(server: &Server, client: &str, secret: &str, item: &str) -> (u16, Value) {
    let body = format!(r#"{{"clientId":"{client}","clientSecret":"{secret}",{item}}}"#);
    let (status, answer) = http(&server.public, "POST", "/track", None, &body);
    (status, serde_json::from_str(&answer).unwrap())
}

/// Records of a topic, as `status` tells.
fn logged(folder: &Folder, topic: &str) -> u64 {
    let status = folder.json(&["status", "--json"]);
    let topics = status["topics"].as_array().unwrap();
    let found = topics.iter().find(|known| known["topic"] == topic);
    found.unwrap()["end"].as_u64().unwrap()
}

#[test]
fn what_a_client_sent_is_durable_and_its_device_survives_a_kill() {
    let folder = Folder::new();
    let running = folder.serve(&[]);
    let made = folder.json(&[
        "clients",
        "create",
        "shop-web",
        "--cors",
        "https://shop.example",
    ]);
    let client = made["client"].as_str().unwrap().to_owned();
    assert!(
        made["secret"].is_null(),
        "a secret is for a file or for eyes"
    );
    let secret = std::fs::read_to_string(made["file"].as_str().unwrap()).unwrap();
    let secret = secret.trim();
    assert!(
        folder
            .data()
            .join("keys")
            .join(format!("client-{client}.key"))
            .exists()
    );

    let event = r#""type":"track","payload":{"name":"signup"}"#;
    let (status, first) = send(&running, &client, secret, event);
    assert_eq!(
        (status, first["deviceId"].as_str().unwrap().len()),
        (200, 32)
    );
    let identify = r#""type":"identify","payload":{"profileId":"u1"}"#;
    assert_eq!(send(&running, &client, secret, identify).0, 200);
    assert_eq!(send(&running, &client, "wrong", event).0, 401);
    assert_eq!(
        (logged(&folder, "events"), logged(&folder, "profiles")),
        (1, 1)
    );
    running.kill();

    let running = folder.serve(&[]);
    assert_eq!(
        (logged(&folder, "events"), logged(&folder, "profiles")),
        (1, 1)
    );
    let (_, again) = send(&running, &client, secret, event);
    assert_eq!(
        again["deviceId"], first["deviceId"],
        "the salt is the day's"
    );
    folder.done(&["clients", "revoke", &client]);
    assert_eq!(send(&running, &client, secret, event).0, 401);
    let listed = folder.json(&["clients", "list", "--json"]);
    assert_eq!(listed[0]["state"], "revoked");
    assert!(!listed.to_string().contains(secret));
}

#[test]
fn a_project_is_set_from_the_command_line() {
    let folder = Folder::new();
    let _running = folder.serve(&[]);
    let set = [
        "projects",
        "set",
        "default",
        "--event-filter",
        "debug",
        "--cors",
        "a.example",
    ];
    let answer = folder.json(&set);
    assert_eq!(
        answer["settings"]["event_filters"],
        serde_json::json!(["debug"])
    );
    let emptied = folder.json(&["projects", "set", "--cors", ""]);
    assert_eq!(emptied["settings"]["cors"], serde_json::json!([]));
    assert_eq!(
        emptied["settings"]["event_filters"],
        answer["settings"]["event_filters"]
    );
    let ran = folder.run(&["projects", "set", "--ip-filter", "localhost"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("ip_filters takes addresses"),
        "{}",
        ran.stderr
    );
}

const BROWSER: &str =
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:133.0) Gecko/20100101 Firefox/133.0";

fn rows(folder: &Folder, sql: &str) -> Value {
    folder.json(&["query", "--format", "json", sql])
}

/// A visit of two pages and an identified event, a server's event of the same person, and a kill
/// in between: one session with its start and its end, and one profile, all from the log.
#[test]
fn a_visit_becomes_a_session_and_a_profile_over_a_kill() {
    let folder = Folder::new();
    let set = ["--set", "sessions.timeout=8s"];
    let running = folder.serve(&set);
    let made = folder.json(&["clients", "create", "shop-web"]);
    let client = made["client"].as_str().unwrap().to_owned();
    let secret = std::fs::read_to_string(made["file"].as_str().unwrap()).unwrap();
    let track = |running: &Server, agent: &str, payload: &str| {
        let headers = format!(
            "user-agent: {agent}\r\nopenpanel-client-id: {client}\r\n\
             openpanel-client-secret: {}\r\n",
            secret.trim()
        );
        let (status, answer) = http_with(&running.public, "POST", "/track", &headers, payload);
        assert_eq!(status, 200, "{answer}");
    };
    let view = |path: &str| {
        format!(
            r#"{{"type":"track","payload":{{"name":"screen_view","profileId":"u1",
            "properties":{{"__path":"https://shop.example{path}"}}}}}}"#
        )
    };
    track(&running, BROWSER, &view("/a"));
    track(&running, BROWSER, &view("/b"));
    // Stored, so that the profile fold is told of the session before the server's event comes.
    assert_eq!(
        rows(&folder, "select count(*) n from events"),
        json!([{"n": 3}])
    );
    folder.done(&["drain"]);
    let charged = r#"{"type":"track","payload":{"name":"charged","profileId":"u1"}}"#;
    track(&running, "node", charged);
    let add = r#"{"type":"increment","payload":{"profileId":"u1","property":"visits"}}"#;
    track(&running, "node", add);
    running.kill();

    let running = folder.serve(&set);
    // The log's time goes on by a tick, since nothing else comes.
    let ends = "select count(*) n from events where name = 'session_end'";
    while rows(&folder, ends) != json!([{"n": 1}]) {}
    let of_session = "select name, session_id = (select id from sessions_latest) as here \
        from events order by created_at, name";
    let here = |name: &str| json!({"name": name, "here": true});
    let names = [
        "session_start",
        "screen_view",
        "screen_view",
        "charged",
        "session_end",
    ];
    assert_eq!(rows(&folder, of_session), json!(names.map(here)));
    let session = "select profile_id, entry_path, exit_path, screen_view_count as views, \
        event_count as others, version from sessions_latest";
    let expected = json!([{"profile_id": "u1", "entry_path": "/a", "exit_path": "/b", "views": 2,
        "others": 1, "version": 3}]);
    assert_eq!(rows(&folder, session), expected);
    let profile = "select id, is_external as named, properties['visits'] as visits, \
        properties['browser'] as browser from profiles_latest";
    let expected = json!([{"id": "u1", "named": true, "visits": "1", "browser": "Firefox"}]);
    assert_eq!(rows(&folder, profile), expected);
    let report = folder.json(&["verify", "--json"]);
    assert_eq!(
        (&report["verdict"], &report["stored"]),
        (&"ok".into(), &3.into())
    );
    // The same tables, from the log alone, beside the server and after it (S2).
    let digest = folder.json(&["lake", "digest", "--json"]);
    assert!(digest.to_string().contains("sessions_latest"), "{digest}");
    replayed(&folder, "beside", &digest);
    assert_eq!(running.stop().code(), Some(0));
    replayed(&folder, "after", &digest);
}

/// Replays the folder's log, and looks whether the rows are those of `digest`.
fn replayed(folder: &Folder, name: &str, digest: &Value) {
    let into = folder.path(name);
    let [data, target] = [
        into.display().to_string(),
        format!("lake:{}", into.display()),
    ];
    let replay = ["replay", "--into", &target, "--json", "--workers", "2"];
    let replay = [&replay[..], &["--set", "sessions.timeout=8s"]].concat();
    let report = folder.json(&replay);
    assert_eq!(report["exact"], true, "{report}");
    assert_eq!(
        &folder.json(&["lake", "digest", "--json", "--data", &data]),
        digest
    );
    let events = [
        "query",
        "--format",
        "json",
        "select count(*) n from events",
        "--data",
        &data,
    ];
    assert_eq!(folder.json(&events), json!([{"n": 5}]));
    // What is there is neither filled again nor served.
    let again = folder.run(&replay);
    assert_eq!(again.code, Some(64), "{}", again.stderr);
    assert!(again.stderr.contains("is not empty"), "{}", again.stderr);
    let serve = folder.run(&["serve", "--data", &data]);
    assert_eq!(serve.code, Some(64), "{}", serve.stderr);
    assert!(serve.stderr.contains("and no log"), "{}", serve.stderr);
}

/// An export of OpenPanel's database, with one client whose secret is `sec_moved`:
/// python3: hashlib.scrypt(b'sec_moved', salt=b'00112233445566778899aabbccddeeff', n=16384, r=8,
/// p=1, dklen=32).hex()
const EXPORT: &str = r#"{"projects":[{"id":"shop","name":"Shop","cors":["https://shop.example"],
    "allowUnsafeRevenueTracking":true,"filters":[{"type":"event","name":"debug"},
    {"type":"event","name":"view","filters":[{"id":"1","name":"properties.level","operator":"gte",
    "value":[7]},{"id":"2","name":"country","operator":"isNull","value":[]}]},
    {"type":"ip","ip":"203.0.113.9"},{"type":"profile_id","profileId":"p-banned"}]}],
    "clients":[{"id":"11111111-2222-4333-8444-555555555555","name":"web","type":"write",
    "projectId":"shop","ignoreCorsAndSecret":false,"secret":
    "00112233445566778899aabbccddeeff.e44c9e85b526217fc4411bb163768707c1d3f4bbe50f9efe51d3f5ff93c4b6e2"
    }]}"#;

#[test]
fn an_export_of_openpanel_keeps_its_clients_and_is_imported_once() {
    let folder = Folder::new();
    let running = folder.serve(&[]);
    let file = folder.write("export.json", EXPORT);
    let import = ["import", "openpanel", &file, "--json"];
    let client = "11111111-2222-4333-8444-555555555555";
    let event = r#""type":"track","payload":{"name":"signup"}"#;

    let dry = folder.json(&[&import[..], &["--dry-run"]].concat());
    assert_eq!(
        (&dry["clients_created"], &dry["projects_changed"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(
        send(&running, client, "sec_moved", event).0,
        401,
        "nothing was changed"
    );
    let done = folder.json(&import);
    assert_eq!(
        (&done["clients_created"], &done["unchanged"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(send(&running, client, "sec_moved", event).0, 200);
    assert_eq!(send(&running, client, "sec_other", event).0, 401);
    let again = folder.json(&import);
    let counts =
        ["projects_changed", "clients_created", "unchanged"].map(|name| again[name].clone());
    assert_eq!(counts, [json!(0), json!(0), json!(1)]);
    let listed = folder.json(&["projects", "list", "--json"]);
    let shop = listed
        .as_array()
        .unwrap()
        .iter()
        .find(|project| project["project"] == "shop");
    let settings = &shop.unwrap()["settings"];
    assert_eq!(settings["cors"], json!(["https://shop.example"]));
    let conditions = json!([
        { "name": "properties.level", "operator": "gte", "value": ["7"] },
        { "name": "country", "operator": "isNull", "value": [] },
    ]);
    let view = json!({ "name": "view", "filters": conditions });
    assert_eq!(settings["event_filters"], json!(["debug", view]));
    let dropped = |level: u8| {
        let payload = format!(r#"{{"name":"view","properties":{{"level":{level}}}}}"#);
        let event = format!(r#""type":"track","payload":{payload}"#);
        send(&running, client, "sec_moved", &event).1["dropped"].clone()
    };
    assert_eq!((dropped(6), dropped(7)), (Value::Null, json!("filter")));
    assert_eq!(settings["ip_filters"], json!(["203.0.113.9"]));
    assert_eq!(settings["profile_filters"], json!(["p-banned"]));
    assert_eq!(settings["allow_unsafe_revenue"], json!(true));

    // Whatever is wrong in a file, all of it is left out, with the place and the rule.
    let new_project = r#""id":"other""#;
    for (from, to, told) in [
        (r#""type":"write""#, r#""type":"owner""#, "owner"),
        (
            "00112233445566778899aabbccddeeff.",
            "nothex.",
            "saltHex.hashHex",
        ),
        ("11111111-2222", "short", "client"),
        ("203.0.113.9", "localhost", "ip_filters"),
        (
            r#""projectId":"shop""#,
            r#""projectId":"nowhere""#,
            "nowhere",
        ),
        (
            r#""name":"debug""#,
            r#""name":"debug","filters":[{}]"#,
            "missing field `name`",
        ),
        (r#""gte""#, r#""almost""#, "unknown variant `almost`"),
        ("properties.level", "duration", "knows no field `duration`"),
        (r#""clients""#, r#""clients" ,"#, "no export"),
    ] {
        let text = EXPORT.replace(r#""id":"shop""#, new_project);
        let text = text.replace(r#""projectId":"shop""#, r#""projectId":"other""#);
        let from = from.replace(r#""projectId":"shop""#, r#""projectId":"other""#);
        assert!(text.contains(&from), "{from}");
        let broken = folder.write("broken.json", &text.replace(&from, to));
        let ran = folder.run(&["import", "openpanel", &broken]);
        assert_eq!(ran.code, Some(64), "{to}: {}", ran.stderr);
        assert!(ran.stderr.contains(told), "{to}: {}", ran.stderr);
    }
    let moved = EXPORT.replace(r#""id":"shop""#, new_project);
    let moved = moved.replace(r#""projectId":"shop""#, r#""projectId":"other""#);
    let moved = folder.write("moved.json", &moved);
    let ran = folder.run(&["import", "openpanel", &moved]);
    assert_eq!(ran.code, Some(64), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("is a client of project"),
        "{}",
        ran.stderr
    );
    let listed = folder.json(&["projects", "list", "--json"]);
    assert!(!listed.to_string().contains("other"), "{listed}");
}

/// What a 30-minute gap per device makes of an access log, worked out from its text alone: by
/// address and agent, how many events each session has.
fn sessions_of(log: &str) -> Vec<usize> {
    let month = |name: &str| {
        let names = "JanFebMarAprMayJunJulAugSepOctNovDec";
        names.find(name).unwrap() / 3 + 1
    };
    let mut times: std::collections::BTreeMap<_, Vec<i64>> = Default::default();
    for line in log.lines() {
        // Quotes that a client typed are escaped.
        let line = line.replace("\\\"", "'");
        let quoted: Vec<&str> = line.split('"').collect();
        if quoted.len() != 7 {
            continue;
        }
        let (address, rest) = line.split_once(' ').unwrap();
        let (_, stamp) = rest.split_once(" [").unwrap();
        // 17/May/2015:10:05:03 +0000
        let time = format!(
            "{}-{:02}-{}T{}Z",
            &stamp[7..11],
            month(&stamp[3..6]),
            &stamp[0..2],
            &stamp[12..20]
        );
        let second = time.parse::<jiff::Timestamp>().unwrap().as_second();
        let device = (address.to_owned(), quoted[5].to_owned());
        times.entry(device).or_default().push(second);
    }
    let mut counts = Vec::new();
    for mut of_device in times.into_values() {
        of_device.sort_unstable();
        let gap = |pair: &[i64]| pair[1] - pair[0] > 30 * 60;
        let cuts = of_device
            .windows(2)
            .enumerate()
            .filter(|(_, pair)| gap(pair));
        let ends = cuts.map(|(at, _)| at + 1).chain([of_device.len()]);
        let mut start = 0;
        for end in ends {
            counts.push(end - start);
            start = end;
        }
    }
    counts.sort_unstable();
    counts
}

#[test]
fn an_access_log_becomes_views_and_the_sessions_that_its_gaps_demand() {
    let path = std::env::var("FULMAR_ACCESS_LOG").unwrap_or_else(|_| Folder::sample("access.log"));
    let log = std::fs::read_to_string(&path).unwrap();
    let folder = Folder::new();
    let running = folder.serve(&[]);
    let made = folder.json(&["clients", "create", "logs", "--kind", "root"]);
    let client = made["client"].as_str().unwrap();
    let send = [
        "send", "--door", "track", "--format", "combined", "--client",
        client, // Retention goes by the wall clock, and the log grows old.
        "--rebase", "--quiet", &path,
    ];
    folder.done(&send);
    // Again from its start: each line is stored once.
    let spool = folder.path("another").display().to_string();
    folder.done(&[&send[..], &["--spool", &spool]].concat());
    folder.done(&["drain"]);
    let views = rows(
        &folder,
        "select count(*) n from events where name = 'screen_view'",
    );
    let counted = rows(
        &folder,
        "select screen_view_count as n from sessions_latest order by 1",
    );
    let expected = sessions_of(&log);
    assert_eq!(views, json!([{ "n": expected.iter().sum::<usize>() }]));
    let counts: Vec<usize> = counted
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["n"].as_u64().unwrap() as usize)
        .collect();
    assert_eq!(counts, expected);
    assert_eq!(folder.json(&["verify", "--json"])["verdict"], "ok");
    assert_eq!(running.stop().code(), Some(0));
}

#[test]
fn a_session_that_opens_in_the_last_block_cuts_no_stop_short() {
    let folder = Folder::new();
    // Nothing closes a block before the stop does.
    let slow = ["--set", "writer.block_age=60s"];
    let running = folder.serve(&slow);
    let made = folder.json(&["clients", "create", "shop"]);
    let secret = std::fs::read_to_string(made["file"].as_str().unwrap()).unwrap();
    let (client, secret) = (made["client"].as_str().unwrap(), secret.trim());
    // Each from a device of its own, which opens a session.
    let seen = |server: &Server, name: &str| {
        let headers = format!(
            "user-agent: {BROWSER} {name}\r\nopenpanel-client-id: {client}\r\n\
             openpanel-client-secret: {secret}\r\n"
        );
        let body = format!(r#"{{"type":"track","payload":{{"name":"{name}","profileId":"u1"}}}}"#);
        http_with(&server.public, "POST", "/track", &headers, &body).0
    };
    assert_eq!(seen(&running, "one"), 200);
    // The writer tells the profile fold of the session, which has stopped by then.
    assert_eq!(running.stop().code(), Some(0));
    let running = folder.serve(&slow);
    assert_eq!(seen(&running, "two"), 200);
    running.kill();
    // The same where a command does it beside no server.
    folder.done(&["drain"]);
    let count = "select count(*) n from events where client_id != ''";
    assert_eq!(rows(&folder, count), json!([{"n": 2}]));
}
