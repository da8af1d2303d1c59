//! Death at counted calls while webhooks are delivered (D1, M5). Needs the feature `faults`.

#![allow(clippy::unwrap_used)]

mod server;

use std::collections::{BTreeMap, BTreeSet};

use server::caller::Caller;
use server::deaths::{at_each, counted, deadly, exchange};
use server::receiver::Hooks;
use server::{Folder, Server, died};

/// Events of one run, and whose first attempt fails: its retry waits on disk.
const PUBLISHED: usize = 8;

/// A folder with an event type and a webhook at the receiver.
fn folder_with_webhook(hooks: &Hooks) -> Folder {
    let folder = Folder::new();
    let server = folder.serve(&DELIVERING);
    let operator = Caller::operator(&folder, &server);
    operator.done("POST", "/v1/event-types", r#"{"name":"order.paid"}"#);
    let fields = serde_json::json!({
        "url": hooks.url(), "events": ["order.paid"],
        "http_config": { "retry_backoff_seconds": 1 },
    });
    operator.webhook("acme", &fields.to_string());
    assert_eq!(server.stop().code(), Some(0));
    folder
}

const DELIVERING: [&str; 6] = [
    "--set",
    "webhooks.allowed_networks=127.0.0.1/32",
    "--set",
    "writer.block_rows=4",
    "--set",
    "writer.block_age=50ms",
];

/// Refuses the third event once.
fn refusing_once() -> Hooks {
    let mut is_refused = false;
    Hooks::new(move |got| {
        let is_third = String::from_utf8_lossy(&got.body).contains(r#""payload":2"#);
        let refuses = is_third && !is_refused;
        is_refused |= refuses;
        if refuses { 503 } else { 200 }
    })
}

/// Publishes all events, one a request; how many were acknowledged before the server was gone.
fn publish_all(folder: &Folder, server: &Server) -> usize {
    let key = std::fs::read_to_string(folder.data().join("keys/ingest.key")).unwrap();
    let headers = format!(
        "authorization: Bearer {}\r\ncontent-type: application/json\r\n",
        key.trim()
    );
    let path = "/v1/consumers/acme/events?event=order.paid";
    let publish = |number: &usize| {
        let body = format!(r#"{{"payload":{number},"idempotency_key":"k-{number}"}}"#);
        let answered = exchange(&server.public, path, &headers, &body);
        answered.is_some_and(|(status, _)| matches!(status, 200 | 201))
    };
    (0..PUBLISHED).take_while(publish).count()
}

/// The deliveries of all events, once each of them is done.
fn wait_delivered(operator: &Caller) -> Vec<serde_json::Value> {
    loop {
        let answer = operator.get("/v1/deliveries?limit=100");
        let deliveries = answer["deliveries"].as_array().unwrap();
        let done = deliveries.iter().filter(|one| one["status"] == "success");
        if done.count() == PUBLISHED {
            return deliveries.clone();
        }
    }
}

/// Kills the server at one call while it delivers; a sound one is asked for the same again. Each
/// event has one delivery, which is received with one id and one body, and again only if its
/// outcome was not durable when the server died (D1).
fn die_while_delivering(call: u64, power_loss: bool) {
    let hooks = refusing_once();
    let folder = folder_with_webhook(&hooks);
    let at = call.to_string();
    let variables = deadly(&at, power_loss);
    if let Ok(first) = Server::try_start(folder.serve_command(&DELIVERING, &variables)) {
        if publish_all(&folder, &first) == PUBLISHED {
            // Some calls come with the retry and with checkpoints: whoever lives is given time.
            let first = wait_or_death(first, &hooks);
            let status = first.stop();
            assert!(
                died(status) || status.code() == Some(0),
                "call {call}: {status}"
            );
        }
    }
    let second = folder.serve(&DELIVERING);
    assert_eq!(publish_all(&folder, &second), PUBLISHED, "call {call}");
    let operator = Caller::operator(&folder, &second);
    let deliveries = wait_delivered(&operator);
    assert_eq!(deliveries.len(), PUBLISHED, "call {call}: {deliveries:?}");
    let mut taken: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for got in hooks.so_far() {
        let of_id = taken.entry(got.id().to_owned()).or_default();
        of_id.push(got.body);
    }
    let ids: BTreeSet<String> = deliveries
        .iter()
        .map(|one| format!("msg_{}", one["delivery_id"].as_str().unwrap()))
        .collect();
    assert_eq!(
        taken.keys().cloned().collect::<BTreeSet<_>>(),
        ids,
        "call {call}"
    );
    for (id, bodies) in &taken {
        assert!(
            bodies.iter().all(|body| body == &bodies[0]),
            "call {call}: {id}"
        );
        // Refused once, then taken, and taken again after one death.
        assert!(
            bodies.len() <= 3,
            "call {call}: {id} came {} times",
            bodies.len()
        );
    }
    assert_eq!(second.stop().code(), Some(0), "call {call}");
    let status = folder.json(&["status", "--json"]);
    assert_eq!(status["balanced"], true, "call {call}: {status}");
    let third = folder.serve(&DELIVERING);
    let status = folder.json(&["status", "--json"]);
    let ledger = &status["webhooks"]["ledger"];
    let all = serde_json::json!(PUBLISHED);
    assert_eq!(
        (
            &ledger["matched"],
            &ledger["delivered"],
            &ledger["undecided"]
        ),
        (&all, &all, &serde_json::json!(0)),
        "call {call}, power loss {power_loss}: {status}"
    );
    assert_eq!(third.stop().code(), Some(0), "call {call}");
    assert!(
        hooks.so_far().is_empty(),
        "call {call}: what was done is not sent again"
    );
}

/// Waits until all events were taken, or the server is dead.
fn wait_or_death(mut server: Server, hooks: &Hooks) -> Server {
    // One of them comes twice.
    while hooks.count() <= PUBLISHED && server.ended().is_none() {
        std::thread::yield_now();
    }
    server
}

#[test]
fn death_while_delivering_loses_no_delivery_and_repeats_only_what_was_in_flight() {
    let hooks = refusing_once();
    let folder = folder_with_webhook(&hooks);
    let count = folder.path("count").to_str().unwrap().to_owned();
    let running = folder.serve_with(&DELIVERING, &[("FULMAR_FAULT_COUNT_FILE", &count)]);
    assert_eq!(publish_all(&folder, &running), PUBLISHED);
    let running = wait_or_death(running, &hooks);
    assert_eq!(running.stop().code(), Some(0));
    at_each(counted(&count), die_while_delivering);
}
