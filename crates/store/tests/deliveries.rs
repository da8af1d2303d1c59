//! Outcomes of deliveries as rows: a version each, and an attempt where something was sent.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::SystemTime;

use fulmar_event::{AttemptRecord, DeliveryStatus, Records};
use fulmar_flow::{Block, BlockCounts, BlockName, Fold, StateBatch};
use fulmar_log::{Chunk, Topic};
use fulmar_store::{DeliveryWriter, Table, quarantine};
use support::{Folder, Open, rows};

const ONE: &str = "00112233445566778899aabbccddeeff";

fn now_ms() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64
}

/// The second attempt of a delivery, which is to be tried again.
fn retried(created_ms: i64) -> AttemptRecord<'static> {
    AttemptRecord {
        delivery_id: ONE,
        project: "shop",
        consumer: "acme",
        webhook_id: "wh_1",
        subscription_id: "sub_1",
        event_id: "evt-1",
        event_name: "order.paid",
        event_offset: 7,
        created_ms,
        status: DeliveryStatus::Retrying as i32,
        attempt: 2,
        attempts_max: 4,
        attempted: true,
        started_ms: created_ms + 100,
        duration_us: 2_345,
        due_ms: created_ms + 60_000,
        response_code: 503,
        response_body: b"busy \xff",
        error_category: "server_error",
        phase: "wait",
        error_message: "the receiver answered 503",
        failures: 1,
        by_hand: false,
    }
}

