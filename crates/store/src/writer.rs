//! The fold from the topic `events` to the tables.
//!
//! Of a block, each record becomes a row, or is quarantined; rows whose identity
//! the index knows are repeats; the others are written as files named after the
//! block, one per table and worker. Files first, then the quarantine, then the batch
//! that lists the files, takes the ids into the index and moves the position (F4).

use std::sync::Arc;

use fulmar_event::partition_of;
use fulmar_flow::repeats::{IdHash, Repeats};
use fulmar_flow::{
    Block, BlockCounts, BlockName, Fold, FoldError, Phase, Phases, State, StateBatch,
};
use fulmar_log::{Journal, Record, Topic};
use fulmar_sessions::{LiveView, SessionFold, SessionRules};

use crate::error::StoreError;
use crate::lake::{Forgotten, Lake, LakeFile};
use crate::refusal::{Refusal, append_refused, await_room, fold_error};
use rows::{Forget, Rows};
use share::{Share, shard_of};

mod rows;
mod session_sink;
mod share;

/// The fold's name in committed state and in the ledger.
pub const WRITER: &str = "writer";

/// Keyspace of the sessions of devices, by device.
const SESSIONS: &str = "sessions";

/// Version of what it writes (F5).
const VERSION: u32 = 1;

/// Records of a block from which on workers share it. Below, one does it all: a thread's start
/// and a second file per table cost more than they save.
const SHARED_RECORDS_MIN: u64 = 8_192;

/// What the writer is to do.
#[derive(Clone)]
pub struct WriterConfig {
    /// When sessions end.
    pub sessions: SessionRules,
    /// Partitions of the log.
    pub partitions: u16,
    /// Threads that share a large block; at least 1, of use up to the partitions.
    pub workers: usize,
    /// Where doors look for live sessions; none where no door does.
    pub live: Option<Arc<LiveView>>,
}

/// Where the writer appends to.
#[derive(Clone)]
pub struct WriterJournals {
    /// What can't be stored.
    pub quarantine: Arc<Journal>,
    /// What the profile fold is told of sessions (F1).
    pub profiles: Arc<Journal>,
}

/// The writer's fold.
pub struct Writer {
    lake: Lake,
    repeats: Repeats,
    /// Of the devices of each worker's partitions.
    shards: Vec<SessionFold>,
    state: Arc<State>,
    /// None for a replay, which emits none (F1).
    journals: Option<WriterJournals>,
    /// Where doors look for live sessions.
    live: Option<Arc<LiveView>>,
    /// One a worker.
    rows: Vec<Rows>,
    /// Files of the block in hand, until its batch is committed.
    files: Vec<LakeFile>,
    /// What the block in hand asks to forget.
    forgotten: Vec<Forgotten>,
    phases: Arc<Phases>,
}

impl Writer {
    /// A writer into `lake`, which drops what `repeats` knows. Takes up the sessions in `state`.
    /// Without journals it replays: what the log was told then is in the log already.
    ///
    /// # Errors
    /// When the sessions can't be read.
    pub fn open(
        lake: Lake,
        repeats: Repeats,
        journals: Option<WriterJournals>,
        state: Arc<State>,
        config: WriterConfig,
    ) -> Result<Writer, StoreError> {
        let workers = config
            .workers
            .clamp(1, usize::from(config.partitions.max(1)));
        let new_shard = |_| SessionFold::new(config.sessions);
        let mut shards: Vec<SessionFold> = (0..workers).map(new_shard).collect();
        for entry in state.iter(SESSIONS)? {
            let (key, value) = entry?;
            let device = SessionFold::device_of_key(&key);
            let partition = partition_of(device, config.partitions);
            shards[shard_of(partition, workers)].load(&value)?;
        }
        for sessions in &mut shards {
            sessions.committed(None);
            if let Some(live) = &config.live {
                sessions.show_all(live);
            }
        }
        let new_rows = |_| Rows::new(config.partitions);
        Ok(Writer {
            lake,
            repeats,
            shards,
            state,
            rows: (0..workers).map(new_rows).collect(),
            journals,
            live: config.live,
            files: Vec::new(),
            forgotten: Vec::new(),
            phases: Arc::default(),
        })
    }

