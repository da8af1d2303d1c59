//! Health from the outcomes of deliveries: what is told, to whom, and that a replay gives the same.
//! Days pass by the records' own times.

#![allow(clippy::unwrap_used)]

mod bed;

use std::collections::BTreeSet;
use std::sync::Arc;

use bed::{Bed, open, outcome_records};
use fulmar_event::{AttemptRecord, Body, DeliveryStatus, EventView};
use fulmar_flow::{Block, BlockName, Fold, State, StateBatch};
use fulmar_log::{Chunk, Records, Topic};
use fulmar_registry::{Change, WebhookState};
use fulmar_webhooks::health::{Health, HealthFold, HealthLimits, StatesFold, Teller, report};
use serde_json::{Value, json};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
/// The start of a minute.
const THEN: i64 = 1_700_000_040_000;
const LIMITS: HealthLimits = HealthLimits {
    failing_ms: 120 * HOUR,
    failures: 10,
};

/// An attempt that ended at a time: a success without a category.
fn attempt(at_ms: i64, category: &'static str) -> AttemptRecord<'static> {
    let status = match category {
        "" => DeliveryStatus::Delivered,
        _ => DeliveryStatus::Retrying,
    };
    AttemptRecord {
        delivery_id: "00112233445566778899aabbccddeeff",
        project: "default",
        consumer: "acme",
        webhook_id: "wh-1",
        event_id: "evt-1",
        event_name: "order.paid",
        status: status as i32,
        attempt: 1,
        attempted: true,
        started_ms: at_ms - 2,
        duration_us: 2_000,
        error_category: category,
        ..AttemptRecord::default()
    }
}

fn failed(at_ms: i64) -> AttemptRecord<'static> {
    AttemptRecord {
        status: DeliveryStatus::Failed as i32,
        error_message: "the receiver answered 500",
        response_code: 500,
        ..attempt(at_ms, "server_error")
    }
}

fn teller(bed: &Bed) -> Teller {
    Teller {
        events: bed.log.journal(Topic::Events),
        partitions: bed.log.partitions(),
        registry: Arc::clone(&bed.registry),
    }
}

/// Folds records as one block that begins at an offset.
fn fold(fold: &mut dyn Fold, state: &State, first: u64, records: &[AttemptRecord<'_>]) {
    let name = BlockName {
        stream: "deliveries".to_owned(),
        first,
        last: first + records.len() as u64 - 1,
    };
    let chunk = Chunk::of_frame(
        outcome_records(records),
        first,
        records.last().unwrap().started_ms,
    );
    let block = Block::new(name, vec![chunk]);
    let mut batch = StateBatch::new();
    let counts = fold.fold(&block, &mut batch).unwrap();
    assert_eq!(counts.total(), block.len());
    state.commit(batch).unwrap();
    fold.committed(block.name());
}

/// Names, projects and payloads of what was told, in order.
fn told(bed: &Bed) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let mut reader = bed.log.journal(Topic::Events).reader(0);
    while let Some(chunk) = reader.next(1 << 20).unwrap() {
        for record in &chunk {
            let event = EventView::parse(record.bytes).unwrap();
            event.check_contract().unwrap();
            let Body::Message(message) = event.body else {
                panic!("{:?}", event.body);
            };
            assert_eq!(message.consumer, "_sparrow");
            assert_eq!(event.stamp.project, "default");
            assert_eq!(event.stamp.control_offset, bed.registry.current().revision);
            let name = message.kind.to_owned();
            found.push((name, serde_json::from_slice(message.data).unwrap()));
        }
    }
    found
}

fn health_turns(bed: &Bed) -> Vec<(Value, Value)> {
    let turns = told(bed).into_iter();
    let turns = turns.filter(|(name, _)| name == "sparrow.webhook.health_changed");
    turns
        .map(|(_, told)| (told["previous_health"].clone(), told["health"].clone()))
        .collect()
}

