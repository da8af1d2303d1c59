//! For any bytes, the walk at the door and the view behind the log agree with a full decode:
//! in the verdict, in the first field at fault, and in what is written.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

#[path = "support/decoded.rs"]
mod decoded;
mod support;

use decoded::{as_decoded, normal};
use fulmar_event::{Code, EventView, Records, admit_batch, walk_batch};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use support::fields::{self, Field};
use support::mirror;
use support::reference::{self, Verdict};
use support::{batch_of, draft, encoded, rules};

/// What the door says of a batch of this one event, in the reference's words.
fn door_verdict(event: &[u8]) -> Verdict {
    let mut records = Records::new();
    match admit_batch(&batch_of(&[event]), &rules(), &mut records) {
        Ok(admitted) => {
            assert_eq!(admitted.events, 1);
            assert_eq!(admitted.bytes, event.len() as u64);
            let record = records.iter().next().unwrap().unwrap();
            assert_eq!(record.partition, rules().partition);
            Verdict::Admitted(record.bytes.to_vec())
        }
        Err(rejection) if rejection.code == Code::MalformedPayload => {
            assert_eq!(rejection.event_index, -1);
            assert!(records.bytes().is_empty());
            Verdict::Malformed
        }
        Err(rejection) => {
            assert_eq!(
                (rejection.code, rejection.event_index),
                (Code::InvalidEvent, 0)
            );
            assert!(rejection.detail.starts_with(&rejection.field));
            assert!(records.bytes().is_empty());
            Verdict::Refused(rejection.field.leak())
        }
    }
}

fn check(event: &[u8]) {
    let expected = reference::judge(event, &rules());
    assert_eq!(door_verdict(event), expected);
    check_view(event);
    if let Verdict::Admitted(record) = expected {
        check_view(&record);
        let (sent, kept) = (
            mirror::decode(event).unwrap(),
            mirror::decode(&record).unwrap(),
        );
        let origin = kept.origin.clone().unwrap();
        assert_eq!(
            (origin.tenant_id.as_str(), origin.agent_id.as_str()),
            ("default", "agent-7")
        );
        assert_eq!(origin.host, sent.origin.clone().unwrap_or_default().host);
        let door_owned = |mut event: mirror::Event| {
            (event.origin, event.reception, event.stamp, event.enrichment) = Default::default();
            event
        };
        assert_eq!(door_owned(kept), door_owned(sent));
        assert_eq!(EventView::parse(&record).unwrap().check_contract(), Ok(()));
    }
}

/// The view reads exactly what a decode reads.
fn check_view(event: &[u8]) {
    match (EventView::parse(event), mirror::decode(event)) {
        (Ok(view), Some(decoded)) => assert_eq!(as_decoded(&view), normal(decoded)),
        (view, decoded) => assert_eq!(view.is_ok(), decoded.is_some(), "{view:?}"),
    }
}

/// Text that is mostly plain, sometimes long, sometimes not UTF-8.
fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => "[a-z0-9._:-]{0,40}".prop_map(String::into_bytes),
        2 => "\\PC{0,24}".prop_map(String::into_bytes),
        1 => (0usize..600).prop_map(|length| vec![b'x'; length]),
        1 => Just(b"203.0.113.9".to_vec()),
        1 => Just(b"fe80::1%eth0".to_vec()),
        1 => vec(any::<u8>(), 0..20),
    ]
}