    /// The block's shares: one a worker when it is large, else one of all.
    fn shares<'w>(
        rows: &'w mut [Rows],
        shards: &'w mut [SessionFold],
        records: u64,
    ) -> Vec<Share<'w>> {
        let of = shards.len();
        let each = if records < SHARED_RECORDS_MIN { of } else { 1 };
        let share = |(number, (rows, shards))| Share {
            rows,
            shards,
            first: number * each,
            of,
        };
        let shards = shards.chunks_mut(each);
        rows.iter_mut().zip(shards).enumerate().map(share).collect()
    }

    /// Appends what sessions tell the profile fold, and what is refused.
    fn append(&mut self, refused: &[(Record<'_>, Refusal)]) -> Result<(), StoreError> {
        for rows in &mut self.rows {
            let onward = std::mem::take(&mut rows.onward);
            if let Some(journals) = self.journals.as_ref().filter(|_| !onward.is_empty()) {
                journals.profiles.append_blocking(onward)?;
            }
        }
        match &self.journals {
            Some(journals) => append_refused(&journals.quarantine, Topic::Events, refused),
            None => Ok(()),
        }
    }

    /// Asks which of the block's identities are new, and tells each share of its own.
    fn admit(
        shares: &mut [Share<'_>],
        repeats: &mut Repeats,
        log_time_ms: i64,
    ) -> Result<(), FoldError> {
        Self::admit_identities(shares, repeats, log_time_ms)?;
        let bodies = shares.iter().flat_map(|share| &share.rows.bodies);
        let bodies: Vec<IdHash> = bodies.copied().collect();
        if !bodies.is_empty() {
            repeats.admit_beside(&bodies, log_time_ms)?;
        }
        Ok(())
    }

    fn admit_identities(
        shares: &mut [Share<'_>],
        repeats: &mut Repeats,
        log_time_ms: i64,
    ) -> Result<(), FoldError> {
        if let [share] = shares {
            let rows = &mut *share.rows;
            repeats.admit(&rows.identities, log_time_ms, &mut rows.is_new)?;
            return Ok(());
        }
        // In the order of the log, so that of two with one identity the earlier stays.
        let mut places: Vec<(u32, u32, u32)> = Vec::new();
        for (share, number) in shares.iter().zip(0..) {
            places.extend(
                (0..)
                    .zip(&share.rows.numbers)
                    .map(|(at, &of)| (of, number, at)),
            );
        }
        places.sort_unstable();
        let identity =
            |&(_, share, at): &(u32, u32, u32)| shares[share as usize].rows.identities[at as usize];
        let identities: Vec<IdHash> = places.iter().map(identity).collect();
        let mut is_new = Vec::new();
        repeats.admit(&identities, log_time_ms, &mut is_new)?;
        for share in &mut *shares {
            share.rows.is_new.resize(share.rows.numbers.len(), false);
        }
        for (&(_, share, at), &is_new) in places.iter().zip(&is_new) {
            shares[share as usize].rows.is_new[at as usize] = is_new;
        }
        Ok(())
    }
}

fn forgotten(forget: &Forget, sessions: &[(u32, String)]) -> Forgotten {
    let of_it = sessions
        .iter()
        .filter(|(number, _)| *number == forget.number);
    Forgotten {
        sessions: of_it.map(|(_, session)| session.clone()).collect(),
        ..Forgotten::asked(
            Topic::Events,
            (&forget.project, forget.profile.as_deref()),
            (forget.offset, forget.asked_ms),
        )
    }
}

/// Does `work` for every share, each on a thread of its own beyond the first. Results are in the
/// order of the shares.
fn on_each<'w, T: Send>(
    shares: &mut [Share<'w>],
    work: impl Fn(&mut Share<'w>) -> T + Sync,
) -> Vec<T> {
    let Some((first, others)) = shares.split_first_mut() else {
        return Vec::new();
    };
    let work = &work;
    std::thread::scope(|scope| {
        let others: Vec<_> = others
            .iter_mut()
            .map(|share| scope.spawn(move || work(share)))
            .collect();
        let first = work(first);
        let joined = others.into_iter().map(|other| match other.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        std::iter::once(first).chain(joined).collect()
    })
}

impl Fold for Writer {
    fn name(&self) -> &'static str {
        WRITER
    }

    fn version(&self) -> u32 {
        VERSION
    }

    fn fold(&mut self, block: &Block, batch: &mut StateBatch) -> Result<BlockCounts, FoldError> {
        let phases = Arc::clone(&self.phases);
        await_room(&self.lake, &phases)?;
        self.rows.iter_mut().for_each(Rows::clear);
        let log_time_ms = block.append_last_ms();
        let (repeats, state, lake) = (&mut self.repeats, &*self.state, &self.lake);
        let mut shares = Writer::shares(&mut self.rows, &mut self.shards, block.len());
        let asking = &*repeats;
        let refused = on_each(&mut shares, |share| {
            phases.time(Phase::Admit, || share.read(block, asking))
        });
        let mut refused: Vec<_> = refused.into_iter().flatten().collect();
        phases.time(Phase::Admit, || {
            Writer::admit(&mut shares, repeats, log_time_ms)
        })?;
        let forgets = |share: &Share<'_>| share.rows.forgets().cloned().collect::<Vec<_>>();
        let mut forgets: Vec<Forget> = shares.iter().flat_map(forgets).collect();
        forgets.sort_by_key(|forget| forget.number);
        let known = |rows: &Rows| rows.is_new.iter().filter(|is_new| !**is_new).count() as u64;
        let repeated = shares.iter().map(|share| known(share.rows)).sum();
        let done = on_each(&mut shares, |share| {
            share.finish(block, state, lake, &forgets, &phases)
        });
        self.files.clear();
        let mut sessions_forgotten = Vec::new();
        for done in done {
            let done = done.map_err(fold_error)?;
            self.files.extend(done.files);
            refused.extend(done.refused);
            sessions_forgotten.extend(done.sessions_forgotten);
            done.withdrawn
                .into_iter()
                .for_each(|hash| repeats.withdraw(hash));
            for (device, value) in done.devices {
                match value {
                    Some(value) => batch.put(SESSIONS, device, value),
                    None => batch.delete(SESSIONS, device),
                }
            }
        }
        refused.sort_by_key(|(record, _)| record.offset);
        self.append(&refused).map_err(fold_error)?;
        for file in &self.files {
            self.lake.stage(file, batch);
        }
        sessions_forgotten.sort();
        let forgotten = |forget| forgotten(forget, &sessions_forgotten);
        self.forgotten = forgets.iter().map(forgotten).collect();
        for forgotten in &self.forgotten {
            forgotten.stage(batch);
        }
        self.repeats.stage(block.name(), log_time_ms, batch)?;
        let passed = self.forgotten.len() as u64;
        let stored = |rows: &Rows| rows.is_new.iter().filter(|is_new| **is_new).count() as u64;
        Ok(BlockCounts {
            stored: self.rows.iter().map(stored).sum::<u64>() - passed,
            repeats: repeated,
            quarantined: refused.len() as u64,
            // They have no row, and stand in no ledger, either.
            ticks: self.rows.iter().map(|rows| rows.ticks).sum::<u64>() + passed,
            ..BlockCounts::default()
        })
    }

    fn committed(&mut self, _name: &BlockName) {
        let forgotten = std::mem::take(&mut self.forgotten);
        self.lake
            .committed(std::mem::take(&mut self.files), forgotten);
        self.repeats.committed();
        for sessions in &mut self.shards {
            sessions.committed(self.live.as_deref());
        }
    }

    fn phases(&self) -> Arc<Phases> {
        Arc::clone(&self.phases)
    }

    fn next_due_ms(&self) -> Option<i64> {
        self.shards
            .iter()
            .filter_map(SessionFold::next_due_ms)
            .min()
    }
}
