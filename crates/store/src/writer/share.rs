//! A worker's share of the block in hand: some partitions, with all that is done for them.
//!
//! A worker reads its records, folds their sessions, and writes the tables' files; it shares no
//! lock with another. What only the whole block can tell, which identities are new, is asked in
//! between. Each worker goes over every record for the log's time, so that sessions end at the
//! same record however many workers there are (I4).

use std::time::Instant;

use fulmar_flow::repeats::{IdHash, Repeats};
use fulmar_flow::{Block, Phase, Phases, State};
use fulmar_log::Record;
use fulmar_sessions::SessionFold;

use super::SESSIONS;
use super::rows::{Forget, Rows, Sampled};
use crate::error::StoreError;
use crate::lake::{Lake, LakeFile};
use crate::refusal::Refusal;
use crate::tables::Table;

/// Some of the shards, by which partitions are split, and the rows of their records.
pub(super) struct Share<'w> {
    pub(super) rows: &'w mut Rows,
    /// Sessions of the shards from `first` on.
    pub(super) shards: &'w mut [SessionFold],
    pub(super) first: usize,
    /// Shards in all.
    pub(super) of: usize,
}

/// What a share of a block came to.
#[derive(Default)]
pub(super) struct Done<'b> {
    pub(super) files: Vec<LakeFile>,
    pub(super) refused: Vec<(Record<'b>, Refusal)>,
    /// Identities that were new and whose records can't be stored.
    pub(super) withdrawn: Vec<IdHash>,
    /// What becomes of devices in the state: key, and value or none to delete.
    pub(super) devices: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Sessions that went, by the number of the record that asked for it.
    pub(super) sessions_forgotten: Vec<(u32, String)>,
}

/// The shard of a partition.
pub(super) fn shard_of(partition: u16, shards: usize) -> usize {
    usize::from(partition) % shards
}

impl Share<'_> {
    /// The place in `shards` of the record's, if it is of this share.
    fn shard(&self, record: &Record<'_>) -> Option<usize> {
        let place = shard_of(record.partition, self.of).checked_sub(self.first)?;
        (place < self.shards.len()).then_some(place)
    }

    /// Takes the identities of the share's records, and their rows where those need nothing more.
    /// Gives those that can't be rows.
    pub(super) fn read<'b>(
        &mut self,
        block: &'b Block,
        repeats: &Repeats,
    ) -> Vec<(Record<'b>, Refusal)> {
        let mut refused = Vec::new();
        for (number, record) in (0..).zip(block.records()) {
            if self.shard(&record).is_none() {
                continue;
            }
            if record.is_tick() {
                self.rows.ticks += 1;
            } else if let Err(refusal) = self.rows.add(number, &record, repeats) {
                refused.push((record, refusal));
            }
        }
        refused
    }

    /// Goes through the block in the order of the log, with the log's time: product events that
    /// are new go to the session fold, and become rows. Then writes the tables' files, named
    /// after the block and the share.
    pub(super) fn finish<'b>(
        &mut self,
        block: &'b Block,
        state: &State,
        lake: &Lake,
        forgets: &[Forget],
        phases: &Phases,
    ) -> Result<Done<'b>, StoreError> {
        let mut done = Done::default();
        self.rows.sampled = Sampled::default();
        let began = Instant::now();
        self.fold_sessions(block, state, forgets, &mut done)?;
        let both = began.elapsed();
        let projecting = both.mul_f64(self.rows.sampled.share_of_projection());
        phases.add(Phase::Project, projecting);
        phases.add(Phase::Fold, both.saturating_sub(projecting));
        phases.time(Phase::Squash, || {
            for sessions in &mut *self.shards {
                self.rows.add_sessions(sessions);
                sessions.changes(|key, value| {
                    let value = value.map(<[u8]>::to_vec);
                    done.devices.push((key.to_vec(), value));
                });
            }
        });
        let name = match self.first {
            0 => block.name().to_string(),
            first => format!("{}-{first}", block.name()),
        };
        phases.time(Phase::Insert, || {
            self.write_files(&name, lake, &mut done.files)
        })?;
        Ok(done)
    }

    fn fold_sessions<'b>(
        &mut self,
        block: &'b Block,
        state: &State,
        forgets: &[Forget],
        done: &mut Done<'b>,
    ) -> Result<(), StoreError> {
        for sessions in &mut *self.shards {
            sessions.begin(|key| Ok::<_, StoreError>(state.get(SESSIONS, key)?))?;
        }
        // Product events become rows once it is known which are new: repeats extend no session.
        let tracks = std::mem::take(&mut self.rows.tracks);
        let mut tracks = tracks.into_iter().peekable();
        let mut forgets = forgets.iter().peekable();
        for (number, record) in (0..).zip(block.records()) {
            for sessions in &mut *self.shards {
                self.rows.pass_time(&record, sessions);
            }
            if let Some(forget) = forgets.next_if(|forget| forget.number == number) {
                self.forget(forget, &record, done);
            }
            let track = tracks.next_if(|&place| self.rows.numbers[place as usize] == number);
            let Some(place) = track.map(|place| place as usize) else {
                continue;
            };
            let Some(shard) = self.shard(&record).filter(|_| self.rows.is_new[place]) else {
                continue;
            };
            if let Err(refusal) = self.rows.add_track(&record, &mut self.shards[shard]) {
                done.withdrawn.push(self.rows.identities[place]);
                self.rows.is_new[place] = false;
                done.refused.push((record, refusal));
            }
        }
        Ok(())
    }

    /// A profile may have sessions of any device, so that every share forgets; one passes it on.
    fn forget(&mut self, forget: &Forget, record: &Record<'_>, done: &mut Done<'_>) {
        for sessions in &mut *self.shards {
            let profile = forget.profile.as_deref();
            let ids = sessions.forget_all_of(&forget.project, profile);
            if profile.is_some() {
                let ids = ids.iter().map(|id| (forget.number, id.as_str().to_owned()));
                done.sessions_forgotten.extend(ids);
            }
        }
        if self.shard(record).is_some() {
            self.rows.pass_on(forget);
        }
    }

    fn write_files(
        &self,
        name: &str,
        lake: &Lake,
        files: &mut Vec<LakeFile>,
    ) -> Result<(), StoreError> {
        for builder in self.rows.builders() {
            if builder.is_empty() {
                continue;
            }
            let mut order = builder.sorted_order();
            self.rows.leave_out_repeats(builder.table(), &mut order);
            if !order.is_empty() {
                files.push(lake.write_block(name, builder, &order)?);
            }
        }
        Ok(())
    }
}

/// Whether a table's rows come of the session fold alone, which is given new events only.
pub(super) fn of_session_fold(table: Table) -> bool {
    matches!(table, Table::Events | Table::Sessions)
}