/// A value on the wire, by wire type, with the key in front, perhaps spelled too long.
fn field(depth: u32) -> BoxedStrategy<Vec<u8>> {
    const NUMBERS: [u32; 24] = [
        1, 2, 3, 4, 5, 6, 7, 8, 11, 15, 16, 17, 60, 64, 100, 101, 102, 110, 111, 112, 113, 114,
        999, 70_000,
    ];
    let number = prop::sample::select(NUMBERS.to_vec());
    let integer = prop_oneof![
        3 => 0u64..4,
        1 => 65_534u64..65_540,
        1 => any::<u64>(),
        1 => Just(1u64 << 32),
    ];
    let integer_field =
        (number.clone(), integer, 0usize..4).prop_map(|(number, value, padding)| {
            let key = fields::varint(u64::from(number) << 3, padding);
            [key, fields::varint(value, padding)].concat()
        });
    let text_field = (number.clone(), text(), 0usize..3)
        .prop_map(|(number, value, padding)| fields::padded_block(number, &value, padding / 2));
    let fixed = (number.clone(), any::<bool>(), any::<u64>()).prop_map(|(number, long, value)| {
        let key = fields::varint(u64::from(number) << 3 | if long { 1 } else { 5 }, 0);
        let bytes = value.to_le_bytes();
        [key, bytes[..if long { 8 } else { 4 }].to_vec()].concat()
    });
    if depth == 0 {
        return prop_oneof![4 => integer_field, 4 => text_field, 1 => fixed].boxed();
    }
    let message =
        (number.clone(), soup(depth - 1)).prop_map(|(number, value)| fields::block(number, &value));
    let group = (number, soup(depth - 1)).prop_map(|(number, value)| {
        let key = |wire_type| fields::varint(u64::from(number) << 3 | wire_type, 0);
        [key(3), value, key(4)].concat()
    });
    prop_oneof![4 => integer_field, 4 => text_field, 1 => fixed, 6 => message, 1 => group].boxed()
}

fn soup(depth: u32) -> BoxedStrategy<Vec<u8>> {
    vec(field(depth), 0..6)
        .prop_map(|fields| fields.concat())
        .boxed()
}

/// Fields that leave a valid event valid but for what the door owns.
fn harmless() -> impl Strategy<Value = Vec<u8>> {
    let host = fields::block(3, &fields::block(1, b"other"));
    let unknown = fields::block(77, b"\xff\x00");
    prop_oneof![
        (0usize..4).prop_map(|padding| {
            let forged = [fields::block(1, b"victim"), fields::block(2, b"forged")].concat();
            fields::padded_block(5, &forged, padding)
        }),
        Just(fields::block(
            5,
            &[host.clone(), fields::block(2, b"forged"), unknown].concat()
        )),
        Just(fields::block(
            5,
            &[fields::block(2, b"forged"), host].concat()
        )),
        (0usize..4).prop_map(|padding| fields::padded_block(7, &fields::block(2, b"x"), padding)),
        (0usize..4).prop_map(|padding| fields::padded_block(100, &fields::number(3, 4), padding)),
        Just(fields::block(101, &[])),
        Just(fields::block(900, b"kept")),
        Just(
            [
                fields::varint(61 << 3 | 3, 0),
                fields::varint(61 << 3 | 4, 0)
            ]
            .concat()
        ),
        Just(fields::number(62, u64::MAX)),
    ]
}

/// A valid event's fields and others, in any order.
fn reordered() -> impl Strategy<Value = Vec<u8>> {
    let valid: Vec<Vec<u8>> = fields::split(&encoded(&draft()))
        .into_iter()
        .map(|field: Field| field.bytes)
        .collect();
    vec(harmless(), 0..5)
        .prop_flat_map(move |extra| Just([valid.clone(), extra].concat()).prop_shuffle())
        .prop_map(|fields| fields.concat())
}

/// A valid event with bytes changed, cut, put in or repeated.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let change = (
        0u8..5,
        any::<prop::sample::Index>(),
        any::<u8>(),
        1usize..12,
    );
    (reordered(), vec(change, 1..4)).prop_map(|(mut event, changes)| {
        for (kind, index, byte, length) in changes {
            let at = index
                .index(event.len() + 1)
                .min(event.len().saturating_sub(1));
            let end = (at + length).min(event.len());
            match kind {
                0 if !event.is_empty() => event[at] = byte,
                1 if !event.is_empty() => event[at] ^= 1 << (byte & 7),
                2 => drop(event.drain(at..end)),
                3 => event.insert(at, byte),
                _ => {
                    let piece = event[at..end].to_vec();
                    event.splice(at..at, piece);
                }
            }
        }
        event
    })
}

