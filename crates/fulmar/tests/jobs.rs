//! Events and deliveries sent again: to webhooks that came later, and in the background.

#![allow(clippy::unwrap_used)]

mod server;

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use server::Folder;
use server::caller::{Caller, LOCAL, start};
use server::receiver::Hooks;

fn fields(hooks: &Hooks) -> String {
    let http = json!({ "max_retries": 0 });
    json!({ "url": hooks.url(), "events": ["order.*"], "http_config": http }).to_string()
}

/// Publishes one by one; their ids.
fn publish(publisher: &Caller, count: usize) -> Vec<String> {
    let each = |n: usize| publisher.publish("acme", "order.paid", &json!({ "payload": n }));
    (0..count).map(each).collect()
}

/// The job, once it has ended.
fn ended(caller: &Caller, path: &str) -> Value {
    loop {
        let job = caller.get(path);
        if job["status"] != "running" {
            return job;
        }
    }
}

fn counts(answer: &Value) -> (usize, u64) {
    let ids = answer["delivery_ids"].as_array().unwrap();
    (ids.len(), answer["skipped"].as_u64().unwrap())
}

/// The ledger once nothing is undecided: matched, reopened, delivered, failed.
fn ledger(folder: &Folder, reopened: u64) -> [u64; 4] {
    loop {
        let ledger = folder.json(&["status", "--json"])["webhooks"]["ledger"].take();
        if ledger["undecided"] == 0 && ledger["reopened"] == reopened {
            let of = |name: &str| ledger[name].as_u64().unwrap();
            return ["matched", "reopened", "delivered", "failed"].map(of);
        }
    }
}

