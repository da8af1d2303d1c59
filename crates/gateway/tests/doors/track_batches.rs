//! Many items a request, the paths of older SDKs, and imports.

use fulmar_event::Timestamp;
use serde_json::{Value, json};

use crate::track_rig::{CLIENT, NODE, ROOT, TrackRig, WEB, only, profile_of, track_of};

fn statuses(answer: &Value) -> Vec<&str> {
    let events = answer["events"].as_array().unwrap();
    events
        .iter()
        .map(|e| e["status"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn each_item_has_a_verdict_of_its_own() {
    let items = [
        r#"{"type":"track","id":"e-1","timestamp":"2026-11-30T10:00:00Z","payload":{"name":"a"}}"#,
        r#"{"type":"track","id":"e-1","payload":{"name":"a"}}"#,
        r#"{"type":"track","payload":{"name":"session_end"}}"#,
        r#"{"type":"identify","id":"e-2","payload":{"profileId":"u"}}"#,
        r#"{"type":"batch","payload":[]}"#,
    ];
    let array = format!("[{}]", items.join(","));
    for (path, body) in [
        ("/track", format!(r#"{{"type":"batch","payload":{array}}}"#)),
        (
            "/track/batch",
            format!(r#"{{"type":"batch","payload":{array}}}"#),
        ),
        ("/track/batch", array),
        ("/api/track/batch", items.join("\n")),
    ] {
        let rig = TrackRig::start().await;
        let (status, answer) = rig.post(path, body).await;
        assert_eq!(status, 200, "{answer}");
        let expected = ["accepted", "duplicate", "refused", "accepted", "refused"];
        assert_eq!(statuses(&answer), expected);
        assert_eq!(
            (&answer["accepted"], &answer["refused"]),
            (&json!(2), &json!(2))
        );
        assert_eq!(answer["events"][0]["id"], "e-1");
        assert_eq!(answer["events"][2]["code"], "reserved_name");
        assert_eq!(answer["events"][2]["field"], "payload.name");
        let events = rig.events.records();
        let view = only(&events);
        assert_eq!(view.event_id, "e-1");
        let time = Timestamp::from_millis(1_796_032_800_000);
        assert_eq!(view.event_time, Some(time));
        let profiles = rig.profiles.records();
        assert_eq!(only(&profiles).event_id, "e-2");
    }
}

#[tokio::test]
async fn what_one_topic_did_not_take_is_to_be_sent_again() {
    let rig = TrackRig::start().await;
    rig.profiles.fail();
    let body = concat!(
        r#"[{"type":"track","payload":{"name":"a"}},"#,
        r#"{"type":"identify","id":"i","payload":{"profileId":"u"}},"#,
        r#"{"type":"identify","id":"i","payload":{"profileId":"u"}}]"#
    );
    let (status, answer) = rig.post("/track/batch", body).await;
    assert_eq!(status, 200);
    assert_eq!(statuses(&answer), ["accepted", "retry", "retry"]);
    assert_eq!(rig.events.records().len(), 1);
    rig.events.fail();
    assert_eq!(rig.post("/track/batch", body).await.0, 503);
}

#[tokio::test]
async fn a_batch_that_is_none_is_refused_whole() {
    let rig = TrackRig::start().await;
    let bad = r#"[{"type":"track","payload":{}}]"#;
    assert_eq!(rig.post("/track/batch", bad).await.0, 422);
    assert_eq!(rig.post("/track/batch", "[]").await.0, 422);
    assert_eq!(rig.post("/track/batch", "[{]").await.0, 400);
    let many = format!("[{}{{}}]", "{},".repeat(10_000));
    assert_eq!(rig.post("/track/batch", many).await.0, 413);
    // The first item may name the client, as a beacon does.
    let beacon = format!(r#"[{{"type":"track","payload":{{"name":"a"}},"clientId":"{CLIENT}"}}]"#);
    let origin = &WEB[4..];
    assert_eq!(rig.post_with("/track/batch", origin, beacon).await.0, 200);
    let unknown = r#"[{"type":"track","payload":{"name":"a"}}]"#;
    assert_eq!(rig.post_with("/track/batch", origin, unknown).await.0, 401);
}

#[tokio::test]
async fn the_paths_of_older_sdks_are_adapters() {
    let rig = TrackRig::start().await;
    let event = r#"{"name":"old","timestamp":"2020-01-01T00:00:00Z","properties":{"a":1}}"#;
    assert_eq!(rig.post("/event", event).await, (202, json!("ok")));
    let records = rig.events.records();
    let view = only(&records);
    assert_eq!(track_of(&view).properties, br#"{"a":1}"#);
    assert_eq!(
        view.event_time, view.ingest_time,
        "its timestamp is ignored"
    );
    let profile = r#"{"profileId":"u1","firstName":"A"}"#;
    assert_eq!(rig.post("/profile", profile).await, (202, json!("u1")));
    let add = r#"{"profileId":"u1","property":"n","value":3}"#;
    for path in ["/api/profile/increment", "/profile/decrement"] {
        assert_eq!(rig.post(path, add).await, (202, json!("u1")));
    }
    let not_number = r#"{"profileId":"u1","property":"n","value":"x"}"#;
    assert_eq!(rig.post("/profile/increment", not_number).await.0, 400);
    let records = rig.profiles.records();
    let amounts: Vec<_> = records
        .iter()
        .map(|record| profile_of(&only(std::slice::from_ref(record))).amount_micros)
        .collect();
    assert_eq!(amounts, [0, 3_000_000, -3_000_000]);
}

#[tokio::test]
async fn imports_need_a_secret_of_more_than_a_writer() {
    let rig = TrackRig::start().await;
    let row = r#"[{"name":"a","created_at":"2026-11-30 10:00:00.000"}]"#;
    let import = "/import/events";
    assert_eq!(rig.post(import, row).await.0, 401, "a writer");
    let mut headers = NODE.to_vec();
    headers[1] = ("openpanel-client-id", ROOT);
    assert_eq!(rig.post_with(import, &headers, row).await.0, 200);
    headers[2] = ("openpanel-client-secret", "wrong");
    assert_eq!(rig.post_with(import, &headers, row).await.0, 401);
}

#[tokio::test]
async fn imported_rows_are_events_of_their_day() {
    let rig = TrackRig::start().await;
    let mut headers = NODE.to_vec();
    headers[1] = ("openpanel-client-id", ROOT);
    let body = concat!(
        r#"[{"id":"r-1","name":"a","created_at":"2026-11-30 10:00:00.000","device_id":"dev-1","#,
        r#""session_id":"s-1","profile_id":"","properties":{"x":"1"},"country":"SE","#,
        r#""latitude":59.33,"longitude":18.07,"project_id":"other","revenue":0,"os":"iOS"},"#,
        r#"{"name":"b","created_at":"2026-11-30T10:00:00Z","profile_id":"u1"},"#,
        r#"{"name":"session_start","created_at":"2026-11-30 10:00:00"},"#,
        r#"{"name":"c","created_at":"2026-12-30 10:00:00"},"#,
        r#"{"name":"d"}]"#
    );
    let (status, answer) = rig.post_with("/import/events", &headers, body).await;
    assert_eq!(status, 200);
    let expected = ["accepted", "accepted", "refused", "refused", "refused"];
    assert_eq!(statuses(&answer), expected);
    let fields: Vec<_> = (2..5)
        .map(|at| answer["events"][at]["field"].as_str().unwrap())
        .collect();
    assert_eq!(fields, ["name", "created_at", "created_at"]);
    let records = rig.events.records();
    assert_eq!(records.len(), 1);
    let view = fulmar_event::EventView::parse(&records[0]).unwrap();
    let track = track_of(&view);
    assert_eq!((track.device_id, track.session_id), ("dev-1", "s-1"));
    assert!(track.is_imported && !track.is_server);
    assert_eq!((view.stamp.project, view.stamp.source), ("shop", ROOT));
    let time = Timestamp::from_millis(1_796_032_800_000);
    assert_eq!((view.event_id, view.event_time), ("r-1", Some(time)));
    let found = fulmar_event::Enrichment::parse(view.enrichment).unwrap();
    assert_eq!((found.country, found.os), ("SE", "iOS"));
    assert_eq!(found.place_micros, Some((59_330_000, 18_070_000)));
    let profiles = rig.profiles.records();
    let view = fulmar_event::EventView::parse(&profiles[0]).unwrap();
    assert_eq!((view.stamp.key, track_of(&view).profile_id), ("u1", "u1"));
}
