//! Every request that was recorded from the published SDKs: its answer and its record.
//!
//! Device and session ids were worked out by another program (SHAKE256 and SHA-256 of Python's
//! hashlib, over the formulas of the contract).

use fulmar_event::{Enrichment, ProfileChange, Timestamp};
use serde_json::json;

use crate::track_rig::{
    BROWSER, CLIENT, NODE, NOW_MS, SECRET, TrackRig, WEB, only, profile_of, request, track_of,
};

/// Device and session of the server SDK's own address, and of the browser's.
const NODE_VISIT: (&str, &str) = ("204c40f190bc5ccc40dfb1028f4f5aec", "bGy5c9mkcaiSdqE7sK7e5w");
const WEB_VISIT: (&str, &str) = ("0455e4e4efd94573295d9993cd7f1ece", "Y5CZmHXC_1sB-q8M8-125g");

fn visited((device, session): (&str, &str)) -> (u16, serde_json::Value) {
    (200, json!({"deviceId": device, "sessionId": session}))
}

#[tokio::test]
async fn track_of_a_server_belongs_to_nobody_and_keeps_its_bytes() {
    let rig = TrackRig::start().await;
    let body = r#"{"type":"track","payload":{"name":"signup","properties":{"app_version":"1.2.3","plan":"pro","nested":{"a":1,"b":[1,2]}}}}"#;
    assert_eq!(rig.post("/track", body).await, visited(NODE_VISIT));
    let records = rig.events.records();
    let view = only(&records);
    let track = track_of(&view);
    assert_eq!((track.name, track.is_server), ("signup", true));
    let properties = r#"{"app_version":"1.2.3","plan":"pro","nested":{"a":1,"b":[1,2]}}"#;
    assert_eq!(track.properties, properties.as_bytes());
    assert_eq!((track.device_id, track.session_id), ("", ""));
    assert_eq!((track.sdk_name, track.sdk_version), ("node", "1.3.1"));
    // Keyed by its own id, a random UUID.
    assert_eq!((view.event_id.len(), &view.event_id[14..15]), (36, "4"));
    assert_eq!((view.stamp.key, view.stamp.door), (view.event_id, 3));
    assert_eq!(view.event_time, Some(Timestamp::from_millis(NOW_MS)));
    let enrichment = Enrichment::parse(view.enrichment).unwrap();
    assert_eq!((enrichment.device, enrichment.os), ("server", ""));
    assert!(rig.profiles.records().is_empty());
}

#[tokio::test]
async fn track_of_a_server_that_names_a_profile_goes_to_that_profile() {
    let bodies = [
        r#"{"type":"track","payload":{"name":"clicked","profileId":"u1","properties":{"app_version":"1.2.3","x":1}}}"#,
        r#"{"type":"track","payload":{"name":"clicked","profileId":"u1","groups":["org_1","team_2"],"properties":{"app_version":"1.2.3"}}}"#,
    ];
    for (body, groups) in bodies.into_iter().zip([&[][..], &["org_1", "team_2"]]) {
        let rig = TrackRig::start().await;
        assert_eq!(rig.post("/track", body).await, visited(NODE_VISIT));
        let records = rig.profiles.records();
        let view = only(&records);
        let track = track_of(&view);
        assert_eq!((track.profile_id, track.device_id), ("u1", ""));
        assert_eq!(track.groups.iter().collect::<Vec<_>>(), groups);
        assert_eq!(view.stamp.key, "u1");
        assert!(rig.events.records().is_empty());
    }
}

#[tokio::test]
async fn a_time_of_its_own_is_the_events() {
    for (body, ms) in [
        // `date -d 2026-11-30T10:00:00Z +%s` is 1796032800.
        (
            r#"{"type":"track","payload":{"name":"clicked","profileId":"u2","properties":{"app_version":"1.2.3","x":1,"__timestamp":"2026-11-30T10:00:00.000Z"}}}"#,
            1_796_032_800_000,
        ),
        (
            r#"{"type":"track","payload":{"name":"queued","profileId":"u2","properties":{"a":1,"__timestamp":"2026-11-30T19:05:39.574Z"}}}"#,
            1_796_065_539_574,
        ),
        // A minute ahead is believed, and not a millisecond more.
        (
            r#"{"type":"track","payload":{"name":"a","profileId":"u2","properties":{"__timestamp":"2026-11-30T19:06:40.000Z"}}}"#,
            NOW_MS + 60_000,
        ),
        (
            r#"{"type":"track","payload":{"name":"a","profileId":"u2","properties":{"__timestamp":"2026-11-30T19:06:40.001Z"}}}"#,
            NOW_MS,
        ),
    ] {
        let rig = TrackRig::start().await;
        assert_eq!(rig.post("/track", body).await.0, 200);
        let records = rig.profiles.records();
        let time = only(&records).event_time.map(Timestamp::as_millis);
        assert_eq!(time, Some(ms), "{body}");
    }
}

