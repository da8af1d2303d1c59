//! The commands of webhooks, as a user types them.

#![allow(clippy::unwrap_used)]

mod server;

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use server::Folder;
use server::caller::{Caller, LOCAL, start};
use server::receiver::Hooks;

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_webhook_is_made_sent_to_looked_at_and_sent_to_again() {
    let folder = Folder::new();
    let (server, _, _) = start(&folder);
    let (answer, hooks) = Hooks::turning(404);

    let secret = folder.path("hook.key").to_str().unwrap().to_owned();
    let add = [
        "webhooks",
        "add",
        &hooks.url(),
        "--consumer",
        "a b",
        "--out",
        &secret,
    ];
    let made = json_of(&folder.done(&[&add[..], &["--event", "order.*"]].concat()));
    let id = made["id"].as_str().unwrap();
    assert_eq!(made["secret_file"], json!(secret));
    let kept = std::fs::read_to_string(&secret).unwrap();
    assert!(kept.starts_with("whsec_"), "{kept}");
    let list = json_of(&folder.done(&["webhooks", "list", "--json"]));
    assert_eq!(
        (&list[0]["id"], list.as_array().unwrap().len()),
        (&json!(id), 1)
    );
    assert!(
        folder
            .done(&["webhooks", "list", "--consumer", "a b"])
            .contains(id)
    );

    // The payload's bytes are the caller's.
    let publish = ["publish", "order.paid", "--consumer", "a b", "--key", "k-1"];
    let publish = [
        &publish[..],
        &["--payload", "{\"n\":1.10}", "--label", "env=prod"],
    ]
    .concat();
    let event = json_of(&folder.done(&publish));
    let got = hooks.next();
    assert!(
        String::from_utf8(got.body)
            .unwrap()
            .ends_with("\"payload\":{\"n\":1.10}}")
    );
    assert_eq!(json_of(&folder.done(&publish))["duplicate"], true);

    let event_id = event["event_id"].as_str().unwrap();
    let failed = loop {
        let list = ["deliveries", "list", "--event-id", event_id, "--json"];
        let found = json_of(&folder.done(&list));
        if found[0]["status"] == "failed" {
            break found;
        }
    };
    let delivery = failed[0]["delivery_id"].as_str().unwrap();
    let show = folder.done(&["deliveries", "show", delivery]);
    assert!(
        show.contains("client_error") && show.contains("404"),
        "{show}"
    );
    let health = json_of(&folder.done(&["webhooks", "health", id, "--json"]));
    assert_eq!(
        (&health["failed"], &health["client_errors"]),
        (&json!(1), &json!(1))
    );

    let tried = folder.run(&["webhooks", "test", id, "--payload", "[7]", "--json"]);
    assert_eq!(tried.code, Some(1), "{}", tried.stderr);
    assert_eq!(json_of(&tried.stdout)["response_code"], 404);
    hooks.next();
    answer.store(200, Ordering::SeqCst);
    folder.done(&["webhooks", "test", id]);
    hooks.next();
    let retried = json_of(&folder.done(&["deliveries", "retry", "--webhook", id]));
    assert_eq!(retried, json!({ "retried": 1, "skipped": 0 }));
    assert_eq!(hooks.next().id(), format!("msg_{delivery}"));
    loop {
        let shown = json_of(&folder.done(&["deliveries", "show", delivery, "--json"]));
        if shown["status"] == "success" {
            assert_eq!(shown["attempts"].as_array().unwrap().len(), 2);
            break;
        }
    }
    folder.done(&["deliveries", "retry", delivery, "--force"]);
    hooks.next();

    // One that came later gets what was published before.
    let later = Hooks::new(|_| 200);
    let late = json_of(&folder.done(&[
        "webhooks",
        "add",
        &later.url(),
        "--consumer",
        "a b",
        "--event",
        "*",
        "--out",
        folder.path("late.key").to_str().unwrap(),
    ]));
    let late = late["id"].as_str().unwrap();
    let replay = [
        "deliveries",
        "replay",
        "--consumer",
        "a b",
        "--labels",
        "env=prod",
    ];
    let job = json_of(&folder.done(&[&replay[..], &["--webhook", late]].concat()));
    assert_eq!(
        (&job["status"], &job["sent"]),
        (&json!("completed"), &json!(1))
    );
    later.next();
    folder.done(&["webhooks", "delete", late]);

    assert!(folder.done(&["webhooks", "pause", id]).contains("paused"));
    assert!(folder.done(&["webhooks", "resume", id]).contains("active"));
    let other = folder.path("new.key").to_str().unwrap().to_owned();
    folder.done(&["webhooks", "rotate", id, "--out", &other]);
    assert_ne!(std::fs::read_to_string(&other).unwrap(), kept);
    folder.done(&["webhooks", "delete", id]);
    assert_eq!(
        json_of(&folder.done(&["webhooks", "list", "--json"])),
        json!([])
    );

    let refused: [(&[&str], i32); 4] = [
        (&["deliveries", "retry"], 64),
        (&["deliveries", "retry", delivery, "--status", "failed"], 64),
        (&["publish", "x", "--consumer", "c", "--payload", "{"], 64),
        (&["webhooks", "show", id], 1),
    ];
    for (arguments, code) in refused {
        assert_eq!(folder.run(arguments).code, Some(code), "{arguments:?}");
    }
    // Without a server nothing is sent, and the command says so.
    assert_eq!(server.stop().code(), Some(0));
    let alone = folder.run(&["webhooks", "list"]);
    let told = alone.stderr;
    assert_eq!(alone.code, Some(1));
    assert!(told.contains("no server runs"), "{told}");
}

