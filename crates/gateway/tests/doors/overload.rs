//! More than the door can hold: refused at once, nothing kept.

use std::time::Duration;

use fulmar_event::decode_rejection;
use fulmar_gateway::agents::AgentsConfig;
use fulmar_gateway::body::BodyLimits;
use fulmar_gateway::capacity::CapacityLimits;
use fulmar_gateway::server::ServerLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{Answer, tls_config, tls_stream};
use crate::rig::{HTTP1, HTTP2, Rig, Setup, batch, eventually, post};
use crate::shelf::Shelf;

fn two_requests() -> CapacityLimits {
    CapacityLimits {
        bytes_max: 1 << 20,
        requests_max: 2,
        owner_bytes_max: 1 << 20,
        owner_requests_max: 2,
        shared_requests_max: 2,
    }
}

fn assert_at_capacity(answer: &Answer) {
    assert_eq!(
        (answer.status.as_u16(), answer.header("retry-after")),
        (503, "1")
    );
    assert_eq!(
        decode_rejection(&answer.body).unwrap().code,
        "gateway_at_capacity"
    );
}

#[tokio::test]
async fn over_capacity_is_503_at_once_and_passes() {
    for alpn in [HTTP1, HTTP2] {
        let setup = Setup {
            shelf: Shelf::held(),
            capacity: two_requests(),
            ..Setup::default()
        };
        let rig = Rig::with(setup).await;
        let leaf = rig.agents_ca.agent("a");
        let mut waiting = Vec::new();
        for asked in 1..=2 {
            let mut client = rig.client(&leaf, alpn).await;
            waiting.push(tokio::spawn(
                async move { client.send(post(batch(5))).await },
            ));
            rig.shelf.asked(asked).await;
        }
        let mut third = rig.client(&leaf, alpn).await;
        assert_at_capacity(&third.send(post(batch(5))).await);
        rig.shelf.let_go();
        for answer in waiting {
            assert_eq!(answer.await.unwrap().status, 200);
        }
        let mut fourth = rig.client(&leaf, alpn).await;
        assert_eq!(fourth.send(post(batch(5))).await.status, 200);
    }
}

