//! Reconciliation by id: what was acknowledged against what the tables hold.

use std::path::Path;
use std::sync::Arc;

use fulmar_flow::State;
use fulmar_log::lock_folder;
use fulmar_store::{Lake, LakeConfig, StoreError, Table, scan_identities};

use super::batch::Number;
use super::load::Sent;
use crate::BenchError;

/// The terms, and the first id at fault of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Events acknowledged.
    pub accepted: u64,
    /// Records that the log took, repeats included, as the server counts them.
    pub logged: u64,
    /// Rows in the table.
    pub stored: u64,
    /// Acknowledged and in no row.
    pub lost: u64,
    /// Rows beyond the first of their id.
    pub doubled: u64,
    /// Rows that nobody sent.
    pub foreign: u64,
    /// The first id at fault, with what is wrong.
    pub first_fault: Option<String>,
}

/// One bit for each event that an agent began to send.
struct Seen {
    bits: Vec<u64>,
    events: u64,
}

impl Seen {
    fn new(events: u64) -> Seen {
        Seen {
            bits: vec![0; events.div_ceil(64) as usize],
            events,
        }
    }

    /// Marks an event: whether it is known and was not marked yet.
    fn mark(&mut self, sequence: u64) -> Option<bool> {
        if sequence >= self.events {
            return None;
        }
        let (word, bit) = ((sequence / 64) as usize, 1u64 << (sequence % 64));
        let fresh = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        Some(fresh)
    }

    fn has(&self, sequence: u64) -> bool {
        self.bits[(sequence / 64) as usize] & (1 << (sequence % 64)) != 0
    }
}

/// Compares ids one by one, in memory of a bit an event.
pub struct Reconciler {
    run: u32,
    events: u64,
    sent: Vec<Sent>,
    seen: Vec<Seen>,
    result: Reconciled,
}

impl Reconciler {
    /// Of a load with `events` a batch.
    pub fn new(run: u32, events: u32, sent: &[Sent]) -> Reconciler {
        let events = u64::from(events);
        let seen = sent
            .iter()
            .map(|sent| Seen::new(sent.begun * events))
            .collect();
        Reconciler {
            run,
            events,
            sent: sent.to_vec(),
            seen,
            result: Reconciled::default(),
        }
    }

    /// A row of the table.
    pub fn row(&mut self, id: &str) {
        self.result.stored += 1;
        let number = Number::parse(id).filter(|number| number.run == self.run);
        let agent = number.and_then(|number| self.seen.get_mut(usize::from(number.agent)));
        let marked = match (number, agent) {
            (Some(number), Some(seen)) => seen.mark(number.sequence),
            _ => None,
        };
        match marked {
            Some(true) => {}
            Some(false) => {
                self.result.doubled += 1;
                self.fault(|| format!("doubled: {id}"));
            }
            None => {
                self.result.foreign += 1;
                self.fault(|| format!("foreign: {id}"));
            }
        }
    }

    fn fault(&mut self, text: impl FnOnce() -> String) {
        if self.result.first_fault.is_none() {
            self.result.first_fault = Some(text());
        }
    }

    /// After the last row: counts what is missing.
    pub fn finish(mut self) -> Reconciled {
        for agent in 0..self.sent.len() {
            let sent = std::mem::take(&mut self.sent[agent]);
            for batch in (0..sent.begun).filter(|batch| !sent.unsure.contains(batch)) {
                self.result.accepted += self.events;
                for sequence in batch * self.events..(batch + 1) * self.events {
                    if self.seen[agent].has(sequence) {
                        continue;
                    }
                    self.result.lost += 1;
                    let number = Number {
                        run: self.run,
                        agent: agent as u16,
                        sequence,
                    };
                    self.fault(|| format!("lost: {}", String::from_utf8_lossy(&number.id())));
                }
            }
        }
        self.result
    }
}

/// Reads the ids of a folder that no server holds any more.
pub fn reconcile(dir: &Path, mut reconciler: Reconciler) -> Result<Reconciled, BenchError> {
    let _lock = lock_folder(dir)?;
    let state = Arc::new(State::open(&dir.join("state"))?);
    let lake = Lake::open(dir, state, LakeConfig::default())?;
    scan_identities(&lake.snapshot(), Table::SecurityEvents, |identity| {
        reconciler.row(identity.event_id);
        Ok::<(), StoreError>(())
    })?;
    Ok(reconciler.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(agent: u16, sequence: u64) -> String {
        let number = Number {
            run: 9,
            agent,
            sequence,
        };
        String::from_utf8(number.id().to_vec()).unwrap()
    }

    fn reconciler() -> Reconciler {
        let first = Sent {
            begun: 3,
            unsure: vec![1],
        };
        Reconciler::new(
            9,
            2,
            &[
                first,
                Sent {
                    begun: 1,
                    unsure: vec![],
                },
            ],
        )
    }

    #[test]
    fn all_there_once_is_exact_whatever_became_of_unsure_batches() {
        for unsure in [vec![], vec![2, 3]] {
            let mut reconciler = reconciler();
            for sequence in [0, 1, 4, 5].into_iter().chain(unsure.clone()) {
                reconciler.row(&id(0, sequence));
            }
            reconciler.row(&id(1, 0));
            reconciler.row(&id(1, 1));
            let stored = 6 + unsure.len() as u64;
            let want = Reconciled {
                accepted: 6,
                stored,
                ..Reconciled::default()
            };
            assert_eq!(reconciler.finish(), want);
        }
    }

    #[test]
    fn lost_doubled_and_foreign_are_told_by_name() {
        let mut reconciler = reconciler();
        for (agent, sequence) in [(0, 0), (0, 1), (0, 1), (0, 5), (1, 0), (1, 2), (2, 0)] {
            reconciler.row(&id(agent, sequence));
        }
        reconciler.row("somebody-elses");
        let result = reconciler.finish();
        assert_eq!((result.accepted, result.stored), (6, 8));
        // 0:4 and 1:1 are missing; 1:2 was never begun, agent 2 never was.
        assert_eq!((result.lost, result.doubled, result.foreign), (2, 1, 3));
        assert_eq!(
            result.first_fault.unwrap(),
            format!("doubled: {}", id(0, 1))
        );
    }
}
