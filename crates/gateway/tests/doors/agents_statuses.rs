//! Every row of the status table, over HTTP/1.1 and HTTP/2.

use std::io::Write;

use fulmar_event::{EventView, decode_ack, decode_rejection};
use fulmar_gateway::budgets::{BudgetLimits, Rate};
use fulmar_gateway::roster::RosterVerdict;
use http_body_util::Full;
use hyper::Request;

use crate::client::Answer;
use crate::rig::{HTTP1, HTTP2, Rig, Setup, batch, batch_named, post, post_with};

const PROTOBUF: (&str, &str) = ("content-type", "application/x-protobuf");

fn assert_refused(answer: &Answer, status: u16, code: &str, retry_after: &str) {
    assert_eq!(answer.status.as_u16(), status, "{code}");
    let refusal = decode_rejection(&answer.body).unwrap();
    assert_eq!(refusal.code, code);
    assert_eq!(answer.header("content-type"), "application/x-protobuf");
    assert_eq!(answer.header("retry-after"), retry_after, "{code}");
    assert!(
        !refusal.detail.is_empty() && !refusal.detail.contains("secret"),
        "{code}"
    );
}

#[tokio::test]
async fn a_batch_is_acknowledged_when_it_is_on_the_shelf() {
    let rig = Rig::start().await;
    for (alpn, already) in [(HTTP1, 0), (HTTP2, 3)] {
        let mut client = rig.client(&rig.agents_ca.agent("agent-7"), alpn).await;
        let answer = client.send(post(batch(3))).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), "application/x-protobuf");
        assert_eq!(answer.header("fulmar-project"), "default");
        assert_eq!(answer.header("fulmar-source"), "agent-7");
        let ack = decode_ack(&answer.body).unwrap();
        assert!(ack.accepted && ack.durable);
        assert_eq!(ack.received, 3);
        assert_eq!(rig.shelf.records().len(), already + 3);
    }
    let record = &rig.shelf.records()[0];
    let view = EventView::parse(record).unwrap();
    assert_eq!((view.agent_id, view.tenant_id), ("agent-7", "default"));
    assert_eq!(
        (view.stamp.source, view.stamp.project),
        ("agent-7", "default")
    );
    assert_eq!((view.stamp.control_offset, view.stamp.key), (7, "agent-7"));
    assert!(rig.counted(r#"fulmar_ingest_events_total{door="agents",outcome="accepted"} 6"#));
    assert!(rig.counted(r#"fulmar_ingest_batches_total{door="agents",outcome="accepted"} 2"#));
}

#[tokio::test]
async fn what_the_router_refuses_is_plain_text() {
    let rig = Rig::start().await;
    for alpn in [HTTP1, HTTP2] {
        let mut client = rig.client(&rig.agents_ca.agent("a"), alpn).await;
        let elsewhere = Request::post("https://localhost/v2/events").body(Full::default());
        let answer = client.send(elsewhere.unwrap()).await;
        assert_eq!(answer.status, 404);
        assert!(answer.header("content-type").starts_with("text/plain"));
        let get = Request::get("https://localhost/v1/events")
            .body(Full::default())
            .unwrap();
        let answer = client.send(get).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("allow")),
            (405, "POST")
        );
        assert!(answer.header("content-type").starts_with("text/plain"));
    }
}

#[tokio::test]
async fn refusals_of_a_body_or_a_batch() {
    let rig = Rig::start().await;
    // protocol_version 2, then a batch id.
    let of_version_2 = [&[0x10, 2][..], &batch(1)[11..]].concat();
    let table: Vec<(Request<_>, u16, &str)> = vec![
        (post(vec![0xff; 10]), 400, "malformed_payload"),
        (post_with(batch(1), &[]), 415, "unsupported_media_type"),
        (
            post_with(batch(1), &[("content-type", "application/json")]),
            415,
            "unsupported_media_type",
        ),
        (
            post_with(batch(1), &[PROTOBUF, ("content-encoding", "br")]),
            415,
            "unsupported_media_type",
        ),
        (
            post_with(batch(1), &[PROTOBUF, ("content-encoding", "gzip, gzip")]),
            415,
            "unsupported_media_type",
        ),
        (
            post_with(batch(1), &[PROTOBUF, ("content-encoding", "gzip")]),
            400,
            "unreadable_body",
        ),
        (
            post_with(batch(1), &[PROTOBUF, ("content-encoding", "zstd")]),
            400,
            "unreadable_body",
        ),
        (post(vec![]), 422, "empty_batch"),
        (post(batch(10_001)), 422, "batch_too_large"),
        (post(batch_named("bad id", 1)), 422, "malformed_batch_id"),
        (post(batch_named("", 1)), 422, "malformed_batch_id"),
        (post(of_version_2), 426, "unsupported_protocol_version"),
        (
            post(vec![0; 8 * 1024 * 1024 + 1]),
            413,
            "batch_body_too_large",
        ),
    ];
    for (request, status, code) in table {
        // Over HTTP/1.1 some of these end the connection: one each.
        for alpn in [HTTP1, HTTP2] {
            let mut client = rig.client(&rig.agents_ca.agent("a"), alpn).await;
            let answer = client.send(request.clone()).await;
            assert_refused(&answer, status, code, "");
        }
        let counted = format!(r#"fulmar_ingest_rejections_total{{door="agents",reason="{code}"}}"#);
        assert!(
            (1..20).any(|n| rig.counted(&format!("{counted} {n}"))),
            "{code} not counted"
        );
    }
    assert!(
        rig.shelf.records().is_empty(),
        "nothing of a refused batch is kept"
    );
    assert_eq!(rig.capacity.in_flight(), (0, 0));
}

#[tokio::test]
async fn an_invalid_event_is_named_by_field_and_index() {
    let rig = Rig::start().await;
    let mut client = rig.agent("a").await;
    let mut body = batch(2);
    // A third event, with an id that is too short and nothing else.
    body.extend_from_slice(&[0x1a, 5, 0x0a, 3, b'x', b'y', b'z']);
    let answer = client.send(post(body)).await;
    assert_refused(&answer, 422, "invalid_event", "");
    let refusal = decode_rejection(&answer.body).unwrap();
    assert_eq!(
        (refusal.field.as_str(), refusal.event_index),
        ("event_id", 2)
    );
    let answer = client.send(post(vec![])).await;
    assert_eq!(decode_rejection(&answer.body).unwrap().event_index, -1);
    assert!(rig.shelf.records().is_empty());
}

#[tokio::test]
async fn content_types_are_read_without_case_or_parameters() {
    let rig = Rig::start().await;
    let mut client = rig.agent("a").await;
    for name in [
        "application/x-protobuf",
        "application/protobuf",
        "APPLICATION/Protobuf",
        "application/x-protobuf; proto=fulmar; charset=x",
    ] {
        let answer = client
            .send(post_with(batch(1), &[("content-type", name)]))
            .await;
        assert_eq!(answer.status, 200, "{name}");
    }
}

#[tokio::test]
async fn compressed_bodies_are_read_with_all_their_members() {
    let rig = Rig::start().await;
    let mut client = rig.agent("a").await;
    let plain = batch(100);
    let (front, back) = plain.split_at(plain.len() / 3);
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let table = [
        ("gzip", [gzip(front), gzip(back)].concat()),
        ("zstd", [zstd(front), zstd(back)].concat()),
        ("identity", plain.clone()),
    ];
    for (encoding, body) in table {
        let headers = [PROTOBUF, ("content-encoding", encoding)];
        let answer = client.send(post_with(body, &headers)).await;
        assert_eq!(answer.status, 200, "{encoding}");
        assert_eq!(decode_ack(&answer.body).unwrap().received, 100);
    }
    // Inflated past the ceiling.
    let headers = [PROTOBUF, ("content-encoding", "gzip")];
    let answer = client
        .send(post_with(gzip(&vec![0; 9 << 20]), &headers))
        .await;
    assert_refused(&answer, 413, "batch_body_too_large", "");
}

#[tokio::test]
async fn the_roster_has_its_say_before_the_budget() {
    let nothing = BudgetLimits {
        requests: Rate {
            per_second: 1,
            burst: 1,
        },
        ..BudgetLimits::AGENT
    };
    let rig = Rig::with(Setup {
        budgets: nothing,
        ..Setup::default()
    })
    .await;
    let mut client = rig.agent("a").await;
    *rig.roster.0.lock().unwrap() = RosterVerdict::NotRegistered;
    for _ in 0..3 {
        let answer = client.send(post(batch(1))).await;
        assert_refused(&answer, 403, "agent_not_registered", "");
        client = rig.agent("a").await;
    }
    *rig.roster.0.lock().unwrap() = RosterVerdict::NotAdmitted;
    let answer = client.send(post(batch(1))).await;
    assert_refused(&answer, 403, "agent_not_admitted", "");
    let mut client = rig.agent("a").await;
    *rig.roster.0.lock().unwrap() = RosterVerdict::Project("blue".into());
    assert_eq!(client.send(post(batch(1))).await.status, 200);
    let records = rig.shelf.records();
    let view = EventView::parse(&records[0]).unwrap();
    assert_eq!((view.tenant_id, view.stamp.project), ("blue", "blue"));
}

#[tokio::test]
async fn a_spent_budget_is_429_and_comes_back() {
    let two_requests = BudgetLimits {
        requests: Rate {
            per_second: 1,
            burst: 2,
        },
        ..BudgetLimits::AGENT
    };
    let rig = Rig::with(Setup {
        budgets: two_requests,
        ..Setup::default()
    })
    .await;
    let mut client = rig.agent("greedy").await;
    assert_eq!(client.send(post(batch(1))).await.status, 200);
    // Bad requests spend too.
    assert_eq!(client.send(post(vec![])).await.status, 422);
    assert_refused(&client.send(post(batch(1))).await, 429, "rate_limited", "1");
    let mut quiet = rig.agent("quiet").await;
    assert_eq!(quiet.send(post(batch(1))).await.status, 200);
    rig.clock.move_ahead(1);
    let mut client = rig.agent("greedy").await;
    assert_eq!(client.send(post(batch(1))).await.status, 200);
}

#[tokio::test]
async fn events_and_bytes_are_budgets_too() {
    let events = BudgetLimits {
        events: Rate {
            per_second: 5,
            burst: 10,
        },
        ..BudgetLimits::AGENT
    };
    let rig = Rig::with(Setup {
        budgets: events,
        ..Setup::default()
    })
    .await;
    let mut client = rig.agent("a").await;
    assert_eq!(client.send(post(batch(10))).await.status, 200);
    assert_refused(&client.send(post(batch(1))).await, 429, "rate_limited", "1");
    assert_eq!(rig.shelf.records().len(), 10);

    let bytes = BudgetLimits {
        bytes: Rate {
            per_second: 500,
            burst: 1_000,
        },
        ..BudgetLimits::AGENT
    };
    let rig = Rig::with(Setup {
        budgets: bytes,
        ..Setup::default()
    })
    .await;
    let mut client = rig.agent("a").await;
    let body = batch(10);
    assert!(body.len() > 500 && body.len() < 1_000);
    assert_eq!(client.send(post(body.clone())).await.status, 200);
    assert_refused(&client.send(post(body)).await, 429, "rate_limited", "1");
}

#[tokio::test]
async fn a_log_that_fails_is_503_and_says_nothing_of_why() {
    let rig = Rig::start().await;
    rig.shelf.fail();
    let mut client = rig.agent("a").await;
    let answer = client.send(post(batch(2))).await;
    assert_refused(&answer, 503, "backbone_unavailable", "5");
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(!body.contains("disk7") && !body.contains("fire"));
    assert!(rig.counted(r#"fulmar_ingest_batches_total{door="agents",outcome="unavailable"} 1"#));
    assert_eq!(rig.capacity.in_flight(), (0, 0));
}

#[tokio::test]
async fn one_project_can_not_starve_another() {
    let projects = BudgetLimits {
        events: Rate {
            per_second: 5,
            burst: 10,
        },
        ..BudgetLimits::UNLIMITED
    };
    let projects = BudgetLimits {
        tracked_max: 10,
        ..projects
    };
    let rig = Rig::with(Setup {
        projects,
        ..Setup::default()
    })
    .await;
    *rig.roster.0.lock().unwrap() = RosterVerdict::Project("blue".into());
    assert_eq!(rig.agent("a").await.send(post(batch(10))).await.status, 200);
    let answer = rig.agent("b").await.send(post(batch(1))).await;
    assert_refused(&answer, 429, "rate_limited", "1");
    *rig.roster.0.lock().unwrap() = RosterVerdict::Project("green".into());
    assert_eq!(rig.agent("c").await.send(post(batch(10))).await.status, 200);
}
