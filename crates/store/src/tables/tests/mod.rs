mod leaves;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType, UInt16Type, UInt32Type, UInt64Type};
use fulmar_event::{Body, EventView};
use proptest::prelude::*;

use super::*;

/// A varint field.
fn number(field: u64, value: u64, out: &mut Vec<u8>) {
    varint(field << 3, out);
    varint(value, out);
}

/// A length-delimited field.
fn block(field: u64, bytes: &[u8], out: &mut Vec<u8>) {
    varint(field << 3 | 2, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn message(fields: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    fields(&mut out);
    out
}

fn time(seconds: i64, nanos: u64) -> Vec<u8> {
    message(|out| {
        number(1, seconds as u64, out);
        number(2, nanos, out);
    })
}

/// Every leaf of an authentication event, each with a value of its own.
fn full_event() -> Vec<u8> {
    message(|out| {
        block(1, b"event-01", out);
        number(2, 1, out);
        number(3, 1, out);
        let times = message(|out| {
            block(1, &time(1_709_208_000, 123_999_999), out);
            block(2, &time(-1, 1), out);
        });
        block(4, &times, out);
        let host = message(|out| {
            block(1, b"web-1", out);
            block(2, b"10.1.2.3", out);
            block(3, b"Linux", out);
            block(4, b"x86_64", out);
        });
        let origin = message(|out| {
            block(3, &host, out);
            block(1, b"tenant", out);
            block(2, b"agent", out);
        });
        block(5, &origin, out);
        let collection = message(|out| {
            block(1, b"sshd", out);
            block(2, b"/var/log/auth.log", out);
            number(3, u64::MAX, out);
        });
        block(6, &collection, out);
        block(16, &authentication(), out);
        let reception = message(|out| {
            block(1, &time(1_709_208_001, 0), out);
            block(2, b"gateway-1", out);
            block(3, b"batch-1", out);
        });
        block(7, &reception, out);
        let stamp = message(|out| {
            block(1, b"tenant", out);
            block(2, b"agent", out);
            number(3, 1, out);
            number(4, 3, out);
            block(5, b"agent", out);
        });
        block(100, &stamp, out);
    })
}

fn authentication() -> Vec<u8> {
    message(|out| {
        number(1, 1, out);
        number(2, 2, out);
        block(3, b"bad_password", out);
        block(4, b"password", out);
        let user = message(|out| {
            block(1, b"root", out);
            block(2, b"EXAMPLE", out);
            block(3, b"0", out);
        });
        block(5, &user, out);
        let service = message(|out| {
            block(1, b"sshd", out);
            block(2, b"ssh2", out);
        });
        block(6, &service, out);
        let endpoint = |ip: &[u8], port| {
            message(|out| {
                block(1, ip, out);
                number(2, port, out);
            })
        };
        let network = message(|out| {
            block(1, &endpoint(b"203.0.113.9", 65_535), out);
            block(2, &endpoint(b"10.1.2.3", 65_536), out);
            number(3, 7, out);
        });
        block(7, &network, out);
        block(15, "Failed password für root".as_bytes(), out);
    })
}

fn full_message() -> Vec<u8> {
    message(|out| {
        block(1, "größe".as_bytes(), out);
        number(2, 1, out);
        number(3, 112, out);
        block(4, &message(|out| block(1, &time(1, 999_000_000), out)), out);
        let reception = message(|out| block(1, &time(2, 0), out));
        block(7, &reception, out);
        let stamp = message(|out| {
            block(1, b"project", out);
            block(2, b"client", out);
            number(4, 77, out);
            block(5, b"key", out);
        });
        block(100, &stamp, out);
        let body = message(|out| {
            block(1, b"order.placed", out);
            block(2, b"shop", out);
            block(3, b"order/7", out);
            block(4, b"billing", out);
            block(5, b"{ \"a\" : 1.0 }", out);
            block(6, b"application/json", out);
            number(7, 1, out);
            block(8, b"{\"x\":1}", out);
            block(9, b"{\"l\":\"1\"}", out);
            block(10, b"once", out);
            number(11, 2, out);
        });
        block(112, &body, out);
    })
}

#[test]
fn every_leaf_of_a_message_is_in_its_column() {
    let bytes = full_message();
    let event = EventView::parse(&bytes).unwrap();
    let Body::Message(body) = &event.body else {
        panic!("no message")
    };
    let mut builder = MessagesBuilder::default();
    builder.append(&project_message(&event, body, 15, 9).unwrap());
    let batch = builder.take_batch();
    for (column, expected) in [
        ("event_id", "größe"),
        ("type", "order.placed"),
        ("project_id", "project"),
        ("client_id", "client"),
        ("source", "shop"),
        ("subject", "order/7"),
        ("key", "key"),
        ("consumer", "billing"),
        // The producer's bytes, spaces and all.
        ("data", "{ \"a\" : 1.0 }"),
        ("data_content_type", "application/json"),
        ("extensions", "{\"x\":1}"),
        ("labels", "{\"l\":\"1\"}"),
        ("idempotency_key", "once"),
    ] {
        assert_eq!(text(&batch, column), expected, "{column}");
    }
    assert_eq!(time_at(&batch, "event_time"), 1_999);
    assert_eq!(time_at(&batch, "ingest_time"), 2_000);
    assert!(batch["data_base64"].as_boolean().value(0));
    assert!(!batch["schema_valid"].as_boolean().value(0));
    assert_eq!(
        batch["control_offset"].as_primitive::<Int64Type>().value(0),
        77
    );
    assert_eq!(batch["log_offset"].as_primitive::<Int64Type>().value(0), 9);
}

#[test]
fn without_a_schema_validity_is_null() {
    let bytes = message(|out| block(112, &[], out));
    let event = EventView::parse(&bytes).unwrap();
    let Body::Message(body) = &event.body else {
        panic!("no message")
    };
    let mut builder = MessagesBuilder::default();
    builder.append(&project_message(&event, body, 0, 0).unwrap());
    let batch = builder.take_batch();
    assert!(arrow_array::Array::is_null(&batch["schema_valid"], 0));
}

fn security_row(bytes: &[u8]) -> Result<RecordBatch, Unstorable> {
    let event = EventView::parse(bytes).unwrap();
    let Body::Authentication(body) = &event.body else {
        panic!("no authentication")
    };
    let mut builder = SecurityEventsBuilder::default();
    builder.append(&project_security_event(&event, body, 3, 1 << 40)?);
    Ok(builder.take_batch())
}

fn text(batch: &RecordBatch, column: &str) -> String {
    let array = batch.column_by_name(column).unwrap();
    TextRows::new(array).value(0).to_owned()
}

fn time_at(batch: &RecordBatch, column: &str) -> i64 {
    batch[column]
        .as_primitive::<TimestampMillisecondType>()
        .value(0)
}

#[test]
fn every_leaf_of_an_authentication_event_is_in_its_column() {
    let batch = security_row(&full_event()).unwrap();
    for (column, expected) in [
        ("event_id", "event-01"),
        ("event_class", "authentication"),
        ("tenant_id", "tenant"),
        ("agent_id", "agent"),
        ("host_hostname", "web-1"),
        ("host_ip", "10.1.2.3"),
        ("host_os", "Linux"),
        ("host_architecture", "x86_64"),
        ("collector", "sshd"),
        ("source", "/var/log/auth.log"),
        ("gateway", "gateway-1"),
        ("batch_id", "batch-1"),
        ("auth_activity", "logon"),
        ("auth_outcome", "failure"),
        ("auth_outcome_reason", "bad_password"),
        ("auth_method", "password"),
        ("auth_user_name", "root"),
        ("auth_user_domain", "EXAMPLE"),
        ("auth_user_uid", "0"),
        ("auth_service_name", "sshd"),
        ("auth_service_protocol", "ssh2"),
        ("auth_source_ip", "203.0.113.9"),
        ("auth_destination_ip", "10.1.2.3"),
        // 7 is no transport of this contract: the number itself.
        ("auth_transport", "7"),
        ("auth_raw_record", "Failed password für root"),
    ] {
        assert_eq!(text(&batch, column), expected, "{column}");
    }
    assert_eq!(time_at(&batch, "event_time"), 1_709_208_000_123);
    // One nanosecond after the second before the epoch: rounded down.
    assert_eq!(time_at(&batch, "observed_time"), -1_000);
    assert_eq!(time_at(&batch, "ingest_time"), 1_709_208_001_000);
    assert_eq!(
        batch["schema_version"]
            .as_primitive::<UInt32Type>()
            .value(0),
        1
    );
    assert_eq!(
        batch["sequence"].as_primitive::<UInt64Type>().value(0),
        u64::MAX
    );
    assert_eq!(
        batch["auth_source_port"]
            .as_primitive::<UInt16Type>()
            .value(0),
        65_535
    );
    // Over 65,535 is no port.
    assert_eq!(
        batch["auth_destination_port"]
            .as_primitive::<UInt16Type>()
            .value(0),
        0
    );
    assert_eq!(
        batch["log_offset"].as_primitive::<Int64Type>().value(0),
        1 << 40
    );
    let partition = batch["log_partition"].as_primitive::<arrow_array::types::Int32Type>();
    assert_eq!(partition.value(0), 3);
}

#[test]
fn what_is_absent_is_zero_and_an_absent_time_the_epoch() {
    let bytes = message(|out| block(16, &[], out));
    let batch = security_row(&bytes).unwrap();
    assert_eq!(text(&batch, "event_class"), "");
    assert_eq!(text(&batch, "auth_outcome"), "");
    assert_eq!(text(&batch, "auth_raw_record"), "");
    assert_eq!(time_at(&batch, "event_time"), 0);
    assert_eq!(
        batch["auth_source_port"]
            .as_primitive::<UInt16Type>()
            .value(0),
        0
    );
}

#[test]
fn times_are_stored_from_1900_to_2262_and_no_further() {
    let of = |seconds| {
        let times = message(|out| block(1, &time(seconds, 999_999_999), out));
        let bytes = message(|out| {
            block(4, &times, out);
            block(16, &[], out);
        });
        security_row(&bytes).map(|batch| time_at(&batch, "event_time"))
    };
    // 1900-01-01T00:00:00Z: 70 years of 365 days and 17 leap days before 1970.
    let first = -(70 * 365 + 17) * 86_400;
    assert_eq!(of(first), Ok(first * 1_000 + 999));
    assert_eq!(of(first - 1), Err(Unstorable::Time("time.event_time")));
    assert_eq!(of(9_223_372_036), Ok(9_223_372_036_999));
    assert_eq!(of(9_223_372_037), Err(Unstorable::Time("time.event_time")));
}

/// The columns of the specification, in its order, and the log's.
#[test]
fn the_columns_are_the_contracts() {
    let names = |table: Table| -> Vec<&str> { table.columns().iter().map(|c| c.name).collect() };
    let security = "event_id schema_version event_class event_time observed_time ingest_time \
        tenant_id agent_id host_hostname host_ip host_os host_architecture collector source \
        sequence gateway batch_id auth_activity auth_outcome auth_outcome_reason auth_method \
        auth_user_name auth_user_domain auth_user_uid auth_service_name auth_service_protocol \
        auth_source_ip auth_source_port auth_destination_ip auth_destination_port auth_transport \
        auth_raw_record log_partition log_offset";
    assert_eq!(names(Table::SecurityEvents).join(" "), security);
    let messages = "event_id type event_time ingest_time project_id client_id source subject key \
        consumer data data_content_type data_base64 extensions labels idempotency_key \
        schema_valid control_offset log_partition log_offset";
    assert_eq!(names(Table::Messages).join(" "), messages);
}

fn ids() -> impl Strategy<Value = Vec<(String, i64, String)>> {
    let id = prop_oneof!["[a-c]{0,3}", "prefix-of-[a-c]{1,2}", "prefix-o"];
    proptest::collection::vec(("[ab]{1,2}", -3_i64..3, id), 0..40)
}

proptest! {
    /// The fast order is the plain one: by project, time, id, then the log's.
    #[test]
    fn rows_are_ordered_by_the_key(rows in ids()) {
        let mut builder = SecurityEventsBuilder::default();
        for (offset, (project, time_ms, id)) in rows.iter().enumerate() {
            builder.append(&crate::lake::row_of(project, "agent", id, *time_ms, offset as i64));
        }
        let mut expected: Vec<u32> = (0..rows.len() as u32).collect();
        expected.sort_by_key(|&row| (&rows[row as usize], row));
        prop_assert_eq!(builder.sorted_order(), expected);
    }

    /// Text comes back as it went in, gathered in any order or taken whole.
    #[test]
    fn text_is_kept(values in proptest::collection::vec(".{0,12}", 1..30), seed in any::<u64>()) {
        use column::ColumnKind;
        let mut buffer = column::Text::default();
        values.iter().for_each(|value| buffer.push(value));
        let order: Vec<u32> = (0..values.len() as u64)
            .map(|row| (row.wrapping_mul(seed | 1) % values.len() as u64) as u32)
            .collect();
        let gathered = buffer.gather(&order);
        let strings = gathered.as_string::<i32>();
        for (at, &row) in order.iter().enumerate() {
            prop_assert_eq!(strings.value(at), &values[row as usize]);
        }
        let mut copy = column::Text::default();
        copy.push("before");
        let from = values.len() / 3;
        copy.push_run(&gathered, from, values.len() - from);
        let taken = copy.take();
        for row in from..values.len() {
            prop_assert_eq!(taken.as_string::<i32>().value(1 + row - from), strings.value(row));
        }
        let whole = buffer.take();
        for (row, value) in values.iter().enumerate() {
            prop_assert_eq!(whole.as_string::<i32>().value(row), value);
        }
    }
}
