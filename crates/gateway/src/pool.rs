//! Buffers for bodies, used again, so that a request allocates nothing that
//! grows with its events.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::{POOL_BUFFERS_MAX, POOL_BYTES_MAX};

/// Buffers that wait for the next body, within a bound.
#[derive(Debug, Default)]
pub struct BufferPool {
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl BufferPool {
    /// An empty pool.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// An empty buffer; the last one given back, so that its pages are warm.
    pub fn take(self: &Arc<Self>) -> PooledBuffer {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = free.buffers.pop().unwrap_or_default();
        free.bytes -= bytes.capacity();
        PooledBuffer {
            bytes,
            pool: Arc::clone(self),
        }
    }

    fn give_back(&self, mut bytes: Vec<u8>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = free.bytes + bytes.capacity() <= POOL_BYTES_MAX
            && free.buffers.len() < POOL_BUFFERS_MAX;
        if !fits || bytes.capacity() == 0 {
            return;
        }
        bytes.clear();
        free.bytes += bytes.capacity();
        free.buffers.push(bytes);
    }
}

/// A buffer on loan; it goes back when dropped.
#[derive(Debug)]
pub struct PooledBuffer {
    bytes: Vec<u8>,
    pool: Arc<BufferPool>,
}

impl Deref for PooledBuffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for PooledBuffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_with_its_room() {
        let pool = BufferPool::new();
        let mut buffer = pool.take();
        buffer.extend_from_slice(&[1; 1000]);
        drop(buffer);
        let again = pool.take();
        assert!(again.is_empty() && again.capacity() >= 1000);
        assert_eq!(pool.free.lock().unwrap().bytes, 0);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let pool = BufferPool::new();
        let mut loans = Vec::new();
        for _ in 0..POOL_BUFFERS_MAX + 10 {
            let mut buffer = pool.take();
            buffer.reserve_exact(1024 * 1024);
            loans.push(buffer);
        }
        drop(loans);
        let free = pool.free.lock().unwrap();
        assert!(free.bytes <= POOL_BYTES_MAX);
        assert_eq!(
            free.bytes,
            free.buffers.iter().map(Vec::capacity).sum::<usize>()
        );
    }
}
