//! Budgets per agent or key: requests, events and bytes a second (G6).
//!
//! Each budget is a virtual clock: it runs ahead of the real one by what was
//! spent, at most by the burst. A clock that is not ahead is a full budget, so
//! an entry may be forgotten exactly then, and an idle agent costs nothing.
//!
//! The tracked set is bounded. An entry that has to go while it still owes is
//! folded into one of a fixed number of slots by hash, and an agent that comes
//! back starts from its slot: so eviction never refills a budget. Agents that
//! share a slot may be held to each other's debt, for at most one burst's
//! time, and only while more agents than the bound are active at once.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::{BUDGET_FOLDED_SLOTS, BUDGET_TRACKED_MAX};
use crate::metrics::Metrics;

const SECOND_NS: u64 = 1_000_000_000;

/// How many entries are looked at to find one to evict.
const EVICTION_LOOKS: usize = 16;

/// One budget. A rate of zero means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Units a second.
    pub per_second: u64,
    /// Units that may be spent at once, after a pause.
    pub burst: u64,
}

impl Rate {
    /// A rate with a burst of two seconds.
    pub const fn two_seconds(per_second: u64) -> Self {
        Self {
            per_second,
            burst: per_second.saturating_mul(2),
        }
    }

    /// No limit.
    pub const UNLIMITED: Self = Self {
        per_second: 0,
        burst: 0,
    };

    /// How far `units` move the clock.
    fn cost_ns(self, units: u64) -> u64 {
        let cost = u128::from(units) * u128::from(SECOND_NS) / u128::from(self.per_second);
        u64::try_from(cost).unwrap_or(u64::MAX)
    }
}

/// The budgets of each agent, or of each key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLimits {
    /// HTTP requests.
    pub requests: Rate,
    /// Events.
    pub events: Rate,
    /// Bytes of bodies, inflated.
    pub bytes: Rate,
    /// Owners tracked one by one.
    pub tracked_max: usize,
}

impl BudgetLimits {
    /// Per agent (G6).
    pub const AGENT: Self = Self {
        requests: Rate::two_seconds(200),
        events: Rate::two_seconds(50_000),
        bytes: Rate::two_seconds(32 * 1024 * 1024),
        tracked_max: BUDGET_TRACKED_MAX,
    };

    /// Per API key (G6).
    pub const KEY: Self = Self {
        requests: Rate::two_seconds(50_000),
        events: Rate::two_seconds(200_000),
        bytes: Rate::two_seconds(128 * 1024 * 1024),
        tracked_max: BUDGET_TRACKED_MAX,
    };

    /// Nothing is limited and nothing tracked.
    pub const UNLIMITED: Self = Self {
        requests: Rate::UNLIMITED,
        events: Rate::UNLIMITED,
        bytes: Rate::UNLIMITED,
        tracked_max: 1,
    };
}

/// Which budget has run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OverBudget {
    /// Too many requests.
    #[error("the budget of requests is spent")]
    Requests,
    /// Too many events.
    #[error("the budget of events is spent")]
    Events,
    /// Too many bytes.
    #[error("the budget of bytes is spent")]
    Bytes,
}

/// How far the three clocks have come, in nanoseconds of the real one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Clocks {
    requests: u64,
    events: u64,
    bytes: u64,
}

impl Clocks {
    fn latest(self) -> u64 {
        self.requests.max(self.events).max(self.bytes)
    }

    fn at_least(self, other: Self) -> Self {
        Self {
            requests: self.requests.max(other.requests),
            events: self.events.max(other.events),
            bytes: self.bytes.max(other.bytes),
        }
    }
}

struct Tracked {
    owner: Arc<str>,
    clocks: Clocks,
}

/// The budgets of all owners of one door.
pub struct Budgets {
    door: &'static str,
    limits: BudgetLimits,
    metrics: Arc<Metrics>,
    hasher: RandomState,
    state: Mutex<State>,
}

struct State {
    index: HashMap<Arc<str>, usize>,
    entries: Vec<Tracked>,
    /// The clock's hand: where the next eviction starts to look.
    hand: usize,
    folded: Box<[Clocks]>,
    evicted: u64,
}

impl Budgets {
    /// All budgets of a door full.
    pub fn new(door: &'static str, limits: BudgetLimits, metrics: Arc<Metrics>) -> Self {
        let state = State {
            index: HashMap::new(),
            entries: Vec::new(),
            hand: 0,
            folded: vec![Clocks::default(); BUDGET_FOLDED_SLOTS].into_boxed_slice(),
            evicted: 0,
        };
        let state = Mutex::new(state);
        Self {
            door,
            limits,
            metrics,
            hasher: RandomState::new(),
            state,
        }
    }

