//! Changes of state that go together.

use std::collections::BTreeMap;

/// Changes that are committed together or not at all. Keyspaces are named by constants.
#[derive(Clone, Debug, Default)]
pub struct StateBatch {
    /// By keyspace and key; no value deletes. A map, because all changes of a batch carry one
    /// sequence number in the store, which leaves the order of two changes of one key open.
    pub(super) changes: BTreeMap<(&'static str, Vec<u8>), Option<Vec<u8>>>,
}

impl StateBatch {
    /// A batch without changes.
    #[must_use]
    pub fn new() -> StateBatch {
        StateBatch::default()
    }

    /// Sets `key` in `keyspace`; of several changes of one key the last one holds.
    pub fn put(
        &mut self,
        keyspace: &'static str,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
    ) {
        self.changes
            .insert((keyspace, key.into()), Some(value.into()));
    }

    /// Removes `key` from `keyspace`; no error when it is not there.
    pub fn delete(&mut self, keyspace: &'static str, key: impl Into<Vec<u8>>) {
        self.changes.insert((keyspace, key.into()), None);
    }

    /// How many keys it changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}
