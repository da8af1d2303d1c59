//! The SDK door as users run it: a client from the command line, a request, a power cut.

#![allow(clippy::unwrap_used)]

mod server;

use serde_json::Value;
use server::{Folder, Server, http};

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
