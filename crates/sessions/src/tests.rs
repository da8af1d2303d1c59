//! The fold by the specification's words, on events that are written out.

mod order;
mod state;

use std::collections::BTreeMap;

use fulmar_event::{Body, Door, Enrichment, EventView, Head, Timestamp, TrackView};

use crate::{Feed, Placed, Rows, SessionFold, SessionRules, SessionView};

/// Half past nine in the evening of 2026-07-14, the middle of a half hour's bucket.
const NOON: i64 = 1_784_064_600_000 + 900_000;
const MINUTE: i64 = 60_000;
const TIMEOUT: i64 = 30 * MINUTE;

/// What the fold gave out, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Book {
    /// `start ID TIME`, `end ID TIME DURATION PATH BOUNCE`, `at ID`, in order.
    lines: Vec<String>,
    /// Rows of sessions.
    sessions: Vec<String>,
    /// The last row of each session, by its id.
    latest: BTreeMap<String, String>,
}

impl Rows for Book {
    fn ended(&mut self, s: &SessionView<'_>) {
        let time_ms = s.ended_ms + 1_000 - NOON;
        let (duration, path, bounce) = (s.duration_ms(), s.exit_path, s.is_bounce());
        self.lines
            .push(format!("end {time_ms} {duration} {path} {bounce}"));
    }

    fn started(&mut self, s: &SessionView<'_>) {
        self.lines.push(format!(
            "start {} {}",
            s.created_ms - 100 - NOON,
            s.entry_path
        ));
    }

    fn identified(&mut self, s: &SessionView<'_>) {
        self.lines.push(format!("identified {}", s.profile_id));
    }

    fn placed(&mut self, placed: &Placed<'_>) {
        let session = if placed.session_id.is_empty() {
            "outside"
        } else {
            "inside"
        };
        let Placed {
            device_id,
            referrer,
            ..
        } = placed;
        self.lines.push(
            format!("{session} {device_id} {referrer}")
                .trim_end()
                .to_owned(),
        );
    }

    fn session(&mut self, s: &SessionView<'_>) {
        self.sessions.push(row(s));
        self.latest.insert(s.id.to_owned(), row(s));
    }
}

fn row(s: &SessionView<'_>) -> String {
    let groups: Vec<&str> = s.groups.iter().collect();
    format!(
        "{} {} {}..{} views {} events {} revenue {} {}>{} profile {} groups {:?} {} {} v{}",
        s.project,
        s.device_id,
        s.created_ms - NOON,
        s.ended_ms - NOON,
        s.screen_views,
        s.events,
        s.revenue,
        s.entry_path,
        s.exit_path,
        s.profile_id,
        groups,
        s.campaign.join(","),
        s.referrer.join(","),
        s.version,
    )
}

/// One event to be fed.
#[derive(Clone, Copy, Debug)]
struct Sent<'a> {
    track: TrackView<'a>,
    time_ms: i64,
    log_ms: i64,
    offset: u64,
}

/// A view of a page, in time.
fn view(path: &str, after_ms: i64) -> Sent<'_> {
    Sent {
        track: TrackView {
            name: "screen_view",
            device_id: "device-1",
            path,
            ..TrackView::default()
        },
        time_ms: NOON + after_ms,
        log_ms: NOON + after_ms,
        offset: 0,
    }
}

fn record(sent: &Sent<'_>) -> Vec<u8> {
    let head = Head {
        event_id: "event-1",
        time: Timestamp::from_millis(sent.time_ms),
        ingest_time: Timestamp::from_millis(sent.log_ms),
        gateway: "gateway",
        batch_id: "",
        project: "shop",
        client: "client",
        key: sent.track.device_id,
        door: Door::Track,
        control_offset: 0,
        enrichment: Enrichment {
            country: "SE",
            place_micros: Some((59_330_000, 18_070_000)),
            browser: "Firefox",
            ..Enrichment::default()
        },
    };
    let mut out = Vec::new();
    head.encode(&sent.track, &mut out);
    out
}

fn feed(fold: &mut SessionFold, sent: &Sent<'_>, book: &mut Book) {
    let record = record(sent);
    let event = EventView::parse(&record).unwrap();
    let Body::Track(track) = &event.body else {
        panic!("a product event");
    };
    let feed = Feed {
        event: &event,
        track,
        time_ms: sent.time_ms,
        partition: 3,
        offset: sent.offset,
        log_ms: sent.log_ms,
    };
    fold.event(&feed, book);
}

fn fold() -> SessionFold {
    SessionFold::new(SessionRules::default())
}

