//! What the SDK door refuses, how it says so, and what it costs.

use fulmar_gateway::track::TrackConfig;
use fulmar_registry::{Change, EventFilter, SettingsChange};
use serde_json::json;

use crate::events_rig::json as json_of;
use crate::track_rig::{CLIENT, NODE, NOW_MS, TrackRig, WEB, request};

const EVENT: &str = r#"{"type":"track","payload":{"name":"a","profileId":"u1"}}"#;

async fn refused(rig: &TrackRig, headers: &[(&str, &str)], body: &str) -> (u16, String, String) {
    let (status, told) = rig.post_with("/track", headers, body.to_owned()).await;
    assert_eq!(told["status"], status);
    let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    assert!(!text("error").is_empty() && !text("message").is_empty());
    (status, text("code"), text("field"))
}

fn with<'a>(
    headers: &[(&'a str, &'a str)],
    name: &'a str,
    value: &'a str,
) -> Vec<(&'a str, &'a str)> {
    let mut headers: Vec<_> = headers
        .iter()
        .copied()
        .filter(|(n, _)| *n != name)
        .collect();
    if !value.is_empty() {
        headers.push((name, value));
    }
    headers
}

#[tokio::test]
async fn only_a_clients_origin_or_secret_lets_in() {
    let rig = TrackRig::start().await;
    let (id, secret) = ("openpanel-client-id", "openpanel-client-secret");
    for headers in [
        with(&NODE, id, ""),
        with(&NODE, id, "nobody"),
        with(&NODE, id, "11111111-2222-4333-8444-555555555556"),
        with(&NODE, secret, ""),
        with(&NODE, secret, "wrong"),
        with(&WEB, "origin", ""),
        with(&WEB, "origin", "https://evil.test"),
        with(&WEB, "origin", "https://shop.example.com.evil.test"),
    ] {
        let told = refused(&rig, &headers, EVENT).await;
        assert_eq!((told.0, &*told.1), (401, "unauthenticated"), "{headers:?}");
    }
    assert_eq!(rig.post_with("/track", &WEB, EVENT).await.0, 200);
    let client = CLIENT.to_owned();
    rig.registry
        .change(Change::ClientRevoked { client }, NOW_MS)
        .unwrap();
    assert_eq!(refused(&rig, &NODE, EVENT).await.0, 401);
    assert!(rig.profiles.records().is_empty());
}

#[tokio::test]
async fn a_project_refuses_addresses_and_profiles_and_leaves_out_names() {
    let rig = TrackRig::start().await;
    rig.set(SettingsChange {
        profile_filters: Some(vec!["u1".to_owned()]),
        event_filters: Some(vec![EventFilter::Name("debug".to_owned())]),
        ..Default::default()
    });
    assert_eq!(refused(&rig, &NODE, EVENT).await.1, "filtered");
    let debug = r#"{"type":"track","payload":{"name":"debug"}}"#;
    let (status, told) = rig.post("/track", debug).await;
    assert_eq!((status, &told["dropped"]), (200, &json!("filter")));
    rig.set(SettingsChange {
        ip_filters: Some(vec!["127.0.0.1".to_owned()]),
        ..Default::default()
    });
    assert_eq!(refused(&rig, &NODE, debug).await.0, 401);
    assert!(rig.events.records().is_empty());
}

#[tokio::test]
async fn a_project_leaves_out_events_by_what_they_are() {
    let rig = TrackRig::start().await;
    let filters = json!([
        {"name": "view", "filters": [
            {"name": "properties.plan.name", "operator": "is", "value": ["free", "trial"]},
            {"name": "path", "operator": "startsWith", "value": ["/internal"]},
        ]},
        {"name": "*", "filters": [
            {"name": "properties.mail", "operator": "regex", "value": ["@test\\.example$"]},
        ]},
    ]);
    rig.set(SettingsChange {
        event_filters: serde_json::from_value(filters).unwrap(),
        ..Default::default()
    });
    // (name, properties, whether it is left out)
    let table = [
        (
            "view",
            json!({"plan": {"name": "free"}, "__path": "/internal/a?b"}),
            true,
        ),
        (
            "view",
            json!({"plan": {"name": "free"}, "__path": "https://a.b/internal"}),
            true,
        ),
        (
            "view",
            json!({"plan": {"name": "pro"}, "__path": "/internal"}),
            false,
        ),
        ("view", json!({"__path": "/internal"}), false),
        (
            "other",
            json!({"plan": {"name": "free"}, "__path": "/internal"}),
            false,
        ),
        ("other", json!({"mail": "a@test.example"}), true),
        ("other", json!({"mail": "a@test.example.org"}), false),
    ];
    for (name, properties, left_out) in table {
        let payload = json!({"name": name, "properties": properties});
        let body = json!({"type": "track", "payload": payload}).to_string();
        let (status, told) = rig.post("/track", body.clone()).await;
        let dropped = told["dropped"] == "filter";
        assert_eq!((status, dropped), (200, left_out), "{body}: {told}");
    }
    assert_eq!(rig.events.records().len(), 4);
}

