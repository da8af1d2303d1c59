//! What a producer may try with the wire format itself (I9): no spelling of an owned field
//! reaches the log, and no cut or wrong type is taken for an event.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

mod support;

use fulmar_event::{Code, EventView, Records, admit_batch};
use support::fields::{block, number, padded_block, split, varint};
use support::{batch_of, draft, encoded, mirror, reference, rules};

/// The record that the door writes for an event.
fn record_of(event: &[u8]) -> Vec<u8> {
    let mut records = Records::new();
    admit_batch(&batch_of(&[event]), &rules(), &mut records).unwrap();
    let record = records.iter().next().unwrap().unwrap().bytes.to_vec();
    assert_eq!(record, reference::stamped(event, &rules()));
    record
}

fn assert_malformed(event: &[u8]) {
    let rejection = admit_batch(&batch_of(&[event]), &rules(), &mut Records::new()).unwrap_err();
    assert_eq!(rejection.code, Code::MalformedPayload, "{rejection:?}");
}

/// Fields that claim to be what only the door may say, in `padding` bytes too many.
fn forged(padding: usize) -> Vec<Vec<u8>> {
    let origin = [
        padded_block(1, b"forged-project", padding),
        padded_block(2, b"forged-agent", padding),
    ];
    let stamp = [
        block(1, b"forged-project"),
        block(2, b"forged-agent"),
        number(4, 9),
    ];
    let reception = [block(2, b"forged-gateway"), block(3, b"forged-batch")];
    vec![
        padded_block(5, &origin.concat(), padding),
        padded_block(7, &reception.concat(), padding),
        padded_block(100, &stamp.concat(), padding),
        padded_block(101, &block(1, b"forged-lookup"), padding),
    ]
}

fn assert_clean(record: &[u8]) {
    let forged = b"forged";
    assert!(!record.windows(forged.len()).any(|window| window == forged));
    let view = EventView::parse(record).unwrap();
    assert_eq!((view.tenant_id, view.agent_id), ("default", "agent-7"));
    assert_eq!((view.gateway, view.batch_id), ("door-1", "batch-1"));
    assert_eq!(
        (view.stamp.project, view.stamp.source),
        ("default", "agent-7")
    );
    assert_eq!(view.stamp.control_offset, 41);
    // One of each, whichever way a reader counts.
    let numbers: Vec<u32> = split(record).iter().map(|field| field.number).collect();
    for (owned, count) in [(5, 1), (7, 1), (100, 1), (101, 0)] {
        assert_eq!(
            numbers.iter().filter(|number| **number == owned).count(),
            count
        );
    }
}

#[test]
fn forged_fields_before_within_and_after_the_event_are_dropped() {
    let fields: Vec<Vec<u8>> = split(&encoded(&draft()))
        .into_iter()
        .map(|field| field.bytes)
        .collect();
    for padding in 0..=4 {
        for at in 0..=fields.len() {
            for forgery in forged(padding) {
                let mut event = fields.clone();
                event.insert(at, forgery.clone());
                event.push(forgery);
                let record = record_of(&event.concat());
                assert_clean(&record);
                let kept = mirror::decode(&record).unwrap();
                assert_eq!(
                    kept.origin.unwrap().host.unwrap().hostname,
                    "web-3.example.org"
                );
            }
        }
    }
}

#[test]
fn all_forgeries_at_once_many_times_over() {
    let event = encoded(&draft());
    let forgeries = forged(1).concat().repeat(50);
    assert_clean(&record_of(&[forgeries.clone(), event, forgeries].concat()));
}

#[test]
fn two_origins_are_merged_and_what_is_unknown_in_them_survives() {
    let host = |field, text: &[u8]| block(3, &block(field, text));
    let first = [
        host(1, b"first"),
        block(2, b"forged"),
        block(99, b"\xffone"),
    ]
    .concat();
    let second = [block(1, b"forged"), host(1, b"second"), block(98, b"two")].concat();
    let fields = split(&encoded(&draft())).into_iter();
    let bare: Vec<u8> = fields
        .filter(|f| f.number != 5)
        .flat_map(|f| f.bytes)
        .collect();
    let record = record_of(&[block(5, &first), bare, block(5, &second)].concat());
    assert_clean(&record);
    let origin = split(&record)
        .into_iter()
        .find(|field| field.number == 5)
        .unwrap();
    let expected = [
        host(1, b"first"),
        block(99, b"\xffone"),
        host(1, b"second"),
        block(98, b"two"),
        block(1, b"default"),
        block(2, b"agent-7"),
    ];
    assert_eq!(origin.value, expected.concat());
    assert_eq!(EventView::parse(&record).unwrap().host_hostname, "second");
}

#[test]
fn an_event_without_origin_gets_one() {
    let fields = split(&encoded(&draft())).into_iter();
    let bare: Vec<u8> = fields
        .filter(|f| f.number != 5)
        .flat_map(|f| f.bytes)
        .collect();
    assert_clean(&record_of(&bare));
    assert_clean(&record_of(&[bare, block(5, b"")].concat()));
}

#[test]
fn unknown_fields_of_every_wire_type_survive_byte_for_byte() {
    let group = [
        varint(61 << 3 | 3, 0),
        number(1, 7),
        block(2, b"\xff"),
        varint(61 << 3 | 4, 0),
    ];
    let unknown = [
        varint(60 << 3, 2),
        varint(7, 3),
        [varint(900 << 3 | 1, 0), vec![255; 8]].concat(),
        padded_block(901, b"\xff\x00", 2),
        group.concat(),
        [varint(902 << 3 | 5, 0), vec![254; 4]].concat(),
    ]
    .concat();
    let record = record_of(&[unknown.clone(), encoded(&draft()), unknown.clone()].concat());
    assert!(record.starts_with(&unknown));
    assert_eq!(
        record
            .windows(unknown.len())
            .filter(|window| *window == unknown)
            .count(),
        2
    );
}

