//! Webhooks taken over from Sparrow: its ids, its secrets, and no client changed.

#![allow(clippy::unwrap_used)]

mod server;

use fulmar_webhooks::sign::Signer;
use serde_json::{Value, json};
use server::Folder;
use server::caller::{Caller, LOCAL};
use server::receiver::Hooks;

const SECRET: &str = "a-secret-as-sparrow-takes-it";

fn export(hooks: &Hooks) -> Value {
    let webhook = |id: &str, more: Value| {
        let mut webhook = json!({
            "webhook_id": id, "consumer": "acme", "url": hooks.url(), "events": ["order.paid"],
            "active": true, "description": null, "secret": SECRET, "health": "healthy",
            "http_config": {
                "max_retries": 5, "retry_backoff_seconds": 1, "follow_redirects": true,
                "verify_ssl": true, "expected_status_codes": [200, 204], "max_captured_bytes": 7,
            },
        });
        webhook
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        webhook
    };
    json!({
        "event_types": [
            { "name": "order.paid", "description": "paid", "schema": { "type": "object" } },
            { "name": "order.old", "active": false, "versions": 3 },
        ],
        "webhooks": [
            webhook("5f0c9e4e-1", json!({ "secret_headers": { "x-token": "t0k" } })),
            webhook("5f0c9e4e-2", json!({ "events": [], "transform_template": "{{ .payload }}" })),
        ],
        "subscriptions": [{
            "id": "sub-7", "consumer": "acme", "webhook_id": "5f0c9e4e-2", "event_name": "*",
            "label_filters": { "env": "prod" }, "transform_enabled": false,
        }],
    })
}