#[tokio::test]
async fn every_fault_names_its_field() {
    let rig = TrackRig::start().await;
    let long = format!(
        r#"{{"type":"track","payload":{{"name":"{}"}}}}"#,
        "x".repeat(81)
    );
    let table = [
        ("", "malformed_payload", ""),
        ("{", "malformed_payload", ""),
        ("{} x", "malformed_payload", ""),
        ("[]", "invalid_event", ""),
        ("{}", "invalid_event", "type"),
        (r#"{"type":"moon","payload":{}}"#, "invalid_event", "type"),
        (r#"{"type":"track"}"#, "invalid_event", "payload"),
        (
            r#"{"type":"track","payload":[]}"#,
            "invalid_event",
            "payload",
        ),
        (
            r#"{"type":"track","payload":{}}"#,
            "invalid_name",
            "payload.name",
        ),
        (&long, "invalid_name", "payload.name"),
        (
            r#"{"type":"track","payload":{"name":"session_start"}}"#,
            "reserved_name",
            "payload.name",
        ),
        (
            r#"{"type":"track","payload":{"name":"/wp-login.php"}}"#,
            "blocked_name",
            "payload.name",
        ),
        (
            r#"{"type":"track","payload":{"name":"\ud800"}}"#,
            "invalid_event",
            "payload.name",
        ),
        (
            r#"{"type":"track","payload":{"name":"a","properties":[]}}"#,
            "invalid_event",
            "payload.properties",
        ),
        (
            r#"{"type":"track","payload":{"name":"a","profileId":""}}"#,
            "invalid_event",
            "payload.profileId",
        ),
        (
            r#"{"type":"track","payload":{"name":"a","profileId":{}}}"#,
            "invalid_event",
            "payload.profileId",
        ),
        (
            r#"{"type":"track","payload":{"name":"a","groups":"g"}}"#,
            "invalid_event",
            "payload.groups",
        ),
        (
            r#"{"type":"track","payload":{"name":"revenue","properties":{"__revenue":-1}}}"#,
            "invalid_revenue",
            "payload.properties.__revenue",
        ),
        (
            r#"{"type":"identify","payload":{"email":"a@b.co"}}"#,
            "invalid_event",
            "payload.profileId",
        ),
        (
            r#"{"type":"identify","payload":{"profileId":"u","email":"no"}}"#,
            "invalid_event",
            "payload.email",
        ),
        (
            r#"{"type":"identify","payload":{"profileId":"u","avatar":"no"}}"#,
            "invalid_event",
            "payload.avatar",
        ),
        (
            r#"{"type":"increment","payload":{"profileId":"u"}}"#,
            "invalid_event",
            "payload.property",
        ),
        (
            r#"{"type":"increment","payload":{"profileId":"u","property":"p","value":0}}"#,
            "invalid_event",
            "payload.value",
        ),
        (
            r#"{"type":"increment","payload":{"profileId":"u","property":"p","value":"2"}}"#,
            "invalid_event",
            "payload.value",
        ),
        (
            r#"{"type":"group","payload":{"id":"g","name":"n"}}"#,
            "invalid_event",
            "payload.type",
        ),
        (
            r#"{"type":"assign_group","payload":{"groupIds":[]}}"#,
            "invalid_event",
            "payload.groupIds",
        ),
        (
            r#"{"type":"replay","payload":{"chunk_index":65536}}"#,
            "invalid_event",
            "payload.chunk_index",
        ),
        (
            r#"{"type":"replay","payload":{"started_at":"2026-11-30T10:00:00+01:00"}}"#,
            "invalid_event",
            "payload.started_at",
        ),
        (
            r#"{"type":"alias","payload":{"profileId":"u"}}"#,
            "invalid_event",
            "payload.alias",
        ),
        (
            r#"{"type":"batch","payload":{}}"#,
            "invalid_event",
            "payload",
        ),
    ];
    for (body, code, field) in table {
        let told = refused(&rig, &NODE, body).await;
        assert_eq!(told, (400, code.to_owned(), field.to_owned()), "{body}");
    }
    assert!(rig.events.records().is_empty() && rig.profiles.records().is_empty());
}

#[tokio::test]
async fn hostile_bodies_end_in_a_refusal() {
    let rig = TrackRig::with(TrackConfig {
        event_bytes_max: 1_024,
        ..TrackConfig::default()
    })
    .await;
    let deep = format!(
        r#"{{"type":"track","payload":{{"name":"a","properties":{{"x":{}"#,
        "[".repeat(500_000)
    );
    assert_eq!(refused(&rig, &NODE, &deep).await.0, 400);
    let large = format!(
        r#"{{"type":"track","payload":{{"name":"a","x":"{}"}}}}"#,
        "y".repeat(1_024)
    );
    assert_eq!(refused(&rig, &NODE, &large).await.1, "event_too_large");
    let headers = with(&NODE, "content-type", "multipart/form-data; boundary=x");
    assert_eq!(refused(&rig, &headers, EVENT).await.0, 415);
    let mut headers = NODE.to_vec();
    headers.push(("content-encoding", "br"));
    assert_eq!(refused(&rig, &headers, EVENT).await.0, 415);
    headers.pop();
    headers.push(("content-encoding", "gzip"));
    assert_eq!(refused(&rig, &headers, EVENT).await.1, "unreadable_body");
    let answer = rig.send(request("/track", &NODE, vec![b'"', 0xff])).await;
    assert_eq!(
        (answer.status.as_u16(), &json_of(&answer)["code"]),
        (400, &json!("malformed_payload"))
    );
}

#[tokio::test]
async fn nothing_is_answered_before_both_topics_have_it() {
    let rig = TrackRig::start().await;
    rig.profiles.fail();
    let two = r#"{"type":"track","payload":{"name":"a","properties":{"__identify":{"profileId":"u","email":"a@b.co"}}}}"#;
    let answer = rig.send(request("/track", &NODE, two)).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("retry-after")),
        (503, "5")
    );
    assert!(!String::from_utf8_lossy(&answer.body).contains("disk7"));
}

