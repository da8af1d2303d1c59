//! Waits between tries: doubling, with jitter, never shorter than asked for.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// The first wait: a server that restarts is back within a few of these.
const FIRST: Duration = Duration::from_millis(100);

/// The growing wait of one run of failures.
#[derive(Debug)]
pub struct Backoff {
    tries: u32,
    longest: Duration,
}

impl Backoff {
    /// Waits that grow to `longest`.
    pub fn new(longest: Duration) -> Backoff {
        Backoff { tries: 0, longest }
    }

    /// Forgets the failures.
    pub fn reset(&mut self) {
        self.tries = 0;
    }

    /// How long to wait after one more failure; `after` is the server's wish.
    pub fn next(&mut self, after: Option<Duration>) -> Duration {
        let wait = FIRST
            .saturating_mul(1 << self.tries.min(16))
            .min(self.longest);
        self.tries = self.tries.saturating_add(1);
        jittered(wait, random()).max(after.unwrap_or_default())
    }
}

/// Between half of `wait` and all of it, so that a fleet does not return as
/// one.
fn jittered(wait: Duration, random: u64) -> Duration {
    let part = (random >> 11) as f64 / (1u64 << 53) as f64;
    wait.mul_f64(0.5 + part / 2.0)
}

/// The keys of a fresh hasher are random; jitter needs no more than that.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_the_bound_within_their_jitter() {
        let mut backoff = Backoff::new(Duration::from_secs(30));
        for want_ms in [
            100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000,
        ] {
            let wait = backoff.next(None);
            let want = Duration::from_millis(want_ms);
            assert!(wait >= want / 2 && wait <= want, "{wait:?} for {want:?}");
        }
        backoff.reset();
        assert!(backoff.next(None) <= FIRST);
        assert_eq!(jittered(FIRST, 0), FIRST / 2);
        assert!(jittered(FIRST, u64::MAX) <= FIRST);
    }

    #[test]
    fn the_server_s_wish_is_the_least() {
        let wish = Duration::from_secs(60);
        assert_eq!(Backoff::new(Duration::from_secs(30)).next(Some(wish)), wish);
        assert!(Backoff::new(Duration::from_secs(30)).next(Some(Duration::ZERO)) >= FIRST / 2);
    }
}
