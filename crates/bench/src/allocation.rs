//! Counts what is allocated, by an allocator around another one, cheaply enough to stay on.
//!
//! Each thread counts in a slot of its own, which no other thread writes, so that a count is
//! a load and a store and never a locked instruction. Slots are not given back: threads that
//! come after the last slot share one, and pay for a locked addition. Sums over all slots are
//! exact when nothing allocates meanwhile, and at most a few allocations old otherwise.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Slots that one thread owns. A server has tens of threads; a pool of short-lived ones may
/// use them up, after which counting is only slower.
const SLOTS: usize = 512;

/// The counts of one thread, alone on its cache line.
#[repr(align(64))]
struct Slot {
    allocations: AtomicU64,
    bytes: AtomicU64,
}

static COUNTS: [Slot; SLOTS + 1] = [const {
    Slot {
        allocations: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
    }
}; SLOTS + 1];
static NEXT_SLOT: AtomicUsize = AtomicUsize::new(0);

/// No slot was taken yet.
const NO_SLOT: usize = usize::MAX;

thread_local! {
    // Const and without a destructor: the first use allocates nothing, and the last is never
    // too late, which an allocator relies on.
    static SLOT: Cell<usize> = const { Cell::new(NO_SLOT) };
}

/// An allocator that counts allocations and their bytes, then lets `A` do the work.
#[derive(Debug, Default)]
pub struct Counting<A>(pub A);

/// Allocations and bytes, since the process began or between two readings. A reallocation is
/// an allocation of the bytes that it adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allocated {
    /// Number of allocations and reallocations.
    pub allocations: u64,
    /// Bytes asked for.
    pub bytes: u64,
}

impl Allocated {
    /// All threads' counts so far; zero unless [`Counting`] is the global allocator.
    pub fn so_far() -> Self {
        let mut sum = Self::default();
        for slot in &COUNTS {
            sum.allocations += slot.allocations.load(Ordering::Relaxed);
            sum.bytes += slot.bytes.load(Ordering::Relaxed);
        }
        sum
    }

    /// This thread's counts so far, exact whatever other threads do; those that share the last
    /// slot are counted together.
    pub fn by_this_thread() -> Self {
        let slot = COUNTS.get(SLOT.get());
        slot.map_or_else(Self::default, |slot| Self {
            allocations: slot.allocations.load(Ordering::Relaxed),
            bytes: slot.bytes.load(Ordering::Relaxed),
        })
    }

    /// What was allocated since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            allocations: self.allocations.saturating_sub(earlier.allocations),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

#[inline]
fn count(bytes: usize) {
    let index = SLOT.get();
    let Some(slot) = COUNTS.get(index) else {
        return count_first(bytes);
    };
    if index == SLOTS {
        slot.allocations.fetch_add(1, Ordering::Relaxed);
        slot.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        return;
    }
    // This thread alone writes this slot, so nothing is lost between load and store.
    let allocations = slot.allocations.load(Ordering::Relaxed);
    slot.allocations
        .store(allocations.wrapping_add(1), Ordering::Relaxed);
    let sum = slot.bytes.load(Ordering::Relaxed);
    slot.bytes
        .store(sum.wrapping_add(bytes as u64), Ordering::Relaxed);
}

/// The first allocation of a thread takes a slot.
#[cold]
fn count_first(bytes: usize) {
    let index = NEXT_SLOT.fetch_add(1, Ordering::Relaxed).min(SLOTS);
    SLOT.set(index);
    count(bytes);
}

/// The one part that needs `unsafe`: the trait is unsafe to implement and to call.
#[allow(unsafe_code)]
mod forwarding {
    use super::{Counting, GlobalAlloc, Layout, count};

    // SAFETY: every call is handed to `A` unchanged, and what `A` returns is returned
    // unchanged, so this allocator keeps the trait's contract as `A` does. Counting touches
    // statics and a thread-local that needs no allocation and cannot unwind.
    unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
        #[inline]
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            count(layout.size());
            // SAFETY: the caller keeps the contract of `alloc`, which is the same for `A`.
            unsafe { self.0.alloc(layout) }
        }

        #[inline]
        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            // SAFETY: `pointer` came from this allocator, that is from `A`, with `layout`.
            unsafe { self.0.dealloc(pointer, layout) }
        }

        #[inline]
        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            count(layout.size());
            // SAFETY: the caller keeps the contract of `alloc_zeroed`.
            unsafe { self.0.alloc_zeroed(layout) }
        }

        #[inline]
        unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            count(size.saturating_sub(layout.size()));
            // SAFETY: `pointer` came from `A` with `layout`; the caller keeps the rest.
            unsafe { self.0.realloc(pointer, layout, size) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_thread_allocates_is_counted() {
        let before = Allocated::so_far();
        let threads: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| (0..100).map(|_| vec![0u8; 1_000].len()).sum::<usize>()))
            .collect();
        let bytes: usize = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum();
        assert_eq!(bytes, 400_000);
        let allocated = Allocated::so_far().since(before);
        assert!(allocated.allocations >= 400);
        assert!(allocated.bytes >= 400_000);
    }

    #[test]
    fn a_thread_sees_its_own_allocations_and_no_others() {
        let before = Allocated::by_this_thread();
        let mut kept = vec![0u8; 1_000];
        kept.reserve_exact(2_000);
        let allocated = Allocated::by_this_thread().since(before);
        // 1,000 bytes, then room for 2,000 more behind them.
        assert_eq!(
            allocated,
            Allocated {
                allocations: 2,
                bytes: 3_000
            }
        );
    }
}
