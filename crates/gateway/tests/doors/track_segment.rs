//! Segment's HTTP API, by requests that its published SDKs sent: analytics-python 2.4.0 and
//! @segment/analytics-node 3.1.0, with their ids shortened.

use fulmar_event::{Enrichment, EventView, ProfileChange};
use serde_json::{Value, json};

use crate::track_rig::{CLIENT, NOW_MS, SECRET, TrackRig, profile_of, track_of};

/// `CLIENT:SECRET:` in base64, as the SDKs show it.
const BASIC: &str = "Basic MTExMTExMTEtMjIyMi00MzMzLTg0NDQtNTU1NTU1NTU1NTU1OnNlY19hYmNkZWY6";

const PYTHON: [(&str, &str); 3] = [
    ("content-type", "application/json"),
    ("user-agent", "analytics-python/2.4.0"),
    ("authorization", BASIC),
];

const PYTHON_BATCH: &str = r#"{"batch": [
{"integrations": {}, "anonymousId": null, "timestamp": "2026-12-01T16:05:57.571+00:00",
 "context": {"library": {"name": "analytics-python", "version": "2.4.0"}}, "type": "identify", "userId": "u1",
 "traits": {"email": "ada@shop.example", "firstName": "Ada", "plan": "pro"}, "messageId": "m-1"},
{"integrations": {}, "anonymousId": "anon-1", "properties": {"revenue": 39.95, "items": ["a", "b"]},
 "timestamp": "2026-12-01T16:02:57.571+00:00", "context": {"ip": "203.0.113.5",
 "userAgent": "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:133.0) Gecko/20100101 Firefox/133.0",
 "library": {"name": "analytics-python", "version": "2.4.0"}}, "userId": "u1", "type": "track",
 "event": "Order Completed", "messageId": "m-2"},
{"integrations": {}, "anonymousId": "anon-1", "properties": {"path": "/pricing"},
 "timestamp": "2026-12-01T16:05:57.571+00:00", "category": "Docs", "context": {"page":
 {"url": "https://shop.example/pricing?x=1", "referrer": "https://www.google.com/", "title": "Pricing"},
 "library": {"name": "analytics-python", "version": "2.4.0"}}, "userId": "u1", "type": "page",
 "name": "Pricing", "messageId": "m-3"},
{"integrations": {}, "anonymousId": null, "timestamp": "2026-12-01T16:05:57.571+00:00", "groupId": "org_1",
 "context": {"library": {"name": "analytics-python", "version": "2.4.0"}}, "userId": "u1",
 "traits": {"name": "Org One", "employees": 20}, "type": "group", "messageId": "m-4"},
{"integrations": {}, "previousId": "anon-1", "timestamp": "2026-12-01T16:05:57.571+00:00",
 "context": {"library": {"name": "analytics-python", "version": "2.4.0"}}, "userId": "u1",
 "type": "alias", "messageId": "m-5", "anonymousId": null}],
"sentAt": "2026-12-01T16:05:58.071538+00:00",
"writeKey": "11111111-2222-4333-8444-555555555555:sec_abcdef"}"#;

/// Two of the five messages of the node SDK's batch: those that the Python one has not.
const NODE_BATCH: &str = r#"{"batch":[
{"timestamp":"2026-12-01T16:05:58.757Z","integrations":{},"event":"Signed Up","type":"track",
 "properties":{"plan":"pro","seats":3},"context":{"userAgent":"Mozilla/5.0 (X11; Linux x86_64)
 AppleWebKit/537.36","campaign":{"name":"spring sale","source":"news"},"page":{"url":"https://shop.example/join"},
 "library":{"name":"@segment/analytics-node","version":"3.1.0"}},"userId":"n1","anonymousId":"anon-9",
 "messageId":"node-next-1","_metadata":{"nodeVersion":"v20.20.2","jsRuntime":"node"}},
{"timestamp":"2026-12-01T16:05:58.757Z","integrations":{},"type":"screen","properties":{"variation":"b"},
 "name":"Home","context":{"os":{"name":"iOS","version":"17.1"},"device":{"type":"ios","manufacturer":"Apple",
 "model":"iPhone15,2"},"library":{"name":"@segment/analytics-node","version":"3.1.0"}},"anonymousId":"anon-9",
 "messageId":"node-next-2"}],"sentAt":"2026-12-01T16:05:58.762Z"}"#;

fn view(record: &[u8]) -> EventView<'_> {
    let view = EventView::parse(record).unwrap();
    assert_eq!(view.check_contract(), Ok(()));
    assert_eq!((view.stamp.project, view.stamp.source), ("shop", CLIENT));
    view
}

