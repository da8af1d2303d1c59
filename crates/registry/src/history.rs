//! The registry as it was: the state at the revision that a record was stamped with (R2).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::change::Entry;
use crate::control::ControlRecords;
use crate::error::RegistryError;
use crate::state::Snapshot;

/// The control topic folded up to a revision, which moves on with what is asked for. Going back
/// folds it again from its first record.
pub struct History {
    log: Arc<dyn ControlRecords + Send + Sync>,
    state: Snapshot,
    /// Records that were read and are newer than what was asked for.
    ahead: VecDeque<(u64, Entry)>,
    read_to: u64,
}

impl History {
    /// Before the first record.
    #[must_use]
    pub fn new(log: Arc<dyn ControlRecords + Send + Sync>) -> Self {
        Self {
            log,
            state: Snapshot::default(),
            ahead: VecDeque::new(),
            read_to: 0,
        }
    }

    /// The state after the first `revision` records. Records that are lost are passed over, as
    /// the server does that serves without them.
    ///
    /// # Errors
    /// A record that is newer than this build or unreadable, or a log that cannot be read.
    pub fn at(&mut self, revision: u64) -> Result<&Snapshot, RegistryError> {
        if revision < self.state.revision {
            self.state = Snapshot::default();
            self.ahead.clear();
            self.read_to = 0;
        }
        if self.read_to < revision {
            self.read_on()?;
        }
        while let Some((offset, _)) = self.ahead.front()
            && *offset < revision
            && let Some((offset, entry)) = self.ahead.pop_front()
        {
            self.state.apply(offset, entry);
        }
        Ok(&self.state)
    }

    /// The revision of the state that was asked for last.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.state.revision
    }

    fn read_on(&mut self) -> Result<(), RegistryError> {
        loop {
            let (ahead, read_to) = (&mut self.ahead, &mut self.read_to);
            let met = self.log.replay(*read_to, &mut |offset, bytes| {
                ahead.push_back((offset, Entry::decode(offset, bytes)?));
                *read_to = offset + 1;
                Ok(())
            })?;
            match met {
                Some(lost) => self.read_to = lost.end,
                None => return Ok(()),
            }
        }
    }
}
