//! Webhooks as their users drive them: set up, publish, receive, and read what became of it.

#![allow(clippy::unwrap_used)]

mod server;

use serde_json::{Value, json};
use server::Folder;
use server::caller::{Caller, LOCAL, start};
use server::receiver::Hooks;

fn publish(publisher: &Caller, consumer: &str, body: &Value) -> String {
    publisher.publish(consumer, "order.paid", body)
}

fn fields(hooks: &Hooks, more: Value) -> String {
    let mut fields = json!({ "url": hooks.url(), "events": ["order.*"] });
    fields
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    fields.to_string()
}

/// Asks until the only delivery of a list has the status: an answer is received before its outcome
/// is durable, so that the sender may be a moment behind its receiver.
fn only_delivery(caller: &Caller, path: &str, status: &str) -> Value {
    loop {
        let answer = caller.get(path);
        let deliveries = answer["deliveries"].as_array().unwrap();
        assert_eq!((deliveries.len(), &answer["complete"]), (1, &json!(true)));
        if deliveries[0]["status"] == status {
            return deliveries[0].clone();
        }
    }
}

#[test]
fn an_event_is_received_and_every_list_tells_of_it() {
    let folder = Folder::new();
    let (server, operator, publisher) = start(&folder);
    let hooks = Hooks::new(|_| 200);
    let webhook = operator.webhook("acme", &fields(&hooks, json!({})));
    let body = json!({ "payload": { "total": 1.5 }, "idempotency_key": "o-1",
                       "labels": { "env": "prod" } });
    let event = publish(&publisher, "acme", &body);
    let got = hooks.next();
    let received: Value = serde_json::from_slice(&got.body).unwrap();
    assert_eq!(received["event_id"], event);
    assert_eq!(received["payload"], json!({ "total": 1.5 }));

    let of_event = format!("/v1/consumers/acme/deliveries?event_id={event}");
    let delivery = only_delivery(&operator, &of_event, "success");
    let id = delivery["delivery_id"].as_str().unwrap();
    assert_eq!(got.id(), format!("msg_{id}"));
    assert_eq!(got.headers["x-sparrow-delivery-id"], id);
    let expected = [
        ("webhook_id", json!(webhook)),
        ("event_name", json!("order.paid")),
        ("consumer", json!("acme")),
        ("attempt_count", json!(1)),
        ("max_attempts", json!(4)),
        ("response_code", json!(200)),
        ("next_retry_at", Value::Null),
        ("error_category", Value::Null),
    ];
    for (field, value) in &expected {
        assert_eq!(&delivery[field], value, "{field}");
    }
    assert!(delivery["last_attempted_at"].is_string());
    for path in ["/v1/deliveries", "/v1/consumers/acme/deliveries"] {
        assert_eq!(operator.get(&format!("{path}/{id}")), delivery);
        let attempts = operator.get(&format!("{path}/{id}/attempts"));
        let [attempt] = &attempts["attempts"].as_array().unwrap()[..] else {
            panic!("one attempt: {attempts}");
        };
        assert_eq!(attempt["status"], "success");
        assert_eq!(attempt["attempt_number"], 1);
        assert!(attempt["duration_ms"].as_f64().unwrap() > 0.0);
    }
    let events = operator.get("/v1/consumers/acme/events?event=order.paid&labels=env=prod");
    assert_eq!(events["events"][0]["event_id"], event);
    assert_eq!(events["events"][0]["labels"], json!({ "env": "prod" }));
    assert_eq!(events["events"][0]["idempotency_key"], "o-1");
    let one = operator.get(&format!("/v1/events/{event}"));
    assert_eq!(one, events["events"][0]);
    let status = folder.json(&["status", "--json"]);
    assert_eq!(status["balanced"], true, "{status}");
    assert_eq!(status["ledger_of_deliveries"]["stored"], 1);
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn filters_take_what_they_say_and_nothing_else() {
    let folder = Folder::new();
    let (_server, operator, publisher) = start(&folder);
    let hooks = Hooks::new(|_| 404);
    let webhook = operator.webhook("acme", &fields(&hooks, json!({})));
    let event = publish(&publisher, "acme", &json!({ "payload": 1 }));
    let list = "/v1/consumers/acme/deliveries";
    let failed = only_delivery(&operator, list, "failed");
    let created = failed["created_at"].as_str().unwrap();
    let later: jiff::Timestamp = created.parse().unwrap();
    let later = later + std::time::Duration::from_millis(1);
    let taken = [
        format!("webhook_id={webhook}"),
        format!("event_id={event}"),
        "event_name=order.paid".to_owned(),
        "status=failed".to_owned(),
        format!(
            "error_category={}",
            failed["error_category"].as_str().unwrap()
        ),
        format!("created_after={created}"),
        format!("created_before={later}"),
    ];
    let passed = [
        "webhook_id=wh_other".to_owned(),
        "event_id=other".to_owned(),
        "event_name=order".to_owned(),
        "status=success".to_owned(),
        "status=paused".to_owned(),
        "error_category=timeout".to_owned(),
        "subscription_id=sub_other".to_owned(),
        format!("created_after={later}"),
        format!("created_before={created}"),
        // A quote ends no text of a statement.
        "event_name=x'%20OR%20'1'='1".to_owned(),
    ];
    let count = |filter: &String| {
        let answer = operator.get(&format!("{list}?{filter}"));
        answer["deliveries"].as_array().unwrap().len()
    };
    for filter in &taken {
        assert_eq!(count(filter), 1, "{filter}");
    }
    for filter in &passed {
        assert_eq!(count(filter), 0, "{filter}");
    }
    let refused = [
        ("status=done", 422, "status"),
        ("created_after=noon", 422, "created_after"),
        ("limit=1001", 422, "limit"),
        ("cursor=?", 422, "cursor"),
    ];
    for (query, status, field) in refused {
        let (found, answer) = operator.call("GET", &format!("{list}?{query}"), "");
        assert_eq!(
            (found, &answer["field"]),
            (status, &json!(field)),
            "{query}"
        );
    }
    assert_eq!(operator.call("GET", &format!("{list}?offset=5"), "").0, 400);
}

#[test]
fn what_waits_is_listed_as_well_and_goes_out_when_it_may() {
    let folder = Folder::new();
    let (server, operator, publisher) = start(&folder);
    let hooks = Hooks::new(|_| 200);
    let webhook = operator.webhook("acme", &fields(&hooks, json!({})));
    let verb = |verb: &str| format!("/v1/consumers/acme/webhooks/{webhook}:{verb}");
    operator.done("POST", &verb("pause"), "");
    let event = publish(&publisher, "acme", &json!({ "payload": 1 }));
    let lists = [
        "/v1/deliveries?status=paused".to_owned(),
        format!("/v1/deliveries?webhook_id={webhook}"),
        format!("/v1/deliveries?event_id={event}"),
        "/v1/deliveries?event_name=order.paid".to_owned(),
    ];
    for list in &lists {
        let held = only_delivery(&operator, list, "paused");
        assert_eq!(held["event_id"], event, "{list}");
        assert_eq!(held["attempt_count"], 0, "{list}");
    }
    let held = only_delivery(&operator, &lists[0], "paused");
    let path = format!("/v1/deliveries/{}", held["delivery_id"].as_str().unwrap());
    assert_eq!(operator.get(&path), held);
    assert_eq!(
        operator.get(&format!("{path}/attempts"))["attempts"],
        json!([])
    );
    for other in ["event_id=other", "event_name=other", "status=pending"] {
        let answer = operator.get(&format!("/v1/deliveries?{other}"));
        assert_eq!(answer["deliveries"], json!([]), "{other}");
    }
    // It is on disk: a server that starts anew tells of it, too.
    assert_eq!(server.stop().code(), Some(0));
    let server = folder.serve(&LOCAL);
    let operator = Caller::operator(&folder, &server);
    assert_eq!(operator.get(&path), held);
    operator.done("POST", &verb("resume"), "");
    assert_eq!(
        hooks.next().id(),
        format!("msg_{}", path.rsplit('/').next().unwrap())
    );
    only_delivery(&operator, "/v1/deliveries", "success");
}

#[test]
fn pages_hold_each_delivery_once_whether_it_was_tried_or_not() {
    let folder = Folder::new();
    let (_server, operator, publisher) = start(&folder);
    let hooks = Hooks::new(|_| 200);
    operator.webhook("acme", &fields(&hooks, json!({})));
    let held = operator.webhook("acme", &fields(&hooks, json!({})));
    operator.done(
        "POST",
        &format!("/v1/consumers/acme/webhooks/{held}:pause"),
        "",
    );
    let mut published: Vec<String> = (0..7)
        .map(|number| publish(&publisher, "acme", &json!({ "payload": number })))
        .collect();
    (0..7).for_each(|_| drop(hooks.next()));
    let (mut seen, mut path) = (Vec::new(), "/v1/deliveries?limit=3".to_owned());
    let mut newest_first = Vec::new();
    loop {
        let page = operator.get(&path);
        for one in page["deliveries"].as_array().unwrap() {
            seen.push((one["event_id"].clone(), one["webhook_id"] == json!(held)));
            newest_first.push(one["created_at"].as_str().unwrap().to_owned());
        }
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        path = format!("/v1/deliveries?limit=3&cursor={next}");
    }
    assert!(newest_first.is_sorted_by(|a, b| a >= b), "{newest_first:?}");
    seen.sort_by_key(|(event, held)| (event.to_string(), *held));
    published.sort();
    let both = |event: &String| [(json!(event), false), (json!(event), true)];
    let expected: Vec<_> = published.iter().flat_map(both).collect();
    assert_eq!(seen, expected);

    let (mut events, mut path) = (Vec::new(), "/v1/events?limit=3".to_owned());
    loop {
        let page = operator.get(&path);
        let of_page = page["events"].as_array().unwrap().iter();
        events.extend(of_page.map(|one| one["event_id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        path = format!("/v1/events?limit=3&cursor={next}");
    }
    events.sort();
    assert_eq!(events, published);
}

#[test]
fn nothing_of_a_project_or_a_consumer_is_seen_from_another() {
    let folder = Folder::new();
    let (server, operator, publisher) = start(&folder);
    let hooks = Hooks::new(|_| 200);
    let webhook = operator.webhook("acme", &fields(&hooks, json!({})));
    let event = publish(&publisher, "acme", &json!({ "payload": 1 }));
    let delivery = only_delivery(&operator, "/v1/deliveries", "success");
    let delivery = delivery["delivery_id"].as_str().unwrap();

    folder.done(&["projects", "create", "other"]);
    let file = folder.path("other.key").to_str().unwrap().to_owned();
    let create = [
        "keys",
        "create",
        "o",
        "--project",
        "other",
        "--scope",
        "webhooks",
    ];
    folder.done(&[&create[..], &["--out", &file]].concat());
    let other = Caller::with_key_file(&server, &file);
    let things = [
        format!("/v1/consumers/acme/webhooks/{webhook}"),
        format!("/v1/consumers/acme/deliveries/{delivery}"),
        format!("/v1/deliveries/{delivery}"),
        format!("/v1/deliveries/{delivery}/attempts"),
        format!("/v1/events/{event}"),
    ];
    for thing in &things {
        assert_eq!(operator.call("GET", thing, "").0, 200, "{thing}");
        assert_eq!(other.call("GET", thing, "").0, 404, "{thing}");
        // Another consumer of the same project is another's as well.
        let elsewhere = thing.replace("/acme/", "/zeta/");
        if elsewhere != *thing {
            assert_eq!(operator.call("GET", &elsewhere, "").0, 404, "{elsewhere}");
        }
    }
    let lists = [
        ("/v1/webhooks", "webhooks"),
        ("/v1/consumers", "consumers"),
        ("/v1/event-types", "event_types"),
        ("/v1/deliveries", "deliveries"),
        ("/v1/events", "events"),
    ];
    for (list, name) in lists {
        assert_ne!(operator.get(list)[name], json!([]), "{list}");
        assert_eq!(other.get(list)[name], json!([]), "{list}");
    }
    for list in ["deliveries", "events", "webhooks"] {
        let elsewhere = operator.get(&format!("/v1/consumers/zeta/{list}"));
        assert_eq!(elsewhere[list], json!([]), "{list}");
    }
    // Neither may it name the project, nor change what it does not see.
    let pause = format!("/v1/consumers/acme/webhooks/{webhook}:pause");
    assert_eq!(other.call("POST", &pause, "").0, 404);
    assert_eq!(other.call("DELETE", &things[0], "").0, 404);
    assert_eq!(operator.get(&things[0])["state"], "active");
}

#[test]
fn a_deleted_project_has_no_deliveries_in_any_query() {
    let folder = Folder::new();
    let (_server, operator, publisher) = start(&folder);
    let hooks = Hooks::new(|_| 200);
    operator.webhook("acme", &fields(&hooks, json!({})));
    publish(&publisher, "acme", &json!({ "payload": 1 }));
    only_delivery(&operator, "/v1/deliveries", "success");
    folder.done(&["delete", "project", "default", "--rows-only", "--yes"]);
    assert_eq!(operator.get("/v1/deliveries")["deliveries"], json!([]));
    let count = "select (select count(*) from deliveries) d, \
                 (select count(*) from delivery_attempts) a, (select count(*) from messages) m";
    let found = folder.json(&["query", "--format", "json", count]);
    assert_eq!(found, json!([{ "d": 0, "a": 0, "m": 0 }]));
    publish(&publisher, "acme", &json!({ "payload": 2 }));
    only_delivery(&operator, "/v1/deliveries", "success");
}
