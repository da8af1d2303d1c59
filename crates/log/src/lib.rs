//! The embedded log: topics, partitions, group commit, recovery, retention.
