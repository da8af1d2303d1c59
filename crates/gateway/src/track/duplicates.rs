//! The same request of a browser within a tenth of a second: a double click, or a script that
//! was loaded twice. It is answered like the first, once that is durable, and stored once.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::answers::Visited;

/// How long a request is remembered.
const WINDOW_NS: u64 = 100_000_000;

/// Requests remembered: 100 ms of 650,000 a second, about 8 MiB. Beyond, the oldest are
/// forgotten, and their repeats are events of their own.
const REMEMBERED_MAX: usize = 65_536;

/// How a request ended: `None` while it is under way, then what was answered, or nothing.
type Ending = Option<Option<Visited>>;

/// Requests of the last tenth of a second.
pub(super) struct Duplicates {
    hasher: [RandomState; 2],
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: HashMap<u128, (u64, watch::Receiver<Ending>)>,
    /// The oldest first.
    order: VecDeque<(u64, u128)>,
}

/// What is known of a request.
pub(super) enum First {
    /// It is the first: tell how it ends. Dropped without a word, it is forgotten.
    Ours(Claim),
    /// Another was first.
    Theirs(watch::Receiver<Ending>),
}

/// A request that was the first.
pub(super) struct Claim {
    duplicates: Arc<Duplicates>,
    hash: u128,
    ending: watch::Sender<Ending>,
}

impl Duplicates {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            hasher: [RandomState::new(), RandomState::new()],
            state: Mutex::default(),
        })
    }

    /// The keyed hash of what makes two requests the same.
    pub(super) fn hash(&self, parts: &[&[u8]]) -> u128 {
        let [high, low] = self.hasher.each_ref().map(|hasher| hasher.hash_one(parts));
        u128::from(high) << 64 | u128::from(low)
    }

    pub(super) fn claim(self: &Arc<Self>, hash: u128, now_ns: u64) -> First {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.forget(now_ns);
        if let Some((_, ending)) = state.seen.get(&hash) {
            return First::Theirs(ending.clone());
        }
        let (ending, receiver) = watch::channel(None);
        state.seen.insert(hash, (now_ns, receiver));
        state.order.push_back((now_ns, hash));
        First::Ours(Claim {
            duplicates: Arc::clone(self),
            hash,
            ending,
        })
    }
}

impl State {
    fn forget(&mut self, now_ns: u64) {
        while let Some((at_ns, hash)) = self.order.front().copied() {
            let old = now_ns.saturating_sub(at_ns) >= WINDOW_NS;
            if !old && self.order.len() < REMEMBERED_MAX {
                return;
            }
            self.order.pop_front();
            // One that was given up may have been claimed anew since.
            if self.seen.get(&hash).is_some_and(|(at, _)| *at == at_ns) {
                self.seen.remove(&hash);
            }
        }
    }
}

impl Claim {
    /// It is durable, and was answered so.
    pub(super) fn durable(self, answered: Visited) {
        self.ending.send_replace(Some(Some(answered)));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.ending.borrow().is_some() {
            return;
        }
        let duplicates = &self.duplicates;
        let mut state = duplicates
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        state.seen.remove(&self.hash);
        drop(state);
        self.ending.send_replace(Some(None));
    }
}

/// Waits for the first request's end: what it was answered, if it became durable.
pub(super) async fn ended(mut theirs: watch::Receiver<Ending>) -> Option<Visited> {
    let ending = theirs.wait_for(Option::is_some).await.ok()?;
    ending.clone().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(first: First) -> Claim {
        match first {
            First::Ours(claim) => claim,
            First::Theirs(_) => panic!("somebody was first"),
        }
    }

    #[tokio::test]
    async fn a_repeat_within_the_window_waits_for_the_first_and_gets_its_answer() {
        let duplicates = Duplicates::new();
        let hash = duplicates.hash(&[b"body", b"ip"]);
        let claim = ours(duplicates.claim(hash, 0));
        let First::Theirs(waiting) = duplicates.claim(hash, WINDOW_NS - 1) else {
            panic!("the first is under way");
        };
        let visited = Visited {
            device: "d".to_owned(),
            session: "s".to_owned(),
        };
        claim.durable(visited.clone());
        assert_eq!(ended(waiting).await, Some(visited));
        ours(duplicates.claim(hash, WINDOW_NS));
    }

    #[tokio::test]
    async fn one_that_failed_is_no_reason_to_drop_its_repeat() {
        let duplicates = Duplicates::new();
        let claim = ours(duplicates.claim(1, 0));
        let First::Theirs(waiting) = duplicates.claim(1, 1) else {
            panic!("the first is under way");
        };
        drop(claim);
        assert_eq!(ended(waiting).await, None);
        // Claimed anew, it stays for a window of its own.
        let again = ours(duplicates.claim(1, 50_000_000));
        again.durable(Visited::default());
        assert!(matches!(duplicates.claim(1, 120_000_000), First::Theirs(_)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let duplicates = Duplicates::new();
        for hash in 0..REMEMBERED_MAX as u128 + 10 {
            ours(duplicates.claim(hash, 0)).durable(Visited::default());
        }
        let state = duplicates.state.lock().unwrap();
        assert_eq!(
            (state.seen.len(), state.order.len()),
            (REMEMBERED_MAX, REMEMBERED_MAX)
        );
    }
}