    fn is_unlimited(&self) -> bool {
        let limits = &self.limits;
        limits.requests.per_second == 0
            && limits.events.per_second == 0
            && limits.bytes.per_second == 0
    }

    /// Spends one request.
    pub fn spend_request(&self, owner: &str, now_ns: u64) -> Result<(), OverBudget> {
        let rate = self.limits.requests;
        self.with_clocks(owner, now_ns, |clocks| {
            spend(&mut clocks.requests, rate, 1, now_ns).ok_or(OverBudget::Requests)
        })
    }

    /// Tells, spending nothing, whether a body of `bytes` could be afforded
    /// now: a body that can't is not worth reading.
    pub fn affords_bytes(&self, owner: &str, bytes: u64, now_ns: u64) -> Result<(), OverBudget> {
        let rate = self.limits.bytes;
        self.with_clocks(owner, now_ns, |clocks| {
            let mut trial = clocks.bytes;
            spend(&mut trial, rate, bytes, now_ns).ok_or(OverBudget::Bytes)
        })
    }

    /// Spends a walked batch: both budgets or neither.
    pub fn spend_batch(
        &self,
        owner: &str,
        events: u64,
        bytes: u64,
        now_ns: u64,
    ) -> Result<(), OverBudget> {
        let limits = self.limits;
        self.with_clocks(owner, now_ns, |clocks| {
            let mut trial = *clocks;
            spend(&mut trial.events, limits.events, events, now_ns).ok_or(OverBudget::Events)?;
            spend(&mut trial.bytes, limits.bytes, bytes, now_ns).ok_or(OverBudget::Bytes)?;
            *clocks = trial;
            Ok(())
        })
    }

    /// Owners tracked one by one, and how many were folded since the start.
    pub fn tracked(&self) -> (usize, u64) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.entries.len(), state.evicted)
    }

    fn with_clocks(
        &self,
        owner: &str,
        now_ns: u64,
        spend: impl FnOnce(&mut Clocks) -> Result<(), OverBudget>,
    ) -> Result<(), OverBudget> {
        if self.is_unlimited() {
            return Ok(());
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let place = match state.index.get(owner) {
            Some(place) => *place,
            None => {
                let slot = |name: &str| self.hasher.hash_one(name) as usize % BUDGET_FOLDED_SLOTS;
                let folded_before = state.evicted;
                let place = state.track(owner, self.limits.tracked_max.max(1), now_ns, slot);
                if state.evicted > folded_before {
                    self.metrics.evicted(self.door);
                }
                place
            }
        };
        spend(&mut state.entries[place].clocks)
    }
}

/// Moves a clock by `units` if that keeps it within the burst. A cost above
/// the whole burst is allowed of a full budget, and paid off afterwards: else
/// it could never be.
fn spend(clock: &mut u64, rate: Rate, units: u64, now_ns: u64) -> Option<()> {
    if rate.per_second == 0 {
        return Some(());
    }
    let from_ns = (*clock).max(now_ns);
    let to_ns = from_ns.saturating_add(rate.cost_ns(units));
    let within = to_ns - now_ns <= rate.cost_ns(rate.burst.max(1));
    let full = from_ns == now_ns;
    if !within && !full {
        return None;
    }
    *clock = to_ns;
    Some(())
}

impl State {
    fn track(
        &mut self,
        owner: &str,
        tracked_max: usize,
        now_ns: u64,
        slot: impl Fn(&str) -> usize,
    ) -> usize {
        let owner: Arc<str> = owner.into();
        let clocks = self.folded[slot(&owner)];
        let tracked = Tracked {
            owner: Arc::clone(&owner),
            clocks,
        };
        let place = if self.entries.len() < tracked_max {
            self.entries.push(tracked);
            self.entries.len() - 1
        } else {
            let place = self.place_to_evict(now_ns);
            let evicted = std::mem::replace(&mut self.entries[place], tracked);
            self.index.remove(&evicted.owner);
            if evicted.clocks.latest() > now_ns {
                let slot = slot(&evicted.owner);
                self.folded[slot] = self.folded[slot].at_least(evicted.clocks);
                self.evicted += 1;
            }
            place
        };
        self.index.insert(owner, place);
        place
    }

    /// The first entry at the hand with full budgets, else the one of those
    /// looked at that owes least.
    fn place_to_evict(&mut self, now_ns: u64) -> usize {
        let length = self.entries.len();
        let mut best = self.hand % length;
        for look in 0..EVICTION_LOOKS.min(length) {
            let place = (self.hand + look) % length;
            let latest = self.entries[place].clocks.latest();
            if latest < self.entries[best].clocks.latest() {
                best = place;
            }
            if latest <= now_ns {
                best = place;
                break;
            }
        }
        self.hand = (best + 1) % length;
        best
    }
}

#[cfg(test)]
mod tests;
