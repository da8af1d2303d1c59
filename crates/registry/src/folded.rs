//! The control topic folded as far as it can be read, and a copy of the result beside it.

use serde::{Deserialize, Serialize};

use crate::change::{Entry, FORMAT};
use crate::control::{ControlRecords, LostRecords};
use crate::error::RegistryError;
use crate::state::Snapshot;

/// What came out of the control topic.
#[derive(Clone, Debug)]
pub struct Folded {
    /// The state.
    pub state: Snapshot,
    /// Records that are not in it, and that nobody gave up.
    pub lost: Vec<LostRecords>,
}

/// A saved state, as it stands on disk.
#[derive(Serialize, Deserialize)]
struct Saved<S> {
    format: u32,
    state: S,
}

impl Folded {
    /// Folds the topic from its first record. `saved` is a state that was folded from it before:
    /// where records that it holds can't be read any more, the fold goes on from it, and nothing
    /// is lost.
    ///
    /// # Errors
    /// A record that is newer than this build or unreadable, or a log that cannot be read.
    pub fn of(log: &dyn ControlRecords, saved: Option<Snapshot>) -> Result<Self, RegistryError> {
        let (mut state, mut saved) = (Snapshot::default(), saved);
        let mut lost = Vec::new();
        let mut from = 0;
        loop {
            let met = log.replay(from, &mut |offset, bytes| {
                state.apply(offset, Entry::decode(offset, bytes)?);
                Ok(())
            })?;
            let Some(met) = met else { break };
            match saved.take_if(|saved| saved.revision >= met.end) {
                Some(saved) => {
                    from = saved.revision;
                    state = saved;
                    // What was lost before is in the saved state too.
                    lost.clear();
                }
                None => {
                    from = met.end;
                    lost.push(met);
                }
            }
        }
        lost.retain(|lost| !state.gave_up("control", lost.from, lost.end));
        Ok(Self { state, lost })
    }

    /// Refuses a state from which records are missing.
    ///
    /// # Errors
    /// `Damaged` with the first place.
    pub fn need_whole(&self) -> Result<(), RegistryError> {
        let Some(first) = self.lost.first() else {
            return Ok(());
        };
        Err(RegistryError::Damaged {
            place: first.place.clone(),
            from: first.from,
            to: first.end.saturating_sub(1),
        })
    }
}

impl Snapshot {
    /// Whether an operator gave up all of `from` to `end` (exclusive) of a topic (L1).
    #[must_use]
    pub fn gave_up(&self, topic: &str, from: u64, end: u64) -> bool {
        let mut left = from;
        // Ranges that touch may have been given up in any order.
        while left < end {
            let covers = |loss: &&crate::AcceptedLoss| {
                loss.topic == topic && (loss.from..=loss.to).contains(&left)
            };
            let Some(loss) = self.losses.iter().find(covers) else {
                return false;
            };
            left = loss.to.saturating_add(1);
        }
        true
    }

    /// The bytes of a copy.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let (format, state) = (FORMAT, self);
        serde_json::to_vec(&Saved { format, state }).expect("strings and numbers always serialise")
    }

    /// Reads a copy; `None` for one of another version: the log tells all of it.
    #[must_use]
    pub fn of_saved(bytes: &[u8]) -> Option<Self> {
        let saved: Saved<Self> = serde_json::from_slice(bytes).ok()?;
        (saved.format == FORMAT).then_some(saved.state)
    }
}