fn all(fold: &mut SessionFold, sent: &[Sent<'_>]) -> Book {
    let mut book = Book::default();
    for sent in sent {
        feed(fold, sent, &mut book);
    }
    fold.finish_block(&mut book);
    book
}

#[test]
fn events_then_silence_are_one_session_with_a_start_and_an_end() {
    let mut fold = fold();
    let mut book = all(
        &mut fold,
        &[view("/a", 0), view("/b", MINUTE), view("/c", 5 * MINUTE)],
    );
    let last = NOON + 5 * MINUTE;
    fold.advance(last + TIMEOUT, &mut book);
    assert_eq!(
        book.lines,
        [
            "start -100 /a",
            "inside device-1",
            "inside device-1",
            "inside device-1"
        ]
    );
    assert_eq!(fold.next_due_ms(), Some(last + TIMEOUT + 1));
    fold.advance(last + TIMEOUT + 1, &mut book);
    // The last event and a second; from the first to the last; the last page; three views.
    assert_eq!(book.lines[4..], ["end 301000 300000 /c false"]);
    let whole = "shop device-1 0..300000 views 3 events 0 revenue 0 /a>/c profile device-1 \
        groups [] ,,,, ,, v3";
    assert_eq!(book.sessions, [whole]);
    // It is corrected for 45 minutes more, and then forgotten; no row changes.
    assert_eq!(fold.len(), 1);
    fold.advance(last + 2 * TIMEOUT + 15 * MINUTE + 2, &mut book);
    assert_eq!(
        (fold.len(), book.lines.len(), fold.next_due_ms()),
        (0, 5, None)
    );
}

#[test]
fn at_exactly_the_timeout_a_session_goes_on_and_a_millisecond_later_it_is_another() {
    let mut fold = fold();
    let book = all(
        &mut fold,
        &[
            view("/a", 0),
            view("/b", TIMEOUT),
            Sent {
                log_ms: NOON + 2 * TIMEOUT,
                ..view("/c", 2 * TIMEOUT + 1)
            },
        ],
    );
    let start = format!("start {} /c", 2 * TIMEOUT + 1 - 100);
    let end = format!("end {} {TIMEOUT} /b false", TIMEOUT + 1_000);
    let inside = "inside device-1".to_owned();
    let mut expected = vec!["start -100 /a".to_owned(), inside.clone(), inside.clone()];
    // The boundary's end has the values of its own session, and comes before the next start.
    expected.extend([end, start, inside]);
    assert_eq!(book.lines, expected);
    assert_eq!(book.sessions.len(), 2);
}

#[test]
fn old_events_of_an_import_make_the_sessions_that_live_ones_would() {
    let mut fold = fold();
    let old = |path, after_ms| Sent {
        log_ms: NOON,
        ..view(path, after_ms - 400 * 24 * 60 * MINUTE)
    };
    let book = all(
        &mut fold,
        &[old("/a", 0), old("/b", MINUTE), old("/c", 2 * TIMEOUT)],
    );
    assert_eq!(
        book.lines
            .iter()
            .filter(|line| line.starts_with("start"))
            .count(),
        2
    );
    assert_eq!(
        book.lines
            .iter()
            .filter(|line| line.starts_with("end"))
            .count(),
        1
    );
}

#[test]
fn a_late_event_stretches_its_session_back_and_a_later_one_belongs_to_none() {
    let mut fold = fold();
    let late = |after_ms| Sent {
        log_ms: NOON + 2 * MINUTE,
        ..view("/late", after_ms)
    };
    let sent = [view("/a", 0), late(-15 * MINUTE), late(-15 * MINUTE - 1)];
    let book = all(&mut fold, &sent);
    assert_eq!(book.lines[2..], ["inside device-1", "outside device-1"]);
    let row = "shop device-1 -900000..0 views 2 events 0 revenue 0 /late>/a profile device-1 \
        groups [] ,,,, ,, v2";
    assert_eq!(book.sessions, [row]);
}

#[test]
fn a_late_event_corrects_a_session_that_has_ended_and_ends_it_no_second_time() {
    let mut fold = fold();
    let mut book = all(&mut fold, &[view("/a", 0)]);
    fold.advance(NOON + TIMEOUT + 1, &mut book);
    let held_up = Sent {
        log_ms: NOON + TIMEOUT + MINUTE,
        ..view("/b", 20 * MINUTE)
    };
    feed(&mut fold, &held_up, &mut book);
    fold.finish_block(&mut book);
    fold.advance(NOON + 10 * TIMEOUT, &mut book);
    let ends = book.lines.iter().filter(|line| line.starts_with("end"));
    assert_eq!(ends.count(), 1);
    assert!(
        book.sessions[1].contains("0..1200000 views 2"),
        "{:?}",
        book.sessions
    );
    assert!(fold.is_empty());
}

#[test]
fn a_session_keeps_what_its_events_say() {
    let mut fold = fold();
    let groups = fulmar_event::encode_texts(["org_1"]);
    let more = fulmar_event::encode_texts(["team_2", "org_1"]);
    let mut first = view("/a", 0);
    first.track.query = "utm_source=news&utm_medium=mail";
    first.track.referrer = "https://www.google.com/search";
    first.track.referrer_name = "Google";
    first.track.referrer_type = "search";
    first.track.groups = fulmar_event::Texts::new(&groups);
    let mut paid = view("", MINUTE);
    paid.track.name = "revenue";
    paid.track.revenue = 1_999;
    paid.track.profile_id = "u1";
    let mut other = view("/b", 2 * MINUTE);
    other.track.groups = fulmar_event::Texts::new(&more);
    other.track.query = "utm_source=other";
    other.track.profile_id = "device-1";
    let book = all(&mut fold, &[first, paid, other]);
    let row = "shop device-1 0..120000 views 2 events 1 revenue 1999 /a>/b profile u1 \
        groups [\"org_1\", \"team_2\"] mail,news,,, https://www.google.com/search,Google,search v3";
    assert_eq!(book.sessions, [row]);
    // The referrer of the session stands in the rows of all of its events.
    assert_eq!(
        book.lines[3],
        "inside device-1 https://www.google.com/search"
    );
}

#[test]
fn a_servers_event_joins_a_live_session_and_starts_none() {
    let mut fold = fold();
    let server = |after_ms| {
        let mut sent = view("", after_ms);
        (sent.track.is_server, sent.track.name) = (true, "charged");
        sent
    };
    let mut nobody = server(3 * MINUTE);
    nobody.track.device_id = "";
    let book = all(
        &mut fold,
        &[
            server(0),
            view("/a", MINUTE),
            server(2 * MINUTE),
            nobody,
            server(2 * TIMEOUT),
        ],
    );
    let placed: Vec<&String> = book.lines.iter().filter(|l| l.contains("side")).collect();
    let device = [
        "outside device-1",
        "inside device-1",
        "inside device-1",
        "outside",
    ];
    assert_eq!(placed[..4], device);
    assert_eq!(placed[4], "outside device-1");
    assert!(
        book.sessions[0].contains("views 1 events 1"),
        "{:?}",
        book.sessions
    );
}

#[test]
fn ids_are_those_that_doors_answer_and_never_one_of_before() {
    struct Ids(Vec<String>);
    impl Rows for Ids {
        fn ended(&mut self, _: &SessionView<'_>) {}
        fn started(&mut self, session: &SessionView<'_>) {
            self.0.push(session.id.to_owned());
        }
        fn identified(&mut self, _: &SessionView<'_>) {}
        fn placed(&mut self, _: &Placed<'_>) {}
        fn session(&mut self, _: &SessionView<'_>) {}
    }
    let mut ids = Ids(Vec::new());
    let mut fold = fold();
    let late_start = Sent {
        log_ms: NOON + 16 * MINUTE,
        offset: 7,
        ..view("/old", 0)
    };
    let mut other = late_start;
    other.track.device_id = "device-2";
    other.log_ms = NOON + 15 * MINUTE;
    for sent in [late_start, other] {
        let record = record(&sent);
        let event = EventView::parse(&record).unwrap();
        let Body::Track(track) = &event.body else {
            panic!("a product event");
        };
        let (time_ms, offset, log_ms) = (sent.time_ms, sent.offset, sent.log_ms);
        let feed = Feed {
            event: &event,
            track,
            time_ms,
            partition: 0,
            offset,
            log_ms,
        };
        fold.event(&feed, &mut ids);
    }
    let of_record = fulmar_event::session_id_of_record("shop", "device-1", 7);
    let of_bucket = fulmar_event::session_id("shop", "device-2", NOON, TIMEOUT as u64);
    assert_eq!(ids.0, [of_record.as_str(), of_bucket.as_str()]);
}

#[test]
fn no_clock_holds_a_session_for_longer() {
    let mut fold = fold();
    let ahead = Sent {
        log_ms: NOON,
        ..view("/a", 365 * 24 * 60 * MINUTE)
    };
    let mut book = all(&mut fold, &[ahead]);
    fold.advance(NOON + MINUTE + TIMEOUT + 1, &mut book);
    assert!(book.lines.last().unwrap().starts_with("end"));
}