#[test]
fn what_sparrow_has_is_taken_over_whole_or_not_at_all() {
    let folder = Folder::new();
    let server = folder.serve(&LOCAL);
    let operator = Caller::operator(&folder, &server);
    let publisher = Caller::publisher(&folder, &server);
    let hooks = Hooks::new(|_| 200);
    let good = export(&hooks);
    let run = |export: &Value, more: &[&str]| {
        let file = folder.write("export.json", &export.to_string());
        folder.run(&[&["import", "sparrow", &file, "--json"], more].concat())
    };
    let webhooks = || {
        operator.get("/v1/webhooks")["webhooks"]
            .as_array()
            .unwrap()
            .len()
    };

    let refused = [
        ("/webhooks/1/secret", Value::Null, "webhooks[1].secret"),
        ("/webhooks/1/secret", json!("***"), "webhooks[1].secret"),
        (
            "/webhooks/0/secret_headers/x-token",
            json!("***"),
            "webhooks[0].secret_headers",
        ),
        (
            "/webhooks/0/url",
            json!("http://10.0.0.1/"),
            "webhooks[0].url",
        ),
        (
            "/webhooks/0/http_config/max_retries",
            json!("five"),
            "webhooks[0]",
        ),
        (
            "/event_types/0/schema",
            json!({ "type": 7 }),
            "event_types[0].schema",
        ),
        (
            "/subscriptions/0/webhook_id",
            json!("none"),
            "subscriptions[0]",
        ),
    ];
    for (place, value, named) in refused {
        let mut bad = good.clone();
        *bad.pointer_mut(place).unwrap() = value;
        let ran = run(&bad, &[]);
        assert_eq!(ran.code, Some(1), "{place}");
        assert!(ran.stderr.contains(named), "{place}: {}", ran.stderr);
        assert_eq!(webhooks(), 0, "{place}");
    }

    let counts = |ran: server::Ran| -> Vec<Value> {
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let of = |name: &str| report[name].clone();
        ["event_types", "webhooks", "subscriptions", "unchanged"]
            .map(of)
            .into()
    };
    assert_eq!(counts(run(&good, &["--dry-run"])), [2, 2, 1, 0]);
    assert_eq!(webhooks(), 0);
    let ran = run(&good, &[]);
    assert!(
        ran.stdout
            .contains("5f0c9e4e-2 is paused: `transform_template`"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("redirects are never followed"));
    assert_eq!(counts(ran), [2, 2, 1, 0]);
    assert_eq!(counts(run(&good, &[])), [0, 0, 0, 5]);

    publisher.publish("acme", "order.paid", &json!({ "payload": {} }));
    let got = hooks.next();
    assert_eq!(got.headers["x-sparrow-webhook-id"], "5f0c9e4e-1");
    assert_eq!(got.headers["x-token"], "t0k");
    let at_s: i64 = got.headers["webhook-timestamp"].parse().unwrap();
    let signature = &got.headers["webhook-signature"];
    let signer = Signer::of(SECRET).unwrap();
    assert!(signer.verifies(got.id(), at_s, &got.body, signature, at_s));
    let view = operator.get("/v1/consumers/acme/webhooks/5f0c9e4e-1");
    assert_eq!(
        (
            &view["http_config"]["max_retries"],
            &view["http_config"]["expected_status_codes"]
        ),
        (&json!(5), &json!([200, 204]))
    );
    let held = operator.get("/v1/consumers/acme/webhooks/5f0c9e4e-2");
    assert_eq!(held["state"], "paused");
    let old = operator.get("/v1/event-types/order.old");
    assert_eq!(old["active"], false);
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn events_come_to_a_local_program_as_deliveries_do() {
    let folder = Folder::new();
    let server = folder.serve(&LOCAL);
    let operator = Caller::operator(&folder, &server);
    let publisher = Caller::publisher(&folder, &server);
    for name in ["order.paid", "user.made"] {
        operator.done(
            "POST",
            "/v1/event-types",
            &json!({ "name": name }).to_string(),
        );
    }
    let hooks = Hooks::new(|_| 200);
    let fields = json!({ "url": hooks.url(), "events": ["order.*"] });
    operator.webhook("acme", &fields.to_string());
    let path = |name: &str| format!("/v1/consumers/acme/events?event={name}");
    // Its bytes are the publisher's, whatever reads them on the way.
    publisher.done(
        "POST",
        &path("order.paid"),
        r#"{"payload":{"b":1.10,"a":1e2}}"#,
    );
    publisher.done("POST", &path("user.made"), r#"{"payload":1}"#);
    let delivered = hooks.next();

    let (answer, local) = Hooks::turning(503);
    let secret = folder.path("listen.key").to_str().unwrap().to_owned();
    let listen = [
        "listen", "--from", "0", "--count", "1", "--event", "order.*",
    ];
    let forward = [
        "--forward",
        &local.url(),
        "--secret-file",
        &secret,
        "--consumer",
        "acme",
    ];
    let told = folder.done(&[&listen[..], &forward].concat());
    assert!(
        told.contains("order.paid") && told.contains("503"),
        "{told}"
    );
    let first = local.next();
    assert_eq!(first.body, delivered.body);
    let at_s: i64 = first.headers["webhook-timestamp"].parse().unwrap();
    let signer = Signer::of(std::fs::read_to_string(&secret).unwrap().trim()).unwrap();
    let signature = &first.headers["webhook-signature"];
    assert!(signer.verifies(first.id(), at_s, &first.body, signature, at_s));
    // Heard again it has the same id, and another one than its delivery.
    answer.store(204, std::sync::atomic::Ordering::SeqCst);
    assert!(
        folder
            .done(&[&listen[..], &forward].concat())
            .contains("204")
    );
    assert_eq!(local.next().id(), first.id());
    assert_ne!(first.id(), delivered.id());

    // Who asks at the log's end waits until something comes, of his alone.
    let end = operator.get("/v1/listen?from=0&event=user.made")["next"].clone();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| operator.get(&format!("/v1/listen?from={end}&event=user.made")));
        publisher.done("POST", &path("order.paid"), r#"{"payload":2}"#);
        publisher.done("POST", &path("user.made"), r#"{"payload":3}"#);
        let heard = asked.join().unwrap();
        let events = heard["events"].as_array().unwrap();
        assert_eq!(events.len(), 1, "{heard}");
        assert_eq!(events[0]["envelope"]["payload"], 3);
    });
    for (query, field) in [("from=x", "from"), ("from=99999999", "from")] {
        let (status, told) = operator.call("GET", &format!("/v1/listen?{query}"), "");
        assert_eq!((status, &told["field"]), (422, &json!(field)), "{query}");
    }
    // Nothing of another project is heard.
    folder.done(&["projects", "create", "other"]);
    let key = folder.path("other.key").to_str().unwrap().to_owned();
    let make = [
        "keys",
        "create",
        "reader",
        "--project",
        "other",
        "--scope",
        "webhooks",
        "--out",
        &key,
    ];
    folder.done(&make);
    let other = Caller::with_key_file(&server, &key);
    let heard = other.get("/v1/listen?from=0");
    assert_eq!(heard["events"], json!([]));
    assert!(heard["next"].as_u64() > end.as_u64(), "{heard}");
    assert_eq!(server.stop().code(), Some(0));
}
