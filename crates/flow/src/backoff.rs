//! Growing pauses with jitter between tries of a block.

use std::time::Duration;

/// Bound of the first pause: about the time of one busy disk or one full queue.
const FIRST_MS: u64 = 50;
/// Longest pause: short beside an operator's reaction, long beside a try.
const LONGEST_MS: u64 = 10_000;

/// Exponential backoff with full jitter from a seed, so that a run can be repeated.
#[derive(Debug)]
pub(crate) struct Backoff {
    tries: u32,
    random: u64,
}

impl Backoff {
    pub fn new(seed: u64) -> Backoff {
        Backoff {
            tries: 0,
            random: seed,
        }
    }

    /// After a success the next pause is short again.
    pub fn reset(&mut self) {
        self.tries = 0;
    }

    /// Tries that failed in a row.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// The next pause: between half of the bound and the bound, which doubles each time.
    pub fn next_pause(&mut self) -> Duration {
        let doublings = self.tries.min(16);
        let bound_ms = (FIRST_MS << doublings).min(LONGEST_MS);
        self.tries = self.tries.saturating_add(1);
        let jitter_ms = self.random() % (bound_ms / 2 + 1);
        Duration::from_millis(bound_ms / 2 + jitter_ms)
    }

    /// SplitMix64: a full-period generator; its quality is far more than jitter needs.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_start_again_after_a_success() {
        let mut backoff = Backoff::new(7);
        let mut bound_ms = 50;
        for _ in 0..20 {
            let pause_ms = backoff.next_pause().as_millis() as u64;
            assert!(
                (bound_ms / 2..=bound_ms).contains(&pause_ms),
                "{pause_ms} of {bound_ms}"
            );
            bound_ms = (bound_ms * 2).min(10_000);
        }
        backoff.reset();
        assert!(backoff.next_pause() <= Duration::from_millis(50));
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        let pauses = |seed| {
            let mut backoff = Backoff::new(seed);
            (0..8).map(|_| backoff.next_pause()).collect::<Vec<_>>()
        };
        assert_eq!(pauses(1), pauses(1));
        assert_ne!(pauses(1), pauses(2));
    }
}
