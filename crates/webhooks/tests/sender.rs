//! The sender on a real log with real receivers: every match ends in a visible state (I5), a retry
//! is the same bytes under the same id, a restart repeats nothing whose outcome is durable (D1).

#![allow(clippy::unwrap_used)]

mod bed;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bed::*;
use fulmar_event::{AttemptRecord, DeliveryStatus};
use fulmar_flow::StateBatch;
use fulmar_log::Topic;
use fulmar_registry::{Change, RetryPolicy, WebhookState};
use fulmar_webhooks::sender::{DeliveryId, Ended, SenderConfig};
use fulmar_webhooks::sign::Signer;

fn numbered(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("evt-{number}"))
}

/// One retry after another, at once.
fn at_once(retries_max: u32) -> RetryPolicy {
    RetryPolicy {
        retries_max,
        backoff_s: 1,
        schedule_s: vec![0],
        deadline_s: None,
    }
}

/// Statuses and attempts in the topic, in order.
fn outcomes(bed: &Bed) -> Vec<(String, DeliveryStatus, u32)> {
    let mut found = Vec::new();
    let mut reader = bed.log.journal(Topic::Deliveries).reader(0);
    while let Some(chunk) = reader.next(1 << 20).unwrap() {
        for record in &chunk {
            let record = AttemptRecord::parse(record.bytes).unwrap();
            let status = DeliveryStatus::from_number(record.status).unwrap();
            found.push((record.event_id.to_owned(), status, record.attempt));
        }
    }
    found
}

#[test]
fn each_event_arrives_once_signed_in_its_envelope() {
    let (dir, receiver) = (tempfile::tempdir().unwrap(), Receiving::taking());
    let bed = open(dir.path());
    bed.webhook("wh-1", &receiver.url(), |_| {});
    let sender = bed.start();
    bed.publish(numbered(100));
    let got: Vec<Got> = (0..100).map(|_| receiver.next()).collect();
    let signer = Signer::of(SECRET).unwrap();
    for one in &got {
        let at_s: i64 = one.header("webhook-timestamp").parse().unwrap();
        let signature = one.header("webhook-signature");
        assert!(signer.verifies(one.id(), at_s, &one.body, signature, at_s));
        let body: serde_json::Value = serde_json::from_slice(&one.body).unwrap();
        assert_eq!(body["event_id"], one.header("x-sparrow-event-id"));
        assert_eq!(body["payload"]["id"], body["event_id"]);
        assert_eq!(
            one.id(),
            format!("msg_{}", one.header("x-sparrow-delivery-id"))
        );
        // The payload is the producer's own bytes.
        assert!(String::from_utf8_lossy(&one.body).ends_with("\"n\":1.10}}"));
    }
    assert_eq!(got.iter().map(Got::id).collect::<BTreeSet<_>>().len(), 100);
    let stats = settle(&sender, |stats| stats.counts.delivered == 100);
    assert_eq!((stats.counts.matched, stats.counts.undecided()), (100, 0));
    assert_eq!((stats.parked, stats.in_memory), (0, 0));
    assert_eq!(stats.position, 100);
    assert_eq!(outcomes(&bed).len(), 100);
}

#[test]
fn a_retry_is_the_same_bytes_under_the_same_id_with_its_number_in_a_header() {
    let dir = tempfile::tempdir().unwrap();
    let mut answers = vec![500, 429, 200].into_iter();
    let receiver = Receiving::new(move |_| match answers.next() {
        Some(429) => "HTTP/1.1 429 X\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n".to_owned(),
        Some(other) => status(other),
        None => status(404),
    });
    let bed = open(dir.path());
    bed.webhook("wh-1", &receiver.url(), |webhook| {
        webhook.retry = at_once(1)
    });
    let sender = bed.start();
    bed.publish(numbered(1));
    let got = [receiver.next(), receiver.next(), receiver.next()];
    for (place, one) in got.iter().enumerate() {
        assert_eq!((one.id(), &one.body), (got[0].id(), &got[0].body));
        assert_eq!(one.header("x-sparrow-attempt"), (place + 1).to_string());
    }
    settle(&sender, |stats| stats.counts.delivered == 1);
    let id = || "evt-0".to_owned();
    let expected = [
        (id(), DeliveryStatus::Retrying, 1),
        (id(), DeliveryStatus::Retrying, 2),
        (id(), DeliveryStatus::Delivered, 3),
    ];
    assert_eq!(outcomes(&bed), expected);
}

