//! Bytes and requests in flight, reserved before a body is read.
//!
//! A reservation covers the larger of the body and the records made from it;
//! it goes on until the log has let the records go, even when the client has
//! gone or the answer's time is over. So the sum of reservations bounds the
//! memory that requests can hold, whatever the log's speed (I7).

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::{IN_FLIGHT_BYTES_MAX, IN_FLIGHT_REQUESTS_MAX, IN_FLIGHT_SHARE_DIVISOR};
use crate::metrics::Metrics;

/// Bounds of what is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapacityLimits {
    /// Bytes over all requests.
    pub bytes_max: u64,
    /// Requests.
    pub requests_max: u32,
    /// Bytes of one owner.
    pub owner_bytes_max: u64,
    /// Requests of one owner.
    pub owner_requests_max: u32,
    /// Requests of one owner that stands for many: the client of a site is all of its visitors.
    pub shared_requests_max: u32,
}

impl CapacityLimits {
    /// Bounds over all, with a quarter of each for one owner, but never less
    /// than one of the largest bodies; of the requests, all but a quarter for an owner that stands
    /// for many.
    pub fn new(bytes_max: u64, requests_max: u32, body_bytes_max: u64) -> Self {
        let quarter = bytes_max / u64::from(IN_FLIGHT_SHARE_DIVISOR);
        Self {
            bytes_max,
            requests_max,
            owner_bytes_max: quarter.max(body_bytes_max).min(bytes_max),
            owner_requests_max: requests_max.div_ceil(IN_FLIGHT_SHARE_DIVISOR),
            shared_requests_max: (requests_max - requests_max / IN_FLIGHT_SHARE_DIVISOR).max(1),
        }
    }
}

impl Default for CapacityLimits {
    fn default() -> Self {
        let body_bytes_max = fulmar_event::limits::BODY_BYTES_MAX as u64;
        Self::new(IN_FLIGHT_BYTES_MAX, IN_FLIGHT_REQUESTS_MAX, body_bytes_max)
    }
}

/// What is in flight over all doors that share it.
pub struct Capacity {
    limits: CapacityLimits,
    metrics: Arc<Metrics>,
    hasher: RandomState,
    usage: Mutex<Usage>,
}

#[derive(Default)]
struct Usage {
    total: Share,
    /// Only owners with something in flight: at most `requests_max` entries.
    owners: HashMap<u64, Share>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Share {
    bytes: u64,
    requests: u32,
}

/// There is no room: 503 with Retry-After 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the gateway is at capacity")]
pub struct AtCapacity;

impl Capacity {
    /// Nothing in flight yet.
    pub fn new(limits: CapacityLimits, metrics: Arc<Metrics>) -> Arc<Self> {
        metrics.in_flight_bytes_max.set(limits.bytes_max as i64);
        metrics
            .in_flight_requests_max
            .set(i64::from(limits.requests_max));
        let usage = Mutex::default();
        Arc::new(Self {
            limits,
            metrics,
            hasher: RandomState::new(),
            usage,
        })
    }

    /// Reserves one request of `bytes` for an owner: an agent or a key, told
    /// apart by `door`. At once or not at all.
    pub fn reserve(
        self: &Arc<Self>,
        door: &'static str,
        owner: &str,
        bytes: u64,
    ) -> Result<Reservation, AtCapacity> {
        self.reserve_of((door, owner), bytes, self.limits.owner_requests_max)
    }

    /// The same, for an owner that stands for many.
    pub fn reserve_shared(
        self: &Arc<Self>,
        door: &'static str,
        owner: &str,
        bytes: u64,
    ) -> Result<Reservation, AtCapacity> {
        self.reserve_of((door, owner), bytes, self.limits.shared_requests_max)
    }

