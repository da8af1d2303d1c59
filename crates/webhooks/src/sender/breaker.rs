//! The breaker of one webhook: a receiver that fails most attempts is left alone for a while, and
//! then asked with one real delivery. Waiting is not an attempt. Pure: the clock and the dice are
//! the caller's.

use crate::retry::spread_ms;

/// Attempts are counted in slots of this length; together they are the window.
const SLOT_MS: i64 = 30_000;
const SLOTS: usize = 10;
/// It opens where at least so many attempts of the window were made, of which such a share failed.
const ATTEMPTS_MIN: u32 = 10;
const FAILED_TENTHS: u32 = 7;
/// Each pause is twice the one before, so often.
const DOUBLINGS_MAX: u32 = 4;

/// What an attempt says of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// It answers, whatever it answers.
    Answers,
    /// It is down or overloaded.
    Fails,
    /// It asked for time, which is heeded elsewhere.
    Waits,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Number of the slot since the epoch.
    at: i64,
    attempts: u32,
    failed: u32,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Closed,
    Open {
        until_ms: i64,
        times: u32,
    },
    /// One delivery is on its way.
    HalfOpen {
        times: u32,
    },
}

/// A breaker.
#[derive(Clone, Debug, Default)]
pub(super) struct Breaker {
    slots: [Slot; SLOTS],
    state: State,
}

impl Breaker {
    /// When the next delivery may go: not yet where it is later than now. None while all may.
    pub fn probe_ms(&self) -> Option<i64> {
        match self.state {
            State::Closed => None,
            State::Open { until_ms, .. } => Some(until_ms),
            State::HalfOpen { .. } => Some(0),
        }
    }

    /// A delivery is sent.
    pub fn sent(&mut self) {
        if let State::Open { times, .. } = self.state {
            self.state = State::HalfOpen { times };
        }
    }

    /// An attempt has ended. True if the breaker opens by it.
    pub fn ended(&mut self, sign: Sign, now_ms: i64, (pause_ms, dice): (u64, f64)) -> bool {
        if pause_ms == 0 {
            return false;
        }
        self.count(sign, now_ms);
        let times = match (self.state, sign) {
            // What was under way when it opened says nothing new.
            (State::Open { .. }, _) => return false,
            (State::HalfOpen { times }, Sign::Fails) => times + 1,
            (State::HalfOpen { .. }, _) => {
                *self = Self::default();
                return false;
            }
            (State::Closed, Sign::Fails) if self.is_tripped(now_ms) => 0,
            (State::Closed, _) => return false,
        };
        let times = times.min(DOUBLINGS_MAX);
        let pause_ms = spread_ms(pause_ms.saturating_mul(1 << times), dice);
        self.state = State::Open {
            until_ms: now_ms.saturating_add_unsigned(pause_ms),
            times,
        };
        true
    }

    fn count(&mut self, sign: Sign, now_ms: i64) {
        let at = now_ms.div_euclid(SLOT_MS);
        let slot = &mut self.slots[at.rem_euclid(SLOTS as i64) as usize];
        if slot.at != at {
            *slot = Slot {
                at,
                ..Slot::default()
            };
        }
        slot.attempts += u32::from(sign != Sign::Waits);
        slot.failed += u32::from(sign == Sign::Fails);
    }

    fn is_tripped(&self, now_ms: i64) -> bool {
        let first = now_ms.div_euclid(SLOT_MS) - SLOTS as i64;
        let in_window = self.slots.iter().filter(|slot| slot.at > first);
        let (attempts, failed) = in_window.fold((0, 0), |(attempts, failed), slot| {
            (attempts + slot.attempts, failed + slot.failed)
        });
        attempts >= ATTEMPTS_MIN && failed * 10 >= attempts * FAILED_TENTHS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;
    const PAUSE: (u64, f64) = (30_000, 1.0);

    fn failed(breaker: &mut Breaker, count: usize, now_ms: i64) -> bool {
        (0..count).any(|_| breaker.ended(Sign::Fails, now_ms, PAUSE))
    }

    #[test]
    fn it_opens_at_seven_of_ten_and_not_before_ten() {
        let mut few = Breaker::default();
        assert!(!failed(&mut few, 9, NOW));
        assert_eq!(few.probe_ms(), None);
        assert!(failed(&mut few, 1, NOW));
        assert_eq!(few.probe_ms(), Some(NOW + 30_000));

        let mut mixed = Breaker::default();
        for _ in 0..4 {
            mixed.ended(Sign::Answers, NOW, PAUSE);
        }
        assert!(!failed(&mut mixed, 9, NOW), "9 of 13 is less than 7 of 10");
        assert!(failed(&mut mixed, 1, NOW));
    }

    #[test]
    fn the_window_forgets_after_five_minutes() {
        let mut breaker = Breaker::default();
        failed(&mut breaker, 9, NOW);
        assert!(!failed(&mut breaker, 9, NOW + 300_000));
        assert!(failed(&mut breaker, 1, NOW + 310_000));
    }

    #[test]
    fn a_probe_decides_and_pauses_double_up_to_sixteen_times() {
        let mut breaker = Breaker::default();
        failed(&mut breaker, 10, NOW);
        let mut now_ms = NOW;
        for expected in [60_000, 120_000, 240_000, 480_000, 480_000, 480_000] {
            now_ms = breaker.probe_ms().unwrap();
            breaker.sent();
            assert_eq!(breaker.probe_ms(), Some(0));
            assert!(breaker.ended(Sign::Fails, now_ms, PAUSE));
            assert_eq!(breaker.probe_ms(), Some(now_ms + expected));
        }
        breaker.sent();
        assert!(!breaker.ended(Sign::Answers, now_ms, PAUSE));
        assert_eq!(breaker.probe_ms(), None);
        assert!(!failed(&mut breaker, 9, now_ms), "the window begins anew");
    }

    #[test]
    fn a_receiver_that_asks_for_time_answers() {
        let mut breaker = Breaker::default();
        for _ in 0..30 {
            assert!(!breaker.ended(Sign::Waits, NOW, PAUSE));
        }
        failed(&mut breaker, 10, NOW);
        breaker.sent();
        breaker.ended(Sign::Waits, NOW, PAUSE);
        assert_eq!(breaker.probe_ms(), None);
    }

    #[test]
    fn what_ends_while_it_is_open_changes_nothing() {
        let mut breaker = Breaker::default();
        failed(&mut breaker, 10, NOW);
        let until_ms = breaker.probe_ms();
        assert!(!failed(&mut breaker, 20, NOW + 1));
        assert!(!breaker.ended(Sign::Answers, NOW + 1, PAUSE));
        assert_eq!(breaker.probe_ms(), until_ms);
    }

    #[test]
    fn half_of_a_pause_is_chance_and_none_is_none() {
        let mut breaker = Breaker::default();
        for _ in 0..10 {
            breaker.ended(Sign::Fails, NOW, (30_000, 0.0));
        }
        assert_eq!(breaker.probe_ms(), Some(NOW + 15_000));
        let mut off = Breaker::default();
        for _ in 0..100 {
            assert!(!off.ended(Sign::Fails, NOW, (0, 1.0)));
        }
        assert_eq!(off.probe_ms(), None);
    }
}
