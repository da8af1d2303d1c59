//! Attempts of one webhook in one minute.

use fulmar_event::{AttemptRecord, DeliveryStatus};

/// Milliseconds of a minute.
pub const MINUTE_MS: i64 = 60_000;
/// Minutes that health is judged by: a day.
pub const WINDOW_MINUTES: i64 = 24 * 60;

/// What kind of failure it was, as health counts them; the names are Sparrow's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is what its name says")]
pub enum Failure {
    Client,
    Server,
    Timeout,
    Network,
    UnexpectedStatus,
}

impl Failure {
    /// All of them, in the order in which they are kept.
    pub const ALL: [Self; 5] = [
        Self::Client,
        Self::Server,
        Self::Timeout,
        Self::Network,
        Self::UnexpectedStatus,
    ];
}

/// What an attempt says of its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It took the delivery.
    Success,
    /// It did not, and this is its doing.
    Failure(Failure),
    /// It asked for time: that is no failure.
    Busy,
}

impl Verdict {
    /// Of a record; none where nothing was sent, or what was wrong is not the receiver's doing.
    #[must_use]
    pub fn of(record: &AttemptRecord<'_>) -> Option<Self> {
        if !record.attempted {
            return None;
        }
        if record.status == DeliveryStatus::Delivered as i32 {
            return Some(Self::Success);
        }
        let failure = match record.error_category {
            "rate_limited" => return Some(Self::Busy),
            "unsendable" | "template_error" => return None,
            "client_error" | "gone" => Failure::Client,
            "server_error" => Failure::Server,
            "timeout" => Failure::Timeout,
            "unexpected_status" => Failure::UnexpectedStatus,
            _ => Failure::Network,
        };
        Some(Self::Failure(failure))
    }
}

/// Counts of attempts, of a minute or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Taken.
    pub successes: u64,
    /// Failed, in the order of [`Failure::ALL`].
    pub failures: [u64; Failure::ALL.len()],
    /// Answered with a request for time.
    pub busy: u64,
    /// Microseconds of all exchanges.
    pub duration_us: u64,
}

/// Numbers of [`Attempts`], of 8 bytes each.
const NUMBERS: usize = 3 + Failure::ALL.len();

impl Attempts {
    /// Counts one.
    pub fn add(&mut self, verdict: Verdict, duration_us: u64) {
        match verdict {
            Verdict::Success => self.successes += 1,
            Verdict::Failure(kind) => self.failures[kind as usize] += 1,
            Verdict::Busy => self.busy += 1,
        }
        self.duration_us = self.duration_us.saturating_add(duration_us);
    }

    /// Counts those of another minute.
    pub fn add_all(&mut self, other: &Self) {
        self.successes += other.successes;
        for (sum, more) in self.failures.iter_mut().zip(other.failures) {
            *sum += more;
        }
        self.busy += other.busy;
        self.duration_us = self.duration_us.saturating_add(other.duration_us);
    }

    /// All that failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.successes + self.failed() + self.busy
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let ends = [self.busy, self.duration_us];
        let numbers = [self.successes]
            .into_iter()
            .chain(self.failures)
            .chain(ends);
        numbers.flat_map(u64::to_be_bytes).collect()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (numbers, rest) = bytes.as_chunks::<8>();
        if numbers.len() != NUMBERS || !rest.is_empty() {
            return None;
        }
        let number = |place: usize| u64::from_be_bytes(numbers[place]);
        Some(Self {
            successes: number(0),
            failures: std::array::from_fn(|place| number(1 + place)),
            busy: number(NUMBERS - 2),
            duration_us: number(NUMBERS - 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(category: &'static str) -> AttemptRecord<'static> {
        AttemptRecord {
            attempted: true,
            status: DeliveryStatus::Failed as i32,
            error_category: category,
            ..AttemptRecord::default()
        }
    }

    #[test]
    fn each_category_counts_as_what_it_says_of_the_receiver() {
        use crate::client::Category;
        let expected = |category: Category| match category {
            Category::ClientError | Category::Gone => Some(Verdict::Failure(Failure::Client)),
            Category::ServerError => Some(Verdict::Failure(Failure::Server)),
            Category::Timeout => Some(Verdict::Failure(Failure::Timeout)),
            Category::UnexpectedStatus => Some(Verdict::Failure(Failure::UnexpectedStatus)),
            Category::RateLimited => Some(Verdict::Busy),
            Category::Unsendable => None,
            Category::ConnectionRefused
            | Category::NetworkError
            | Category::DnsError
            | Category::TlsError
            | Category::BlockedAddress => Some(Verdict::Failure(Failure::Network)),
        };
        for category in Category::ALL {
            let found = Verdict::of(&record(category.as_str()));
            assert_eq!(found, expected(category), "{category:?}");
        }
    }

    #[test]
    fn what_was_not_sent_says_nothing() {
        let unsent = AttemptRecord {
            attempted: false,
            ..record("")
        };
        assert_eq!(Verdict::of(&unsent), None);
        let taken = AttemptRecord {
            status: DeliveryStatus::Delivered as i32,
            ..record("")
        };
        assert_eq!(Verdict::of(&taken), Some(Verdict::Success));
    }

    #[test]
    fn counts_are_kept_as_they_are() {
        let mut attempts = Attempts::default();
        attempts.add(Verdict::Success, 10);
        attempts.add(Verdict::Failure(Failure::Timeout), 30);
        attempts.add(Verdict::Busy, 2);
        assert_eq!((attempts.total(), attempts.failed()), (3, 1));
        assert_eq!(attempts.duration_us, 42);
        let bytes = attempts.encode();
        assert_eq!(Attempts::decode(&bytes), Some(attempts));
        assert_eq!(Attempts::decode(&bytes[1..]), None);
        let mut sum = attempts;
        sum.add_all(&attempts);
        assert_eq!((sum.total(), sum.failures[2], sum.duration_us), (6, 2, 84));
    }
}
