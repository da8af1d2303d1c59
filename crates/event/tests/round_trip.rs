//! What the encoders write, the door admits, and the view reads back.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

mod support;

use fulmar_event::{
    BatchBuilder, Body, Door, EventView, MessageDraft, Records, SchemaCheck, admit_batch,
};
use support::{NOW, draft, rules};

#[test]
fn an_authentication_event_keeps_every_field_and_gains_the_stamp() {
    let mut batch = BatchBuilder::new("batch-1");
    batch.push(&draft());
    let mut records = Records::new();
    let admitted = admit_batch(batch.bytes(), &rules(), &mut records).unwrap();
    assert_eq!((admitted.events, records.count()), (1, 1));
    let record = records.iter().next().unwrap().unwrap();
    assert_eq!(record.partition, 9);
    let view = EventView::parse(record.bytes).unwrap();
    let sent = draft();
    assert_eq!(view.event_id, sent.event_id);
    assert_eq!((view.schema_version, view.event_class), (1, 1));
    assert_eq!(view.event_time, Some(sent.event_time));
    assert_eq!(view.observed_time, Some(sent.observed_time));
    assert_eq!((view.tenant_id, view.agent_id), ("default", "agent-7"));
    assert_eq!(
        (view.host_hostname, view.host_ip),
        (sent.host_hostname, sent.host_ip)
    );
    assert_eq!((view.host_os, view.host_architecture), ("linux", "x86_64"));
    assert_eq!(
        (view.collector, view.collection_source),
        ("sshd", "/var/log/auth.log")
    );
    assert_eq!(view.sequence, 77);
    assert_eq!(view.ingest_time, Some(NOW));
    assert_eq!((view.gateway, view.batch_id), ("door-1", "batch-1"));
    assert_eq!(
        (view.stamp.project, view.stamp.source),
        ("default", "agent-7")
    );
    assert_eq!(
        (view.stamp.door, view.stamp.control_offset),
        (Door::Agents as i32, 41)
    );
    assert_eq!(view.stamp.key, "agent-7");
    let Body::Authentication(body) = view.body else {
        panic!("no authentication")
    };
    assert_eq!((body.activity, body.outcome, body.transport), (1, 2, 1));
    assert_eq!(
        (body.outcome_reason, body.method),
        (sent.outcome_reason, sent.method)
    );
    assert_eq!(
        (body.user_name, body.user_domain, body.user_uid),
        ("röot", "example.org", "1000")
    );
    assert_eq!((body.service_name, body.service_protocol), ("sshd", "ssh"));
    assert_eq!((body.source_ip, body.source_port), ("203.0.113.77", 52_144));
    assert_eq!(
        (body.destination_ip, body.destination_port),
        ("2001:db8::1", 22)
    );
    assert_eq!(body.raw_record, sent.raw_record);
    assert_eq!(view.check_contract(), Ok(()));
}

#[test]
fn a_message_keeps_every_field() {
    let draft = MessageDraft {
        event_id: "order 1 é",
        time: None,
        ingest_time: NOW,
        gateway: "door-1",
        batch_id: "request-1",
        project: "default",
        client: "shop",
        key: "customer-1",
        door: Door::Events,
        control_offset: 3,
        kind: "order.created",
        source: "/shop",
        subject: "order 1",
        consumer: "billing",
        data: br#"{"n":1.0}"#,
        data_content_type: "application/json",
        data_base64: true,
        extensions: br#"{"a":"b"}"#,
        labels: br#"{"c":"d"}"#,
        idempotency_key: "key-1",
        schema: SchemaCheck::Valid,
        expires_ms: 1_700_000_000_000,
    };
    let mut records = Records::new();
    draft.append_to(3, &mut records);
    let record = records.iter().next().unwrap().unwrap();
    assert_eq!(record.partition, 3);
    let view = EventView::parse(record.bytes).unwrap();
    assert_eq!((view.event_id, view.event_class), ("order 1 é", 112));
    assert_eq!((view.event_time, view.ingest_time), (Some(NOW), Some(NOW)));
    assert_eq!((view.tenant_id, view.agent_id), ("default", ""));
    assert_eq!((view.stamp.project, view.stamp.source), ("default", "shop"));
    assert_eq!(
        (view.stamp.door, view.stamp.key),
        (Door::Events as i32, "customer-1")
    );
    let Body::Message(body) = view.body else {
        panic!("no message")
    };
    assert_eq!(
        (body.kind, body.source, body.subject),
        ("order.created", "/shop", "order 1")
    );
    assert_eq!((body.consumer, body.data), ("billing", draft.data));
    assert_eq!(
        (body.data_content_type, body.data_base64),
        ("application/json", true)
    );
    assert_eq!(
        (body.extensions, body.labels),
        (draft.extensions, draft.labels)
    );
    assert_eq!(
        (body.idempotency_key, body.schema),
        ("key-1", SchemaCheck::Valid as i32)
    );
    assert_eq!(view.check_contract(), Ok(()));
}
