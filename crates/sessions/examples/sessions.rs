//! Measures the session fold: ns an event, resident bytes an open session, time to close many.
//!
//! `cargo run --release -p fulmar-sessions --example sessions -- 1000000`

use std::time::Instant;

use fulmar_event::{Body, Door, Enrichment, EventView, Head, Timestamp, TrackView};
use fulmar_sessions::{Feed, Placed, Rows, SessionFold, SessionRules, SessionView};

/// Counts what the fold gives out.
#[derive(Default)]
struct Count {
    placed: u64,
    ended: u64,
    sessions: u64,
}

impl Rows for Count {
    fn ended(&mut self, _: &SessionView<'_>) {
        self.ended += 1;
    }
    fn started(&mut self, _: &SessionView<'_>) {}
    fn identified(&mut self, _: &SessionView<'_>) {}
    fn placed(&mut self, _: &Placed<'_>) {
        self.placed += 1;
    }
    fn session(&mut self, _: &SessionView<'_>) {
        self.sessions += 1;
    }
}

/// A view of a page as the door records it, of the device of that number.
fn record(device: usize, path: &str, at_ms: i64) -> Vec<u8> {
    let device = format!("{device:032x}");
    let head = Head {
        event_id: "event-1",
        time: Timestamp::from_millis(at_ms),
        ingest_time: Timestamp::from_millis(at_ms),
        gateway: "gateway",
        batch_id: "",
        project: "shop",
        client: "client",
        key: &device,
        door: Door::Track,
        control_offset: 0,
        enrichment: Enrichment {
            country: "SE",
            city: "Stockholm",
            os: "Windows",
            browser: "Firefox",
            browser_version: "133.0",
            device: "desktop",
            ..Enrichment::default()
        },
    };
    let track = TrackView {
        name: "screen_view",
        device_id: &device,
        path,
        origin: "https://shop.example",
        referrer: "https://www.google.com",
        referrer_name: "Google",
        referrer_type: "search",
        ..TrackView::default()
    };
    let mut out = Vec::new();
    head.encode(&track, &mut out);
    out
}

/// One round over all devices; gives the fold's own seconds.
fn round(fold: &mut SessionFold, devices: usize, path: &str, at_ms: i64, rows: &mut Count) -> f64 {
    let mut seconds = 0.0;
    for first in (0..devices).step_by(10_000) {
        let block = first..devices.min(first + 10_000);
        let records: Vec<Vec<u8>> = block.map(|device| record(device, path, at_ms)).collect();
        let began = Instant::now();
        for (offset, record) in records.iter().enumerate() {
            let event = EventView::parse(record).expect("it was just written");
            let Body::Track(track) = &event.body else {
                continue;
            };
            let feed = Feed {
                event: &event,
                track,
                time_ms: at_ms,
                partition: 0,
                offset: offset as u64,
                log_ms: at_ms,
            };
            fold.event(&feed, rows);
        }
        fold.finish_block(rows);
        let mut bytes = 0;
        fold.changes(|key, value| bytes += key.len() + value.map_or(0, <[u8]>::len));
        fold.committed(None);
        seconds += began.elapsed().as_secs_f64();
    }
    seconds
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0_u64) * 4_096
}

fn main() {
    let devices = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(100_000);
    let (mut rows, mut fold) = (Count::default(), SessionFold::new(SessionRules::default()));
    let at_ms = 1_784_064_600_000;
    let before = resident_bytes();
    let each = |seconds: f64| seconds * 1e9 / devices as f64;
    let seconds = round(&mut fold, devices, "/a", at_ms, &mut rows);
    println!(
        "start   {:8.0} ns a session, its state written",
        each(seconds)
    );
    for minute in 1..4 {
        let at_ms = at_ms + minute * 60_000;
        let seconds = round(&mut fold, devices, "/b", at_ms, &mut rows);
        println!(
            "extend  {:8.0} ns an event, its state written",
            each(seconds)
        );
    }
    let grown = resident_bytes().saturating_sub(before) as f64;
    println!(
        "memory  {:8.0} bytes an open session, resident",
        grown / devices as f64
    );
    let began = Instant::now();
    fold.advance(at_ms + 60 * 60_000, &mut rows);
    println!(
        "close   {:8.2} s for {} sessions",
        began.elapsed().as_secs_f64(),
        rows.ended
    );
}