/// An event of a batch: its origin is one of a few, good and bad, so that neighbours often have
/// the same.
fn neighbour() -> impl Strategy<Value = Vec<u8>> {
    let host = |hostname: &str, ip: &[u8]| {
        fields::block(
            3,
            &[fields::block(1, hostname.as_bytes()), fields::block(2, ip)].concat(),
        )
    };
    let origins = vec![
        fields::block(5, &host("one", b"10.0.0.1")),
        fields::block(5, &host("two", b"10.0.0.2")),
        fields::block(5, &host(&"x".repeat(256), b"10.0.0.2")),
        fields::block(5, &host("bad", b"10.0.0.256")),
        fields::block(5, &host("\u{fc}", b"::1")),
        fields::block(5, &fields::block(2, b"forged")),
        fields::block(
            5,
            &[fields::block(2, b"forged"), host("one", b"10.0.0.1")].concat(),
        ),
        fields::block(
            5,
            &[host("one", b"10.0.0.1"), fields::block(2, b"forged")].concat(),
        ),
        fields::block(5, b""),
        Vec::new(),
    ];
    let others: Vec<u8> = fields::split(&encoded(&draft()))
        .into_iter()
        .filter(|field| field.number != 5)
        .flat_map(|field| field.bytes)
        .collect();
    // Good origins first and often, so that whole batches are admitted.
    let origin = prop_oneof![
        2 => prop::sample::select(origins[..2].to_vec()),
        1 => prop::sample::select(origins),
    ];
    vec(origin, 0..3).prop_map(move |origins| [origins.concat(), others.clone()].concat())
}

/// The door says of a batch what it says of each event alone: malformed wins, then the first
/// refused, else the records of all, in order.
fn check_batch(events: &[Vec<u8>]) -> bool {
    let slices: Vec<&[u8]> = events.iter().map(Vec::as_slice).collect();
    let mut records = Records::new();
    let verdict = admit_batch(&batch_of(&slices), &rules(), &mut records);
    let alone: Vec<Verdict> = events
        .iter()
        .map(|event| reference::judge(event, &rules()))
        .collect();
    if alone.contains(&Verdict::Malformed) {
        assert_eq!(verdict.unwrap_err().code, Code::MalformedPayload);
        return false;
    }
    let is_refused = |verdict: &Verdict| matches!(verdict, Verdict::Refused(_));
    if let Some(index) = alone.iter().position(is_refused) {
        let rejection = verdict.unwrap_err();
        assert_eq!(rejection.event_index, index as i32);
        assert_eq!(alone[index], Verdict::Refused(rejection.field.leak()));
        return false;
    }
    let written: Vec<Verdict> = records
        .iter()
        .map(|record| Verdict::Admitted(record.unwrap().bytes.to_vec()))
        .collect();
    assert_eq!(written, alone);
    assert_eq!(verdict.unwrap().events as usize, events.len());
    true
}

#[test]
fn batches_of_neighbours_are_admitted_often_enough_to_prove_something() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = vec(neighbour(), 1..4);
    let admitted = (0..500)
        .filter(|_| {
            let events = strategy.new_tree(&mut runner).unwrap().current();
            check_batch(&events)
        })
        .count();
    assert!((50..450).contains(&admitted), "{admitted} of 500");
}

/// What agents send, with unknown fields or a reception of their own, is admitted in one walk.
#[test]
fn the_usual_is_admitted_in_one_walk() {
    let event = encoded(&draft());
    let newer = [
        event.clone(),
        fields::block(900, b"newer"),
        fields::number(8, 1),
    ]
    .concat();
    let received = [event.clone(), fields::block(7, &fields::block(2, b"door"))].concat();
    let named = [event.clone(), fields::block(5, &fields::block(2, b"agent"))].concat();
    for event in [&event, &newer, &received, &named] {
        assert!(walk_batch(&batch_of(&[event, event]), &rules()).is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn on_reordered_events(event in reordered()) {
        check(&event);
        // Nothing here breaks a rule, so that this test proves admission.
        prop_assert!(matches!(door_verdict(&event), Verdict::Admitted(_)));
    }

    #[test]
    fn on_mutated_events(event in mutated()) {
        check(&event);
    }

    #[test]
    fn on_valid_events_with_any_fields_added(event in reordered(), more in soup(3)) {
        check(&[event.clone(), more.clone()].concat());
        check(&[more, event].concat());
    }

    #[test]
    fn on_batches_of_neighbours(events in vec(neighbour(), 1..6)) {
        check_batch(&events);
    }

    #[test]
    fn on_batches_of_mutated_events(events in vec(prop_oneof![reordered(), mutated()], 1..5)) {
        check_batch(&events);
    }

    #[test]
    fn on_any_fields(event in soup(4)) {
        check(&event);
    }

    #[test]
    fn on_any_bytes(event in vec(any::<u8>(), 0..64)) {
        check(&event);
    }
}