#[test]
fn a_receiver_that_hangs_delays_nobody_else_and_nothing_of_it_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (hanging, taking) = (Receiving::hanging(), Receiving::taking());
    let bed = open(dir.path());
    bed.webhook("wh-slow", &hanging.url(), |webhook| {
        webhook.in_flight_max = Some(2)
    });
    bed.webhook("wh-well", &taking.url(), |_| {});
    let sender = bed.start();
    for part in 0..10 {
        bed.publish((0..1_000).map(|number| format!("evt-{part}-{number}")));
    }
    for _ in 0..10_000 {
        taking.next();
    }
    let stats = settle(&sender, |stats| stats.counts.delivered == 10_000);
    assert_eq!((stats.counts.matched, stats.position), (20_000, 10_000));
    assert_eq!(stats.counts.undecided(), 10_000);
    assert_eq!(stats.parked, 10_000, "all of them are on disk");
    assert!(
        stats.in_memory < 5_000,
        "few of them are in memory as well: {stats:?}"
    );
    drop(sender);
    // Once the receiver is well, each of them is sent, by what the disk holds.
    let well = Receiving::taking();
    bed.webhook("wh-slow", &well.url(), |_| {});
    let sender = bed.start();
    let got: BTreeSet<_> = (0..10_000).map(|_| well.next().id().to_owned()).collect();
    assert_eq!(got.len(), 10_000);
    let stats = settle(&sender, |stats| stats.counts.delivered == 20_000);
    assert_eq!((stats.parked, stats.in_memory), (0, 0));
}

#[test]
fn an_event_from_before_a_webhook_is_not_its_and_one_that_comes_twice_is_sent_once() {
    let (dir, receiver) = (tempfile::tempdir().unwrap(), Receiving::taking());
    let bed = open(dir.path());
    let sender = bed.start();
    bed.publish(["before".to_owned()]);
    bed.webhook("wh-1", &receiver.url(), |_| {});
    bed.publish(["twice".to_owned(), "twice".to_owned()]);
    settle(&sender, |stats| stats.counts.delivered == 1);
    bed.publish(["twice".to_owned(), "last".to_owned()]);
    let stats = settle(&sender, |stats| stats.counts.delivered == 2);
    assert_eq!((stats.counts.matched, stats.counts.repeats), (2, 2));
    drop(sender);
    let sender = bed.start();
    bed.publish(["twice".to_owned(), "end".to_owned()]);
    let stats = settle(&sender, |stats| stats.counts.delivered == 3);
    assert_eq!((stats.counts.matched, stats.counts.repeats), (3, 3));
    let ids = [receiver.next(), receiver.next(), receiver.next()];
    let ids = ids.map(|one| one.header("x-sparrow-event-id").to_owned());
    assert_eq!(ids, ["twice", "last", "end"]);
}

#[test]
fn a_410_disables_the_webhook_and_its_deliveries_are_held() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiving::new(|_| status(410));
    let bed = open(dir.path());
    bed.webhook("wh-1", &receiver.url(), |webhook| {
        webhook.in_flight_max = Some(1)
    });
    let sender = bed.start();
    bed.publish(numbered(3));
    let state = || bed.registry.current().webhooks["wh-1"].state.clone();
    // The registry is told by a thread of its own, and may be later than the checkpoint.
    let stats = settle(&sender, |stats| {
        stats.parked == 2 && state() != WebhookState::Active
    });
    assert_eq!((stats.counts.failed, stats.counts.undecided()), (1, 2));
    let state = state();
    assert!(matches!(state, WebhookState::Disabled { .. }), "{state:?}");
    // An operator who repairs it gets what was held.
    let well = Receiving::taking();
    bed.webhook("wh-1", &well.url(), |_| {});
    let stats = settle(&sender, |stats| stats.counts.delivered == 2);
    assert_eq!((stats.parked, stats.counts.undecided()), (0, 0));
}