fn time_of(view: &EventView<'_>) -> i64 {
    view.event_time.unwrap().as_millis() - NOW_MS
}

#[tokio::test]
async fn a_batch_of_the_python_sdk_becomes_events_and_changes_of_profiles() {
    let rig = TrackRig::start().await;
    let (status, answer) = rig.post_with("/v1/batch", &PYTHON, PYTHON_BATCH).await;
    assert_eq!(
        (status, &answer["success"]),
        (200, &json!(true)),
        "{answer}"
    );
    // The group is one item, its member another.
    assert_eq!(answer["accepted"], 6);
    let events = rig.events.records();
    let [order, page] = &events[..] else {
        panic!("{} events", events.len())
    };
    let order = view(order);
    let track = track_of(&order);
    assert_eq!(
        (order.event_id, track.name, track.profile_id),
        ("m-2", "Order Completed", "u1")
    );
    assert_eq!((track.device_id, track.is_server), ("anon-1", false));
    assert_eq!(
        (track.sdk_name, track.sdk_version),
        ("analytics-python", "2.4.0")
    );
    // Sent half a second after the last message, and three minutes after this one, by its clock.
    assert_eq!(time_of(&order), -180_500);
    let found = Enrichment::parse(order.enrichment).unwrap();
    assert_eq!(
        (found.country, found.browser),
        ("SE", "Chrome"),
        "of its address and its agent"
    );
    let properties: Value = serde_json::from_slice(track.properties).unwrap();
    assert_eq!(
        (&properties["revenue"], &properties["items"]),
        (&json!(39.95), &json!(["a", "b"]))
    );

    let page = view(page);
    let track = track_of(&page);
    assert_eq!(
        (page.event_id, track.name, track.path),
        ("m-3", "screen_view", "/pricing")
    );
    assert_eq!(
        (track.origin, track.referrer_name),
        ("https://shop.example", "Google")
    );
    assert_eq!(time_of(&page), -500);
    let properties: Value = serde_json::from_slice(track.properties).unwrap();
    let told = ["name", "category", "__title"].map(|name| properties[name].as_str().unwrap());
    assert_eq!(told, ["Pricing", "Docs", "Pricing"]);

    let records = rig.profiles.records();
    let changes: Vec<_> = records
        .iter()
        .map(|record| {
            let view = view(record);
            (view.event_id.to_owned(), profile_of(&view).change)
        })
        .collect();
    let expected = [
        ("m-1", ProfileChange::Identify),
        ("m-4", ProfileChange::Group),
        ("m-4-assign", ProfileChange::AssignGroups),
        ("m-5", ProfileChange::Alias),
    ];
    assert_eq!(
        changes,
        expected.map(|(id, change)| (id.to_owned(), change as i32))
    );
    let identify = view(&records[0]);
    let identify = profile_of(&identify);
    assert_eq!((identify.profile_id, identify.first_name), ("u1", "Ada"));
    assert_eq!(identify.email, "ada@shop.example");
    let group = view(&records[1]);
    let group = profile_of(&group);
    assert_eq!(
        (group.group_id, group.group_type, group.group_name),
        ("org_1", "group", "Org One")
    );
    let alias = view(&records[3]);
    assert_eq!(
        (profile_of(&alias).profile_id, profile_of(&alias).alias),
        ("u1", "anon-1")
    );
}

#[tokio::test]
async fn an_app_tells_its_system_and_a_campaign_stands_in_the_query() {
    let rig = TrackRig::start().await;
    let headers = [
        PYTHON[0],
        ("user-agent", "analytics-node-next/latest"),
        PYTHON[2],
    ];
    let body = NODE_BATCH.replace("x86_64)\n", "x86_64)");
    let (status, answer) = rig.post_with("/v1/b", &headers, body).await;
    assert_eq!((status, &answer["accepted"]), (200, &json!(2)), "{answer}");
    let events = rig.events.records();
    let (join, screen) = (view(&events[0]), view(&events[1]));
    let track = track_of(&join);
    assert_eq!(
        (track.path, track.query),
        ("/join", "utm_campaign=spring%20sale&utm_source=news")
    );
    let track = track_of(&screen);
    assert_eq!(
        (track.name, track.path, track.is_server),
        ("screen_view", "/Home", false)
    );
    let found = Enrichment::parse(screen.enrichment).unwrap();
    let told = (
        found.os,
        found.os_version,
        found.device,
        found.brand,
        found.model,
    );
    assert_eq!(told, ("iOS", "17.1", "mobile", "Apple", "iPhone15,2"));
}

