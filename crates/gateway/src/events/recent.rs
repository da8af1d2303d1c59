//! Ids that are on their way or just arrived: what the index of repeats can't
//! know yet (X2, X3).
//!
//! An id is claimed before its record is appended. A request that meets a
//! claim of another waits for that one's durability instead of answering what
//! it does not know. Landed ids are kept until the fold that feeds the index
//! has passed their offsets, at most four million of them: beyond that a door
//! may answer `accepted` for a repeat, and the fold stores it once all the
//! same.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// What the index of repeats tells the doors. Wired by the binary.
pub trait KnownIds: Send + Sync + 'static {
    /// The keyed 16-byte hash under which the index has an identity.
    fn fingerprint(&self, project: &str, client: &str, id: &str) -> u128;
    /// True if the index has it. May read from disk. An index that can't be
    /// read knows nothing: the answer is a courtesy.
    fn contains(&self, fingerprint: u128) -> bool;
    /// Records before this offset of `events` are in the index.
    fn position(&self) -> u64;
}

/// Ids of one generation: as many as a table of 65,536 places takes at seven
/// eighths, so that none is grown beyond what it fills.
const GENERATION_IDS: usize = 57_344;

/// Generations kept: four million ids, about 80 MiB if a writer is that far
/// behind; one that keeps up needs one or two.
const GENERATIONS_MAX: usize = 70;

/// Fingerprints are hashes already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }
}

type Fingerprints = HashSet<u128, BuildHasherDefault<AsIs>>;

/// How a flight ended; `None` while it is under way.
type Landing = Option<bool>;

/// Where the end of a flight is told.
pub(super) type Landings = watch::Receiver<Landing>;

/// What a claim found.
pub(super) enum Claim {
    /// Nobody has it: it is the caller's.
    Mine,
    /// It is durable already.
    Durable,
    /// Another request has it; ends with true if it became durable.
    Elsewhere(Landings),
}

/// Ids in flight and ids just landed.
#[derive(Default)]
pub struct RecentIds {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    flights: HashMap<u128, Landings, BuildHasherDefault<AsIs>>,
    /// The newest last.
    generations: VecDeque<Generation>,
}

struct Generation {
    ids: Fingerprints,
    /// One past the highest offset of its records.
    end_offset: u64,
}

/// The ids that one request has claimed. Dropped without landing, it gives
/// them up, and who waits for them tries for itself.
pub(super) struct Flight {
    recent: Arc<RecentIds>,
    ids: Vec<u128>,
    landing: watch::Sender<Landing>,
}

impl RecentIds {
    /// Nothing known.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Claims each id that is free, in one step.
    pub(super) fn claim(self: &Arc<Self>, ids: &[u128]) -> (Flight, Vec<Claim>) {
        let (landing, receiver) = watch::channel(None);
        let mut mine = Vec::new();
        let mut claims = Vec::with_capacity(ids.len());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for id in ids {
            let claim = if state.has_landed(*id) {
                Claim::Durable
            } else if let Some(flight) = state.flights.get(id) {
                Claim::Elsewhere(flight.clone())
            } else {
                state.flights.insert(*id, receiver.clone());
                mine.push(*id);
                Claim::Mine
            };
            claims.push(claim);
        }
        drop(state);
        (
            Flight {
                recent: Arc::clone(self),
                ids: mine,
                landing,
            },
            claims,
        )
    }

    /// Ids in flight and landed ones that are kept.
    pub fn held(&self) -> (usize, usize) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (
            state.flights.len(),
            state.generations.iter().map(|g| g.ids.len()).sum(),
        )
    }
}

impl State {
    fn has_landed(&self, id: u128) -> bool {
        self.generations
            .iter()
            .rev()
            .any(|generation| generation.ids.contains(&id))
    }

    fn keep(&mut self, ids: &[u128], end_offset: u64) {
        for id in ids {
            let full = self
                .generations
                .back()
                .is_none_or(|g| g.ids.len() >= GENERATION_IDS);
            if full {
                self.generations.push_back(Generation {
                    ids: Fingerprints::default(),
                    end_offset,
                });
            }
            if let Some(newest) = self.generations.back_mut() {
                newest.ids.insert(*id);
                newest.end_offset = newest.end_offset.max(end_offset);
            }
        }
    }

