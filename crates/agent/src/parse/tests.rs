use super::*;
use fulmar_event::limits::{CLOCK_SKEW_MAX_SECONDS, EVENT_AGE_MAX_SECONDS, EVENT_BYTES_MAX};
use fulmar_event::{BatchBuilder, BatchRules, Body, EventView, Records, admit_batch};

fn place<'a>(line: &'a [u8], now: &str) -> Place<'a> {
    Place {
        source: "/var/log/auth.log",
        offset: 700,
        line,
        now: now.parse().unwrap(),
        shift: SignedDuration::ZERO,
    }
}

fn parsed(door: Door, format: Format, place: Place<'_>) -> Vec<Item> {
    let mut out = Vec::new();
    Parser::new(door, format, TimeZone::UTC)
        .unwrap()
        .parse(place, &mut out);
    out
}

const NOW: &str = "2026-12-10T07:00:00.5Z";

/// The agents door itself takes the item at `NOW`.
fn assert_admitted(item: &Item) {
    let rules = BatchRules {
        agent_id: "web-1",
        project: "default",
        gateway: "g",
        now: fulmar_event::Timestamp::from_millis(1_796_886_000_500),
        age_max_seconds: EVENT_AGE_MAX_SECONDS,
        skew_max_seconds: CLOCK_SKEW_MAX_SECONDS,
        events_max: 10,
        event_bytes_max: EVENT_BYTES_MAX,
        control_offset: 0,
        partition: 0,
    };
    let mut batch = BatchBuilder::new("batch");
    batch.push_encoded(&item.bytes);
    admit_batch(batch.bytes(), &rules, &mut Records::new()).unwrap();
}

#[test]
fn a_logon_at_the_agents_door_has_every_field_and_keeps_the_contract() {
    let line = "Dec 10 06:55:08 web-01 sshd[42]: Failed password for invalid user a b from \
                2001:db8::7 port 22 ssh2";
    let items = parsed(Door::Agents, Format::Sshd, place(line.as_bytes(), NOW));
    assert_eq!(items.len(), 1);
    let event = EventView::parse(&items[0].bytes).unwrap();
    assert_admitted(&items[0]);
    assert_eq!(event.event_id, event_id(line));
    assert_eq!(event.event_time.unwrap().as_millis(), 1_796_885_708_000);
    assert_eq!(event.observed_time.unwrap().as_millis(), 1_796_886_000_500);
    let Body::Authentication(body) = event.body else {
        panic!("no authentication")
    };
    assert_eq!((body.activity, body.outcome), (1, 2));
    assert_eq!(
        (body.outcome_reason, body.method),
        ("invalid_user", "password")
    );
    assert_eq!(
        (body.user_name, body.source_ip, body.source_port),
        ("a b", "2001:db8::7", 22)
    );
    assert_eq!((body.service_name, body.raw_record), ("sshd", line));
}

fn event_id(line: &str) -> &'static str {
    Box::leak(crate::event_id("/var/log/auth.log", 700, line.as_bytes(), 0).into_boxed_str())
}

#[test]
fn repeats_are_events_of_their_own() {
    let line = "Dec 10 06:55:08 web-01 sshd[42]: message repeated 3 times: [ Failed password for \
                root from 203.0.113.7 port 22 ssh2]";
    for door in [Door::Agents, Door::Events] {
        let items = parsed(door, Format::Sshd, place(line.as_bytes(), NOW));
        assert_eq!(items.len(), 3);
        assert_eq!(items[0].id, event_id(line));
        assert!(items[1].id != items[0].id && items[2].id != items[1].id);
    }
}

#[test]
fn long_and_broken_text_is_cut_on_a_character() {
    let mut line = b"2026-12-10T06:55:08Z h sshd[1]: Failed password for invalid user ".to_vec();
    line.extend_from_slice("ü".repeat(3_000).as_bytes());
    line.extend_from_slice(b"\xff from 203.0.113.7 port 22 ssh2");
    let items = parsed(Door::Agents, Format::Sshd, place(&line, NOW));
    let event = EventView::parse(&items[0].bytes).unwrap();
    assert_admitted(&items[0]);
    let Body::Authentication(body) = event.body else {
        panic!("no authentication")
    };
    assert_eq!(body.user_name, "ü".repeat(128));
    // 65 bytes stand before the name, so that 4,096 falls within a character.
    assert_eq!(body.raw_record.len(), 4_095);
}

#[test]
fn times_are_moved_and_ids_are_not() {
    let line = b"Dec 10 06:55:08 web-01 sshd[42]: Disconnected from user bob 203.0.113.7 port 22";
    let still = place(line, NOW);
    let shift = SignedDuration::from_secs(60);
    let shifted = Place { shift, ..still };
    for door in [Door::Agents, Door::Events] {
        let (a, b) = (
            parsed(door, Format::Sshd, still).remove(0),
            parsed(door, Format::Sshd, shifted).remove(0),
        );
        assert_eq!(a.id, b.id);
        assert_eq!(a.time_ms.unwrap() + 60_000, b.time_ms.unwrap());
    }
}

#[test]
fn messages_of_the_events_door_byte_for_byte() {
    let line = "Dec 10 06:55:08 web-01 sshd[42]: Accepted password for o\"neil from 203.0.113.7 \
                port 22 ssh2";
    let id = event_id(line);
    let want = format!(
        "{{\"id\":\"{id}\",\"type\":\"ssh.logon\",\"time\":\"2026-12-10T06:55:08Z\",\
         \"key\":\"web-01\",\"source\":\"/var/log/auth.log\",\"data\":{{\"host\":\"web-01\",\
         \"outcome\":\"success\",\"outcome_reason\":null,\"method\":\"password\",\
         \"user\":\"o\\\"neil\",\"source_ip\":\"203.0.113.7\",\"source_port\":22,\
         \"raw_record\":\"Dec 10 06:55:08 web-01 sshd[42]: Accepted password for o\\\"neil from \
         203.0.113.7 port 22 ssh2\"}}}}"
    );
    let items = parsed(Door::Events, Format::Sshd, place(line.as_bytes(), NOW));
    assert_eq!(String::from_utf8(items[0].bytes.clone()).unwrap(), want);

    let line = "203.0.113.9 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"x\"";
    let id = event_id(line);
    let want = format!(
        "{{\"id\":\"{id}\",\"type\":\"http.request\",\"time\":\"2015-05-17T10:05:03Z\",\
         \"key\":\"203.0.113.9\",\"source\":\"/var/log/auth.log\",\"data\":{{\
         \"remote_addr\":\"203.0.113.9\",\"user\":null,\"method\":\"GET\",\"target\":\"/a\",\
         \"protocol\":\"HTTP/1.1\",\"status\":200,\"bytes\":5,\"referrer\":null,\
         \"user_agent\":\"x\"}}}}"
    );
    let items = parsed(Door::Events, Format::Combined, place(line.as_bytes(), NOW));
    assert_eq!(String::from_utf8(items[0].bytes.clone()).unwrap(), want);
}

#[test]
fn a_door_takes_only_its_formats() {
    for format in [Format::Combined, Format::Ndjson] {
        assert!(Parser::new(Door::Agents, format, TimeZone::UTC).is_none());
    }
}

#[test]
fn lines_of_any_bytes_never_panic() {
    use proptest::prelude::*;
    proptest!(|(line in proptest::collection::vec(any::<u8>(), 0..300))| {
        for format in [Format::Sshd, Format::Combined, Format::Ndjson] {
            parsed(Door::Events, format, place(&line, NOW));
        }
        parsed(Door::Agents, Format::Sshd, place(&line, NOW));
    });
}