#[tokio::test]
async fn identify_names_a_person() {
    let rig = TrackRig::start().await;
    let body = r#"{"type":"identify","payload":{"profileId":"u1","firstName":"A","lastName":"B","email":"a@b.co","avatar":"https://x.y/z.png","properties":{"app_version":"1.2.3","tier":"gold"}}}"#;
    assert_eq!(rig.post("/track", body).await, visited(NODE_VISIT));
    let records = rig.profiles.records();
    let view = only(&records);
    let profile = profile_of(&view);
    assert_eq!(profile.change, ProfileChange::Identify as i32);
    assert_eq!((profile.first_name, profile.last_name), ("A", "B"));
    assert_eq!(
        (profile.email, profile.avatar),
        ("a@b.co", "https://x.y/z.png")
    );
    let properties: &[u8] = br#"{"app_version":"1.2.3","tier":"gold"}"#;
    assert_eq!(profile.properties, properties);
    assert_eq!((profile.profile_id, view.stamp.key), ("u1", "u1"));
    assert_eq!(profile.device_id, "");
}

#[tokio::test]
async fn increments_and_decrements_are_exact_sums() {
    for (body, property, micros) in [
        (
            r#"{"type":"increment","payload":{"profileId":"u1","property":"visits","value":2}}"#,
            "visits",
            2_000_000,
        ),
        (
            r#"{"type":"decrement","payload":{"profileId":"u1","property":"credits"}}"#,
            "credits",
            -1_000_000,
        ),
        // The Python SDK sends null for what it was not told.
        (
            r#"{"type":"increment","payload":{"profileId":"u1","property":"visits","value":null}}"#,
            "visits",
            1_000_000,
        ),
        (
            r#"{"type":"decrement","payload":{"profileId":7,"property":"a.b","value":0.1}}"#,
            "a.b",
            -100_000,
        ),
    ] {
        let rig = TrackRig::start().await;
        assert_eq!(rig.post("/track", body).await, visited(NODE_VISIT));
        let records = rig.profiles.records();
        let view = only(&records);
        let profile = profile_of(&view);
        assert_eq!(profile.change, ProfileChange::Add as i32);
        assert_eq!(
            (profile.property, profile.amount_micros),
            (property, micros)
        );
    }
}

#[tokio::test]
async fn groups_are_made_and_joined() {
    let rig = TrackRig::start().await;
    let made = r#"{"type":"group","payload":{"id":"org_1","type":"company","name":"Acme","properties":{"plan":"x"}}}"#;
    assert_eq!(rig.post("/track", made).await, visited(NODE_VISIT));
    let records = rig.profiles.records();
    let view = only(&records);
    let group = profile_of(&view);
    assert_eq!((group.group_id, view.stamp.key), ("org_1", "org_1"));
    assert_eq!((group.group_type, group.group_name), ("company", "Acme"));
    assert_eq!(group.change, ProfileChange::Group as i32);

    for (body, profile_id, groups) in [
        (
            r#"{"type":"assign_group","payload":{"groupIds":["org_1"],"profileId":"u1"}}"#,
            "u1",
            &["org_1"][..],
        ),
        (
            r#"{"type":"assign_group","payload":{"groupIds":["org_1","team_2"],"profileId":"u1"}}"#,
            "u1",
            &["org_1", "team_2"],
        ),
        // Nobody is named: whoever has this device.
        (
            r#"{"type":"assign_group","payload":{"groupIds":["org_1"],"profileId":null}}"#,
            NODE_VISIT.0,
            &["org_1"],
        ),
    ] {
        let rig = TrackRig::start().await;
        assert_eq!(rig.post("/track", body).await, visited(NODE_VISIT));
        let records = rig.profiles.records();
        let view = only(&records);
        let joined = profile_of(&view);
        assert_eq!(
            (joined.profile_id, view.stamp.key),
            (profile_id, profile_id)
        );
        assert_eq!(joined.groups.iter().collect::<Vec<_>>(), groups);
    }
}

#[tokio::test]
async fn revenue_belongs_to_the_device_that_it_names() {
    let rig = TrackRig::start().await;
    let body = r#"{"type":"track","payload":{"name":"revenue","profileId":"u1","groups":["org_1","team_2"],"properties":{"app_version":"1.2.3","product":"p","__deviceId":"dev-1","__revenue":1999}}}"#;
    let session = "os3fXMaGvOCzYoonPRwZOQ";
    assert_eq!(rig.post("/track", body).await, visited(("dev-1", session)));
    let records = rig.events.records();
    let view = only(&records);
    let track = track_of(&view);
    assert_eq!((track.revenue, track.is_server), (1_999, true));
    assert_eq!((track.device_id, view.stamp.key), ("dev-1", "dev-1"));
    assert_eq!(track.session_id, session);
}