#[test]
fn a_paused_webhook_holds_a_deleted_one_cancels_and_what_is_late_expires() {
    let (dir, receiver) = (tempfile::tempdir().unwrap(), Receiving::taking());
    let bed = open(dir.path());
    let paused = |webhook: &mut fulmar_registry::Webhook| webhook.state = WebhookState::Paused;
    bed.webhook("wh-1", &receiver.url(), paused);
    bed.webhook("wh-2", &receiver.url(), paused);
    let sender = bed.start();
    bed.publish(numbered(2));
    bed.publish_until(1_700_000_000_000, ["late".to_owned()]);
    let stats = settle(&sender, |stats| stats.parked == 6);
    assert_eq!((stats.counts.matched, stats.in_memory), (6, 0));
    bed.change(Change::WebhookDeleted {
        id: "wh-2".to_owned(),
    });
    settle(&sender, |stats| stats.counts.cancelled == 3);
    bed.webhook("wh-1", &receiver.url(), |_| {});
    let stats = settle(&sender, |stats| stats.counts.undecided() == 0);
    assert_eq!((stats.counts.delivered, stats.counts.expired), (2, 1));
    assert_eq!(stats.parked, 0);
    let ends: BTreeSet<_> = outcomes(&bed).into_iter().collect();
    assert!(ends.contains(&("late".to_owned(), DeliveryStatus::Expired, 0)));
    assert!(ends.contains(&("evt-0".to_owned(), DeliveryStatus::Cancelled, 0)));
}

#[test]
fn a_secret_that_cannot_be_opened_sends_nothing() {
    let (dir, receiver) = (tempfile::tempdir().unwrap(), Receiving::taking());
    let bed = open(dir.path());
    bed.webhook("wh-1", &receiver.url(), |webhook| {
        webhook.secrets[0].sealed = "AAAA".to_owned();
        webhook.retry = at_once(0);
    });
    let sender = bed.start();
    bed.publish(numbered(1));
    let stats = settle(&sender, |stats| stats.counts.failed == 1);
    assert_eq!(stats.attempts["unsendable"], 1);
    assert!(receiver.got.try_recv().is_err());
}

#[test]
fn a_rate_is_kept_to_and_others_do_not_wait_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let (slow, fast) = (Receiving::taking(), Receiving::taking());
    let bed = open(dir.path());
    bed.webhook("wh-slow", &slow.url(), |webhook| {
        webhook.rate_limit_rps = Some(1)
    });
    bed.webhook("wh-fast", &fast.url(), |_| {});
    let sender = bed.start();
    bed.publish(numbered(100));
    for _ in 0..100 {
        fast.next();
    }
    let stats = settle(&sender, |stats| stats.counts.delivered >= 100);
    assert!(stats.counts.undecided() > 50, "{stats:?}");
}

#[test]
fn a_receiver_that_fails_is_left_alone_and_asked_with_one_delivery() {
    let dir = tempfile::tempdir().unwrap();
    let (answer, receiver) = Receiving::turning(500);
    let bed = open(dir.path());
    bed.webhook("wh-1", &receiver.url(), |one| {
        one.retry = at_once(50);
        one.in_flight_max = Some(4);
    });
    let sender = bed.start_with(SenderConfig {
        breaker_pause: Duration::from_millis(200),
        stop_time_max: Duration::from_millis(200),
        ..SenderConfig::default()
    });
    bed.publish(numbered(40));
    let stats = settle(&sender, |stats| !stats.left_alone.is_empty());
    assert!(stats.left_alone.contains_key("wh-1"));
    // Ten attempts open it; what was under way then still ends.
    let attempts = stats.attempts["server_error"];
    assert!(
        (10..=18).contains(&attempts),
        "{attempts} in place of 2,000"
    );
    // While it is down each pause ends with one attempt.
    let tried = settle(&sender, |stats| stats.attempts["server_error"] > attempts);
    let more = tried.attempts["server_error"] - attempts;
    assert!(more <= 6, "{more} in place of 30 and more");
    answer.store(200, Ordering::SeqCst);
    let stats = settle(&sender, |stats| stats.counts.delivered == 40);
    assert_eq!((stats.counts.failed, stats.counts.undecided()), (0, 0));
    assert_eq!(stats.left_alone.len(), 0);
}

