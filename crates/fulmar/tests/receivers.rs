//! What a server knows of its receivers, as users read it, and what it tells of them.

#![allow(clippy::unwrap_used)]

mod server;

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use server::Folder;
use server::caller::{Caller, LOCAL, start};
use server::receiver::{Got, Hooks};

fn fields(hooks: &Hooks, events: &str) -> String {
    json!({ "url": hooks.url(), "events": [events], "http_config": { "max_retries": 0 } })
        .to_string()
}

/// Publishes until the receiver has got so many.
fn send(publisher: &Caller, hooks: &Hooks, count: usize) {
    for _ in 0..count {
        publisher.publish("acme", "order.paid", &json!({ "payload": 1 }));
        hooks.next();
    }
}

/// Asks until an answer is as wanted: an exchange is over before its outcome is durable.
fn until(caller: &Caller, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let answer = caller.get(path);
        if wanted(&answer) {
            return answer;
        }
    }
}

/// The ledger of what is sent, once it is as wanted: it is committed once a second.
fn ledger_once(folder: &Folder, wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let ledger = folder.json(&["status", "--json"])["webhooks"]["ledger"].take();
        if wanted(&ledger) {
            return ledger;
        }
    }
}

fn told(got: &Got) -> (Value, Value) {
    let body: Value = serde_json::from_slice(&got.body).unwrap();
    (body["event_name"].clone(), body["payload"].clone())
}

