//! Retention (L3): by age and bytes, oldest segment first, never past a fold.

use std::sync::Arc;

use crate::disk;
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentFile};
use crate::shared::{Shared, View, lock};
use crate::stats::add;

/// Why the oldest segment goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Age,
    Bytes,
    DiskLow,
}

impl View {
    /// Bytes of the log, without preallocated space.
    pub(crate) fn bytes(&self) -> u64 {
        (0..self.segments.len())
            .map(|index| self.segment_bytes(index))
            .sum()
    }

    fn segment_bytes(&self, index: usize) -> u64 {
        let known = self.limit(index).0;
        known
            .unwrap_or(self.segments[index].file_bytes)
            .max(SEGMENT_HEADER_BYTES)
    }
}

impl Shared {
    /// Removes segments that are due. `is_low` looks at the disk.
    ///
    /// Removing needs no free space: an entry of a folder is taken out, and a
    /// crash between two leaves the older one gone, never a hole (the folder
    /// is synced after each).
    pub(crate) fn expire(&self, now_ms: i64, is_low: &dyn Fn() -> bool) {
        loop {
            let low = is_low();
            let Some((segment, why)) = self.take_oldest(now_ms, low) else {
                return;
            };
            let counter = match why {
                Why::Age | Why::Bytes => &self.counters.segments_expired,
                Why::DiskLow => &self.counters.segments_expired_early,
            };
            add(counter, 1);
            let (topic, name) = (self.topic.name(), segment.name());
            tracing::info!(topic, segment = name, reason = ?why, "segment removed");
            let removed = disk::unlink(&segment.path).and_then(|()| disk::sync_dir(&self.dir));
            if let Err(error) = removed {
                // It comes back at the next start and is removed then.
                tracing::error!(topic, segment = name, %error, "segment could not be removed");
                return;
            }
        }
    }

    /// Takes the oldest segment out of the view, if it is due: from here on no
    /// reader finds it.
    fn take_oldest(&self, now_ms: i64, low: bool) -> Option<(Arc<SegmentFile>, Why)> {
        // Taken first and held, so that no fold appears in between.
        let folds = lock(&self.folds);
        let passed = folds.values().min().copied();
        self.write_view(|view| {
            let next = view.segments.get(1)?;
            // L3: retention waits for folds' positions.
            if passed.is_some_and(|position| position < next.first_offset) {
                return None;
            }
            let why = self.why_due(view, next, now_ms, low && passed.is_some())?;
            Some((view.segments.remove(0), why))
        })
    }

    fn why_due(&self, view: &View, next: &SegmentFile, now_ms: i64, low: bool) -> Option<Why> {
        let config = self.config.topic(self.topic);
        // The next segment starts with the time of this one's last frame; when
        // that header is damaged the age is unknown, and the segment stays.
        let last_time_ms = next.header.map_or(i64::MAX, |header| header.start_time_ms);
        if let Some(age_max) = config.age_max
            && last_time_ms.saturating_add(age_max.as_millis() as i64) < now_ms
        {
            return Some(Why::Age);
        }
        if view.bytes() > self.bytes_max() {
            return Some(Why::Bytes);
        }
        low.then_some(Why::DiskLow)
    }

    fn bytes_max(&self) -> u64 {
        let bound = self.config.topic(self.topic).bytes_max;
        match disk::space(&self.dir) {
            Ok(space) => bound.resolve(space),
            Err(_) => u64::MAX,
        }
    }
}