fn block(first: u64, records: &[AttemptRecord<'_>]) -> Block {
    let mut appended = Records::new();
    for record in records {
        let mark = appended.begin(0);
        record.encode(appended.buffer());
        appended.end(mark);
    }
    let name = BlockName {
        stream: "deliveries".to_owned(),
        first,
        last: first + records.len() as u64 - 1,
    };
    Block::new(name, vec![Chunk::of_frame(appended, first, now_ms())])
}

fn writer(open: &Open) -> DeliveryWriter {
    DeliveryWriter::new(open.lake.clone(), Some(open.log.journal(Topic::Quarantine)))
}

fn fold(open: &Open, writer: &mut DeliveryWriter, block: &Block) -> BlockCounts {
    let mut batch = StateBatch::new();
    let counts = writer.fold(block, &mut batch).unwrap();
    assert_eq!(counts.total(), block.len());
    open.state.commit(batch).unwrap();
    writer.committed(block.name());
    counts
}

#[test]
fn an_attempt_is_a_version_of_its_delivery_and_a_row_of_its_own() {
    let folder = Folder::new();
    let open = folder.open();
    let at = now_ms();
    fold(&open, &mut writer(&open), &block(40, &[retried(at)]));
    let versions = rows(&open, Table::Deliveries);
    let [version] = &versions[..] else {
        panic!("one version: {versions:?}");
    };
    let (created, started, due) = (at.to_string(), at + 100, at + 60_000);
    let expected = [
        ("id", ONE),
        ("project_id", "shop"),
        ("consumer", "acme"),
        ("webhook_id", "wh_1"),
        ("subscription_id", "sub_1"),
        ("event_id", "evt-1"),
        ("event_name", "order.paid"),
        ("event_offset", "7"),
        ("status", "retrying"),
        ("attempt_count", "2"),
        ("max_attempts", "4"),
        ("created_at", &created),
        ("updated_at", &started.to_string()),
        ("next_retry_at", &due.to_string()),
        ("response_code", "503"),
        ("response_body", "busy \u{fffd}"),
        ("error_category", "server_error"),
        ("error_message", "the receiver answered 503"),
        ("log_offset", "40"),
    ];
    for (column, value) in expected {
        assert_eq!(version[column], value, "{column}");
    }
    let attempts = rows(&open, Table::DeliveryAttempts);
    let [attempt] = &attempts[..] else {
        panic!("one attempt: {attempts:?}");
    };
    let id = format!("{ONE}-2");
    let expected = [
        ("id", &*id),
        ("delivery_id", ONE),
        ("project_id", "shop"),
        ("consumer", "acme"),
        ("webhook_id", "wh_1"),
        ("event_id", "evt-1"),
        ("event_name", "order.paid"),
        ("attempt", "2"),
        ("status", "failed"),
        ("started_at", &started.to_string()),
        ("duration_us", "2345"),
        ("response_code", "503"),
        ("response_body", "busy \u{fffd}"),
        ("error_category", "server_error"),
        ("phase", "wait"),
        ("error_message", "the receiver answered 503"),
        ("log_offset", "40"),
    ];
    for (column, value) in expected {
        assert_eq!(attempt[column], value, "{column}");
    }
}

#[test]
fn the_last_version_stays_and_an_attempt_that_is_in_the_log_twice_is_one() {
    let folder = Folder::new();
    let open = folder.open();
    let mut writer = writer(&open);
    let at = now_ms();
    let expired = AttemptRecord {
        status: DeliveryStatus::Expired as i32,
        attempted: false,
        due_ms: 0,
        ..retried(at)
    };
    let second = block(1, &[retried(at), expired]);
    fold(&open, &mut writer, &block(0, &[retried(at)]));
    fold(&open, &mut writer, &second);
    // As after a crash before its batch: the block is done again, under the same name.
    fold(&open, &mut writer, &second);
    assert_eq!(open.offsets(Table::Deliveries), [0, 1, 2]);
    assert_eq!(open.offsets(Table::DeliveryAttempts), [0, 1]);
    open.lake.compact_now().unwrap();
    let left = rows(&open, Table::Deliveries);
    let left: Vec<(&str, &str)> = left.iter().map(|r| (&*r["id"], &*r["status"])).collect();
    assert_eq!(left, [(ONE, "expired")]);
    assert_eq!(open.offsets(Table::DeliveryAttempts), [1]);
}

#[test]
fn what_can_t_be_a_row_is_set_aside_with_the_rule() {
    let folder = Folder::new();
    let open = folder.open();
    let sound = retried(now_ms());
    let records = [
        AttemptRecord {
            delivery_id: "",
            ..sound
        },
        AttemptRecord {
            project: "",
            ..sound
        },
        AttemptRecord { status: 9, ..sound },
        AttemptRecord {
            created_ms: i64::MIN,
            ..sound
        },
        AttemptRecord {
            started_ms: i64::MAX,
            ..sound
        },
        AttemptRecord {
            due_ms: i64::MAX,
            ..sound
        },
        sound,
    ];
    let counts = fold(&open, &mut writer(&open), &block(0, &records));
    assert_eq!((counts.stored, counts.quarantined), (1, 6));
    let refused = quarantine::list(&open.log.journal(Topic::Quarantine), 10).unwrap();
    let told: Vec<(&str, u64, &str)> = refused
        .iter()
        .map(|one| {
            let field = one.detail.split(' ').next().unwrap();
            (&*one.topic, one.offset, field)
        })
        .collect();
    let fields = [
        "delivery_id",
        "project",
        "status",
        "created_ms",
        "started_ms",
        "due_ms",
    ];
    let expected: Vec<_> = (0..)
        .zip(fields)
        .map(|(n, f)| ("deliveries", n, f))
        .collect();
    assert_eq!(told, expected);
    assert_eq!(open.offsets(Table::Deliveries), [6]);
}

#[test]
fn what_is_no_message_is_set_aside() {
    let folder = Folder::new();
    let open = folder.open();
    let mut records = Records::new();
    records.push(0, b"\xff\xff");
    let name = BlockName {
        stream: "deliveries".to_owned(),
        first: 0,
        last: 0,
    };
    let block = Block::new(name, vec![Chunk::of_frame(records, 0, now_ms())]);
    let counts = fold(&open, &mut writer(&open), &block);
    assert_eq!((counts.stored, counts.quarantined), (0, 1));
    let refused = quarantine::list(&open.log.journal(Topic::Quarantine), 10).unwrap();
    assert_eq!(refused[0].reason, "undecodable");
}

#[test]
fn a_project_that_is_forgotten_has_no_rows_of_before() {
    let folder = Folder::new();
    let open = folder.open();
    let mut writer = writer(&open);
    let at = now_ms();
    let other = AttemptRecord {
        project: "other",
        ..retried(at)
    };
    let records = [
        retried(at),
        other,
        AttemptRecord::forget("shop"),
        retried(at),
    ];
    let counts = fold(&open, &mut writer, &block(0, &records));
    assert_eq!((counts.stored, counts.ticks), (3, 1));
    let snapshot = open.lake.snapshot();
    let [asked] = snapshot.forgotten() else {
        panic!("one is noted");
    };
    assert!(asked.concerns(Table::Deliveries) && asked.concerns(Table::DeliveryAttempts));
    assert!(!asked.concerns(Table::Events));
    open.lake.compact_now().unwrap();
    for table in [Table::Deliveries, Table::DeliveryAttempts] {
        let mut left = open.offsets(table);
        left.sort_unstable();
        assert_eq!(left, [1, 3], "{}", table.name());
    }
}
