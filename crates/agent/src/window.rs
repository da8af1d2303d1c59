//! What is known of the server's admission window, so that a whole file of old
//! lines costs a few requests and not one a line.
//!
//! The agents door refuses a batch for its first event at fault. Its window
//! moves with its clock, so that once an event was refused as too old, every
//! older one would be too, then and later. In a batch with several such events
//! single ones are sent as probes, halving what is not yet known: an accepted
//! probe is an event sent, a refused one settles all that are older.

use jiff::Timestamp;

use crate::item::Item;

/// Refusals of one batch by its window after which probes are sent.
const REFUSALS_BEFORE_PROBES: u32 = 2;

/// Knowledge over the batches of one run.
#[derive(Debug, Default)]
pub struct Window {
    /// The newest event time (ms) refused as too old.
    too_old: Option<i64>,
    /// The oldest event time (ms) accepted since the last refusal.
    fresh: Option<i64>,
    /// Refusals since the last batch was accepted as a whole.
    refusals: u32,
}

impl Window {
    /// The door refused `item` for its event time.
    pub fn refused(&mut self, item: &Item) {
        self.refusals += 1;
        let Some(time) = item.time_ms else { return };
        // One ahead of the door's clock says nothing about others: it is let
        // in later.
        if time < Timestamp::now().as_millisecond() {
            self.too_old = self.too_old.max(Some(time));
        }
    }

    /// The door accepted `items`.
    pub fn accepted(&mut self, items: &[Item]) {
        if items.len() > 1 {
            self.refusals = 0;
            self.fresh = None;
            return;
        }
        if self.refusals > 0 {
            let time = items.first().and_then(|item| item.time_ms);
            self.fresh = match (self.fresh, time) {
                (Some(fresh), Some(time)) => Some(fresh.min(time)),
                (fresh, time) => fresh.or(time),
            };
        }
    }

    /// Takes out of `part` what is known to be too old.
    pub fn take_outside(&mut self, part: &mut Vec<Item>) -> Vec<Item> {
        let Some(too_old) = self.too_old else {
            return Vec::new();
        };
        part.extract_if(.., |item| item.time_ms.is_some_and(|time| time <= too_old))
            .collect()
    }

    /// Takes a probe out of `part`, if one is due: first the newest event, then
    /// the middle one of those between too old and accepted.
    pub fn take_probe(&mut self, part: &mut Vec<Item>) -> Option<Item> {
        if self.refusals < REFUSALS_BEFORE_PROBES || part.len() < 2 {
            return None;
        }
        let unknown = |item: &Item| match (item.time_ms, self.fresh) {
            (Some(time), Some(fresh)) => time < fresh,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let mut candidates: Vec<usize> = (0..part.len()).filter(|at| unknown(&part[*at])).collect();
        candidates.sort_by_key(|at| part[*at].time_ms);
        let chosen = match self.fresh {
            None => candidates.last(),
            Some(_) => candidates.get(candidates.len() / 2),
        };
        chosen.map(|at| part.remove(*at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(times: std::ops::Range<i64>) -> Vec<Item> {
        let item = |time| Item {
            id: format!("{time}"),
            time_ms: Some(time),
            bytes: vec![],
        };
        times.map(item).collect()
    }

    /// Plays a door that admits times from `edge` on; returns requests, taken.
    fn play(window: &mut Window, mut part: Vec<Item>, edge: i64) -> (u32, usize) {
        let (mut requests, mut taken) = (0, 0);
        while !part.is_empty() {
            window.take_outside(&mut part);
            let probe = window.take_probe(&mut part).map(|item| vec![item]);
            let probing = probe.is_some();
            let mut sent = probe.unwrap_or_else(|| std::mem::take(&mut part));
            if sent.is_empty() {
                break;
            }
            requests += 1;
            match sent.iter().position(|item| item.time_ms < Some(edge)) {
                Some(bad) => window.refused(&sent.remove(bad)),
                None => {
                    taken += sent.len();
                    window.accepted(&sent);
                    sent.clear();
                }
            }
            if !probing {
                part = sent;
            }
        }
        (requests, taken)
    }

    #[test]
    fn an_old_file_costs_a_few_requests_a_batch() {
        let mut window = Window::default();
        let (requests, taken) = play(&mut window, items(0..1_000), 5_000);
        assert_eq!(taken, 0);
        assert!(requests <= 3, "{requests}");
        for batch in 1..5 {
            let times = batch * 1_000..(batch + 1) * 1_000;
            let (requests, taken) = play(&mut window, items(times), 5_000);
            assert_eq!(taken, 0);
            assert!(requests <= 2, "{requests}");
        }
        assert_eq!(play(&mut window, items(5_000..6_000), 5_000).1, 1_000);
    }

    #[test]
    fn the_edge_within_a_batch_is_found_by_halving() {
        for edge in [1, 2, 3, 500, 998, 999] {
            let mut window = Window::default();
            let (requests, taken) = play(&mut window, items(0..1_000), edge);
            assert_eq!(taken as i64, 1_000 - edge, "edge {edge}");
            assert!(requests <= 16, "edge {edge}: {requests}");
        }
    }

    #[test]
    fn a_time_ahead_condemns_no_other() {
        let mut window = Window::default();
        let ahead = Timestamp::now().as_millisecond() + 3_600_000;
        window.refused(&items(ahead..ahead + 1)[0]);
        let mut part = items(0..3);
        assert!(window.take_outside(&mut part).is_empty());
    }
}
