//! Repeats: within a request, in flight, just landed, and in the index (X3).

use fulmar_gateway::budgets::BudgetLimits;
use fulmar_gateway::events::{EventsConfig, KnownIds};
use serde_json::Value;

use crate::events_rig::{EventsRig, json, request, request_with};
use crate::shelf::Shelf;

const JSON: &str = "application/json";

fn statuses(answer: &Value) -> Vec<String> {
    let events = answer["events"].as_array().unwrap();
    events
        .iter()
        .map(|event| event["status"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn within_one_request_the_first_is_accepted() {
    let rig = EventsRig::start().await;
    let body = r#"[{"type":"","id":"1"},{"type":"a","id":"1"},{"type":"b","id":"1"},{"type":"c"}]"#;
    let (_, answer) = rig.post(JSON, body).await;
    // What is refused leaves no id.
    assert_eq!(
        statuses(&answer),
        ["refused", "accepted", "duplicate", "accepted"]
    );
    assert_eq!(rig.shelf.records().len(), 2);
}

#[tokio::test]
async fn a_repeat_is_a_duplicate_and_of_another_client_it_is_none() {
    let rig = EventsRig::start().await;
    let body = r#"[{"type":"a","id":"1"},{"type":"a","id":"2"}]"#;
    assert_eq!(
        statuses(&rig.post(JSON, body).await.1),
        ["accepted", "accepted"]
    );
    let (status, answer) = rig.post(JSON, body).await;
    assert_eq!((status, &answer["duplicates"]), (200, &Value::from(2)));
    let headers = [("content-type", JSON), ("authorization", "Bearer beta")];
    let other = rig.client().await.send(request_with(&headers, body)).await;
    assert_eq!(statuses(&json(&other)), ["accepted", "accepted"]);
    assert_eq!(rig.shelf.records().len(), 4);
}

#[tokio::test]
async fn what_the_index_knows_is_a_duplicate() {
    let rig = EventsRig::start().await;
    for n in 0..40 {
        let known = rig
            .index
            .fingerprint("blue", "client-alpha", &format!("old-{n}"));
        rig.index.0.lock().unwrap().insert(known);
    }
    let body = r#"[{"type":"a","id":"old-1"},{"type":"a","id":"new"}]"#;
    assert_eq!(
        statuses(&rig.post(JSON, body).await.1),
        ["duplicate", "accepted"]
    );
    // Many at once are looked up elsewhere, with the same result.
    let events: Vec<_> = (0..40)
        .map(|n| format!(r#"{{"type":"a","id":"old-{n}"}}"#))
        .collect();
    let (status, answer) = rig.post(JSON, format!("[{}]", events.join(","))).await;
    assert_eq!((status, &answer["duplicates"]), (200, &Value::from(40)));
    assert_eq!(rig.shelf.records().len(), 1);
}

#[tokio::test]
async fn one_in_flight_is_waited_for() {
    let rig = EventsRig::with(Shelf::held(), EventsConfig::default(), BudgetLimits::KEY).await;
    let mut first = rig.client().await;
    let first = tokio::spawn(async move {
        first
            .send(request(
                JSON,
                r#"[{"type":"a","id":"x"},{"type":"a","id":"y"}]"#,
            ))
            .await
    });
    rig.shelf.asked(1).await;
    let mut second = rig.client().await;
    let second = tokio::spawn(async move {
        second
            .send(request(
                JSON,
                r#"[{"type":"a","id":"y"},{"type":"a","id":"z"}]"#,
            ))
            .await
    });
    // Its own new event goes on at once; the other's it does not append.
    rig.shelf.asked(2).await;
    assert!(!first.is_finished() && !second.is_finished());
    rig.shelf.let_go();
    assert_eq!(
        statuses(&json(&first.await.unwrap())),
        ["accepted", "accepted"]
    );
    assert_eq!(
        statuses(&json(&second.await.unwrap())),
        ["duplicate", "accepted"]
    );
    assert_eq!(rig.shelf.records().len(), 3);
}

#[tokio::test]
async fn a_flight_that_fails_is_tried_by_who_waited() {
    let rig = EventsRig::with(Shelf::held(), EventsConfig::default(), BudgetLimits::KEY).await;
    rig.shelf.fail_once();
    let mut first = rig.client().await;
    let first =
        tokio::spawn(async move { first.send(request(JSON, r#"{"type":"a","id":"x"}"#)).await });
    rig.shelf.asked(1).await;
    let mut second = rig.client().await;
    let second = tokio::spawn(async move {
        second
            .send(request(
                JSON,
                r#"[{"type":"a","id":"x"},{"type":"b","id":"w"}]"#,
            ))
            .await
    });
    rig.shelf.asked(2).await;
    rig.shelf.let_go();
    assert_eq!(first.await.unwrap().status, 503);
    assert_eq!(
        statuses(&json(&second.await.unwrap())),
        ["accepted", "accepted"]
    );
    assert_eq!(rig.shelf.records().len(), 2);
}

#[tokio::test]
async fn two_that_wait_for_each_other_both_end() {
    let rig = EventsRig::with(Shelf::held(), EventsConfig::default(), BudgetLimits::KEY).await;
    let mut handles = Vec::new();
    // Each has one id of its own and one that the one before it claimed.
    for n in 0..8 {
        let mut client = rig.client().await;
        let body = format!(
            r#"[{{"type":"a","id":"{n}"}},{{"type":"a","id":"{}"}}]"#,
            (n + 1) % 8
        );
        handles.push(tokio::spawn(async move {
            client.send(request(JSON, body)).await
        }));
    }
    rig.shelf.asked(4).await;
    rig.shelf.let_go();
    let mut accepted = 0;
    for handle in handles {
        let answer = handle.await.unwrap();
        assert_eq!(answer.status, 200);
        accepted += json(&answer)["accepted"].as_u64().unwrap();
    }
    assert_eq!(accepted, 8);
    assert_eq!(rig.shelf.records().len(), 8);
}
