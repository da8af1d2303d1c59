//! A verdict for each event, and problems for whole requests.

use fulmar_event::{Body, EventView};
use fulmar_gateway::budgets::{BudgetLimits, Rate};
use fulmar_gateway::events::EventsConfig;
use serde_json::{Value, json};

use crate::events_rig::{EventsRig, json as json_of, request, request_with};
use crate::shelf::Shelf;

const JSON: &str = "application/json";

fn statuses(answer: &Value) -> Vec<&str> {
    let events = answer["events"].as_array().unwrap();
    events
        .iter()
        .map(|event| event["status"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn one_event_is_stored_as_it_was_sent() {
    let rig = EventsRig::start().await;
    let data = r#"{"n": 1.10, "big":9007199254740993, "s":"\ud800\u0000"}"#;
    let body = format!(
        r#"{{"type":"order.paid","id":"o-1","key":"c-7","source":"shop","subject":"s",
           "labels":{{"a":"b"}},"data":{data}}}"#
    );
    let sent = rig.client().await.send(request(JSON, body)).await;
    assert_eq!(sent.header("fulmar-project"), "blue");
    assert_eq!(sent.header("fulmar-source"), "client-alpha");
    let (status, answer) = (sent.status.as_u16(), json_of(&sent));
    assert_eq!(status, 200);
    let expected = json!({"accepted":1,"duplicates":0,"refused":0,
        "events":[{"index":0,"id":"o-1","status":"accepted"}]});
    assert_eq!(answer, expected);
    let records = rig.shelf.records();
    let view = EventView::parse(&records[0]).unwrap();
    view.check_contract().unwrap();
    assert_eq!((view.event_id, view.stamp.key), ("o-1", "c-7"));
    assert_eq!(
        (view.stamp.project, view.stamp.source),
        ("blue", "client-alpha")
    );
    assert_eq!(view.stamp.control_offset, 9);
    let Body::Message(message) = view.body else {
        panic!("not a message")
    };
    assert_eq!(
        (message.kind, message.source, message.subject),
        ("order.paid", "shop", "s")
    );
    assert_eq!(
        (message.data, message.labels),
        (data.as_bytes(), &br#"{"a":"b"}"#[..])
    );
    assert_eq!(message.data_content_type, "application/json");
}

#[tokio::test]
async fn an_id_is_made_where_none_is_sent() {
    let rig = EventsRig::start().await;
    let (_, answer) = rig.post(JSON, r#"[{"type":"a"},{"type":"a"}]"#).await;
    let ids: Vec<_> = answer["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| &e["id"])
        .collect();
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids[0].as_str().unwrap().len(), 36);
    let records = rig.shelf.records();
    let view = EventView::parse(&records[0]).unwrap();
    assert_eq!(view.event_id, ids[0]);
    assert_eq!(view.stamp.key, ids[0], "without a key the id orders");
    assert_eq!(
        view.event_time, view.ingest_time,
        "without a time the reception's"
    );
}

#[tokio::test]
async fn one_bad_event_never_costs_its_neighbours() {
    let rig = EventsRig::start().await;
    let deep = format!(
        r#"{{"type":"t","data":{}1{}}}"#,
        "[".repeat(129),
        "]".repeat(129)
    );
    let large = format!(r#"{{"type":"t","data":"{}"}}"#, "x".repeat(65_536));
    let body = format!(
        r#"[{{"type":"good","id":"1"}}, {{"type":"bad","nope":1}}, 7, null, [], "x",
            {{"type":"late","time":"2001-01-01T00:00:00Z"}}, {deep}, {large},
            {{"type":"good","id":"2"}}]"#
    );
    let (status, answer) = rig.post(JSON, body).await;
    assert_eq!(status, 200);
    assert_eq!(
        (&answer["accepted"], &answer["refused"]),
        (&json!(2), &json!(8))
    );
    let codes: Vec<_> = answer["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["code"].as_str().unwrap_or(""))
        .collect();
    let expected = [
        "",
        "unknown_member",
        "invalid_event",
        "invalid_event",
        "invalid_event",
        "invalid_event",
        "time_out_of_range",
        "malformed_json",
        "event_too_large",
        "",
    ];
    assert_eq!(codes, expected);
    assert_eq!(answer["events"][1]["field"], "nope");
    assert_eq!(answer["events"][8]["detail"], "exceeds 65536 bytes");
    assert_eq!(rig.shelf.records().len(), 2);
}

#[tokio::test]
async fn a_bad_line_is_a_refused_event() {
    let rig = EventsRig::start().await;
    let body = b"{\"type\":\"a\",\"id\":\"1\"}\n{broken\n\n{\"type\":\"\xff\"}\n{\"type\":\"b\"}\n";
    for content_type in ["application/x-ndjson", "text/plain"] {
        let (status, answer) = rig.post(content_type, &body[..]).await;
        assert_eq!(status, 200);
        assert_eq!(&statuses(&answer)[1..], ["refused", "refused", "accepted"]);
        assert_eq!(answer["events"][1]["code"], "malformed_json");
    }
}

#[tokio::test]
async fn all_refused_is_422_with_the_same_body() {
    let rig = EventsRig::start().await;
    let (status, answer) = rig.post(JSON, r#"[{"type":""},{}]"#).await;
    assert_eq!(status, 422);
    assert_eq!(statuses(&answer), ["refused", "refused"]);
    assert_eq!(answer["events"][0]["field"], "type");
    assert!(rig.shelf.records().is_empty());
}

#[tokio::test]
async fn times_have_a_window_with_both_ends_in_it() {
    let rig = EventsRig::start().await;
    let now = jiff::Timestamp::now();
    let at = |seconds: i64| (now + jiff::SignedDuration::from_secs(seconds)).to_string();
    let table = [
        (at(-3_660 * 86_400 + 60), "accepted"),
        (at(-3_660 * 86_400 - 60), "refused"),
        (at(5 * 60 - 10), "accepted"),
        (at(5 * 60 + 60), "refused"),
    ];
    for (time, status) in table {
        let (_, answer) = rig
            .post(JSON, format!(r#"{{"type":"t","time":"{time}"}}"#))
            .await;
        assert_eq!(statuses(&answer), [status], "{time}");
        if status == "refused" {
            assert_eq!(answer["events"][0]["code"], "time_out_of_range");
            assert_eq!(answer["events"][0]["field"], "time");
        }
    }
}

#[tokio::test]
async fn sixty_four_days_a_request() {
    let rig = EventsRig::start().await;
    let now = jiff::Timestamp::now();
    let days = (0..66).map(|day| {
        let time = now - jiff::SignedDuration::from_secs(day * 86_400);
        format!(r#"{{"type":"t","time":"{time}"}}"#)
    });
    let mut events: Vec<_> = days.collect();
    events.push(r#"{"type":"today"}"#.to_owned());
    let (status, answer) = rig.post(JSON, format!("[{}]", events.join(","))).await;
    assert_eq!(
        (status, &answer["accepted"], &answer["refused"]),
        (200, &json!(65), &json!(2))
    );
    assert_eq!(answer["events"][64]["code"], "too_many_days");
    assert_eq!(
        answer["events"][66]["status"], "accepted",
        "a day that is there already"
    );
}

async fn problem_of(rig: &EventsRig, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
    let request = request_with(headers, body.to_vec());
    let answer = rig.client().await.send(request).await;
    assert_eq!(answer.header("content-type"), "application/problem+json");
    let problem = json_of(&answer);
    assert_eq!(problem["status"], answer.status.as_u16());
    assert!(!problem["title"].as_str().unwrap().is_empty());
    assert!(!problem["detail"].as_str().unwrap().is_empty());
    if answer.status == 401 {
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
    if [429, 503].contains(&answer.status.as_u16()) {
        assert!(!answer.header("retry-after").is_empty());
    }
    (
        answer.status.as_u16(),
        problem["code"].as_str().unwrap().to_owned(),
    )
}

/// Headers, body, status, code.
type Row<'a> = (Vec<(&'a str, &'a str)>, &'a [u8], u16, &'a str);

#[tokio::test]
async fn faults_of_the_whole_request_are_problems() {
    let rig = EventsRig::start().await;
    let key = ("authorization", "Bearer alpha");
    let json = ("content-type", JSON);
    let many = format!("[{}1]", "1,".repeat(10_000));
    let too_long = vec![b' '; 8 * 1024 * 1024 + 1];
    let table: Vec<Row<'_>> = vec![
        (vec![json], b"{}", 401, "unauthenticated"),
        (
            vec![json, ("authorization", "Bearer wrong")],
            b"{}",
            401,
            "unauthenticated",
        ),
        (
            vec![json, ("authorization", "Basic alpha")],
            b"{}",
            401,
            "unauthenticated",
        ),
        (
            vec![json, ("authorization", "Bearer reader")],
            b"{}",
            403,
            "forbidden",
        ),
        (
            vec![json, ("authorization", "Bearer busy")],
            b"{}",
            429,
            "rate_limited",
        ),
        (
            vec![key, ("content-type", "image/png")],
            b"{}",
            415,
            "unsupported_media_type",
        ),
        (
            vec![key, ("content-type", "application/json; charset=latin1")],
            b"{}",
            415,
            "unsupported_media_type",
        ),
        (
            vec![key, json, ("content-encoding", "gzip, gzip")],
            b"{}",
            415,
            "unsupported_media_type",
        ),
        (
            vec![key, json, ("content-encoding", "gzip")],
            b"{}",
            400,
            "unreadable_body",
        ),
        (vec![key, json], b"", 400, "malformed_payload"),
        (vec![key, json], b"{", 400, "malformed_payload"),
        (vec![key, json], b"[{}", 400, "malformed_payload"),
        (vec![key, json], b"[{},]", 400, "malformed_payload"),
        (vec![key, json], b"{} {}", 400, "malformed_payload"),
        (vec![key, json], b"7", 400, "malformed_payload"),
        (
            vec![key, json],
            b"{\"type\":\"\xff\"}",
            400,
            "malformed_payload",
        ),
        (
            vec![key, json],
            b"\x1a\x05protobuf",
            400,
            "malformed_payload",
        ),
        (vec![key, json], b"[]", 422, "empty_batch"),
        (vec![key, json], many.as_bytes(), 413, "batch_too_large"),
        (vec![key, json], &too_long, 413, "batch_body_too_large"),
    ];
    for (headers, body, status, code) in table {
        let shown = String::from_utf8_lossy(&body[..body.len().min(20)]).into_owned();
        let expected = (status, code.to_owned());
        assert_eq!(
            problem_of(&rig, &headers, body).await,
            expected,
            "{headers:?} {shown}"
        );
    }
    assert!(rig.shelf.records().is_empty());
    assert_eq!(rig.capacity.in_flight(), (0, 0));
    let half_a_million = vec![b'['; 500_000];
    let (status, _) = problem_of(&rig, &[key, json], &half_a_million).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn budgets_of_a_key_are_429() {
    let budgets = BudgetLimits {
        events: Rate {
            per_second: 2,
            burst: 4,
        },
        ..BudgetLimits::KEY
    };
    let rig = EventsRig::with(Shelf::open(), EventsConfig::default(), budgets).await;
    let body = r#"[{"type":"a"},{"type":"b"},{"type":"c"}]"#;
    assert_eq!(rig.post(JSON, body).await.0, 200);
    let headers = [("content-type", JSON), ("authorization", "Bearer alpha")];
    let refused = problem_of(&rig, &headers, body.as_bytes()).await;
    assert_eq!(refused, (429, "rate_limited".to_owned()));
    let other = request_with(
        &[("content-type", JSON), ("authorization", "Bearer beta")],
        body,
    );
    assert_eq!(
        rig.client().await.send(other).await.status,
        200,
        "another key's is its own"
    );
    rig.clock.move_ahead(2);
    assert_eq!(rig.post(JSON, body).await.0, 200);
}

#[tokio::test]
async fn a_log_that_fails_tells_no_verdict() {
    let rig = EventsRig::start().await;
    rig.shelf.fail();
    let headers = [("content-type", JSON), ("authorization", "Bearer alpha")];
    let refused = problem_of(&rig, &headers, br#"{"type":"a"}"#).await;
    assert_eq!(refused, (503, "backbone_unavailable".to_owned()));
}

#[tokio::test]
async fn cloud_events_in_all_three_modes() {
    let rig = EventsRig::start().await;
    let event = |id: &str, source: &str| {
        format!(r#"{{"specversion":"1.0","id":"{id}","source":"{source}","type":"t","data":{{}}}}"#)
    };
    let structured = "application/cloudevents+json; charset=utf-8";
    let (status, answer) = rig.post(structured, event("1", "/a")).await;
    assert_eq!((status, &answer["accepted"]), (200, &json!(1)));
    let batch = format!(
        "[{},{},{}]",
        event("1", "/a"),
        event("1", "/b"),
        r#"{"id":"x"}"#
    );
    let (_, answer) = rig.post("application/cloudevents-batch+json", batch).await;
    assert_eq!(statuses(&answer), ["duplicate", "accepted", "refused"]);
    let headers = [
        ("authorization", "Bearer alpha"),
        ("content-type", "text/plain"),
        ("ce-specversion", "1.0"),
        ("ce-id", "1"),
        ("ce-source", "/b"),
        ("ce-type", "t"),
    ];
    let answer = rig
        .client()
        .await
        .send(request_with(&headers, "hello"))
        .await;
    assert_eq!(
        statuses(&json_of(&answer)),
        ["duplicate"],
        "the same event in another mode"
    );
    assert_eq!(rig.shelf.records().len(), 2);
}

#[tokio::test]
async fn the_router_is_as_plain_as_the_other_doors() {
    let rig = EventsRig::start().await;
    let mut elsewhere = request(JSON, "{}");
    *elsewhere.uri_mut() = "/v1/other".parse().unwrap();
    assert_eq!(rig.client().await.send(elsewhere).await.status, 404);
    let mut get = request(JSON, "");
    *get.method_mut() = hyper::Method::GET;
    let answer = rig.client().await.send(get).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("allow")),
        (405, "POST")
    );
}