#[test]
fn a_receiver_that_fails_and_recovers_is_told_of_once_each() {
    let dir = tempfile::tempdir().unwrap();
    let bed = open(dir.path());
    let mut health = HealthFold::new(Arc::clone(&bed.state), LIMITS, Some(teller(&bed)));
    let well = [attempt(THEN, ""); 20];
    fold(&mut health, &bed.state, 0, &well);
    assert_eq!(
        health_turns(&bed),
        [],
        "that it does well at first is no news"
    );
    let down = [attempt(THEN + MINUTE, "timeout"); 6];
    fold(&mut health, &bed.state, 20, &down);
    fold(
        &mut health,
        &bed.state,
        26,
        &[attempt(THEN + 2 * MINUTE, "")],
    );
    let turns = [
        (json!("healthy"), json!("degraded")),
        (json!("degraded"), json!("unhealthy")),
        // 21 of 27 is fewer than 8 of 10, and so it stays; then not.
    ];
    assert_eq!(health_turns(&bed), turns);
    let again = [attempt(THEN + 3 * MINUTE, ""); 3];
    fold(&mut health, &bed.state, 27, &again);
    assert_eq!(
        health_turns(&bed).last(),
        Some(&(json!("unhealthy"), json!("degraded")))
    );
    let (_, first) = &told(&bed)[0];
    assert_eq!(first["webhook_id"], "wh-1");
    assert_eq!(first["consumer"], "acme");
    assert_eq!(
        first["consecutive_failures"], 3,
        "20 of 23 is below 9 of 10"
    );
    assert_eq!(first["failing_since"], "2023-11-14T22:15:00.000Z");

    let now = report(&bed.state, "wh-1", THEN + 3 * MINUTE).unwrap();
    assert_eq!(now.health, Health::Degraded);
    assert_eq!((now.attempts.successes, now.attempts.failed()), (24, 6));
    assert_eq!(now.attempts.failures, [0, 0, 6, 0, 0]);
    assert_eq!(now.attempts.duration_us, 30 * 2_000);
}

#[test]
fn attempts_leave_the_window_after_a_day() {
    let dir = tempfile::tempdir().unwrap();
    let bed = open(dir.path());
    let mut health = HealthFold::new(Arc::clone(&bed.state), LIMITS, None);
    fold(
        &mut health,
        &bed.state,
        0,
        &[attempt(THEN, "server_error"); 4],
    );
    fold(&mut health, &bed.state, 4, &[attempt(THEN + MINUTE, ""); 4]);
    let at = |hours: i64| report(&bed.state, "wh-1", THEN + hours * HOUR).unwrap();
    assert_eq!(
        (at(1).attempts.total(), at(1).health),
        (8, Health::Degraded)
    );
    assert_eq!(
        (at(24).attempts.total(), at(24).health),
        (4, Health::Healthy)
    );
    assert_eq!(
        (at(25).attempts.total(), at(25).health),
        (0, Health::Unknown)
    );
    // The sums of the fold, which decide what is told, lose them with the next outcome.
    let later = attempt(THEN + 24 * HOUR, "");
    fold(&mut health, &bed.state, 8, &[later]);
    let standing = at(24).standing;
    assert_eq!((standing.successes, standing.failures), (5, 0));
    let much_later = attempt(THEN + 72 * HOUR, "client_error");
    fold(&mut health, &bed.state, 9, &[later, much_later]);
    let standing = at(72).standing;
    assert_eq!((standing.successes, standing.failures), (0, 1));
    assert_eq!(bed.state.keys("health-minutes", b"").unwrap().len(), 1);
}

#[test]
fn a_replay_in_other_blocks_gives_the_same_health() {
    let dir = tempfile::tempdir().unwrap();
    let bed = open(dir.path());
    let other = State::open(&dir.path().join("other")).unwrap();
    let other = Arc::new(other);
    let words = ["", "", "timeout", "rate_limited", "", "client_error", ""];
    let records: Vec<AttemptRecord<'_>> = (0..4_000)
        .map(|number: i64| AttemptRecord {
            webhook_id: if number % 3 == 0 { "wh-1" } else { "wh-2" },
            ..attempt(THEN + number * MINUTE, words[(number % 7) as usize])
        })
        .collect();
    for (state, size) in [(&bed.state, 4_000), (&other, 37)] {
        let mut health = HealthFold::new(Arc::clone(state), LIMITS, None);
        for (number, part) in records.chunks(size).enumerate() {
            fold(&mut health, state, (number * size) as u64, part);
        }
    }
    for keyspace in ["health", "health-minutes"] {
        let found = bed.state.prefix(keyspace, b"").unwrap();
        assert_eq!(found, other.prefix(keyspace, b"").unwrap());
        assert!(!found.is_empty());
    }
}