    /// Lets go of what the index has, and of the oldest beyond the bound.
    fn let_go(&mut self, position: u64) {
        while let Some(oldest) = self.generations.front() {
            let indexed = oldest.end_offset <= position;
            if !indexed && self.generations.len() <= GENERATIONS_MAX {
                break;
            }
            self.generations.pop_front();
        }
    }
}

impl Flight {
    /// Gives one of the claimed ids up: it will not be durable by this flight.
    pub(super) fn give_up(&mut self, id: u128) {
        let Some(place) = self.ids.iter().position(|claimed| *claimed == id) else {
            return;
        };
        self.ids.swap_remove(place);
        let recent = &self.recent.state;
        let mut state = recent.lock().unwrap_or_else(PoisonError::into_inner);
        state.flights.remove(&id);
    }

    /// The claimed ids are durable, before `end_offset`; the index has what
    /// lies before `position`.
    pub(super) fn land(mut self, end_offset: u64, position: u64) {
        let ids = std::mem::take(&mut self.ids);
        let mut state = self
            .recent
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        state.let_go(position);
        // In one step: at no moment is an id in neither place.
        state.keep(&ids, end_offset);
        for id in &ids {
            state.flights.remove(id);
        }
        drop(state);
        self.landing.send_replace(Some(true));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.ids.is_empty() {
            return;
        }
        let mut state = self
            .recent
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for id in &self.ids {
            state.flights.remove(id);
        }
        drop(state);
        self.landing.send_replace(Some(false));
    }
}

/// Waits for the end of another's flight: true if its ids are durable.
pub(super) async fn landed(mut flight: Landings) -> bool {
    match flight.wait_for(Option::is_some).await {
        Ok(landing) => *landing == Some(true),
        // Its owner is gone and said nothing.
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(claims: &[Claim]) -> String {
        let kind = |claim: &Claim| match claim {
            Claim::Mine => 'm',
            Claim::Durable => 'd',
            Claim::Elsewhere(_) => 'e',
        };
        claims.iter().map(kind).collect()
    }

    #[test]
    fn an_id_is_mine_then_elsewhere_then_durable() {
        let recent = RecentIds::new();
        let (flight, claims) = recent.claim(&[1, 2, 1]);
        assert_eq!(kinds(&claims), "mme");
        let (other, claims) = recent.claim(&[2, 3]);
        assert_eq!(kinds(&claims), "em");
        flight.land(10, 0);
        let (_, claims) = recent.claim(&[1, 2, 3]);
        assert_eq!(kinds(&claims), "dde");
        drop(other);
        assert_eq!(recent.held(), (0, 2));
    }

    #[tokio::test]
    async fn who_waits_learns_how_it_ended() {
        let recent = RecentIds::new();
        let (first, _) = recent.claim(&[1]);
        let (_, mut claims) = recent.claim(&[1]);
        let Some(Claim::Elsewhere(waiting)) = claims.pop() else {
            panic!("not elsewhere")
        };
        let again = waiting.clone();
        first.land(1, 0);
        assert!(landed(waiting).await);
        assert!(landed(again).await, "however late it asks");
        let (second, _) = recent.claim(&[2]);
        let (_, mut claims) = recent.claim(&[2]);
        let Some(Claim::Elsewhere(waiting)) = claims.pop() else {
            panic!("not elsewhere")
        };
        drop(second);
        assert!(!landed(waiting).await);
        assert_eq!(kinds(&recent.claim(&[2]).1), "m", "free again");
    }

    #[test]
    fn what_the_index_has_is_let_go() {
        let recent = RecentIds::new();
        let (flight, _) = recent.claim(&[1, 2]);
        flight.land(2, 0);
        let (flight, _) = recent.claim(&[3]);
        flight.land(3, 2);
        assert_eq!(recent.held(), (0, 1));
        assert_eq!(kinds(&recent.claim(&[1, 3]).1), "md");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut state = State::default();
        for generation in 0..(GENERATIONS_MAX as u64 + 5) {
            let first = u128::from(generation) * GENERATION_IDS as u128;
            let ids: Vec<u128> = (first..first + GENERATION_IDS as u128).collect();
            state.let_go(0);
            state.keep(&ids, generation + 1);
        }
        state.let_go(0);
        assert_eq!(state.generations.len(), GENERATIONS_MAX);
        assert!(!state.has_landed(0), "the oldest went");
    }
}
