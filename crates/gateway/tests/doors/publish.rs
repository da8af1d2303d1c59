//! The publish door: answers, idempotency keys with their bodies, batches, and what is refused.

use std::sync::atomic::Ordering;

use fulmar_event::{Body, Door, EventView, SchemaCheck};
use http_body_util::Full;
use hyper::Request;
use serde_json::{Value, json};

use crate::events_rig::{EventsRig, json as of_json};
use crate::shelf::Shelf;

const PATH: &str = "/v1/consumers/acme/events?event=order.paid";

async fn publish(rig: &EventsRig, target: &str, content_type: &str, body: &str) -> (u16, Value) {
    let request = Request::post(target)
        .header("host", "localhost")
        .header("content-type", content_type)
        .header("x-api-key", "alpha")
        .body(Full::new(body.to_owned().into()))
        .unwrap();
    let answer = rig.client().await.send(request).await;
    (answer.status.as_u16(), of_json(&answer))
}

async fn one(rig: &EventsRig, target: &str, body: &Value) -> (u16, Value) {
    publish(rig, target, "application/json", &body.to_string()).await
}

fn records(shelf: &Shelf) -> Vec<Vec<u8>> {
    shelf.records()
}

#[tokio::test]
async fn an_event_is_answered_201_and_stands_in_the_log_as_it_was_sent() {
    let rig = EventsRig::start().await;
    let body = r#"{"payload": {"n": 1.10}, "labels":{"tier":"gold"}, "metadata":{"by":"me"},
        "ttl_seconds": 60}"#;
    let (status, answer) = publish(&rig, PATH, "application/json", body).await;
    assert_eq!(status, 201, "{answer}");
    assert_eq!(answer["duplicate"], false);
    assert_eq!(
        (&answer["schema_valid"], &answer["warnings"]),
        (&json!(true), &json!([]))
    );
    let kept = records(&rig.shelf);
    let event = EventView::parse(&kept[0]).unwrap();
    let Body::Message(message) = event.body else {
        panic!("no message")
    };
    assert_eq!(answer["event_id"], event.event_id);
    assert_eq!((message.kind, message.consumer), ("order.paid", "acme"));
    assert_eq!(message.data, br#"{"n": 1.10}"#);
    assert_eq!(message.labels, br#"{"tier":"gold"}"#);
    assert_eq!(message.extensions, br#"{"by":"me"}"#);
    assert_eq!(event.stamp.door, Door::Publish as i32);
    assert_eq!((event.stamp.key, event.stamp.control_offset), ("acme", 9));
    let ingest_ms = event.ingest_time.unwrap().as_millis();
    assert_eq!(message.expires_ms, ingest_ms + 60_000);
}

#[tokio::test]
async fn a_key_names_one_event_however_often_it_comes_and_conflicts_with_another_body() {
    let rig = EventsRig::start().await;
    let body = json!({"payload": {"n": 1}, "idempotency_key": "k-1"});
    let (_, first) = one(&rig, PATH, &body).await;
    assert_eq!(first["duplicate"], false);
    let (status, again) = one(&rig, PATH, &body).await;
    assert_eq!((status, &again["duplicate"]), (201, &json!(true)));
    assert_eq!(again["event_id"], first["event_id"]);
    let (status, other) = one(
        &rig,
        PATH,
        &json!({"payload": {"n": 2}, "idempotency_key": "k-1"}),
    )
    .await;
    assert_eq!(
        (status, other["code"].as_str()),
        (409, Some("idempotency_conflict"))
    );
    assert_eq!(other["field"], "idempotency_key");
    // The other body has left no trace: it conflicts again, and the first is still a duplicate.
    let (status, _) = one(
        &rig,
        PATH,
        &json!({"payload": {"n": 2}, "idempotency_key": "k-1"}),
    )
    .await;
    assert_eq!(status, 409);
    let (_, again) = one(&rig, PATH, &body).await;
    assert_eq!(again["duplicate"], true);
    let renamed = "/v1/consumers/acme/events?event=order.lost";
    assert_eq!(
        one(&rig, renamed, &body).await.0,
        409,
        "the type counts too"
    );
    let elsewhere = "/v1/consumers/other/events?event=order.paid";
    let (_, other) = one(&rig, elsewhere, &body).await;
    assert_eq!(other["duplicate"], false, "a consumer has its own keys");
    assert_eq!(rig.shelf.records().len(), 2);
}

#[tokio::test]
async fn of_two_at_once_one_is_stored_and_the_other_told_so() {
    let shelf = Shelf::held();
    let rig = EventsRig::with(
        shelf,
        Default::default(),
        fulmar_gateway::budgets::BudgetLimits::KEY,
    )
    .await;
    let body = |n: u32| json!({"payload": n, "idempotency_key": "k"});
    let (bodies, rig) = ([body(1), body(1), body(2)], &rig);
    let calls = bodies.iter().map(|body| one(rig, PATH, body));
    let opening = async {
        rig.shelf.asked(1).await;
        rig.shelf.let_go();
    };
    let (answers, ()) = tokio::join!(futures_of(calls), opening);
    let mut told: Vec<_> = answers
        .iter()
        .map(|(status, answer)| (*status, answer["duplicate"].as_bool()))
        .collect();
    told.sort();
    // Which came first is open; the others are its repeats or its conflicts.
    let conflicts = told.iter().filter(|(status, _)| *status == 409).count();
    let stored = told
        .iter()
        .filter(|one| **one == (201, Some(false)))
        .count();
    assert_eq!(stored, 1, "{told:?}");
    assert!(conflicts == 1 || conflicts == 2, "{told:?}");
    assert_eq!(rig.shelf.records().len(), 1);
}

async fn futures_of<F: Future>(calls: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut answers = Vec::new();
    let mut calls: Vec<_> = calls.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        calls.retain_mut(|call| match call.as_mut().poll(context) {
            std::task::Poll::Ready(answer) => {
                answers.push(answer);
                false
            }
            std::task::Poll::Pending => true,
        });
        match calls.is_empty() {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    answers
}

#[tokio::test]
async fn a_batch_has_a_verdict_per_event_in_both_forms() {
    let rig = EventsRig::start().await;
    let events = [
        r#"{"payload":1,"event":"numbers"}"#,
        r#"{"payload":"x","event":"numbers"}"#,
        r#"{"payload":1,"event":"unheard"}"#,
        r#"{"payload":1,"idempotency_key":"a"}"#,
        r#"{"payload":1,"idempotency_key":"a"}"#,
        r#"{"payload":2,"idempotency_key":"a"}"#,
        r#"{"event":"x"}"#,
    ];
    for (content_type, body) in [
        ("application/json", format!("[{}]", events.join(","))),
        ("application/x-ndjson", events.join("\n")),
    ] {
        let rig = EventsRig::start().await;
        let (status, answer) = publish(&rig, PATH, content_type, &body).await;
        assert_eq!(status, 201, "{answer}");
        assert_eq!(
            (&answer["accepted"], &answer["duplicates"]),
            (&json!(3), &json!(1))
        );
        let of = |place: usize| &answer["events"][place];
        assert_eq!(of(0)["schema_valid"], true);
        assert_eq!(
            (&of(1)["schema_valid"], &of(1)["warnings"]),
            (&json!(false), &json!(["a \"number\" is needed"]))
        );
        assert_eq!(of(2)["code"], "unknown_event_type");
        assert_eq!(of(4)["event_id"], of(3)["event_id"]);
        assert_eq!(
            (&of(3)["duplicate"], &of(4)["duplicate"]),
            (&json!(false), &json!(true))
        );
        assert_eq!(of(5)["code"], "idempotency_conflict");
        assert_eq!(
            (&of(6)["code"], &of(6)["field"]),
            (&json!("invalid_event"), &json!("payload"))
        );
        let kept = records(&rig.shelf);
        let schema = |bytes: &Vec<u8>| match EventView::parse(bytes).unwrap().body {
            Body::Message(message) => message.schema,
            _ => panic!("no message"),
        };
        let schemas: Vec<_> = kept.iter().map(schema).collect();
        let numbers = [SchemaCheck::Valid, SchemaCheck::Invalid, SchemaCheck::None];
        assert_eq!(schemas, numbers.map(|check| check as i32));
    }
    let (status, _) = publish(&rig, PATH, "application/json", "[]").await;
    assert_eq!(status, 422);
    let (status, _) = publish(&rig, PATH, "application/json", r#"[{"event":"x"}]"#).await;
    assert_eq!(status, 422, "all are refused");
}

#[tokio::test]
async fn what_is_wrong_is_named_with_its_field() {
    let rig = EventsRig::start().await;
    let payload = json!({"payload": 1});
    let table = [
        (
            PATH,
            json!({"payload": 1, "paylaod": 2}),
            422,
            "unknown_member",
            "paylaod",
        ),
        (
            PATH,
            json!({"payload": 1, "ttl_seconds": -1}),
            422,
            "invalid_event",
            "ttl_seconds",
        ),
        (
            PATH,
            json!({"payload": 1, "ttl_seconds": 1.5}),
            422,
            "invalid_event",
            "ttl_seconds",
        ),
        (
            PATH,
            json!({"payload": 1, "metadata": []}),
            422,
            "invalid_event",
            "metadata",
        ),
        (
            PATH,
            json!({"payload": 1, "labels": {"a": 1}}),
            422,
            "invalid_event",
            "labels",
        ),
        (
            "/v1/consumers/acme/events",
            payload.clone(),
            422,
            "invalid_event",
            "event",
        ),
        (
            "/v1/consumers/acme/events?event=a%2Fb",
            payload.clone(),
            422,
            "invalid_event",
            "event",
        ),
        (
            "/v1/consumers/_sparrow/events?event=x",
            payload.clone(),
            422,
            "invalid_event",
            "consumer",
        ),
        (
            "/v1/consumers//events?event=x",
            payload.clone(),
            422,
            "invalid_event",
            "consumer",
        ),
        (
            "/v1/consumers/%ff/events?event=x",
            payload.clone(),
            422,
            "invalid_event",
            "consumer",
        ),
        (
            "/v1/consumers/acme/events?event=unheard",
            payload.clone(),
            404,
            "unknown_event_type",
            "event",
        ),
        (
            "/v1/consumers/acme/events?event=old",
            payload.clone(),
            422,
            "deactivated_event_type",
            "event",
        ),
    ];
    for (target, body, status, code, field) in table {
        let (got, answer) = one(&rig, target, &body).await;
        let found = (got, answer["code"].as_str(), answer["field"].as_str());
        assert_eq!(found, (status, Some(code), Some(field)), "{target} {body}");
    }
    let (status, _) = publish(&rig, PATH, "application/json", "{").await;
    assert_eq!(status, 400);
    let (status, _) = publish(&rig, PATH, "application/cloudevents+json", "{}").await;
    assert_eq!(status, 415);
    assert!(rig.shelf.records().is_empty());
}

#[tokio::test]
async fn a_project_whose_backlog_is_full_publishes_no_more_until_it_is_sent() {
    let rig = EventsRig::start().await;
    let body = json!([{ "payload": 1 }, { "payload": 2 }]);
    assert_eq!(one(&rig, PATH, &body).await.0, 201);
    let waiting = || rig.backlog.waiting.load(Ordering::SeqCst);
    assert_eq!(waiting(), 2);
    // What the log does not take waits for nobody.
    rig.shelf.fail_once();
    assert_eq!(one(&rig, PATH, &body).await.0, 503);
    assert_eq!(waiting(), 2);

    rig.backlog.is_full.store(true, Ordering::SeqCst);
    let request = Request::post(PATH)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("x-api-key", "alpha")
        .body(Full::new(r#"{"payload":3}"#.into()))
        .unwrap();
    let answer = rig.client().await.send(request).await;
    assert_eq!(answer.status.as_u16(), 429);
    assert_eq!(answer.headers["retry-after"], "5");
    let told = of_json(&answer);
    assert_eq!(told["code"], "backlog_full");
    assert!(
        told["detail"].as_str().unwrap().starts_with("2 deliveries"),
        "{told}"
    );
    assert_eq!(records(&rig.shelf).len(), 2);
    // Events that nobody is sent are taken all the same.
    let event = json!({ "type": "order.paid", "data": 1 });
    assert_eq!(one(&rig, "/v1/events", &event).await.0, 200);

    rig.backlog.is_full.store(false, Ordering::SeqCst);
    assert_eq!(one(&rig, PATH, &body).await.0, 201);
}
