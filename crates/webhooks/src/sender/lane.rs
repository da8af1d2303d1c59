//! What waits for one webhook, and how lanes take turns.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use super::breaker::Breaker;
use super::delivery::Delivery;
use super::rate::Rate;
use crate::backlog::Backlog;

/// Of both kinds waiting, every fourth sent is a retry: neither starves the other.
const RETRY_EVERY: u32 = 4;
/// How far a webhook may be ahead of its rate, in nanoseconds: timers are not exact.
const RATE_SLACK_NS: u64 = 20_000_000;

/// What may be done with a webhook's deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneState {
    /// They are sent.
    Active,
    /// They are held.
    Held,
    /// The webhook is gone: they are cancelled.
    Gone,
}

/// One webhook's deliveries.
#[derive(Debug)]
pub(super) struct Lane {
    pub webhook: Rc<str>,
    pub project: Rc<str>,
    pub consumer: Rc<str>,
    /// Its project's.
    pub backlog: Arc<Backlog>,
    pub state: LaneState,
    fresh: VecDeque<Rc<Delivery>>,
    retries: VecDeque<Rc<Delivery>>,
    turn: u32,
    pub in_flight: u32,
    pub in_flight_max: u32,
    /// Nanoseconds between two deliveries; 0 is no limit.
    pub interval_ns: u64,
    /// When the next one may go, by the rate.
    slot_ns: u64,
    /// Nothing is sent before, ms since the epoch: the receiver asked for it.
    pub hold_until_ms: i64,
    /// Leaves a receiver alone that is down.
    pub breaker: Breaker,
    /// When its webhook was changed last, ms since the epoch.
    pub updated_ms: i64,
    /// The earliest due time on disk.
    pub next_due_ms: i64,
    pub is_loading: bool,
    /// When it is looked at next, ms since the epoch.
    pub timer_ms: i64,
    /// It is in the ring.
    pub is_queued: bool,
    /// Deliveries in memory.
    pub in_memory: usize,
    /// Of exchanges that ended.
    pub rate: Rate,
}

impl Lane {
    pub fn new(webhook: &str, (project, consumer): (&str, &str), backlog: Arc<Backlog>) -> Self {
        Self {
            webhook: webhook.into(),
            project: project.into(),
            consumer: consumer.into(),
            backlog,
            state: LaneState::Gone,
            fresh: VecDeque::new(),
            retries: VecDeque::new(),
            turn: 0,
            in_flight: 0,
            in_flight_max: 1,
            interval_ns: 0,
            slot_ns: 0,
            hold_until_ms: 0,
            breaker: Breaker::default(),
            updated_ms: 0,
            next_due_ms: i64::MAX,
            is_loading: false,
            timer_ms: i64::MAX,
            is_queued: false,
            in_memory: 0,
            rate: Rate::default(),
        }
    }

    pub fn ready(&self) -> usize {
        self.fresh.len() + self.retries.len()
    }

    pub fn push(&mut self, delivery: Rc<Delivery>) {
        match delivery.attempts.get() {
            0 => self.fresh.push_back(delivery),
            _ => self.retries.push_back(delivery),
        }
    }

    pub fn pop(&mut self) -> Option<Rc<Delivery>> {
        self.turn = self.turn.wrapping_add(1);
        let retry_first = self.turn.is_multiple_of(RETRY_EVERY);
        let (first, second) = match retry_first {
            true => (&mut self.retries, &mut self.fresh),
            false => (&mut self.fresh, &mut self.retries),
        };
        first.pop_front().or_else(|| second.pop_front())
    }

    /// All that is ready, taken out: the lane is held.
    pub fn take_ready(&mut self) -> Vec<Rc<Delivery>> {
        self.fresh.drain(..).chain(self.retries.drain(..)).collect()
    }

    /// Whether one can go now; by the rate it takes a slot with [`Lane::spend`].
    pub fn can_send(&self, now_ms: i64) -> bool {
        let open = match self.state {
            LaneState::Active => {
                self.in_flight < self.in_flight_most() && now_ms >= self.waits_until_ms()
            }
            LaneState::Held => false,
            LaneState::Gone => true,
        };
        open && self.ready() > 0
    }