#[test]
fn an_event_is_pushed_anew_to_who_came_later() {
    let folder = Folder::new();
    let (server, operator, publisher) = start(&folder);
    let first = Hooks::new(|_| 200);
    operator.webhook("acme", &fields(&first));
    let events = publish(&publisher, 2);
    let before = first.next();
    first.next();
    let (answer, later) = Hooks::turning(404);
    let late = operator.webhook("acme", &fields(&later));
    operator.webhook("zeta", &fields(&later));
    let path = format!("/v1/consumers/acme/events/{}:repush", events[0]);

    // Whoever has it does not get it again.
    let pushed = operator.done("POST", &path, "");
    assert_eq!(counts(&pushed), (1, 1), "{pushed}");
    let got = later.next();
    let delivery = pushed["delivery_ids"][0].as_str().unwrap();
    assert_eq!(got.id(), format!("msg_{delivery}"));
    assert_eq!(got.headers["fulmar-replay"], "true");
    assert_eq!(got.body, before.body, "the same bytes as the first one got");
    let shown = format!("/v1/deliveries/{delivery}");
    let view = loop {
        let view = operator.get(&shown);
        if view["status"] == "failed" {
            break view;
        }
    };
    assert_eq!(
        (
            &view["webhook_id"],
            &view["event_id"],
            &view["attempt_count"]
        ),
        (&json!(late), &json!(events[0]), &json!(1))
    );
    // What has failed is pushed anew with the same id; what was taken is not, but with force.
    answer.store(200, Ordering::SeqCst);
    assert_eq!(counts(&operator.done("POST", &path, "")), (1, 1));
    assert_eq!(later.next().id(), got.id());
    ledger(&folder, 2);
    assert_eq!(counts(&operator.done("POST", &path, "")), (0, 2));
    let force = json!({ "force": true, "webhook_id": late }).to_string();
    assert_eq!(counts(&operator.done("POST", &path, &force)), (1, 0));
    assert_eq!(later.next().id(), got.id());
    assert_eq!(ledger(&folder, 3), [2, 3, 4, 1]);
    assert_eq!((first.count(), later.count()), (2, 3));

    for path in [
        format!("/v1/consumers/zeta/events/{}:repush", events[0]),
        "/v1/events/none:repush".to_owned(),
    ] {
        assert_eq!(operator.call("POST", &path, "").0, 404, "{path}");
    }
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn a_job_of_events_survives_a_death_and_pushes_each_once() {
    const EVENTS: usize = 900;
    let folder = Folder::new();
    let (server, operator, publisher) = start(&folder);
    let all: Vec<Value> = (0..EVENTS).map(|n| json!({ "payload": n })).collect();
    let path = "/v1/consumers/acme/events?event=order.paid";
    publisher.done("POST", path, &json!(all).to_string());
    let hooks = Hooks::new(|_| 200);
    let id = operator.webhook("acme", &fields(&hooks));

    let body = json!({ "event": "order.paid", "webhook_id": id }).to_string();
    let job = operator.done("POST", "/v1/consumers/acme/events:rePush", &body);
    let path = format!(
        "/v1/consumers/acme/repush-jobs/{}",
        job["job_id"].as_str().unwrap()
    );
    // Some have been pushed, most have not.
    let mut got: HashSet<String> = HashSet::new();
    got.insert(hooks.next().id().to_owned());
    server.kill();
    let server = folder.serve(&LOCAL);
    let operator = Caller::operator(&folder, &server);
    let job = ended(&operator, &path);
    assert_eq!(job["status"], "completed", "{job}");
    assert_eq!(
        ledger(&folder, EVENTS as u64),
        [0, EVENTS as u64, EVENTS as u64, 0]
    );
    got.extend(hooks.so_far().iter().map(|one| one.id().to_owned()));
    assert_eq!(got.len(), EVENTS);
    // Once more, nothing is left to push.
    let again = operator.done("POST", "/v1/events:rePush", &body);
    let again = format!("/v1/repush-jobs/{}", again["job_id"].as_str().unwrap());
    let again = ended(&operator, &again);
    assert_eq!(
        (&again["sent"], &again["skipped"]),
        (&json!(0), &json!(EVENTS))
    );
    let other = path.replace("acme", "zeta");
    assert_eq!(operator.call("GET", &other, "").0, 404);
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn a_job_of_deliveries_takes_what_a_list_has_shown_and_can_be_cancelled() {
    let folder = Folder::new();
    let (server, operator, publisher) = start(&folder);
    let (answer, hooks) = Hooks::turning(404);
    operator.webhook("acme", &fields(&hooks));
    publish(&publisher, 3);
    (0..3).for_each(|_| drop(hooks.next()));
    ledger(&folder, 0);
    let list = "/v1/consumers/acme/deliveries?status=failed&prepare_retry=true&limit=1";
    let prepared = operator.get(list)["repush_id"].clone();
    answer.store(200, Ordering::SeqCst);
    let batch = "/v1/consumers/acme/deliveries:retryBatch";
    let job = operator.done("POST", batch, &json!({ "repush_id": prepared }).to_string());
    let path = format!("/v1/retry-jobs/{}", job["job_id"].as_str().unwrap());
    let done = ended(&operator, &path);
    assert_eq!(
        (&done["status"], &done["sent"]),
        (&json!("completed"), &json!(3))
    );
    assert!(done["completed_at"].is_string());
    assert_eq!(ledger(&folder, 3), [3, 3, 3, 3]);
    // One that has ended stays as it is.
    assert_eq!(
        operator.done("POST", &format!("{path}:cancel"), "")["status"],
        "completed"
    );

    let refused = [
        (json!({ "status": "success" }), "status"),
        (json!({ "created_after": "noon" }), "created_after"),
        (json!({ "repush_id": "x" }), "repush_id"),
        (
            json!({ "repush_id": prepared, "webhook_id": "w" }),
            "webhook_id",
        ),
        (json!({ "webhook": "w" }), "webhook"),
        (json!({ "limit": 3 }), "limit"),
    ];
    for (body, field) in refused {
        let (status, told) = operator.call("POST", batch, &body.to_string());
        assert_eq!((status, &told["field"]), (422, &json!(field)), "{body}");
    }
    let (status, told) = operator.call("GET", "/v1/deliveries?prepare_retry=yes", "");
    assert_eq!((status, &told["field"]), (422, &json!("prepare_retry")));
    // One that runs ends at the cancel: nothing is sent after it.
    let job = operator.done("POST", batch, r#"{"status":"success","force":true}"#);
    let path = format!("/v1/retry-jobs/{}", job["job_id"].as_str().unwrap());
    let cancelled = operator.done("POST", &format!("{path}:cancel"), "");
    assert_ne!(cancelled["status"], "running");
    let later = ended(&operator, &path);
    assert_eq!(later["status"], cancelled["status"]);
    assert_eq!(server.stop().code(), Some(0));
}