#[test]
fn a_known_field_with_another_wire_type_is_malformed() {
    let event = encoded(&draft());
    // Each known path with its own wire type, as numbers from the event down.
    let blocks: [&[u32]; 30] = [
        &[1],
        &[4],
        &[5],
        &[6],
        &[7],
        &[16],
        &[100],
        &[101],
        &[110],
        &[111],
        &[112],
        &[113],
        &[114],
        &[4, 1],
        &[5, 1],
        &[5, 2],
        &[5, 3],
        &[5, 3, 1],
        &[5, 3, 2],
        &[6, 1],
        &[6, 2],
        &[7, 1],
        &[7, 2],
        &[16, 3],
        &[16, 5],
        &[16, 5, 1],
        &[16, 7, 1],
        &[16, 7, 1, 1],
        &[16, 15],
        &[100, 1],
    ];
    let integers: [&[u32]; 10] = [
        &[2],
        &[3],
        &[4, 1, 1],
        &[4, 2, 2],
        &[6, 3],
        &[16, 1],
        &[16, 2],
        &[16, 7, 3],
        &[16, 7, 2, 2],
        &[100, 4],
    ];
    let spelled = |path: &[u32], wire_type: u32| {
        let (last, outer) = path.split_last().unwrap();
        let key = varint(u64::from(*last) << 3 | u64::from(wire_type), 0);
        let value = match wire_type {
            0 => vec![1],
            1 => vec![0; 8],
            2 => vec![0],
            3 => varint(u64::from(*last) << 3 | 4, 0),
            4 => vec![],
            _ => vec![0; 4],
        };
        let field = [key, value].concat();
        let whole = outer
            .iter()
            .rev()
            .fold(field, |inner, number| block(*number, &inner));
        [event.clone(), whole].concat()
    };
    for (paths, right) in [(&blocks[..], 2), (&integers[..], 0)] {
        for path in paths {
            for wire_type in (0..=5).filter(|wire_type| *wire_type != right) {
                let event = spelled(path, wire_type);
                assert_malformed(&event);
                assert!(EventView::parse(&event).is_err(), "{path:?} as {wire_type}");
                assert!(mirror::decode(&event).is_none(), "{path:?} as {wire_type}");
            }
        }
    }
}

#[test]
fn payloads_of_other_doors_are_refused_wherever_they_stand() {
    let event = encoded(&draft());
    for number in [110, 111, 112, 113, 114] {
        for foreign in [block(number, b""), padded_block(number, &block(1, b"x"), 2)] {
            for event in [
                [&foreign, &event[..]].concat(),
                [&event[..], &foreign].concat(),
            ] {
                let rejection =
                    admit_batch(&batch_of(&[&event]), &rules(), &mut Records::new()).unwrap_err();
                assert_eq!(
                    (rejection.code, rejection.field.as_str()),
                    (Code::InvalidEvent, "body")
                );
                assert_eq!(rejection.detail, "body is not accepted at this door");
            }
        }
        assert_malformed(&[&event[..], &block(number, b"\x0a\x05cut")].concat());
    }
}

#[test]
fn text_that_is_not_utf8_is_malformed_also_where_it_is_dropped() {
    let event = encoded(&draft());
    for path in [
        &[1][..],
        &[5, 1],
        &[5, 2],
        &[5, 3, 1],
        &[6, 2],
        &[7, 2],
        &[16, 15],
        &[100, 1],
    ] {
        let whole = path
            .iter()
            .rev()
            .fold(b"ab\xffcd".to_vec(), |inner, n| block(*n, &inner));
        assert_malformed(&[&event[..], &whole].concat());
    }
}

/// Cut anywhere, a body is either no batch, or a batch of fewer whole events.
#[test]
fn a_body_cut_at_any_byte() {
    let event = encoded(&draft());
    let body = batch_of(&[&event, &event]);
    let head_bytes = body.len() - 2 * (event.len() + 3);
    for cut in 0..body.len() {
        let verdict = admit_batch(&body[..cut], &rules(), &mut Records::new());
        assert_eq!(
            mirror::decode_batch(&body[..cut]).is_some(),
            match &verdict {
                Ok(_) => true,
                Err(rejection) => rejection.code != Code::MalformedPayload,
            }
        );
        let admitted = verdict.map(|admitted| admitted.events).ok();
        assert_eq!(
            admitted,
            (cut == head_bytes + event.len() + 3).then_some(1),
            "cut at {cut}"
        );
    }
}

/// Cut anywhere, an event is malformed or misses something; its length then still fits.
#[test]
fn an_event_cut_at_any_byte() {
    let event = encoded(&draft());
    for cut in 0..event.len() {
        let verdict = admit_batch(&batch_of(&[&event[..cut]]), &rules(), &mut Records::new());
        let malformed = mirror::decode(&event[..cut]).is_none();
        let code = if malformed {
            Code::MalformedPayload
        } else {
            Code::InvalidEvent
        };
        assert_eq!(verdict.unwrap_err().code, code, "cut at {cut}");
        assert_eq!(EventView::parse(&event[..cut]).is_err(), malformed);
    }
}
