//! Receipts against what was published, by id.

use std::collections::HashMap;
use std::time::Instant;

use hdrhistogram::Histogram;

use super::publish::{LATENCY_US_MAX, Load, histogram};
use super::receiver::Receipt;

/// What became of the events of a load.
pub struct Matched {
    /// Deliveries that were to come: acknowledged events times their subscribers.
    pub expected: u64,
    /// Deliveries that came, each once.
    pub deliveries: u64,
    /// Events that all of their subscribers got.
    pub delivered: u64,
    /// Deliveries that came again.
    pub duplicates: u64,
    /// Requests that named no event.
    pub unmatched: u64,
    /// Deliveries of events that were not acknowledged.
    pub foreign: u64,
    /// Deliveries that did not come.
    pub lost: u64,
    /// From the planned send of an event to its last subscriber's receipt, in us.
    pub latency_us: Histogram<u64>,
    /// Events that became whole, by second.
    pub timeline: Vec<u64>,
    /// When the last delivery came.
    pub last: Option<Instant>,
}

struct Event {
    at: Instant,
    /// Paths that have it.
    paths: Vec<u64>,
}

impl Matched {
    /// Matches them.
    pub fn of(load: &Load, receipts: &[Receipt], subscribers: u64) -> Matched {
        let mut events: HashMap<u64, Event> = HashMap::with_capacity(load.published.len());
        for one in &load.published {
            let paths = Vec::with_capacity(subscribers as usize);
            events.insert(one.event, Event { at: one.at, paths });
        }
        let mut found = Matched {
            expected: load.published.len() as u64 * subscribers,
            deliveries: 0,
            delivered: 0,
            duplicates: 0,
            unmatched: 0,
            foreign: 0,
            lost: 0,
            latency_us: histogram(),
            timeline: Vec::new(),
            last: None,
        };
        for receipt in receipts {
            let Some(id) = receipt.event else {
                found.unmatched += 1;
                continue;
            };
            match events.get_mut(&id) {
                None => found.foreign += 1,
                Some(event) if event.paths.contains(&receipt.path) => found.duplicates += 1,
                Some(event) => {
                    event.paths.push(receipt.path);
                    found.deliveries += 1;
                    found.last = found.last.max(Some(receipt.at));
                    if event.paths.len() as u64 == subscribers {
                        found.whole(load.start, event.at, receipt.at);
                    }
                }
            }
        }
        found.lost = found.expected - found.deliveries;
        found
    }

    fn whole(&mut self, start: Instant, sent: Instant, received: Instant) {
        self.delivered += 1;
        let us = received.saturating_duration_since(sent).as_micros();
        let us = us.min(u128::from(LATENCY_US_MAX)) as u64;
        self.latency_us.saturating_record(us.max(1));
        let second = received.saturating_duration_since(start).as_secs() as usize;
        if self.timeline.len() <= second {
            self.timeline.resize(second + 1, 0);
        }
        self.timeline[second] += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::super::publish::Published;
    use super::*;

    #[test]
    fn each_kind_of_receipt_is_counted_apart() {
        let start = Instant::now();
        let published = |event| Published { event, at: start };
        let load = Load {
            start,
            elapsed: Duration::ZERO,
            published: vec![published(1), published(2), published(3)],
            to_hanging: 0,
            rejected: BTreeMap::new(),
            accepted: BTreeMap::new(),
            latency_us: histogram(),
            timeline: Vec::new(),
            first_error: None,
        };
        let receipt = |event, path, ms| Receipt {
            event,
            path,
            at: start + Duration::from_millis(ms),
        };
        let receipts = [
            receipt(Some(1), 0, 5),
            receipt(Some(1), 1, 9),
            // Again.
            receipt(Some(1), 1, 10),
            // One subscriber of two.
            receipt(Some(2), 0, 1),
            receipt(Some(9), 0, 1),
            receipt(None, 0, 1),
        ];
        let found = Matched::of(&load, &receipts, 2);
        let counts = [
            found.expected,
            found.deliveries,
            found.delivered,
            found.duplicates,
            found.unmatched,
            found.foreign,
            found.lost,
        ];
        assert_eq!(counts, [6, 3, 1, 1, 1, 1, 3]);
        // Three digits are kept.
        assert!((9_000..9_010).contains(&found.latency_us.max()));
    }
}
