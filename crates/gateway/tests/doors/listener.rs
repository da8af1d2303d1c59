//! The loop under every listener, with a handler of the test's own.

use std::sync::Arc;

use bytes::Bytes;
use fulmar_gateway::http::{Answer, AnswerBody, Handler, Peer, plain};
use fulmar_gateway::metrics::Metrics;
use fulmar_gateway::server::{DrainReport, DrainTrigger, Server, ServerLimits, drain};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::client::Client;

struct Moody;

impl Handler for Moody {
    async fn handle(&self, request: Request<Incoming>, _peer: &Arc<Peer>) -> Answer {
        match request.uri().path() {
            "/panic" => panic!("as the test wants"),
            "/stream" => {
                let (pieces, body) = mpsc::channel(1);
                tokio::spawn(async move {
                    for piece in ["one ", "two ", "three"] {
                        let _ = pieces.send(Ok(Bytes::from(piece))).await;
                    }
                });
                Response::new(AnswerBody::Streamed(body))
            }
            _ => plain(StatusCode::OK, "fine\n"),
        }
    }

    fn route(&self, path: &str) -> &'static str {
        if path == "/panic" { "/panic" } else { "other" }
    }
}

async fn serve(metrics: &Arc<Metrics>) -> (Client, DrainTrigger, JoinHandle<DrainReport>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (trigger, listening) = drain();
    let limits = ServerLimits::default();
    let server = Server::new("ops", Arc::new(Moody), None, limits, Arc::clone(metrics));
    let server = tokio::spawn(server.run(listener, listening));
    (Client::plain(address).await, trigger, server)
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(path)
        .header("host", "localhost")
        .body(Full::default())
        .unwrap()
}

#[tokio::test]
async fn a_panic_is_500_counted_and_costs_nobody_else() {
    let metrics = Arc::new(Metrics::new());
    let (mut client, trigger, server) = serve(&metrics).await;
    let answer = client.send(get("/panic")).await;
    assert_eq!(answer.status, 500);
    assert!(!String::from_utf8_lossy(&answer.body).contains("as the test wants"));
    assert_eq!(
        client.send(get("/")).await.status,
        200,
        "on the same connection"
    );
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(text.contains("fulmar_http_handler_panics_total{route=\"/panic\"} 1\n"));
    assert!(text.contains(
        "fulmar_http_requests_total{listener=\"ops\",route=\"/panic\",method=\"GET\",\
         status_class=\"5xx\"} 1\n"
    ));
    trigger.start();
    assert_eq!(server.await.unwrap().connections_cut, 0);
}

#[tokio::test]
async fn a_streamed_answer_comes_whole() {
    let (mut client, _trigger, _server) = serve(&Arc::new(Metrics::new())).await;
    assert_eq!(client.send(get("/stream")).await.body, "one two three");
}