#[tokio::test]
async fn a_replay_keeps_its_chunk() {
    let rig = TrackRig::start().await;
    let body = r#"{"type":"replay","payload":{"chunk_index":0,"events_count":1,"is_full_snapshot":true,"started_at":"2026-11-30T10:00:00.000Z","ended_at":"2026-11-30T10:00:01.000Z","payload":"[]","sessionId":"sess-1"}}"#;
    assert_eq!(rig.post("/track", body).await.0, 200);
    let records = rig.events.records();
    let view = only(&records);
    let fulmar_event::Body::Replay(chunk) = view.body else {
        panic!("{:?}", view.body);
    };
    assert_eq!((chunk.session_id, chunk.payload), ("sess-1", &b"[]"[..]));
    assert_eq!((chunk.chunk_index, chunk.events_count), (0, 1));
    assert!(chunk.is_full_snapshot);
    assert_eq!(
        chunk.started_at,
        Some(Timestamp::from_millis(1_796_032_800_000))
    );
    assert_eq!(view.stamp.key, NODE_VISIT.0);
}

#[tokio::test]
async fn alias_is_taken_and_answered_as_success() {
    let rig = TrackRig::start().await;
    let body = r#"{"type":"alias","payload":{"profileId":"u1","alias":"anon-7"}}"#;
    assert_eq!(rig.post("/track", body).await, visited(NODE_VISIT));
    let records = rig.profiles.records();
    let view = only(&records);
    let profile = profile_of(&view);
    assert_eq!((profile.profile_id, profile.alias), ("u1", "anon-7"));
}

#[tokio::test]
async fn a_browsers_page_is_split_and_its_referrer_named() {
    let rig = TrackRig::start().await;
    let body = r#"{"type":"track","payload":{"name":"screen_view","properties":{"__referrer":"https://www.google.com/search?q=z","__path":"https://shop.example.com/a?utm_source=google&utm_campaign=x#h","__title":"Home"}}}"#;
    assert_eq!(
        rig.post_with("/track", &WEB, body).await,
        visited(WEB_VISIT)
    );
    let records = rig.events.records();
    let view = only(&records);
    let track = track_of(&view);
    assert_eq!(
        (track.origin, track.path),
        ("https://shop.example.com", "/a")
    );
    assert_eq!(
        (track.query, track.fragment),
        ("utm_source=google&utm_campaign=x", "h")
    );
    assert_eq!(track.referrer, "https://www.google.com/search?q=z");
    assert_eq!(
        (track.referrer_name, track.referrer_type),
        ("Google", "search")
    );
    assert_eq!((track.device_id, track.session_id), WEB_VISIT);
    assert_eq!((view.stamp.key, track.is_server), (WEB_VISIT.0, false));
    let enrichment = Enrichment::parse(view.enrichment).unwrap();
    assert_eq!(
        (enrichment.browser, enrichment.device),
        ("Chrome", "desktop")
    );
}

#[tokio::test]
async fn the_other_requests_of_the_browser() {
    let rig = TrackRig::start().await;
    for body in [
        r#"{"type":"track","payload":{"name":"add_to_cart","properties":{"__referrer":"https://www.google.com/search?q=z","sku":1,"__path":"https://shop.example.com/b"}}}"#,
        r#"{"type":"identify","payload":{"profileId":"u9","email":"u9@ex.co","properties":{"__referrer":"https://www.google.com/search?q=z"}}}"#,
    ] {
        assert_eq!(
            rig.post_with("/track", &WEB, body).await,
            visited(WEB_VISIT)
        );
    }
    let profiles = rig.profiles.records();
    assert_eq!(profile_of(&only(&profiles)).device_id, WEB_VISIT.0);

    let revenue = r#"{"type":"track","payload":{"name":"revenue","profileId":"u9","properties":{"__referrer":"https://www.google.com/search?q=z","x":1,"__revenue":500,"__path":"https://shop.example.com/b"}}}"#;
    let (status, refused) = rig.post_with("/track", &WEB, revenue).await;
    assert_eq!(
        (status, &refused["code"]),
        (401, &json!("revenue_needs_secret"))
    );
    // A secret that is sent and is wrong is no secret.
    let mut wrong = WEB.to_vec();
    wrong.push(("openpanel-client-secret", "guess"));
    assert_eq!(rig.post_with("/track", &wrong, revenue).await.0, 401);
    rig.set(fulmar_registry::SettingsChange {
        allow_unsafe_revenue: Some(true),
        ..Default::default()
    });
    assert_eq!(
        rig.post_with("/track", &WEB, revenue).await,
        visited(WEB_VISIT)
    );
}