#[test]
fn secrets_are_sealed_anew_and_the_old_key_can_go() {
    let folder = Folder::new();
    let (server, operator, _) = start(&folder);
    let hooks = Hooks::new(|_| 200);
    let fields = json!({
        "url": hooks.url(), "events": ["*"], "secret_headers": { "x-token": "t0k-t0k" },
    });
    let id = operator.webhook("acme", &fields.to_string());
    let test = format!("/v1/consumers/acme/webhooks/{id}:test");
    let ring = folder.data().join("keys/webhooks.keyring");
    let old = std::fs::read_to_string(&ring).unwrap();
    let done = json_of(&folder.done(&["webhooks", "rewrap", "--new-key"]));
    assert_eq!(done, json!({ "key": "k2", "webhooks": 1, "secrets": 2 }));
    let both = std::fs::read_to_string(&ring).unwrap();
    assert!(both.starts_with("k2=") && both.ends_with(&old));
    let mode = std::os::unix::fs::PermissionsExt::mode(&ring.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(operator.done("POST", &test, "")["delivered"], true);
    assert_eq!(hooks.next().headers["x-token"], "t0k-t0k");

    // A keyring that can't open what is sealed is not taken.
    std::fs::write(&ring, &old).unwrap();
    let refused = folder.run(&["webhooks", "rewrap"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("`k2`, which is not in the keyring"),
        "{}",
        refused.stderr
    );
    // Without the old key all goes on, also after a restart; with nothing to do nothing is done.
    std::fs::write(&ring, both.strip_suffix(&old).unwrap()).unwrap();
    let none = json!({ "key": "k2", "webhooks": 0, "secrets": 0 });
    assert_eq!(json_of(&folder.done(&["webhooks", "rewrap"])), none);
    assert_eq!(server.stop().code(), Some(0));
    assert_eq!(json_of(&folder.done(&["webhooks", "rewrap"])), none);
    let server = folder.serve(&LOCAL);
    let operator = Caller::operator(&folder, &server);
    assert_eq!(operator.done("POST", &test, "")["delivered"], true);
    assert_eq!(hooks.next().headers["x-token"], "t0k-t0k");
}
