//! Product events, as rows that keep what the SDK sent and what the door looked up.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::SystemTime;

use fulmar_event::{Records, Texts, TrackView, encode_texts};
use fulmar_flow::Fold;
use fulmar_log::Topic;
use fulmar_store::{Table, quarantine};
use support::{Folder, Open, rows, track};

#[test]
fn what_was_sent_stands_in_the_row_in_a_block_and_in_a_day() {
    let folder = Folder::new();
    let mut open = folder.open();
    let groups = encode_texts(["org_1", "team_2"]);
    let sent = TrackView {
        name: "revenue",
        properties: br#"{"plan":"pro","nested":{"a":[1,2]}}"#,
        groups: Texts::new(&groups),
        device_id: "device-1",
        session_id: "session-1",
        path: "/a",
        query: "utm_source=news",
        revenue: 1_999,
        ..TrackView::default()
    };
    let mut records = Records::new();
    // Old rows would go with the compaction.
    let now_ms = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
    track("event-0001", now_ms, &sent, &mut records);
    track("event-0001", now_ms, &sent, &mut records);
    let plain = TrackView {
        name: "plain",
        profile_id: "u1",
        ..TrackView::default()
    };
    track("event-0002", now_ms + 1, &plain, &mut records);
    open.append(records);
    open.fold_all();
    for compacted in [false, true] {
        if compacted {
            open.lake.compact_now().unwrap();
        }
        let rows = rows(&open, Table::Events);
        // The session's start comes 100 ms before its event.
        let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str()).collect();
        assert_eq!(
            names,
            ["session_start", "revenue", "plain"],
            "compacted: {compacted}"
        );
        assert_eq!((&*rows[0]["client_id"], &*rows[0]["revenue"]), ("", "0"));
        assert_eq!(rows[0]["session_id"], rows[1]["session_id"]);
        assert!(!rows[0]["session_id"].is_empty());
        let expected = [
            ("event_id", "event-0001"),
            ("name", "revenue"),
            ("client_id", "client"),
            // The device stands for a profile that nobody named.
            ("profile_id", "device-1"),
            ("groups", "org_1 team_2"),
            ("path", "/a"),
            ("revenue", "1999"),
            (
                "properties",
                "plan=pro nested.a.0=1 nested.a.1=2 __query.utm_source=news",
            ),
            ("country", "SE"),
            ("latitude", "59.33"),
            ("longitude", "18.07"),
        ];
        for (column, value) in expected {
            assert_eq!(rows[1][column], value, "{column}, compacted: {compacted}");
        }
        let plain = &rows[2];
        let found = (plain["profile_id"].as_str(), plain["properties"].as_str());
        assert_eq!(found, ("u1", ""));
    }
}

#[test]
fn properties_that_no_map_can_hold_are_set_aside_and_leave_no_id() {
    let folder = Folder::new();
    let mut open = folder.open();
    let mut records = Records::new();
    let wide: Vec<String> = (0..=1_000).map(|n| format!("\"{n}\":{n}")).collect();
    let wide = format!("{{{}}}", wide.join(","));
    let sent = TrackView {
        name: "wide",
        properties: wide.as_bytes(),
        device_id: "device-1",
        ..TrackView::default()
    };
    track("event-0001", 1_000, &sent, &mut records);
    let mended = TrackView {
        properties: b"",
        ..sent
    };
    track("event-0002", 1_000, &mended, &mut records);
    open.append(records);
    open.fold_all();
    let refused = quarantine::list(&open.log.journal(Topic::Quarantine), 10).unwrap();
    assert_eq!((refused.len(), refused[0].offset), (1, 0));
    assert_eq!(refused[0].reason, "unstorable");
    let mut records = Records::new();
    track("event-0001", 1_000, &mended, &mut records);
    open.append(records);
    open.fold_all();
    // The start of the session has the offset of the event that started it.
    assert_eq!(open.offsets(Table::Events), [1, 1, 2]);
}

/// The sessions' rows: id, views, events and version of each.
fn sessions(open: &Open) -> Vec<(String, String)> {
    let rows = rows(open, Table::Sessions);
    rows.iter()
        .map(|row| (row["id"].clone(), row["version"].clone()))
        .collect()
}

#[test]
fn a_session_has_a_version_for_each_block_and_compaction_keeps_the_last() {
    let folder = Folder::new();
    let mut open = folder.open();
    let now_ms = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
    let sent = TrackView {
        name: "screen_view",
        device_id: "device-1",
        path: "/a",
        ..TrackView::default()
    };
    for n in 0..3 {
        let mut records = Records::new();
        track(
            &format!("event-000{n}"),
            now_ms + n * 1_000,
            &sent,
            &mut records,
        );
        open.append(records);
        open.fold_all();
        // Between blocks the process may die: what is open is in the state.
        drop(open);
        open = folder.open();
    }
    let versions: Vec<String> = sessions(&open).into_iter().map(|(_, v)| v).collect();
    assert_eq!(versions, ["1", "2", "3"]);
    let due_ms = open.writer.next_due_ms().unwrap();
    // The last event is two seconds ahead of the log's time.
    assert!((now_ms + 1_800_000..now_ms + 1_900_000).contains(&due_ms));
    open.lake.compact_now().unwrap();
    assert_eq!(sessions(&open).len(), 1, "the earlier versions are gone");
    assert_eq!(sessions(&open)[0].1, "3");
    let ledger_rows = open.offsets(Table::Events).len();
    assert_eq!(ledger_rows, 4, "three events and one start");
}