/// The deliveries that have ended, as the newest record of each tells of them.
fn ended(bed: &Bed) -> Vec<Ended> {
    let mut found = std::collections::BTreeMap::new();
    let mut reader = bed.log.journal(Topic::Deliveries).reader(0);
    while let Some(chunk) = reader.next(1 << 20).unwrap() {
        for record in &chunk {
            let read = AttemptRecord::parse(record.bytes).unwrap();
            let one = Ended {
                id: DeliveryId::parse(read.delivery_id).unwrap(),
                webhook: read.webhook_id.to_owned(),
                project: read.project.to_owned(),
                subscription: read.subscription_id.to_owned(),
                event_id: read.event_id.to_owned(),
                event_name: read.event_name.to_owned(),
                event_offset: read.event_offset,
                created_ms: read.created_ms,
                attempts: read.attempt,
            };
            found.insert(one.event_id.clone(), one);
        }
    }
    found.into_values().collect()
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

#[test]
fn what_has_ended_is_sent_again_when_asked_for_with_the_same_id_and_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (answer, receiver) = Receiving::turning(404);
    let bed = open(dir.path());
    bed.webhook("wh-1", &receiver.url(), |one| one.retry = at_once(2));
    let sender = bed.start();
    bed.publish(numbered(3));
    let first: Vec<Got> = (0..3).map(|_| receiver.next()).collect();
    settle(&sender, |stats| stats.counts.failed == 3);
    let all = ended(&bed);
    assert_eq!(all.len(), 3);
    // It fails once more, then is taken; asking twice at once sends it once.
    assert!(wait(sender.send_again(all.clone())));
    assert!(wait(sender.send_again(all.clone())));
    let again: Vec<Got> = (0..3).map(|_| receiver.next()).collect();
    let stats = settle(&sender, |stats| stats.counts.failed == 6);
    assert_eq!((stats.counts.reopened, stats.counts.undecided()), (3, 0));
    answer.store(200, Ordering::SeqCst);
    assert!(wait(sender.send_again(ended(&bed))));
    let taken: Vec<Got> = (0..3).map(|_| receiver.next()).collect();
    let stats = settle(&sender, |stats| stats.counts.delivered == 3);
    assert_eq!((stats.counts.matched, stats.counts.reopened), (3, 6));
    assert_eq!((stats.counts.failed, stats.counts.undecided()), (6, 0));
    for (round, attempt) in [(&first, "1"), (&again, "2"), (&taken, "3")] {
        for got in round {
            let same = first.iter().find(|one| one.id() == got.id()).unwrap();
            assert_eq!(got.body, same.body);
            assert_eq!(got.header("x-sparrow-attempt"), attempt);
            let told = if attempt == "1" { "" } else { "true" };
            assert_eq!(got.header("fulmar-replay"), told);
        }
    }
    assert!(receiver.got.try_recv().is_err(), "nothing came twice");
}