    /// Exchanges at once: one where the breaker lets one through.
    fn in_flight_most(&self) -> u32 {
        match self.breaker.probe_ms() {
            None => self.in_flight_max,
            Some(_) => 1,
        }
    }

    /// Nothing is sent before, ms since the epoch: the receiver asked for it, or fails.
    pub fn waits_until_ms(&self) -> i64 {
        let probe_ms = self.breaker.probe_ms().unwrap_or(0);
        self.hold_until_ms.max(probe_ms)
    }

    /// Takes the next slot of the rate, or tells how many nanoseconds it is away.
    pub fn spend(&mut self, now_ns: u64) -> Result<(), u64> {
        if self.interval_ns == 0 || self.state != LaneState::Active {
            return Ok(());
        }
        if self.slot_ns > now_ns + RATE_SLACK_NS {
            return Err(self.slot_ns - now_ns);
        }
        self.slot_ns = self.slot_ns.max(now_ns) + self.interval_ns;
        Ok(())
    }
}

/// Lanes that have something to send: projects take turns, and lanes within each.
#[derive(Debug, Default)]
pub(super) struct Ring {
    projects: VecDeque<Rc<str>>,
    lanes: HashMap<Rc<str>, VecDeque<usize>>,
}

impl Ring {
    pub fn push(&mut self, project: &Rc<str>, lane: usize) {
        let lanes = self.lanes.entry(Rc::clone(project)).or_default();
        if lanes.is_empty() {
            self.projects.push_back(Rc::clone(project));
        }
        lanes.push_back(lane);
    }

    pub fn pop(&mut self) -> Option<usize> {
        let project = self.projects.pop_front()?;
        let lanes = self.lanes.get_mut(&project)?;
        let lane = lanes.pop_front();
        match lanes.is_empty() {
            true => {
                self.lanes.remove(&project);
            }
            false => self.projects.push_back(project),
        }
        lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_take_turns_however_many_lanes_each_has() {
        let mut ring = Ring::default();
        let (big, small): (Rc<str>, Rc<str>) = ("big".into(), "small".into());
        for lane in 0..5 {
            ring.push(&big, lane);
        }
        ring.push(&small, 9);
        ring.push(&small, 8);
        let order: Vec<_> = std::iter::from_fn(|| ring.pop()).collect();
        assert_eq!(order, [0, 9, 1, 8, 2, 3, 4]);
    }

    #[test]
    fn a_rate_gives_one_slot_an_interval_and_saves_none() {
        let mut lane = Lane::new("w", ("p", "c"), Arc::default());
        lane.state = LaneState::Active;
        lane.interval_ns = 100_000_000;
        let second = 1_000_000_000;
        assert_eq!(lane.spend(second), Ok(()));
        assert_eq!(lane.spend(second), Err(100_000_000));
        assert_eq!(lane.spend(second + 90_000_000), Ok(()), "timers have slack");
        // After a long pause it is one again, not thirty.
        assert_eq!(lane.spend(4 * second), Ok(()));
        assert_eq!(lane.spend(4 * second), Err(100_000_000));
    }

    #[test]
    fn a_breaker_that_is_not_closed_lets_one_through_at_its_time() {
        use crate::sender::breaker::Sign;
        let mut lane = Lane::new("w", ("p", "c"), Arc::default());
        lane.in_flight_max = 8;
        let fail = |lane: &mut Lane| {
            (0..10).any(|_| lane.breaker.ended(Sign::Fails, 1_000, (30_000, 1.0)))
        };
        assert_eq!((lane.in_flight_most(), lane.waits_until_ms()), (8, 0));
        assert!(fail(&mut lane));
        assert_eq!((lane.in_flight_most(), lane.waits_until_ms()), (1, 31_000));
        lane.breaker.sent();
        assert_eq!((lane.in_flight_most(), lane.waits_until_ms()), (1, 0));
        lane.breaker.ended(Sign::Answers, 32_000, (30_000, 1.0));
        assert_eq!((lane.in_flight_most(), lane.waits_until_ms()), (8, 0));
        // Whichever is later: the receiver's own word, or the breaker's.
        assert!(fail(&mut lane));
        lane.hold_until_ms = 90_000;
        assert_eq!(lane.waits_until_ms(), 90_000);
    }
}