#[test]
fn an_end_that_failed_is_told_where_somebody_listens_and_never_of_what_is_told_itself() {
    let dir = tempfile::tempdir().unwrap();
    let bed = open(dir.path());
    let mut health = HealthFold::new(Arc::clone(&bed.state), LIMITS, Some(teller(&bed)));
    fold(&mut health, &bed.state, 0, &[failed(THEN)]);
    assert_eq!(told(&bed), []);
    bed.webhook("wh-s", "http://127.0.0.1:1/", |one| {
        one.consumer = "_sparrow".to_owned();
    });
    let of_system = AttemptRecord {
        webhook_id: "wh-s",
        consumer: "_sparrow",
        event_name: "sparrow.webhook.delivery_failed",
        ..failed(THEN)
    };
    // Seven failures of the listener itself would make it unhealthy, and each be an end.
    fold(&mut health, &bed.state, 1, &[of_system; 7]);
    assert_eq!(told(&bed), []);
    let unhealthy = report(&bed.state, "wh-s", THEN).unwrap();
    assert_eq!(unhealthy.health, Health::Unhealthy);

    fold(&mut health, &bed.state, 8, &[failed(THEN)]);
    let found = told(&bed);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, "sparrow.webhook.delivery_failed");
    let expected = json!({
        "webhook_id": "wh-1",
        "consumer": "acme",
        "delivery_id": "00112233445566778899aabbccddeeff",
        "event_id": "evt-1",
        "event_name": "order.paid",
        "attempt_count": 1,
        "response_code": 500,
        "error_category": "server_error",
        "error_message": "the receiver answered 500",
    });
    assert_eq!(found[0].1, expected);
}

/// The state of `wh-1`.
fn state_of(bed: &Bed) -> WebhookState {
    bed.registry.current().webhooks["wh-1"].state.clone()
}

#[test]
fn a_receiver_that_has_failed_for_five_days_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let bed = open(dir.path());
    bed.webhook("wh-1", "http://127.0.0.1:1/", |_| {});
    let mut health = HealthFold::new(Arc::clone(&bed.state), LIMITS, Some(teller(&bed)));
    let mut next = 0;
    let mut attempt_at = |hours: i64, category| {
        let one = attempt(THEN + hours * HOUR, category);
        fold(&mut health, &bed.state, next, &[one]);
        next += 1;
        state_of(&bed)
    };
    // Nine in a row over 200 hours are too few.
    for number in 0..9 {
        assert_eq!(attempt_at(number * 25, "timeout"), WebhookState::Active);
    }
    assert_eq!(attempt_at(201, ""), WebhookState::Active);
    // Ten and more within less than 120 hours are too soon.
    for number in 0..20 {
        let found = attempt_at(300 + number * 6, "server_error");
        assert_eq!(found, WebhookState::Active, "{number}");
    }
    // A request for time neither ends the row nor makes it longer.
    assert_eq!(attempt_at(419, "rate_limited"), WebhookState::Active);
    let reason = "every attempt has failed for 120 hours, 21 in a row".to_owned();
    let disabled = WebhookState::Disabled { reason };
    assert_eq!(attempt_at(420, "server_error"), disabled);

    // Who resumes it gives it the whole time again.
    let mut webhook = (*bed.registry.current().webhooks["wh-1"]).clone();
    (webhook.state, webhook.resumed_ms) = (WebhookState::Active, THEN + 500 * HOUR);
    bed.change(Change::WebhookSet {
        id: "wh-1".to_owned(),
        webhook: Box::new(webhook),
    });
    assert_eq!(attempt_at(619, "server_error"), WebhookState::Active);
    let reason = "every attempt has failed for 320 hours, 23 in a row".to_owned();
    assert_eq!(
        attempt_at(620, "server_error"),
        WebhookState::Disabled { reason }
    );
}