/// Appends what a sender that died right after had written.
fn append(bed: &Bed, records: &[AttemptRecord<'_>]) {
    let deliveries = bed.log.journal(Topic::Deliveries);
    let records = outcome_records(records);
    deliveries.append_blocking(records).unwrap();
}

#[test]
fn a_death_after_something_was_taken_up_again_counts_it_once_and_sends_it() {
    let dir = tempfile::tempdir().unwrap();
    let (answer, receiver) = Receiving::turning(404);
    let bed = open(dir.path());
    let state = |state: WebhookState| {
        bed.webhook("wh-1", &receiver.url(), |one| one.state = state);
    };
    state(WebhookState::Active);
    let sender = bed.start();
    bed.publish(numbered(3));
    settle(&sender, |stats| stats.counts.failed == 3);
    drop(sender);
    (0..3).for_each(|_| drop(receiver.next()));
    answer.store(200, Ordering::SeqCst);
    state(WebhookState::Paused);
    let head = || -> serde_json::Value {
        let bytes = bed.state.get("webhooks", b"share/0").unwrap().unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    let outcomes_from = head()["outcomes_from"].clone();

    let all = ended(&bed);
    let ids: Vec<String> = all.iter().map(|one| one.id.to_string()).collect();
    let record = |place: usize, status: DeliveryStatus, attempt: u32| AttemptRecord {
        delivery_id: &ids[place],
        project: "default",
        webhook_id: "wh-1",
        event_id: &all[place].event_id,
        event_offset: all[place].event_offset,
        created_ms: all[place].created_ms,
        status: status as i32,
        attempt,
        attempted: status != DeliveryStatus::Retrying,
        due_ms: 1,
        by_hand: true,
        ..AttemptRecord::default()
    };
    let (again, failed) = (DeliveryStatus::Retrying, DeliveryStatus::Failed);
    let tail = [
        record(0, again, 1),
        // An append that had failed, and was there all the same.
        record(1, again, 1),
        record(1, again, 1),
        record(1, failed, 2),
        record(2, again, 1),
        record(2, DeliveryStatus::Delivered, 2),
        record(2, again, 2),
    ];
    append(&bed, &tail);
    let counts = |stats: &fulmar_webhooks::sender::SenderStats| {
        let counts = stats.counts;
        let ends = (counts.failed, counts.delivered);
        (counts.matched, counts.reopened, ends, counts.undecided())
    };
    // Taken up again: one, one and two times.
    let expected = (3, 4, (4, 1), 2);
    for _ in 0..2 {
        let sender = bed.start();
        let stats = settle(&sender, |_| true);
        assert_eq!(counts(&stats), expected);
        assert_eq!(stats.parked, 2);
        drop(sender);
        // The next death comes before the checkpoint that leaves this tail behind.
        let mut head = head();
        head["outcomes_from"] = outcomes_from.clone();
        let mut batch = StateBatch::new();
        batch.put(
            "webhooks",
            b"share/0".as_slice(),
            serde_json::to_vec(&head).unwrap(),
        );
        bed.state.commit(batch).unwrap();
    }
    state(WebhookState::Active);
    let sender = bed.start();
    let stats = settle(&sender, |stats| stats.counts.undecided() == 0);
    assert_eq!(counts(&stats), (3, 4, (4, 3), 0));
    let mut sent: Vec<String> = (0..2).map(|_| receiver.next().id().to_owned()).collect();
    sent.sort();
    let mut wanted = [format!("msg_{}", ids[0]), format!("msg_{}", ids[2])];
    wanted.sort();
    assert_eq!(sent, wanted);
    assert!(receiver.got.try_recv().is_err(), "nothing came twice");
}

#[test]
fn what_was_asked_for_and_waits_for_its_retry_is_not_taken_up_twice() {
    let dir = tempfile::tempdir().unwrap();
    let (answer, receiver) = Receiving::turning(404);
    let bed = open(dir.path());
    bed.webhook("wh-1", &receiver.url(), |one| {
        one.retry = RetryPolicy {
            schedule_s: vec![3_600],
            ..at_once(1)
        };
    });
    let sender = bed.start();
    bed.publish(numbered(3));
    settle(&sender, |stats| stats.counts.failed == 3);
    answer.store(500, Ordering::SeqCst);
    let all = ended(&bed);
    assert!(wait(sender.send_again(all.clone())));
    (0..6).for_each(|_| drop(receiver.next()));
    settle(&sender, |stats| {
        let failed = stats.attempts.get("server_error");
        (stats.in_memory, stats.parked, failed) == (0, 3, Some(&3))
    });
    // Who asks has not seen yet that they are under way; nor has it after a restart.
    assert!(wait(sender.send_again(all.clone())));
    let stats = settle(&sender, |_| true);
    assert_eq!((stats.counts.reopened, stats.parked), (3, 3));
    drop(sender);
    let sender = bed.start();
    assert!(wait(sender.send_again(all)));
    let stats = settle(&sender, |_| true);
    assert_eq!((stats.counts.reopened, stats.parked), (3, 3));
    assert_eq!((stats.counts.failed, stats.counts.undecided()), (3, 3));
}
