//! A drain finishes what is in flight and answers nothing falsely.

use std::time::Duration;

use fulmar_event::decode_ack;
use fulmar_gateway::agents::AgentsConfig;
use fulmar_gateway::server::ServerLimits;

use crate::client::{Client, tls_config};
use crate::rig::{HTTP1, HTTP2, Rig, Setup, batch, eventually, post};
use crate::shelf::Shelf;

#[tokio::test]
async fn requests_in_flight_finish_and_new_connections_find_nobody() {
    for alpn in [HTTP1, HTTP2] {
        let rig = Rig::with(Setup {
            shelf: Shelf::held(),
            ..Setup::default()
        })
        .await;
        let leaf = rig.agents_ca.agent("a");
        let mut client = rig.client(&leaf, alpn).await;
        let idle = rig.client(&leaf, alpn).await;
        let in_flight = tokio::spawn(async move { client.send(post(batch(5))).await });
        rig.shelf.asked(1).await;
        rig.drain.start();
        let config = tls_config(&rig.servers_ca, Some(&leaf), alpn);
        let mut refused = false;
        // The listener closes when its loop sees the drain.
        for _ in 0..1_000 {
            refused = Client::over_tls(rig.address, config.clone()).await.is_err();
            if refused {
                break;
            }
        }
        assert!(refused, "still accepting");
        assert!(!rig.server.is_finished(), "a request is in flight");
        rig.shelf.let_go();
        let answer = in_flight.await.unwrap();
        assert_eq!(decode_ack(&answer.body).unwrap().received, 5);
        let report = rig.server.await.unwrap();
        assert_eq!(report.connections_cut, 0);
        assert_eq!(rig.shelf.records().len(), 5);
        drop(idle);
    }
}

#[tokio::test]
async fn a_drain_ends_at_its_bound_and_says_what_it_cut() {
    let limits = ServerLimits {
        drain_time_max: Duration::from_millis(20),
        ..ServerLimits::default()
    };
    let rig = Rig::with(Setup {
        shelf: Shelf::held(),
        limits,
        ..Setup::default()
    })
    .await;
    let mut client = rig.agent("a").await;
    let in_flight = tokio::spawn(async move { client.try_send(post(batch(5))).await });
    rig.shelf.asked(1).await;
    rig.drain.start();
    let report = rig.server.await.unwrap();
    assert_eq!(report.connections_cut, 1);
    assert!(
        in_flight.await.unwrap().is_err(),
        "no answer, so no false one"
    );
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_503_and_its_reservation_stays() {
    let config = AgentsConfig {
        publish_time_max: Duration::from_millis(20),
        ..AgentsConfig::default()
    };
    let rig = Rig::with(Setup {
        shelf: Shelf::held(),
        config,
        ..Setup::default()
    })
    .await;
    let mut client = rig.agent("a").await;
    let answer = client.send(post(batch(5))).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("retry-after")),
        (503, "5")
    );
    let (bytes, requests) = rig.capacity.in_flight();
    assert!(
        bytes > 0 && requests == 1,
        "the log still holds the records"
    );
    rig.shelf.let_go();
    let capacity = rig.capacity.clone();
    eventually("the reservation is given back", || {
        capacity.in_flight() == (0, 0)
    })
    .await;
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_its_reservation_until_the_log_is_done() {
    let rig = Rig::with(Setup {
        shelf: Shelf::held(),
        ..Setup::default()
    })
    .await;
    let mut client = rig.agent("a").await;
    let in_flight = tokio::spawn(async move { client.try_send(post(batch(5))).await });
    rig.shelf.asked(1).await;
    in_flight.abort();
    let _ = in_flight.await;
    eventually("the connection is gone", || {
        rig.counted(r#"fulmar_connections{listener="agents"} 0"#)
    })
    .await;
    assert_eq!(rig.capacity.in_flight().1, 1);
    rig.shelf.let_go();
    let capacity = rig.capacity.clone();
    eventually("the reservation is given back", || {
        capacity.in_flight() == (0, 0)
    })
    .await;
}
