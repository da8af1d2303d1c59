//! Every row of the table of checks on a batch and on an event, in the contract's order.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

mod support;

use fulmar_event::{
    AuthenticationDraft, BatchBuilder, BatchRules, Code, Records, Rejection, Timestamp,
    admit_batch, limits, walk_batch,
};
use support::fields::{block, number};
use support::{NOW, batch_of, draft, encoded, rules};

fn refusal(body: &[u8], rules: &BatchRules<'_>) -> Rejection {
    let mut records = Records::new();
    records.push(1, b"before");
    let before = records.clone();
    let rejection = admit_batch(body, rules, &mut records).unwrap_err();
    assert_eq!(records, before, "a refused batch leaves nothing behind");
    rejection
}

fn assert_refused(body: &[u8], code: Code, field: &str, event_index: i32) {
    let rejection = refusal(body, &rules());
    assert_eq!(
        (rejection.code, rejection.field.as_str()),
        (code, field),
        "{rejection:?}"
    );
    assert_eq!(rejection.event_index, event_index);
    assert!(!rejection.detail.is_empty());
}

/// A batch of a good event and the one that `edit` makes of it.
fn with(edit: impl FnOnce(&mut AuthenticationDraft<'static>)) -> Vec<u8> {
    let mut edited = draft();
    edit(&mut edited);
    batch_of(&[&encoded(&draft()), &encoded(&edited)])
}

fn assert_field(field: &str, edit: impl FnOnce(&mut AuthenticationDraft<'static>)) {
    assert_refused(&with(edit), Code::InvalidEvent, field, 1);
}

/// Both ways in admit it and write the same: the one walk, and the judge, which sees a batch
/// that names itself behind its events.
fn assert_admitted(body: &[u8]) {
    assert!(walk_batch(body, &rules()).is_some());
    let admit = |body: &[u8]| {
        let mut records = Records::new();
        admit_batch(body, &rules(), &mut records).unwrap();
        records
    };
    let fields = support::fields::split(body);
    let (head, events): (Vec<_>, Vec<_>) = fields.into_iter().partition(|f| f.number != 3);
    let late: Vec<u8> = events
        .into_iter()
        .chain(head)
        .flat_map(|f| f.bytes)
        .collect();
    assert!(walk_batch(&late, &rules()).is_none());
    assert_eq!(admit(&late), admit(body));
}

fn long(bytes: usize) -> &'static str {
    "x".repeat(bytes).leak()
}

#[test]
fn checks_on_a_batch_come_in_order() {
    let event = encoded(&draft());
    let good = [block(1, b"batch-1"), number(2, 1), block(3, &event)].concat();
    assert_admitted(&good);
    assert_refused(&[], Code::EmptyBatch, "", -1);
    assert_refused(&number(2, 9), Code::EmptyBatch, "", -1);
    let bad_event = block(3, b"");
    let two_versions = [number(2, 2), bad_event.clone()].concat();
    assert_refused(&two_versions, Code::UnsupportedProtocolVersion, "", -1);
    assert_refused(&bad_event, Code::UnsupportedProtocolVersion, "", -1);
    let unnamed = [number(2, 1), bad_event.clone()].concat();
    assert_refused(&unnamed, Code::MalformedBatchId, "batch_id", -1);
    let named = [unnamed, block(1, b"batch-1")].concat();
    assert_refused(&named, Code::InvalidEvent, "event_id", 0);
}

#[test]
fn a_batch_id_is_an_identifier_of_1_to_64_bytes() {
    let body = |id: &[u8]| [block(1, id), number(2, 1), block(3, &encoded(&draft()))].concat();
    for good in ["a", "0", "a.b_c:d-e", long(64)] {
        assert_admitted(&body(good.as_bytes()));
    }
    for bad in ["", "-a", " a", "a/b", "é", long(65)] {
        assert_refused(
            &body(bad.as_bytes()),
            Code::MalformedBatchId,
            "batch_id",
            -1,
        );
    }
    assert_refused(&body(b"\xff"), Code::MalformedPayload, "", -1);
}

#[test]
fn a_batch_may_name_itself_after_its_events_and_the_last_name_counts() {
    let events = block(3, &encoded(&draft()));
    let late = [events.clone(), number(2, 1), block(1, b"batch-1")].concat();
    let twice = [
        block(1, b"-"),
        number(2, 7),
        events,
        number(2, 1),
        block(1, b"batch-1"),
    ]
    .concat();
    let usual = batch_of(&[&encoded(&draft())]);
    let admit = |body: &[u8]| {
        let mut records = Records::new();
        admit_batch(body, &rules(), &mut records).unwrap();
        records
    };
    assert_eq!(admit(&late), admit(&usual));
    assert_eq!(admit(&twice), admit(&usual));
}

#[test]
fn the_count_of_events_is_a_ceiling() {
    let event = encoded(&draft());
    let few = BatchRules {
        events_max: 3,
        ..rules()
    };
    let mut records = Records::new();
    let three = batch_of(&[&event, &event, &event]);
    assert_eq!(admit_batch(&three, &few, &mut records).unwrap().events, 3);
    let four = batch_of(&[&event, &event, &event, &event]);
    assert_eq!(refusal(&four, &few).code, Code::BatchTooLarge);
    // Four million empty events in 8 MiB, without a name: counted no further than the ceiling.
    let empty = [0x1a, 0].repeat(limits::BODY_BYTES_MAX / 2);
    assert_eq!(refusal(&empty, &rules()).code, Code::BatchTooLarge);
}

#[test]
fn an_event_over_the_ceiling_is_named() {
    let filled = |bytes: usize| {
        let event = encoded(&draft());
        // Unknown field 900: two bytes of key, three of length.
        [event.clone(), block(900, &vec![7; bytes - event.len() - 5])].concat()
    };
    let most = limits::EVENT_BYTES_MAX as usize;
    assert_eq!(filled(most).len(), most);
    assert_admitted(&batch_of(&[&filled(most)]));
    let rejection = refusal(
        &batch_of(&[&encoded(&draft()), &filled(most + 1)]),
        &rules(),
    );
    assert_eq!(
        (rejection.code, rejection.event_index),
        (Code::InvalidEvent, 1)
    );
    assert_eq!(
        (rejection.detail.as_str(), rejection.field.as_str()),
        ("exceeds 65536 bytes", "")
    );
}

#[test]
fn malformed_bytes_win_over_an_earlier_fault() {
    let (good, bad) = (encoded(&draft()), encoded(&AuthenticationDraft::default()));
    assert_refused(&batch_of(&[&bad, &good]), Code::InvalidEvent, "event_id", 0);
    assert_refused(
        &batch_of(&[&bad, b"\x0a\x05cut"]),
        Code::MalformedPayload,
        "",
        -1,
    );
    assert_refused(
        &[batch_of(&[&bad]), vec![0x0f]].concat(),
        Code::MalformedPayload,
        "",
        -1,
    );
    let unnamed = [block(3, &good), block(3, b"\x0a\x01\xff")].concat();
    assert_refused(&unnamed, Code::MalformedPayload, "", -1);
}

#[test]
fn only_the_first_fault_is_reported() {
    let faulty = batch_of(&[
        &encoded(&draft()),
        b"",
        &encoded(&AuthenticationDraft::default()),
    ]);
    assert_refused(&faulty, Code::InvalidEvent, "event_id", 1);
    let rejection = refusal(&faulty, &rules());
    assert_eq!(rejection.detail, "event_id is required");
}

#[test]
fn event_id() {
    for good in ["12345678", long(64), "a:b.c_d-e"] {
        assert_admitted(&with(|draft| draft.event_id = good));
    }
    for bad in [
        "",
        "1234567",
        "-2345678",
        "with space",
        "1234567é",
        long(65),
    ] {
        assert_field("event_id", |draft| draft.event_id = bad);
    }
}

/// A good event with `more` behind it: of a scalar, the last occurrence counts.
fn ending(more: &[u8]) -> Vec<u8> {
    batch_of(&[&[encoded(&draft()).as_slice(), more].concat()])
}

#[test]
fn schema_version_and_class() {
    assert_refused(
        &ending(&number(2, 0)),
        Code::InvalidEvent,
        "schema_version",
        0,
    );
    assert_refused(
        &ending(&number(2, 2)),
        Code::InvalidEvent,
        "schema_version",
        0,
    );
    // Only the low 32 bits of a uint32 count.
    assert_admitted(&ending(&number(2, (1 << 32) + 1)));
    for class in [0, 2, 110, 111, 112, 113, 114, u64::MAX] {
        assert_refused(
            &ending(&number(3, class)),
            Code::InvalidEvent,
            "event_class",
            0,
        );
    }
}

/// The valid event without one of its fields.
fn without(number: u32) -> Vec<u8> {
    let fields = support::fields::split(&encoded(&draft())).into_iter();
    fields
        .filter(|field| field.number != number)
        .flat_map(|field| field.bytes)
        .collect()
}

#[test]
fn what_is_required_is_missed() {
    for (field, path) in [
        (1, "event_id"),
        (2, "schema_version"),
        (3, "event_class"),
        (4, "time"),
        (6, "collection"),
        (16, "authentication"),
    ] {
        assert_refused(&batch_of(&[&without(field)]), Code::InvalidEvent, path, 0);
    }
    assert_admitted(&batch_of(&[&without(5)]));
}

#[test]
fn both_times_are_required() {
    let event = encoded(&draft());
    let fields = support::fields::split(&event).into_iter();
    let timeless: Vec<u8> = fields
        .filter(|f| f.number != 4)
        .flat_map(|f| f.bytes)
        .collect();
    let now = number(1, NOW.seconds as u64);
    let with_time = |time: &[u8]| batch_of(&[&[timeless.as_slice(), &block(4, time)].concat()]);
    assert_refused(&with_time(&[]), Code::InvalidEvent, "time.event_time", 0);
    assert_refused(
        &with_time(&block(2, &now)),
        Code::InvalidEvent,
        "time.event_time",
        0,
    );
    assert_refused(
        &with_time(&block(1, &now)),
        Code::InvalidEvent,
        "time.observed_time",
        0,
    );
    assert_admitted(&with_time(&[block(1, &now), block(2, &now)].concat()));
}

#[test]
fn times_are_in_protobufs_range() {
    for (seconds, nanos) in [
        (-62_135_596_801, 0),
        (253_402_300_800, 0),
        (i64::MIN, 0),
        (i64::MAX, 0),
        (NOW.seconds, 1_000_000_000),
        (NOW.seconds, -1i32 as u32),
    ] {
        let time = Timestamp { seconds, nanos };
        let body = with(|draft| draft.event_time = time);
        assert_eq!(
            refusal(&body, &rules()).detail,
            "time.event_time is not in the years 1 to 9999"
        );
        let body = with(|draft| draft.observed_time = time);
        assert_refused(&body, Code::InvalidEvent, "time.observed_time", 1);
    }
}

#[test]
fn the_window_includes_both_its_ends() {
    let oldest = Timestamp {
        seconds: NOW.seconds - 168 * 3_600,
        ..NOW
    };
    let newest = Timestamp {
        seconds: NOW.seconds + 300,
        ..NOW
    };
    let before = Timestamp {
        nanos: NOW.nanos - 1,
        ..oldest
    };
    let after = Timestamp {
        nanos: NOW.nanos + 1,
        ..newest
    };
    for time in [oldest, newest] {
        assert_admitted(&with(|draft| draft.event_time = time));
        assert_admitted(&with(|draft| draft.observed_time = time));
    }
    for time in [before, after] {
        assert_field("time.event_time", |draft| draft.event_time = time);
        assert_field("time.observed_time", |draft| draft.observed_time = time);
        assert_field("time.event_time", |draft| {
            (draft.event_time, draft.observed_time) = (time, time);
        });
    }
    // The window comes last: everything else about the event is said first.
    assert_field("authentication.method", |draft| {
        (draft.event_time, draft.method) = (before, long(33));
    });
}

#[test]
fn lengths_in_bytes() {
    type Set = fn(&mut AuthenticationDraft<'static>, &'static str);
    let table: [(&str, usize, Set); 13] = [
        ("origin.host.hostname", 255, |draft, text| {
            draft.host_hostname = text
        }),
        ("origin.host.os", 128, |draft, text| draft.host_os = text),
        ("origin.host.architecture", 32, |draft, text| {
            draft.host_architecture = text
        }),
        ("collection.collector", 64, |draft, text| {
            draft.collector = text
        }),
        ("collection.source", 512, |draft, text| {
            draft.collection_source = text
        }),
        ("authentication.outcome_reason", 64, |draft, text| {
            draft.outcome_reason = text
        }),
        ("authentication.method", 32, |draft, text| {
            draft.method = text
        }),
        ("authentication.user.name", 256, |draft, text| {
            draft.user_name = text
        }),
        ("authentication.user.domain", 255, |draft, text| {
            draft.user_domain = text
        }),
        ("authentication.user.uid", 64, |draft, text| {
            draft.user_uid = text
        }),
        ("authentication.service.name", 64, |draft, text| {
            draft.service_name = text
        }),
        ("authentication.service.protocol", 32, |draft, text| {
            draft.service_protocol = text
        }),
        ("authentication.raw_record", 4_096, |draft, text| {
            draft.raw_record = text
        }),
    ];
    for (field, most, set) in table {
        assert_admitted(&with(|draft| set(draft, long(most))));
        assert_field(field, |draft| set(draft, long(most + 1)));
        // Two bytes a character.
        let accented: &'static str = "é".repeat(most / 2 + 1).leak();
        assert_field(field, |draft| set(draft, accented));
        if field != "collection.collector" {
            assert_admitted(&with(|draft| set(draft, "")));
        }
    }
    assert_field("collection.collector", |draft| draft.collector = "");
}

#[test]
fn addresses_and_ports() {
    type Set = fn(&mut AuthenticationDraft<'static>, &'static str);
    let table: [(&str, Set); 3] = [
        ("origin.host.ip", |draft, text| draft.host_ip = text),
        ("authentication.network.source.ip", |draft, text| {
            draft.source_ip = text
        }),
        ("authentication.network.destination.ip", |draft, text| {
            draft.destination_ip = text
        }),
    ];
    for (field, set) in table {
        for good in ["", "1.2.3.4", "::1", "fe80::1%eth0", "::ffff:1.2.3.4"] {
            assert_admitted(&with(|draft| set(draft, good)));
        }
        for bad in ["localhost", "1.2.3", "1.2.3.4%eth0", "::1%", long(46)] {
            assert_field(field, |draft| set(draft, bad));
        }
    }
    assert_admitted(&with(|draft| {
        (draft.source_port, draft.destination_port) = (65_535, 0)
    }));
    assert_field("authentication.network.source.port", |draft| {
        draft.source_port = 65_536
    });
    let field = "authentication.network.destination.port";
    assert_field(field, |draft| draft.destination_port = u32::MAX);
}

#[test]
fn unknown_enum_numbers_pass_and_zero_does_not() {
    assert_admitted(&with(|draft| {
        (draft.activity, draft.outcome, draft.transport) = (77, -1, 9);
    }));
    assert_admitted(&with(|draft| draft.transport = 0));
    assert_field("authentication.activity", |draft| draft.activity = 0);
    assert_field("authentication.outcome", |draft| draft.outcome = 0);
    // 2^32 is zero in the 32 bits of an enum.
    for (field, path) in [
        (1, "authentication.activity"),
        (2, "authentication.outcome"),
    ] {
        let zero = block(16, &number(field, 1 << 32));
        assert_refused(&ending(&zero), Code::InvalidEvent, path, 0);
    }
}

/// An origin that was mended by another in its own event must not be taken for good in the
/// next.
#[test]
fn a_bad_origin_is_refused_after_an_event_that_mended_it() {
    let host = |ip: &[u8]| block(3, &block(2, ip));
    let bad = block(5, &host(b"10.0.0.256"));
    let mending = block(5, &[block(2, b"forged"), host(b"10.0.0.1")].concat());
    let event = without(5);
    let mended = [&event[..], &bad, &mending].concat();
    assert_admitted(&batch_of(&[&mended]));
    let left = [&event[..], &bad].concat();
    let body = batch_of(&[&mended, &left]);
    assert_refused(&body, Code::InvalidEvent, "origin.host.ip", 1);
}

#[test]
fn what_was_admitted_is_counted() {
    let (mut early, mut late) = (draft(), draft());
    early.event_time.seconds -= 500;
    late.event_time.seconds += 100;
    let events = [early, draft(), late].map(|draft| encoded(&draft));
    let mut batch = BatchBuilder::new("batch-1");
    events.iter().for_each(|event| batch.push_encoded(event));
    let mut records = Records::new();
    let admitted = admit_batch(batch.bytes(), &rules(), &mut records).unwrap();
    assert_eq!((admitted.events, records.count()), (3, 3));
    assert_eq!(
        admitted.bytes,
        events.iter().map(|event| event.len() as u64).sum::<u64>()
    );
    assert_eq!(admitted.event_time_min, early.event_time);
    assert_eq!(admitted.event_time_max, late.event_time);
}