#[test]
fn health_is_read_and_told_and_a_410_disables() {
    let folder = Folder::new();
    let (server, operator, publisher) = start(&folder);
    let (answer, hooks) = Hooks::turning(200);
    let id = operator.webhook("acme", &fields(&hooks, "order.*"));
    let listening = Hooks::new(|_| 200);
    operator.webhook("_sparrow", &fields(&listening, "sparrow.webhook.*"));
    let path = format!("/v1/consumers/acme/webhooks/{id}/health");

    let unknown = operator.get(&path);
    assert_eq!(unknown["health"], "unknown");
    assert_eq!(
        (&unknown["total"], &unknown["success_rate"]),
        (&json!(0), &Value::Null)
    );
    send(&publisher, &hooks, 4);
    let well = until(&operator, &path, |health| health["total"] == 4);
    assert_eq!(
        (&well["health"], &well["success"]),
        (&json!("healthy"), &json!(4))
    );
    assert_eq!(well["breaker"], "closed");
    assert_eq!(operator.get(&format!("/v1/webhooks/{id}/health")), well);

    answer.store(500, Ordering::SeqCst);
    send(&publisher, &hooks, 5);
    let ill = until(&operator, &path, |health| health["total"] == 9);
    let expected = json!({
        "health": "unhealthy", "state": "active", "failed": 5, "server_errors": 5,
        "client_errors": 0, "consecutive_failures": 5, "success_rate": 4.0 / 9.0,
        "complete": true,
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&ill[field], value, "{field}");
    }
    assert!(ill["failing_since"].as_str() <= ill["last_failure_at"].as_str());
    assert!(ill["avg_response_time"].as_f64().unwrap() > 0.0);
    let summary = operator.get("/v1/health-summary");
    assert_eq!(
        (&summary["total"], &summary["unhealthy"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(summary["webhooks"][0]["webhook_id"], json!(id));

    // The receiver is gone: its webhook is disabled at once, and what comes is held.
    answer.store(410, Ordering::SeqCst);
    send(&publisher, &hooks, 1);
    let webhook = format!("/v1/consumers/acme/webhooks/{id}");
    let gone = until(&operator, &webhook, |webhook| {
        webhook["state"] == "disabled"
    });
    assert_eq!(gone["active"], false);
    publisher.publish("acme", "order.paid", &json!({ "payload": "held" }));
    let stats = until(&operator, "/v1/consumers/acme/stats", |stats| {
        stats["backlog"] == 1
    });
    assert_eq!(
        (&stats["disabled"], &stats["webhooks"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(stats["attempts"]["failed"], 6);
    assert_eq!(stats["backlogs"][0]["webhook_id"], json!(id));
    assert!(stats["oldest_age_seconds"].as_f64().unwrap() >= 0.0);
    answer.store(200, Ordering::SeqCst);
    operator.done("POST", &format!("{webhook}:resume"), "");
    assert_eq!(told(&hooks.next()).1, json!("held"));

    let mut names: Vec<String> = (0..10)
        .map(|_| told(&listening.next()).0.as_str().unwrap().to_owned())
        .collect();
    names.sort();
    let of = |name: &str| names.iter().filter(|one| one.ends_with(name)).count();
    assert_eq!(of("delivery_failed"), 6, "{names:?}");
    assert_eq!(of("health_changed"), 2, "{names:?}");
    assert_eq!((of("disabled"), of("enabled")), (1, 1), "{names:?}");
    // What it tells is stored as any event is, and it stops as it should.
    let rows = folder.done(&[
        "query",
        "select count(*) from messages where consumer = '_sparrow'",
        "--format",
        "csv",
    ]);
    assert_eq!(rows.lines().last(), Some("10"), "{rows}");
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn nobody_else_publishes_what_the_server_tells() {
    let folder = Folder::new();
    let (_server, operator, publisher) = start(&folder);
    let path = "/v1/consumers/_sparrow/events?event=sparrow.webhook.disabled";
    let (status, answer) = publisher.call("POST", path, r#"{"payload":1}"#);
    assert_eq!((status, &answer["field"]), (422, &json!("consumer")));
    let hooks = Hooks::new(|_| 200);
    let others = "/v1/consumers/_other/webhooks";
    let (status, answer) = operator.call("POST", others, &fields(&hooks, "*"));
    assert_eq!((status, &answer["field"]), (422, &json!("consumer")));
}

#[test]
fn what_has_ended_is_sent_again_one_by_one_or_by_a_filter() {
    let folder = Folder::new();
    let (server, operator, publisher) = start(&folder);
    let (answer, hooks) = Hooks::turning(404);
    let id = operator.webhook("acme", &fields(&hooks, "order.*"));
    send(&publisher, &hooks, 5);
    let list = "/v1/deliveries?status=failed";
    let count = |answer: &Value| answer["deliveries"].as_array().unwrap().len();
    let failed = until(&operator, list, |answer| count(answer) == 5);
    let one = failed["deliveries"][0]["delivery_id"].as_str().unwrap();
    let path = format!("/v1/consumers/acme/deliveries/{one}");
    let retry = format!("{path}:retry");

    answer.store(200, Ordering::SeqCst);
    let (status, told) = operator.call("POST", &retry, "");
    assert_eq!((status, &told["status"]), (202, &json!("retrying")));
    let got = hooks.next();
    assert_eq!(got.id(), format!("msg_{one}"));
    assert_eq!(got.headers["fulmar-replay"], "true");
    let taken = until(&operator, &path, |view| view["status"] == "success");
    assert_eq!(taken["attempt_count"], 2);
    let (status, told) = operator.call("POST", &retry, "");
    assert_eq!((status, &told["code"]), (409, &json!("already_delivered")));
    assert_eq!(operator.call("POST", &retry, r#"{"force":true}"#).0, 202);
    assert_eq!(hooks.next().id(), got.id());
    until(&operator, &path, |view| view["attempt_count"] == 3);

    // The rest by a filter, in pages; those of others are left alone.
    let other = "/v1/consumers/zeta/deliveries:retry";
    let none = json!({ "retried": 0, "skipped": 0, "next_cursor": null });
    assert_eq!(operator.done("POST", other, ""), none);
    let many = "/v1/consumers/acme/deliveries:retry";
    let filter = json!({ "webhook_id": id, "limit": 3 });
    let first = operator.done("POST", many, &filter.to_string());
    assert_eq!(
        (&first["retried"], &first["skipped"]),
        (&json!(3), &json!(0))
    );
    let mut rest = filter.clone();
    rest["cursor"] = first["next_cursor"].clone();
    let rest = operator.done("POST", many, &rest.to_string());
    assert_eq!(
        (&rest["retried"], &rest["next_cursor"]),
        (&json!(1), &Value::Null)
    );
    (0..4).for_each(|_| drop(hooks.next()));
    until(&operator, "/v1/deliveries?status=success", |answer| {
        count(answer) == 5
    });

    let refused = [
        (many, r#"{"status":"success"}"#, 422, "status"),
        (many, r#"{"status":"retrying","force":true}"#, 422, "status"),
        (many, r#"{"limit":1001}"#, 422, "limit"),
        (many, r#"{"webhook":"x"}"#, 422, "webhook"),
    ];
    for (path, body, expected, field) in refused {
        let (status, told) = operator.call("POST", path, body);
        assert_eq!(
            (status, &told["field"]),
            (expected, &json!(field)),
            "{body}"
        );
    }
    assert_eq!(
        operator.call("POST", "/v1/deliveries/none:retry", "").0,
        404
    );
    // Nothing is sent again for a webhook that is gone.
    operator.call("DELETE", &format!("/v1/consumers/acme/webhooks/{id}"), "");
    let (status, told) = operator.call("POST", &retry, r#"{"force":true}"#);
    assert_eq!((status, &told["code"]), (409, &json!("webhook_gone")));
    let status = folder.json(&["status", "--json"]);
    let ledger = &status["webhooks"]["ledger"];
    assert_eq!(
        (&ledger["matched"], &ledger["reopened"]),
        (&json!(5), &json!(6))
    );
    assert_eq!(
        (&ledger["delivered"], &ledger["failed"]),
        (&json!(6), &json!(5))
    );
    assert_eq!(ledger["undecided"], 0);
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn a_webhook_is_tried_out_and_nothing_of_it_is_kept() {
    let folder = Folder::new();
    let (server, operator, _) = start(&folder);
    let (answer, hooks) = Hooks::turning(200);
    let fields = json!({
        "url": hooks.url(), "events": ["order.*"], "secret_headers": { "x-token": "t0k-t0k" },
        "http_config": { "max_retries": 3 },
    });
    let id = operator.webhook("acme", &fields.to_string());
    let webhook = format!("/v1/consumers/acme/webhooks/{id}");
    // It is for one that is held too.
    operator.done("POST", &format!("{webhook}:pause"), "");
    let test = format!("{webhook}:test");

    let taken = operator.done("POST", &test, "");
    let got = hooks.next();
    assert_eq!(told(&got), (json!("webhook.test"), json!({ "test": true })));
    assert_eq!(got.headers["x-token"], "t0k-t0k");
    assert_eq!(
        (
            &taken["delivered"],
            &taken["response_code"],
            &taken["response_body"]
        ),
        (&json!(true), &json!(200), &json!("said"))
    );
    let sent = &taken["request"];
    assert_eq!(sent["headers"]["x-token"], "***");
    for name in ["webhook-id", "webhook-signature", "webhook-timestamp"] {
        assert_eq!(sent["headers"][name], json!(got.headers[name]), "{name}");
    }
    assert_eq!(sent["body"].as_str().unwrap().as_bytes(), got.body);

    answer.store(503, Ordering::SeqCst);
    let own = json!({ "event_name": "order.paid", "payload": [1, null] }).to_string();
    let failed = operator.done("POST", &test, &own);
    assert_eq!(told(&hooks.next()), (json!("order.paid"), json!([1, null])));
    assert_eq!(
        (
            &failed["delivered"],
            &failed["error_category"],
            &failed["phase"]
        ),
        (&json!(false), &json!("server_error"), &json!("body"))
    );
    let (status, told) = operator.call("POST", &test, r#"{"event_name":""}"#);
    assert_eq!((status, &told["field"]), (422, &json!("event_name")));
    let other = format!("/v1/consumers/zeta/webhooks/{id}:test");
    assert_eq!(operator.call("POST", &other, "").0, 404);

    let ledger = &folder.json(&["status", "--json"])["webhooks"]["ledger"];
    assert_eq!(
        (&ledger["matched"], &ledger["undecided"]),
        (&json!(0), &json!(0))
    );
    let health = operator.get(&format!("{webhook}/health"));
    assert_eq!(
        (&health["total"], &health["health"]),
        (&json!(0), &json!("unknown"))
    );
    assert_eq!(hooks.count(), 2, "a test is not tried again");
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn one_that_waits_for_its_next_attempt_is_sent_now() {
    let folder = Folder::new();
    let (server, operator, publisher) = start(&folder);
    let (answer, hooks) = Hooks::turning(500);
    let http = json!({ "max_retries": 3, "retry_backoff_seconds": 3_600 });
    let fields = json!({ "url": hooks.url(), "events": ["order.*"], "http_config": http });
    let id = operator.webhook("acme", &fields.to_string());
    publisher.publish("acme", "order.paid", &json!({ "payload": 1 }));
    let first = hooks.next();
    let delivery = first.id().trim_start_matches("msg_").to_owned();
    let path = format!("/v1/consumers/acme/deliveries/{delivery}");
    let waiting = until(&operator, &path, |view| view["status"] == "retrying");
    assert_eq!(waiting["attempt_count"], 1);

    let retry = format!("{path}:retry");
    let (status, told) = operator.call("POST", &retry, "");
    assert_eq!((status, &told["status"]), (202, &json!("retrying")));
    let second = hooks.next();
    assert_eq!(
        (second.id(), second.headers["x-sparrow-attempt"].as_str()),
        (first.id(), "2")
    );
    assert!(!second.headers.contains_key("fulmar-replay"));
    let again = until(&operator, &path, |view| view["attempt_count"] == 2);
    assert_eq!(again["status"], "retrying");
    assert!(again["next_retry_at"].as_str() > waiting["next_retry_at"].as_str());

    let webhook = format!("/v1/consumers/acme/webhooks/{id}");
    operator.done("POST", &format!("{webhook}:pause"), "");
    let (status, told) = operator.call("POST", &retry, "");
    assert_eq!((status, &told["code"]), (409, &json!("webhook_held")));
    operator.done("POST", &format!("{webhook}:resume"), "");

    // Also after a restart, and whoever asks often gets it once.
    server.kill();
    let server = folder.serve(&LOCAL);
    let operator = Caller::operator(&folder, &server);
    answer.store(200, Ordering::SeqCst);
    for _ in 0..3 {
        operator.call("POST", &retry, "");
    }
    assert_eq!(hooks.next().headers["x-sparrow-attempt"], "3");
    until(&operator, &path, |view| view["status"] == "success");
    let ledger = ledger_once(&folder, |ledger| ledger["undecided"] == 0);
    let counts = ["matched", "delivered", "reopened"].map(|name| ledger[name].clone());
    assert_eq!(counts, [1, 1, 0].map(Value::from));
    assert_eq!(hooks.count(), 3);
    // The one exchange of this run, phase by phase: to an address, without TLS.
    let (_, metrics) = server::http(&server.ops, "GET", "/metrics", None, "");
    let counts = ["resolve", "connect", "tls", "send", "wait", "body"].map(|phase| {
        let name = format!("fulmar_webhooks_phase_seconds_count{{phase=\"{phase}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap_or_else(|| panic!("no {name} in {metrics}"))
            .to_owned()
    });
    assert_eq!(counts, ["1", "1", "0", "1", "1", "1"]);
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn publishing_stops_where_too_much_waits_and_goes_on_when_it_is_sent() {
    let folder = Folder::new();
    let more = [&LOCAL[..], &["--set", "webhooks.backlog_max=3"]].concat();
    let server = folder.serve(&more);
    let operator = Caller::operator(&folder, &server);
    operator.done("POST", "/v1/event-types", r#"{"name":"order.paid"}"#);
    let publisher = Caller::publisher(&folder, &server);
    let (_, hooks) = Hooks::turning(200);
    let id = operator.webhook("acme", &fields(&hooks, "order.*"));
    operator.done(
        "POST",
        &format!("/v1/consumers/acme/webhooks/{id}:pause"),
        "",
    );
    for n in 0..3 {
        publisher.publish("acme", "order.paid", &json!({ "payload": n }));
    }
    let path = "/v1/consumers/acme/events?event=order.paid";
    let (status, told) = publisher.call("POST", path, r#"{"payload":"one more"}"#);
    assert_eq!((status, &told["code"]), (429, &json!("backlog_full")));
    // What waited before a death waits after it.
    ledger_once(&folder, |ledger| ledger["undecided"] == 3);
    server.kill();
    let server = folder.serve(&more);
    let operator = Caller::operator(&folder, &server);
    let publisher = Caller::publisher(&folder, &server);
    assert_eq!(
        publisher.call("POST", path, r#"{"payload":"one more"}"#).0,
        429
    );
    operator.done(
        "POST",
        &format!("/v1/consumers/acme/webhooks/{id}:resume"),
        "",
    );
    (0..3).for_each(|_| drop(hooks.next()));
    while publisher.call("POST", path, r#"{"payload":"last"}"#).0 == 429 {}
    assert_eq!(self::told(&hooks.next()).1, json!("last"));
    assert_eq!(server.stop().code(), Some(0));
}