#[test]
fn what_is_kept_of_a_webhook_goes_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let bed = open(dir.path());
    bed.webhook("wh-1", "http://127.0.0.1:1/", |_| {});
    let mut health = HealthFold::new(Arc::clone(&bed.state), LIMITS, Some(teller(&bed)));
    fold(&mut health, &bed.state, 0, &[attempt(THEN, "")]);
    bed.change(Change::WebhookDeleted {
        id: "wh-1".to_owned(),
    });
    let of_other = AttemptRecord {
        webhook_id: "wh-2",
        ..attempt(THEN + 2 * HOUR, "")
    };
    fold(&mut health, &bed.state, 1, &[of_other]);
    let left = bed.state.keys("health", b"").unwrap();
    assert_eq!(left, [b"wh-2"]);
    assert_eq!(bed.state.keys("health-minutes", b"").unwrap().len(), 1);
}

#[test]
fn giving_up_and_taking_up_again_are_told_of_once() {
    let dir = tempfile::tempdir().unwrap();
    let bed = open(dir.path());
    let mut states = StatesFold::new(Arc::clone(&bed.state), teller(&bed));
    let set = |id: &str, state: WebhookState| {
        bed.webhook(id, "http://127.0.0.1:1/", |one| {
            one.state = state;
            one.consumer = match id {
                "wh-s" => "_sparrow".to_owned(),
                _ => "acme".to_owned(),
            };
        });
    };
    let disabled = || WebhookState::Disabled {
        reason: "410".to_owned(),
    };
    set("wh-1", WebhookState::Active);
    set("wh-1", WebhookState::Paused);
    set("wh-1", disabled());
    set("wh-1", disabled());
    set("wh-s", disabled());
    set("wh-2", disabled());
    set("wh-1", WebhookState::Active);
    let control = bed.log.journal(Topic::Control);
    // In two blocks, the first of them done twice, as after a death.
    let end = control.end();
    let parts = [
        (0, end - 2, false),
        (0, end - 2, true),
        (end - 1, end - 1, true),
    ];
    for (first, last, is_committed) in parts {
        let mut reader = control.reader(first);
        let mut records = Records::new();
        while let Some(chunk) = reader.next(1 << 20).unwrap() {
            for record in chunk.iter().filter(|record| record.offset <= last) {
                records.push(0, record.bytes);
            }
        }
        let name = BlockName {
            stream: "control".to_owned(),
            first,
            last,
        };
        let block = Block::new(name, vec![Chunk::of_frame(records, first, THEN)]);
        let mut batch = StateBatch::new();
        states.fold(&block, &mut batch).unwrap();
        if is_committed {
            bed.state.commit(batch).unwrap();
        }
    }
    let row = |what: &str, id: &str, reason: Value| {
        (format!("sparrow.webhook.{what}"), json!(id), reason)
    };
    let first = [
        row("disabled", "wh-1", json!("410")),
        row("disabled", "wh-2", json!("410")),
    ];
    let found = told(&bed).into_iter();
    let found: Vec<_> = found
        .map(|(name, told)| (name, told["webhook_id"].clone(), told["reason"].clone()))
        .collect();
    assert_eq!(found[..2], first);
    assert_eq!(found[2..4], first, "the second try tells it again");
    assert_eq!(found[4..], [row("enabled", "wh-1", Value::Null)]);
    assert_eq!(ids(&bed).len(), 3, "under the same ids: each is one event");
}

/// The ids of what was told.
fn ids(bed: &Bed) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut reader = bed.log.journal(Topic::Events).reader(0);
    while let Some(chunk) = reader.next(1 << 20).unwrap() {
        for record in &chunk {
            found.insert(EventView::parse(record.bytes).unwrap().event_id.to_owned());
        }
    }
    found
}
