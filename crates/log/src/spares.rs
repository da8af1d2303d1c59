//! Buffers of appends that are written, for the next ones: a journal under load
//! allocates nothing per record.

use std::sync::Mutex;

use crate::shared::lock;

/// Buffers kept: the appends of a few groups.
const BUFFERS_MAX: usize = 64;

/// Bytes kept in all of them.
const BYTES_MAX: usize = 24 << 20;

/// Buffers that wait for an append.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Spares {
    /// The buffer given back last, whose pages are warm, or a new one.
    pub(crate) fn take(&self) -> Vec<u8> {
        let mut free = lock(&self.free);
        let buffer = free.buffers.pop().unwrap_or_default();
        free.bytes -= buffer.capacity();
        buffer
    }

    /// Keeps a buffer within the bounds.
    pub(crate) fn give(&self, buffer: Vec<u8>) {
        let mut free = lock(&self.free);
        let bytes = free.bytes + buffer.capacity();
        if bytes <= BYTES_MAX && free.buffers.len() < BUFFERS_MAX {
            free.bytes = bytes;
            free.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_and_what_is_kept_is_bounded() {
        let spares = Spares::default();
        spares.give(Vec::with_capacity(1_000));
        assert!(spares.take().capacity() >= 1_000);
        assert_eq!(spares.take().capacity(), 0);
        for _ in 0..100 {
            spares.give(Vec::with_capacity(1 << 20));
        }
        assert_eq!(lock(&spares.free).bytes, BYTES_MAX);
    }
}