#[tokio::test]
async fn a_double_click_is_stored_once_and_told() {
    let rig = TrackRig::start().await;
    let event = r#"{"type":"track","payload":{"name":"a"}}"#;
    let first = rig.post_with("/track", &WEB, event).await;
    let mut again = rig.post_with("/track", &WEB, event).await;
    assert_eq!(again.1["dropped"], "duplicate");
    again.1.as_object_mut().unwrap().remove("dropped");
    assert_eq!(again, first);
    assert_eq!(rig.events.records().len(), 1);
    // Servers send what they mean, and a first that failed is no first.
    for _ in 0..2 {
        rig.post("/track", event).await;
    }
    assert_eq!(rig.events.records().len(), 3);
    rig.events.fail_once();
    let other = r#"{"type":"track","payload":{"name":"b"}}"#;
    assert_eq!(rig.post_with("/track", &WEB, other).await.0, 503);
    let retried = rig.post_with("/track", &WEB, other).await;
    assert_eq!((retried.0, &retried.1["dropped"]), (200, &json!(null)));
}

#[tokio::test]
async fn browsers_may_ask_first_and_others_are_told_the_method() {
    let rig = TrackRig::start().await;
    for path in ["/track", "/api/track/batch", "/import/events", "/event"] {
        let mut asked = request(path, &[("origin", "https://any.test")], "");
        *asked.method_mut() = hyper::Method::OPTIONS;
        let answer = rig.send(asked).await;
        assert_eq!(answer.status, 204);
        assert_eq!(answer.header("access-control-allow-origin"), "*");
        assert_eq!(answer.header("access-control-max-age"), "604800");
        let allowed = answer.header("access-control-allow-headers");
        assert!(allowed.contains("openpanel-client-secret"));
        let mut got = request(path, &[], "");
        *got.method_mut() = hyper::Method::PUT;
        assert_eq!(rig.send(got).await.status, 405);
    }
}

#[tokio::test]
async fn the_device_of_a_caller_is_told_without_a_session() {
    let rig = TrackRig::start().await;
    let ask = |headers: &[(&str, &str)]| {
        let mut asked = request("/track/device-id", headers, "");
        *asked.method_mut() = hyper::Method::GET;
        asked
    };
    let answer = rig.send(ask(&WEB)).await;
    let told = json_of(&answer);
    assert_eq!(told["deviceId"], "0455e4e4efd94573295d9993cd7f1ece");
    assert_eq!(told["sessionId"], "");
    let silent = rig.send(ask(&with(&WEB, "user-agent", ""))).await;
    assert_eq!(silent.status, 400);
    assert_eq!(rig.send(ask(&[])).await.status, 401);
}

#[tokio::test]
async fn what_is_not_built_says_so_and_leads_to_what_is() {
    let rig = TrackRig::start().await;
    for path in [
        "/export/events",
        "/api/insights/shop/live",
        "/manage/projects",
        "/trpc/chart",
    ] {
        let (status, answer) = rig.post(path, "{}").await;
        assert_eq!(
            (status, &answer["code"]),
            (501, &json!("not_supported")),
            "{path}"
        );
        assert!(
            answer["documentation"]
                .as_str()
                .unwrap()
                .starts_with("https://"),
            "{answer}"
        );
        assert!(
            answer["message"].as_str().unwrap().contains("/v1/query"),
            "{answer}"
        );
    }
}
