//! Every reader of outside bytes, on bytes that no writer made: none panics, and none reads
//! past its input. The seeds are fixed, so that a failure comes back.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

mod support;

use fulmar_event::{
    EventView, MessageDraft, Quarantined, RecordIter, Records, address_ok, admit_batch,
    agent_id_ok, decode_ack, decode_descriptor, decode_rejection, identifier_ok,
};
use support::{NOW, batch_of, draft, encoded, rules};

/// A small generator of bytes (xorshift), so that runs are equal on every machine.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

fn read_everything(bytes: &[u8]) {
    let mut records = Records::new();
    match admit_batch(bytes, &rules(), &mut records) {
        Ok(admitted) => assert_eq!(admitted.events, records.count()),
        Err(_) => assert!(records.bytes().is_empty()),
    }
    if let Ok(view) = EventView::parse(bytes) {
        let _ = view.check_contract();
    }
    let _ = (
        Quarantined::parse(bytes),
        decode_ack(bytes),
        decode_rejection(bytes),
    );
    let _ = (
        decode_descriptor(bytes),
        identifier_ok(bytes),
        agent_id_ok(bytes),
    );
    let _ = address_ok(bytes);
    let read: usize = RecordIter::new(bytes)
        .map_while(Result::ok)
        .map(|record| record.bytes.len() + 6)
        .sum();
    assert!(read <= bytes.len());
}

fn seeds() -> Vec<Vec<u8>> {
    let event = encoded(&draft());
    let mut records = Records::new();
    admit_batch(&batch_of(&[&event, &event]), &rules(), &mut records).unwrap();
    let record = records.iter().next().unwrap().unwrap().bytes.to_vec();
    let mut quarantined = Vec::new();
    let original = &event;
    Quarantined {
        topic: "events",
        reason: "undecodable",
        original,
        ..Quarantined::default()
    }
    .encode(&mut quarantined);
    vec![
        batch_of(&[&event, &event, &event]),
        event,
        record,
        records.into_bytes(),
        quarantined,
        fulmar_event::encode_ack(10_000),
        fulmar_event::encode_descriptor(NOW),
        b"fe80::ffff:255.255.255.255%eth0".to_vec(),
    ]
}

#[test]
fn bytes_of_every_kind_changed_cut_and_joined() {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let seeds = seeds();
    for round in 0..60_000 {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..=noise.below(6) {
            let at = noise.below(bytes.len());
            match noise.below(5) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, noise.next() as u8),
                2 if !bytes.is_empty() => bytes[at] = noise.next() as u8,
                3 if !bytes.is_empty() => bytes[at] ^= 1 << noise.below(8),
                _ => {
                    let other = &seeds[noise.below(seeds.len())];
                    bytes.extend_from_slice(&other[noise.below(other.len())..]);
                }
            }
        }
        read_everything(&bytes);
    }
}

#[test]
fn pure_noise() {
    let mut noise = Noise(42);
    for _ in 0..60_000 {
        let length = noise.below(96);
        let bytes: Vec<u8> = (0..length).map(|_| noise.next() as u8).collect();
        read_everything(&bytes);
    }
}

#[test]
fn deep_groups_end_in_a_verdict_and_not_on_the_stack() {
    let depth = 4 << 20;
    for key in [0x4bu8, 0x2b, 0x0b] {
        let open = vec![key; depth];
        read_everything(&open);
        read_everything(&batch_of(&[&open]));
    }
}

#[test]
fn a_message_with_empty_fields_is_read_back() {
    let draft = MessageDraft {
        event_id: "",
        time: None,
        ingest_time: NOW,
        gateway: "",
        batch_id: "",
        project: "",
        client: "",
        key: "",
        door: fulmar_event::Door::Events,
        control_offset: 0,
        kind: "",
        source: "",
        subject: "",
        consumer: "",
        data: b"",
        data_content_type: "",
        data_base64: false,
        extensions: b"",
        labels: b"",
        idempotency_key: "",
        schema: fulmar_event::SchemaCheck::None,
        expires_ms: 0,
    };
    let mut bytes = Vec::new();
    draft.encode(&mut bytes);
    let violation = EventView::parse(&bytes)
        .unwrap()
        .check_contract()
        .unwrap_err();
    assert_eq!(violation.field, "event_id");
}
