//! Any body at all: an answer in JSON, and only records that the contract allows.

use fulmar_event::EventView;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use crate::client;
use crate::events_rig::json;
use crate::track_rig::{BROWSER, NODE, TrackRig, request};

/// Bodies of each path.
const CASES: usize = 1_500;

/// Values near enough to what SDKs send that every branch is met.
fn value() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "null",
        "1",
        "-0.5e3",
        "0",
        "true",
        "\"\"",
        "\"a\"",
        "\"u1\"",
        "\"\\ud800\"",
        "[]",
        "{}",
        "[\"g\"]",
        "[1,null]",
        "\"2026-11-30T10:00:00Z\"",
        "\"2026-11-30 10:00:00\"",
        "1796032800000",
        "\"a@b.co\"",
        "\"https://x.y/z\"",
        "\"revenue\"",
        "1e400",
        "\"/.env\"",
        "{\"__path\":\"/a?b=c#d\",\"__deviceId\":\"d\",\"__revenue\":3,\"x\":{\"y\":[1]}}",
        "{\"__identify\":{\"profileId\":\"u\",\"email\":\"a@b.co\"},\"__bot\":1,\"__ip\":\"::1\"}",
        "{\"__referrer\":\"https://a.b/\",\"path\":\"https://a.b:80\",\"__timestamp\":-1}",
    ])
    .prop_map(str::to_owned)
}

fn object() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec![
        "name",
        "properties",
        "profileId",
        "groups",
        "firstName",
        "email",
        "avatar",
        "property",
        "value",
        "id",
        "type",
        "groupIds",
        "chunk_index",
        "events_count",
        "is_full_snapshot",
        "started_at",
        "ended_at",
        "payload",
        "sessionId",
        "alias",
        "created_at",
        "device_id",
    ]);
    let fitting = prop::sample::select(vec![
        r#""name":"a","profileId":"u1","value":2,"property":"n","groupIds":["g"],"alias":"b""#,
        r#""name":"revenue","id":"g","type":"t","created_at":"2026-11-30 10:00:00""#,
        r#""profileId":7,"property":"a.b","chunk_index":1,"events_count":2,"is_full_snapshot":true"#,
        r#""started_at":"2026-11-30T10:00:00Z","ended_at":"2026-11-30T10:00:01Z","payload":"[]""#,
        r#""properties":{"__path":"/a?b=c#d","__identify":{"profileId":"u","email":"a@b.co"}}"#,
        r#""properties":{"__deviceId":"d","__revenue":3,"__bot":1,"__ip":"203.0.113.5"}"#,
    ]);
    let any = (names, value()).prop_map(|(name, value)| format!("\"{name}\":{value}"));
    let member = prop_oneof![4 => fitting.prop_map(str::to_owned), 1 => any];
    prop::collection::vec(member, 0..8).prop_map(|members| format!("{{{}}}", members.join(",")))
}

fn item() -> impl Strategy<Value = String> {
    let kinds = prop::sample::select(vec![
        "track",
        "identify",
        "increment",
        "decrement",
        "group",
        "assign_group",
        "replay",
        "alias",
        "batch",
        "moon",
    ]);
    let extra = prop::sample::select(vec![
        "",
        ",\"id\":\"i\"",
        ",\"timestamp\":7",
        ",\"id\":null",
    ]);
    (kinds, object(), extra).prop_map(|(kind, payload, extra)| {
        format!("{{\"type\":\"{kind}\",\"payload\":{payload}{extra}}}")
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let items = || prop::collection::vec(item(), 0..4);
    prop_oneof![
        6 => item().prop_map(String::into_bytes),
        2 => object().prop_map(String::into_bytes),
        2 => items().prop_map(|items| format!("[{}]", items.join(",")).into_bytes()),
        2 => items().prop_map(|items| {
            format!("{{\"type\":\"batch\",\"payload\":[{}]}}", items.join(",")).into_bytes()
        }),
        1 => prop::collection::vec(any::<u8>(), 0..64),
        1 => (item(), 0..200_usize).prop_map(|(item, cut)| {
            item.into_bytes().into_iter().take(cut).collect()
        }),
    ]
}

#[tokio::test]
async fn any_body_ends_in_an_answer_and_in_records_of_the_contract() {
    let mut runner = TestRunner::deterministic();
    let mut accepted = 0;
    for path in [
        "/track",
        "/track/batch",
        "/import/events",
        "/event",
        "/profile/increment",
    ] {
        let rig = TrackRig::start().await;
        let mut headers = NODE.to_vec();
        headers[1] = ("openpanel-client-id", crate::track_rig::ROOT);
        headers[5] = (
            "user-agent",
            if path == "/track" { BROWSER } else { "node" },
        );
        let mut client = client::Client::plain(rig.address).await;
        for _ in 0..CASES {
            let body = body().new_tree(&mut runner).unwrap().current();
            let shown = String::from_utf8_lossy(&body).into_owned();
            let answer = client.send(request(path, &headers, body)).await;
            let status = answer.status.as_u16();
            assert!(
                [200, 202, 400, 413, 422].contains(&status),
                "{status} {shown}"
            );
            json(&answer);
            accepted += usize::from(status < 300);
            if answer.header("connection") == "close" {
                client = client::Client::plain(rig.address).await;
            }
        }
        for records in [rig.events.records(), rig.profiles.records()] {
            for record in &records {
                let view = EventView::parse(record).unwrap();
                assert_eq!(view.check_contract(), Ok(()), "{view:?}");
                assert!(!view.stamp.key.is_empty());
            }
        }
    }
    assert!(accepted > CASES / 4, "{accepted} met the door's own work");
}