    fn reserve_of(
        self: &Arc<Self>,
        owner: (&'static str, &str),
        bytes: u64,
        requests_max: u32,
    ) -> Result<Reservation, AtCapacity> {
        // Two owners with one hash share a quarter; the hash is keyed, so that
        // nobody can choose whose.
        let owner = self.hasher.hash_one(owner);
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let total = usage.total;
        let share = usage.owners.get(&owner).copied().unwrap_or_default();
        let fits = total.requests < self.limits.requests_max
            && share.requests < requests_max
            && total.bytes + bytes <= self.limits.bytes_max
            && share.bytes + bytes <= self.limits.owner_bytes_max;
        if !fits {
            return Err(AtCapacity);
        }
        usage.total = Share {
            bytes: total.bytes + bytes,
            requests: total.requests + 1,
        };
        let share = Share {
            bytes: share.bytes + bytes,
            requests: share.requests + 1,
        };
        usage.owners.insert(owner, share);
        self.show(&usage);
        Ok(Reservation {
            capacity: Arc::clone(self),
            owner,
            bytes,
        })
    }

    /// Bytes and requests in flight.
    pub fn in_flight(&self) -> (u64, u32) {
        let usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        (usage.total.bytes, usage.total.requests)
    }

    fn show(&self, usage: &Usage) {
        self.metrics.in_flight_bytes.set(usage.total.bytes as i64);
        self.metrics
            .in_flight_requests
            .set(i64::from(usage.total.requests));
    }
}

/// One request's part of the capacity, given back when dropped.
pub struct Reservation {
    capacity: Arc<Capacity>,
    owner: u64,
    bytes: u64,
}

impl Reservation {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes it to `bytes`. Shrinking always works; a growth that does not
    /// fit leaves it as it was.
    pub fn resize(&mut self, bytes: u64) -> Result<(), AtCapacity> {
        let capacity = &self.capacity;
        let mut usage = capacity
            .usage
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let total = usage.total.bytes - self.bytes + bytes;
        let Some(share) = usage.owners.get(&self.owner).copied() else {
            return Err(AtCapacity);
        };
        let owned = share.bytes - self.bytes + bytes;
        let fits = total <= capacity.limits.bytes_max && owned <= capacity.limits.owner_bytes_max;
        if bytes > self.bytes && !fits {
            return Err(AtCapacity);
        }
        usage.total.bytes = total;
        usage.owners.insert(
            self.owner,
            Share {
                bytes: owned,
                requests: share.requests,
            },
        );
        capacity.show(&usage);
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut usage = self
            .capacity
            .usage
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        usage.total.bytes -= self.bytes;
        usage.total.requests -= 1;
        if let Entry::Occupied(mut entry) = usage.owners.entry(self.owner) {
            let share = entry.get_mut();
            share.bytes -= self.bytes;
            share.requests -= 1;
            if share.requests == 0 {
                entry.remove();
            }
        }
        self.capacity.show(&usage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(bytes: u64, requests: u32, owner_bytes: u64, owner_requests: u32) -> Arc<Capacity> {
        let limits = CapacityLimits {
            bytes_max: bytes,
            requests_max: requests,
            owner_bytes_max: owner_bytes,
            owner_requests_max: owner_requests,
            shared_requests_max: requests,
        };
        Capacity::new(limits, Arc::new(Metrics::new()))
    }

    #[test]
    fn bytes_and_requests_are_bounded_and_given_back() {
        let capacity = capacity(100, 3, 100, 3);
        let first = capacity.reserve("agents", "a", 60).unwrap();
        assert!(capacity.reserve("agents", "b", 41).is_err());
        let second = capacity.reserve("agents", "b", 40).unwrap();
        let third = capacity.reserve("agents", "c", 0).unwrap();
        assert!(
            capacity.reserve("agents", "d", 0).is_err(),
            "three requests are the bound"
        );
        assert_eq!(capacity.in_flight(), (100, 3));
        drop(first);
        assert_eq!(capacity.in_flight(), (40, 2));
        drop((second, third));
        assert_eq!(capacity.in_flight(), (0, 0));
        assert!(capacity.usage.lock().unwrap().owners.is_empty());
    }

    #[test]
    fn one_owner_holds_its_share_and_no_more() {
        let capacity = capacity(100, 10, 50, 2);
        let first = capacity.reserve("agents", "greedy", 30).unwrap();
        assert!(capacity.reserve("agents", "greedy", 21).is_err());
        let second = capacity.reserve("agents", "greedy", 20).unwrap();
        assert!(capacity.reserve("agents", "greedy", 0).is_err());
        assert!(capacity.reserve("agents", "quiet", 50).is_ok());
        // The same name at the other door is someone else.
        assert!(capacity.reserve("events", "greedy", 50).is_ok());
        drop((first, second));
    }

    #[test]
    fn a_growth_that_does_not_fit_changes_nothing() {
        let capacity = capacity(100, 10, 80, 10);
        let mut growing = capacity.reserve("agents", "a", 10).unwrap();
        let other = capacity.reserve("agents", "b", 40).unwrap();
        assert_eq!(growing.resize(61), Err(AtCapacity));
        assert_eq!(growing.bytes(), 10);
        assert_eq!(growing.resize(60), Ok(()));
        drop(other);
        assert_eq!(
            growing.resize(81),
            Err(AtCapacity),
            "over the owner's share"
        );
        assert_eq!(growing.resize(5), Ok(()));
        assert_eq!(capacity.in_flight(), (5, 1));
    }

    #[test]
    fn a_share_holds_one_largest_body_at_least() {
        let limits = CapacityLimits::new(16, 2, 8);
        assert_eq!((limits.owner_bytes_max, limits.owner_requests_max), (8, 1));
        let limits = CapacityLimits::default();
        assert_eq!(limits.owner_bytes_max, 32 * 1024 * 1024);
        assert_eq!(limits.owner_requests_max, 128);
        assert_eq!(limits.shared_requests_max, 384);
    }

    #[test]
    fn an_owner_that_stands_for_many_leaves_a_quarter_to_the_others() {
        let limits = CapacityLimits::new(100, 8, 10);
        let capacity = Capacity::new(limits, Arc::new(Metrics::new()));
        let held: Vec<_> = (0..6)
            .map(|_| capacity.reserve_shared("track", "site", 1).unwrap())
            .collect();
        assert!(capacity.reserve_shared("track", "site", 1).is_err());
        assert!(capacity.reserve_shared("track", "another", 1).is_ok());
        drop(held);
        assert!(capacity.reserve_shared("track", "site", 1).is_ok());
    }
}