#[tokio::test]
async fn many_slow_requests_hold_no_more_than_the_bound() {
    let capacity = CapacityLimits {
        bytes_max: 1 << 20,
        requests_max: 64,
        owner_bytes_max: 1 << 20,
        owner_requests_max: 64,
        shared_requests_max: 64,
    };
    let rig = Rig::with(Setup {
        shelf: Shelf::held(),
        capacity,
        ..Setup::default()
    })
    .await;
    let leaf = rig.agents_ca.agent("a");
    let body = batch(1_000);
    let mut waiting = Vec::new();
    for _ in 0..200 {
        let mut client = rig.client(&leaf, HTTP2).await;
        let body = body.clone();
        waiting.push(tokio::spawn(async move {
            client.send(post(body)).await.status.as_u16()
        }));
        assert!(rig.capacity.in_flight().0 <= 1 << 20);
    }
    let refused = || {
        (1..200).any(|n| {
            let refusals = r#"fulmar_ingest_rejections_total{door="agents","#;
            rig.counted(&format!(r#"{refusals}reason="gateway_at_capacity"}} {n}"#))
                && n + *rig.shelf.asked.borrow() == 200
        })
    };
    eventually("all are held or refused", refused).await;
    assert!(rig.capacity.in_flight().0 <= 1 << 20);
    rig.shelf.let_go();
    let mut statuses = Vec::new();
    for answer in waiting {
        statuses.push(answer.await.unwrap());
    }
    assert!(
        statuses.iter().all(|status| [200, 503].contains(status)),
        "{statuses:?}"
    );
    let acknowledged = statuses.iter().filter(|status| **status == 200).count();
    assert!(acknowledged > 0);
    assert_eq!(rig.shelf.records().len(), acknowledged * 1_000);
    assert_eq!(rig.capacity.in_flight(), (0, 0));
}

/// An HTTP/1.1 request written by hand.
async fn raw(rig: &Rig, request: &[u8]) -> String {
    let leaf = rig.agents_ca.agent("a");
    let config = tls_config(&rig.servers_ca, Some(&leaf), HTTP1);
    let mut stream = tls_stream(rig.address, config).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    let _ = tokio::time::timeout(Duration::from_secs(20), read)
        .await
        .unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

const HEAD: &str =
    "POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/protobuf\r\n";

#[tokio::test]
async fn a_declared_length_over_the_ceiling_is_refused_unread() {
    let rig = Rig::start().await;
    let request = format!("{HEAD}content-length: 99999999999\r\n\r\n");
    let answer = raw(&rig, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("connection: close"));
}

#[tokio::test]
async fn a_body_that_stalls_is_unreadable_and_given_back() {
    let body = BodyLimits {
        stall_max: Duration::from_millis(20),
        ..BodyLimits::default()
    };
    let config = AgentsConfig {
        body,
        ..AgentsConfig::default()
    };
    let rig = Rig::with(Setup {
        config,
        ..Setup::default()
    })
    .await;
    let request = format!("{HEAD}content-length: 1000\r\n\r\nonly this");
    let answer = raw(&rig, request.as_bytes()).await;
    assert!(
        answer.starts_with("HTTP/1.1 400 ") && answer.contains("unreadable_body"),
        "{answer}"
    );
    assert_eq!(rig.capacity.in_flight(), (0, 0));
}

#[tokio::test]
async fn an_undeclared_body_is_read_and_one_without_end_is_413() {
    let config = AgentsConfig {
        body: BodyLimits {
            bytes_max: 64 * 1024,
            ..BodyLimits::default()
        },
        ..AgentsConfig::default()
    };
    let rig = Rig::with(Setup {
        config,
        ..Setup::default()
    })
    .await;
    let body = batch(3);
    let mut request =
        format!("{HEAD}connection: close\r\ntransfer-encoding: chunked\r\n\r\n").into_bytes();
    for chunk in body.chunks(50) {
        request.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        request.extend_from_slice(chunk);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    let answer = raw(&rig, &request).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let mut request = format!("{HEAD}transfer-encoding: chunked\r\n\r\n").into_bytes();
    for _ in 0..10 {
        request.extend_from_slice(b"4000\r\n");
        request.extend_from_slice(&[0; 0x4000]);
        request.extend_from_slice(b"\r\n");
    }
    let answer = raw(&rig, &request).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn headers_have_a_time_and_a_size() {
    let limits = ServerLimits {
        header_time_max: Duration::from_millis(50),
        ..ServerLimits::default()
    };
    let rig = Rig::with(Setup {
        limits,
        ..Setup::default()
    })
    .await;
    let answer = raw(&rig, b"POST /v1/events HTTP/1.1\r\nhost: local").await;
    assert_eq!(answer, "", "closed without an answer");
    let rig = Rig::start().await;
    let request = format!("{HEAD}x-long: {}\r\n\r\n", "x".repeat(20_000));
    let answer = raw(&rig, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let limits = ServerLimits {
        idle_time_max: Duration::from_millis(50),
        header_time_max: Duration::from_millis(40),
        ..ServerLimits::default()
    };
    let rig = Rig::with(Setup {
        limits,
        ..Setup::default()
    })
    .await;
    for alpn in [HTTP1, HTTP2] {
        let client = rig.client(&rig.agents_ca.agent("a"), alpn).await;
        eventually("it is closed", || {
            rig.counted(r#"fulmar_connections{listener="agents"} 0"#)
        })
        .await;
        drop(client);
    }
}

#[tokio::test]
async fn connections_over_the_bound_are_closed_and_counted() {
    let limits = ServerLimits {
        connections_max: 1,
        ..ServerLimits::default()
    };
    let rig = Rig::with(Setup {
        limits,
        ..Setup::default()
    })
    .await;
    let mut first = rig.agent("a").await;
    assert_eq!(first.send(post(batch(1))).await.status, 200);
    let config = tls_config(&rig.servers_ca, Some(&rig.agents_ca.agent("b")), HTTP1);
    assert!(tls_stream(rig.address, config).await.is_err());
    assert!(rig.counted(r#"fulmar_connections_refused_total{listener="agents"} 1"#));
}
