//! Settings and limits of the log.

use std::time::Duration;

use crate::Topic;
use crate::disk::Space;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Largest payload of one append, in bytes: a body of 8 MiB whose 10,000
/// events each grew by a stamp stays far below; a flipped length can't make a
/// reader take more.
pub const APPEND_BYTES_MAX: usize = 32 << 20;

/// Most bytes written by one group commit. At about 900 MB/s a group takes
/// under 10 ms, so that an append never waits long behind another's bytes,
/// and a sync still covers far more than the knee of the curve (1 MiB).
pub(crate) const GROUP_BYTES_MAX: usize = 8 << 20;

/// How much of a topic is kept, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BytesMax {
    /// No bound.
    Unbounded,
    /// So many bytes.
    Bytes(u64),
    /// The lesser of `bytes` and the file system's size over `divisor`.
    ShareOfDisk {
        /// Upper bound.
        bytes: u64,
        /// Part of the disk: 3 is a third.
        divisor: u64,
    },
}

impl BytesMax {
    /// The bound in bytes on this disk.
    pub(crate) fn resolve(self, space: Space) -> u64 {
        match self {
            BytesMax::Unbounded => u64::MAX,
            BytesMax::Bytes(bytes) => bytes,
            BytesMax::ShareOfDisk { bytes, divisor } => bytes.min(space.total_bytes / divisor),
        }
    }
}

/// Settings of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicConfig {
    /// Size of a segment's file. Retention removes whole segments.
    pub segment_bytes: u64,
    /// Records are kept so long; `None` is for ever.
    pub age_max: Option<Duration>,
    /// Records are kept up to so many bytes.
    pub bytes_max: BytesMax,
}

/// Settings of the log; the defaults are those of L3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Partitions of `events` and `profiles`; the folder remembers it.
    pub partitions: u16,
    /// Per topic.
    pub events: TopicConfig,
    /// Per topic.
    pub profiles: TopicConfig,
    /// Per topic.
    pub quarantine: TopicConfig,
    /// Per topic.
    pub control: TopicConfig,
    /// Per topic.
    pub deliveries: TopicConfig,
    /// Appends are refused below so many free bytes; `None` is
    /// max(512 MiB, 3 % of the disk). They go on at twice that (L3).
    pub disk_floor_bytes: Option<u64>,
    /// With no append for so long the journal writes a seal (L1).
    pub seal_after: Duration,
    /// Bytes per topic that may wait for the disk; beyond, appends are `Full`.
    pub queue_bytes_max: usize,
    /// Rate of the background check of older segments, in bytes per second.
    pub verify_bytes_per_second: u64,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        let share = BytesMax::ShareOfDisk {
            bytes: 64 * GIB,
            divisor: 3,
        };
        let week = Some(7 * DAY);
        let month = Some(30 * DAY);
        LogConfig {
            partitions: 16,
            events: TopicConfig {
                segment_bytes: 64 * MIB,
                age_max: week,
                bytes_max: share,
            },
            profiles: TopicConfig {
                segment_bytes: 16 * MIB,
                age_max: week,
                bytes_max: share,
            },
            quarantine: TopicConfig {
                segment_bytes: 8 * MIB,
                age_max: month,
                bytes_max: BytesMax::Unbounded,
            },
            control: TopicConfig {
                segment_bytes: 4 * MIB,
                age_max: None,
                bytes_max: BytesMax::Unbounded,
            },
            deliveries: TopicConfig {
                segment_bytes: 16 * MIB,
                age_max: week,
                bytes_max: share,
            },
            disk_floor_bytes: None,
            seal_after: Duration::from_millis(10),
            // 512 requests in flight of up to 128 MiB together (G6) meet half
            // of that here: the doors' own bound comes first in practice.
            queue_bytes_max: 64 << 20,
            // 10 GiB in under six minutes, for 2 % of a core.
            verify_bytes_per_second: 32 * MIB,
        }
    }
}

impl LogConfig {
    /// Settings of one topic.
    pub fn topic(&self, topic: Topic) -> &TopicConfig {
        match topic {
            Topic::Events => &self.events,
            Topic::Profiles => &self.profiles,
            Topic::Quarantine => &self.quarantine,
            Topic::Control => &self.control,
            Topic::Deliveries => &self.deliveries,
        }
    }

    /// The floor in bytes on this disk (L3).
    pub(crate) fn floor_bytes(&self, space: Space) -> u64 {
        self.disk_floor_bytes
            .unwrap_or((512 * MIB).max(space.total_bytes / 100 * 3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_512_mib_or_3_percent() {
        let config = LogConfig::default();
        let small = Space {
            free_bytes: 0,
            total_bytes: 10 * GIB,
        };
        assert_eq!(config.floor_bytes(small), 512 * MIB);
        let large = Space {
            free_bytes: 0,
            total_bytes: 1_000_000_000_000,
        };
        assert_eq!(config.floor_bytes(large), 30_000_000_000);
    }

    #[test]
    fn events_keep_a_third_of_a_small_disk() {
        let share = LogConfig::default().events.bytes_max;
        assert_eq!(
            share.resolve(Space {
                free_bytes: 0,
                total_bytes: 30 * GIB
            }),
            10 * GIB
        );
        assert_eq!(
            share.resolve(Space {
                free_bytes: 0,
                total_bytes: 900 * GIB
            }),
            64 * GIB
        );
    }
}