#[tokio::test]
async fn each_path_takes_one_message_of_its_type() {
    let rig = TrackRig::start().await;
    for (path, message) in [
        ("/v1/track", r#"{"userId":"u","event":"e"}"#),
        ("/api/v1/t", r#"{"anonymousId":"a","event":"e"}"#),
        (
            "/v1/identify",
            r#"{"anonymousId":"a","traits":{"email":"none"}}"#,
        ),
        ("/v1/page", r#"{"anonymousId":"a"}"#),
        ("/v1/screen", r#"{"anonymousId":"a","name":"Home"}"#),
        ("/v1/group", r#"{"userId":7,"groupId":"g"}"#),
        ("/v1/alias", r#"{"userId":"u","previousId":"a"}"#),
    ] {
        let (status, answer) = rig.post_with(path, &PYTHON, message).await;
        assert_eq!(
            (status, &answer["success"]),
            (200, &json!(true)),
            "{path}: {answer}"
        );
    }
    assert_eq!(
        (rig.events.records().len(), rig.profiles.records().len()),
        (3, 5)
    );
}

#[tokio::test]
async fn what_is_wrong_is_told_and_the_rest_of_a_batch_is_stored() {
    let rig = TrackRig::start().await;
    let batch = r#"{"batch":[{"type":"track","userId":"u"},{"type":"x"},{"type":"identify"},
        {"type":"alias","userId":"u"},{"type":"group","userId":"u"},{"type":"page","anonymousId":"a"}]}"#;
    let (status, answer) = rig.post_with("/v1/batch", &PYTHON, batch).await;
    assert_eq!((status, &answer["refused"]), (200, &json!(5)), "{answer}");
    let fields: Vec<_> = answer["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| &e["field"])
        .collect();
    let expected = [
        json!("event"),
        json!("type"),
        json!("userId"),
        json!("previousId"),
        json!("groupId"),
        Value::Null,
    ];
    assert_eq!(fields, expected.iter().collect::<Vec<_>>());
    for (body, status, code) in [
        (r#"{"userId":"u"}"#, 400, "not_stored"),
        ("{", 400, "malformed_payload"),
        ("[]", 400, "invalid_event"),
    ] {
        let (found, answer) = rig.post_with("/v1/track", &PYTHON, body).await;
        assert_eq!(
            (found, &answer["code"]),
            (status, &json!(code)),
            "{body}: {answer}"
        );
    }
    for body in [r#"{}"#, r#"{"batch":[]}"#, r#"{"batch":{}}"#] {
        let (status, answer) = rig.post_with("/v1/batch", &PYTHON, body).await;
        assert_eq!(
            (status, &answer["field"]),
            (400, &json!("batch")),
            "{body}: {answer}"
        );
    }
    rig.profiles.fail();
    let message = r#"{"userId":"u","traits":{}}"#;
    let (status, answer) = rig.post_with("/v1/identify", &PYTHON, message).await;
    assert_eq!(
        (status, &answer["success"]),
        (503, &json!(false)),
        "{answer}"
    );
}

#[tokio::test]
async fn a_write_key_is_a_client_and_its_secret_counts_only_if_it_verifies() {
    let rig = TrackRig::start().await;
    let message = |key: &str| {
        format!(
            r#"{{"writeKey":"{key}","anonymousId":"a","event":"e","context":{{"ip":"203.0.113.5"}}}}"#
        )
    };
    let plain = [
        PYTHON[0],
        (
            "user-agent",
            "Mozilla/5.0 (X11; Linux x86_64) Firefox/133.0",
        ),
    ];
    let browser = [plain[0], plain[1], ("origin", "https://shop.example.com")];
    let own_key = format!("{CLIENT}.{SECRET}");
    for (headers, key, status) in [
        (&plain[..], own_key.as_str(), 200),
        (
            &plain[..],
            "11111111-2222-4333-8444-555555555555.wrong",
            401,
        ),
        (&plain[..], CLIENT, 401),
        (&browser[..], CLIENT, 200),
        (&plain[..], "nobody", 401),
        (&plain[..], "", 401),
    ] {
        let (found, answer) = rig.post_with("/v1/track", headers, message(key)).await;
        assert_eq!(found, status, "{key}: {answer}");
    }
    // A server's word on its visitor's address counts; a browser's does not.
    let countries: Vec<String> = rig
        .events
        .records()
        .iter()
        .map(|record| {
            Enrichment::parse(view(record).enrichment)
                .unwrap()
                .country
                .to_owned()
        })
        .collect();
    assert_eq!(countries, ["SE", ""]);
}
