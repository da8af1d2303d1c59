//! The sessions that are live, as doors ask after them: a copy of what the fold has committed (S3).
//!
//! Doors and the fold meet only at the lock of one part, and only when a block is committed.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fulmar_event::SessionId;

/// Parts with a lock each: far more than threads.
const PARTS: usize = 64;

/// The open sessions of one process, by device.
pub struct LiveView {
    timeout_ms: i64,
    /// Keyed, so that nobody can choose whose session a device is taken for.
    hasher: RandomState,
    parts: [Mutex<HashMap<u64, Live>>; PARTS],
}

/// An open session: some 60 bytes with its place in the table.
#[derive(Clone, Copy)]
struct Live {
    id: SessionId,
    /// Seconds since the epoch.
    created_s: u32,
    ended_s: u32,
}

impl LiveView {
    /// Of sessions that end after a silence of `timeout_ms`.
    pub fn new(timeout_ms: i64) -> LiveView {
        LiveView {
            timeout_ms,
            hasher: RandomState::new(),
            parts: std::array::from_fn(|_| Mutex::default()),
        }
    }

    /// The id of the device's session that an event at `at_ms` extends; none if there is none,
    /// or if its start is not committed yet.
    pub fn live(&self, project: &str, device: &str, at_ms: i64) -> Option<SessionId> {
        let key = self.key(project, device);
        let live = self.part(key).get(&key).copied()?;
        let from_ms = i64::from(live.created_s) * 1_000 - self.timeout_ms;
        let to_ms = i64::from(live.ended_s) * 1_000 + self.timeout_ms;
        (from_ms..=to_ms).contains(&at_ms).then_some(live.id)
    }

    /// Notes the device's open session, or that it has none.
    pub(crate) fn put(&self, project: &str, device: &str, open: Option<(SessionId, i64, i64)>) {
        let key = self.key(project, device);
        let mut part = self.part(key);
        match open {
            None => drop(part.remove(&key)),
            Some((id, created_ms, ended_ms)) => {
                let seconds = |ms: i64| u32::try_from(ms / 1_000).unwrap_or(0);
                let (created_s, ended_s) = (seconds(created_ms), seconds(ended_ms));
                part.insert(
                    key,
                    Live {
                        id,
                        created_s,
                        ended_s,
                    },
                );
            }
        }
    }

    /// Sessions in it.
    pub fn len(&self) -> usize {
        let of_part = |part: &Mutex<HashMap<_, _>>| part.lock().map_or(0, |part| part.len());
        self.parts.iter().map(of_part).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn key(&self, project: &str, device: &str) -> u64 {
        self.hasher.hash_one((project, device))
    }

    fn part(&self, key: u64) -> MutexGuard<'_, HashMap<u64, Live>> {
        // An entry is replaced whole: a panic elsewhere can't leave it half changed.
        let part = &self.parts[key as usize % PARTS];
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