#[tokio::test]
async fn nulls_of_the_python_sdk_are_absence() {
    let rig = TrackRig::start().await;
    let headers = [
        ("content-type", "application/json"),
        ("openpanel-client-id", CLIENT),
        ("openpanel-client-secret", SECRET),
        ("openpanel-sdk-name", "python"),
        ("user-agent", "python-requests/2.31.0"),
    ];
    let body = r#"{"type":"track","payload":{"name":"a","profileId":null,"groups":null,"properties":{"a":null}}}"#;
    assert_eq!(rig.post_with("/track", &headers, body).await.0, 200);
    assert_eq!(track_of(&only(&rig.events.records())).profile_id, "");
}

#[tokio::test]
async fn an_event_with_identify_makes_two_records_and_overrides_count() {
    let rig = TrackRig::start().await;
    let body = r#"{"type":"track","id":"e-1","payload":{"name":"a","properties":{"__identify":{"profileId":"u3","email":"u@x.co"},"__os":"iOS","__ip":"203.0.113.5","__bot":"1","x":"y"}}}"#;
    // The device of the address that the event names.
    let visit = ("12a501086caea7d2f3464d70f0ff8730", "YHZnVtwdThkNzZxaZJA_WA");
    assert_eq!(rig.post_with("/track", &WEB, body).await, visited(visit));
    let events = rig.events.records();
    let view = only(&events);
    assert_eq!(view.event_id, "e-1");
    let enrichment = Enrichment::parse(view.enrichment).unwrap();
    assert_eq!((enrichment.os, enrichment.country), ("iOS", "SE"));
    let kept = r#"{"__identify":{"profileId":"u3","email":"u@x.co"},"__os":"iOS","__ip":"203.0.113.5","x":"y"}"#;
    assert_eq!(track_of(&view).properties, kept.as_bytes());
    let profiles = rig.profiles.records();
    let view = only(&profiles);
    assert_eq!(
        (view.event_id, profile_of(&view).email),
        ("e-1:identify", "u@x.co")
    );
}

#[tokio::test]
async fn a_bot_is_told_and_only_its_page_is_kept() {
    let rig = TrackRig::start().await;
    let bot = format!("{BROWSER} (compatible; Googlebot/2.1)");
    let mut headers = WEB.to_vec();
    headers[4] = ("user-agent", &bot);
    let told = (
        202,
        json!({"bot": {"name": "Googlebot", "type": "Search bot"}}),
    );
    let page = r#"{"type":"track","payload":{"name":"screen_view","properties":{"__path":"/a"}}}"#;
    assert_eq!(rig.post_with("/track", &headers, page).await, told);
    let identify = r#"{"type":"identify","payload":{"profileId":"u"}}"#;
    assert_eq!(rig.post_with("/track", &headers, identify).await, told);
    let records = rig.events.records();
    let fulmar_event::Body::Bot(hit) = only(&records).body else {
        panic!("no bot");
    };
    assert_eq!(
        (hit.name, hit.kind, hit.path),
        ("Googlebot", "Search bot", "/a")
    );
    assert!(rig.profiles.records().is_empty());
    // Who proves to be the client is no bot.
    headers.push(("openpanel-client-secret", SECRET));
    assert_eq!(rig.post_with("/track", &headers, page).await.0, 200);
}

#[tokio::test]
async fn the_same_is_answered_under_api_and_to_a_beacon() {
    let rig = TrackRig::start().await;
    let event = r#"{"type":"track","payload":{"name":"a"}}"#;
    assert_eq!(rig.post("/api/track", event).await, visited(NODE_VISIT));
    let beacon = format!(
        r#"{{"type":"track","payload":{{"name":"b"}},"clientId":"{CLIENT}","clientSecret":"{SECRET}"}}"#
    );
    for content_type in [
        "text/plain;charset=UTF-8",
        "application/x-www-form-urlencoded",
    ] {
        let headers = [("content-type", content_type), ("user-agent", "node")];
        let answered = rig.post_with("/track", &headers, beacon.clone()).await;
        assert_eq!(answered, visited(NODE_VISIT));
    }
    let compressed = zstd::encode_all(event.as_bytes(), 3).unwrap();
    let mut headers = NODE.to_vec();
    headers.push(("content-encoding", "zstd"));
    let answer = rig.send(request("/track", &headers, compressed)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("fulmar-source"), CLIENT);
    assert_eq!(rig.events.records().len(), 4);
}
