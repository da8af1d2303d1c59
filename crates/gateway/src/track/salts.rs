//! Salts of device ids: one a UTC day, kept for two days, made half a day ahead (R3).
//!
//! They live in a file of their own and in memory, never in the registry: when a day's salt is
//! gone, nobody can tell any more whose device an id was.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

const DAY_MS: i64 = 86_400_000;

/// How long before its day a salt is made: every door has it by then.
const AHEAD_MS: i64 = DAY_MS / 2;

/// The salts of a few days, by day since the epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaltDays {
    days: BTreeMap<i64, String>,
}

impl SaltDays {
    /// What is to be kept from `now_ms` on: yesterday's, today's and, when it is time,
    /// tomorrow's. `None` when nothing changes.
    ///
    /// # Errors
    /// What `mint` fails with.
    pub fn advanced<E>(
        &self,
        now_ms: i64,
        mut mint: impl FnMut() -> Result<String, E>,
    ) -> Result<Option<Self>, E> {
        let today = now_ms.div_euclid(DAY_MS);
        let newest = (now_ms + AHEAD_MS).div_euclid(DAY_MS);
        let mut days = self.days.clone();
        days.retain(|day, _| *day >= today - 1);
        for day in today..=newest {
            if let std::collections::btree_map::Entry::Vacant(free) = days.entry(day) {
                free.insert(mint()?);
            }
        }
        Ok((days != self.days).then_some(Self { days }))
    }
}

/// The salts in force.
#[derive(Debug, Default)]
pub struct Salts {
    days: RwLock<Arc<SaltDays>>,
}

/// The salts that the door hashes with at one moment.
#[derive(Debug, Clone)]
pub(super) struct SaltPair {
    days: Arc<SaltDays>,
    today: i64,
}

impl Salts {
    /// Holds these from now on; they are durable already.
    pub fn set(&self, days: SaltDays) {
        *self.days.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(days);
    }

    /// What is held.
    pub fn days(&self) -> Arc<SaltDays> {
        Arc::clone(&self.days.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The salts at `now_ms`; `None` if the day has none, and a door must answer 503.
    pub(super) fn at(&self, now_ms: i64) -> Option<SaltPair> {
        let days = self.days();
        let today = now_ms.div_euclid(DAY_MS);
        days.days
            .contains_key(&today)
            .then_some(SaltPair { days, today })
    }
}

impl SaltPair {
    pub(super) fn current(&self) -> &str {
        self.of(self.today).unwrap_or_default()
    }

    pub(super) fn previous(&self) -> Option<&str> {
        self.of(self.today - 1)
    }

    fn of(&self, day: i64) -> Option<&str> {
        self.days.days.get(&day).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn advance(days: &SaltDays, now_ms: i64, salt: &str) -> SaltDays {
        let mint = || Ok::<_, Infallible>(salt.to_owned());
        let Ok(next) = days.advanced(now_ms, mint);
        next.unwrap_or_else(|| days.clone())
    }

    fn held(days: &SaltDays) -> Vec<(i64, &str)> {
        days.days.iter().map(|(d, s)| (*d, s.as_str())).collect()
    }

    #[test]
    fn tomorrows_is_made_at_noon_and_two_days_are_kept() {
        let first = advance(&SaltDays::default(), 10 * DAY_MS, "a");
        assert_eq!(held(&first), [(10, "a")]);
        let noon = 10 * DAY_MS + DAY_MS / 2;
        assert_eq!(held(&advance(&first, noon - 1, "b")), [(10, "a")]);
        let ahead = advance(&first, noon, "b");
        assert_eq!(held(&ahead), [(10, "a"), (11, "b")]);
        let next = advance(&ahead, 11 * DAY_MS, "c");
        assert_eq!(held(&next), [(10, "a"), (11, "b")]);
        let later = advance(&next, 12 * DAY_MS, "c");
        assert_eq!(held(&later), [(11, "b"), (12, "c")]);
    }

    #[test]
    fn a_day_without_a_salt_has_no_pair() {
        let salts = Salts::default();
        assert!(salts.at(0).is_none());
        salts.set(advance(&SaltDays::default(), 10 * DAY_MS, "a"));
        let pair = salts.at(10 * DAY_MS + 5).unwrap();
        assert_eq!((pair.current(), pair.previous()), ("a", None));
        assert!(salts.at(11 * DAY_MS).is_none());
    }
}
