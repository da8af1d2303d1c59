//! The fold from the topic `profiles` to the tables `profiles` and `groups`.
//!
//! Changes of profiles are applied to what is kept of each; a server's event that names a profile
//! is appended to `events`, with the device of the session that the profile is in. Order of a
//! block: those events and the files first, then the batch (F4); an event that a second try
//! appends again is a repeat there.

use std::sync::Arc;
use std::time::Instant;

use fulmar_event::{
    Body, Enrichment, EventView, ProfileChange, ProfileView, encode_device, partition_of,
};
use fulmar_flow::repeats::{IdHash, Repeats};
use fulmar_flow::{
    Block, BlockCounts, BlockName, Fold, FoldError, Phase, Phases, State, StateBatch,
};
use fulmar_log::{Journal, Record, Records, Topic};
use fulmar_sessions::profiles::{Profile, Teller};

use crate::error::StoreError;
use crate::lake::{Forgotten, Lake, LakeFile};
use crate::refusal::{Refusal, append_refused, await_room, fold_error, read_record};
use crate::tables::{
    GroupsBuilder, ProfilesBuilder, TableBuilder, Unstorable, group_row, profile_row,
};
use changed::{Changed, Touched};

mod changed;

/// The fold's name in committed state.
pub const PROFILES: &str = "profiles";

/// Version of what it writes (F5).
const VERSION: u32 = 1;

/// How far a chain of aliases is followed: a person has few names, and a circle has no end.
const ALIASES_MAX: usize = 8;

/// Where the fold of profiles appends to.
#[derive(Clone)]
pub struct ProfileJournals {
    /// Where servers' events go on to.
    pub events: Arc<Journal>,
    /// Partitions of that topic.
    pub partitions: u16,
    /// What can't be stored.
    pub quarantine: Arc<Journal>,
}

/// The fold of profiles.
pub struct ProfileWriter {
    lake: Lake,
    repeats: Repeats,
    state: Arc<State>,
    /// None for a replay, which emits none (F1).
    journals: Option<ProfileJournals>,
    profiles: ProfilesBuilder,
    groups: GroupsBuilder,
    files: Vec<LakeFile>,
    /// What the block in hand asks to forget.
    forgotten: Vec<Forgotten>,
    phases: Arc<Phases>,
}

impl ProfileWriter {
    /// A writer into `lake`. Without journals it replays: servers' events went on then.
    pub fn new(
        lake: Lake,
        repeats: Repeats,
        journals: Option<ProfileJournals>,
        state: Arc<State>,
    ) -> ProfileWriter {
        ProfileWriter {
            lake,
            repeats,
            state,
            journals,
            profiles: ProfilesBuilder::default(),
            groups: GroupsBuilder::default(),
            files: Vec::new(),
            forgotten: Vec::new(),
            phases: Arc::default(),
        }
    }

    /// Applies one record.
    fn take(&self, record: &Record<'_>, changed: &mut Changed) -> Result<(), Taking> {
        let event = read_record(record)?;
        let project = event.stamp.project;
        let at = (record.partition, record.offset);
        match &event.body {
            Body::Track(track) => {
                let profile = self.profile(project, track.profile_id, at, changed)?;
                let device = profile.value.live_device().map(str::to_owned);
                if let Some(journals) = &self.journals {
                    let partitions = journals.partitions;
                    let device = device.as_deref();
                    let onward = &mut changed.onward;
                    send_on((&event, record), device, device, partitions, onward);
                }
                Ok(())
            }
            Body::Profile(view) => match view.forgets() {
                Some(id) => self.forget((&event, record), id, changed),
                None => self.change(&event, view, at, changed),
            },
            _ => Err(Taking::Refused(Refusal::no_table())),
        }
    }

    fn change(
        &self,
        event: &EventView<'_>,
        view: &ProfileView<'_>,
        at: (u16, u64),
        changed: &mut Changed,
    ) -> Result<(), Taking> {
        let project = event.stamp.project;
        let change = ProfileChange::from_number(view.change)
            .ok_or_else(|| Taking::Refused(Refusal::no_table()))?;
        let by = Teller {
            at_ms: event
                .event_time
                .map_or(0, fulmar_event::Timestamp::as_millis),
            event_id: event.event_id,
        };
        if change == ProfileChange::Group {
            let group = changed.group(&self.state, (project, view.group_id), at)?;
            group.at = at;
            group.value.apply(view, by).map_err(Unstorable::from)?;
            group.changed = true;
            return Ok(());
        }
        let found = Enrichment::parse(event.enrichment).map_err(Unstorable::Enrichment)?;
        // An alias is kept with the profile that is known as another from then on.
        let profile = match change {
            ProfileChange::Alias => self.own_profile(project, view.alias, at, changed)?,
            _ => self.profile(project, view.profile_id, at, changed)?,
        };
        profile
            .value
            .apply(change, view, &found, by)
            .map_err(Unstorable::from)?;
        profile.at = at;
        profile.changed = true;
        Ok(())
    }

    /// Forgets a profile, or without an id the project. The session fold is asked to as well; it
    /// asks back once it has told all that it still had to tell.
    fn forget(
        &self,
        (event, record): (&EventView<'_>, &Record<'_>),
        id: Option<&str>,
        changed: &mut Changed,
    ) -> Result<(), Taking> {
        let (project, at) = (event.stamp.project, (record.partition, record.offset));
        changed.forget(&self.state, (project, id), at)?;
        let asked = (record.offset, record.append_time_ms);
        let forgotten = Forgotten::asked(Topic::Profiles, (project, id), asked);
        changed.forgotten.push(forgotten);
        let asked_back = event.stamp.source.is_empty();
        if let Some(journals) = self.journals.as_ref().filter(|_| !asked_back) {
            send_on(
                (event, record),
                None,
                id,
                journals.partitions,
                &mut changed.onward,
            );
        }
        Ok(())
    }

    /// The profile that an id is known as.
    fn profile<'c>(
        &self,
        project: &str,
        id: &str,
        at: (u16, u64),
        changed: &'c mut Changed,
    ) -> Result<&'c mut Touched<Profile>, StoreError> {
        let mut id = id.to_owned();
        for _ in 0..ALIASES_MAX {
            let own = self.own_profile(project, &id, at, changed)?;
            match own.value.known_as() {
                Some(other) if other != id => id = other.to_owned(),
                _ => break,
            }
        }
        self.own_profile(project, &id, at, changed)
    }

    fn own_profile<'c>(
        &self,
        project: &str,
        id: &str,
        at: (u16, u64),
        changed: &'c mut Changed,
    ) -> Result<&'c mut Touched<Profile>, StoreError> {
        changed.profile(&self.state, (project, id), at)
    }

    fn write_rows(&mut self, name: &BlockName, changed: &Changed) -> Result<(), StoreError> {
        self.profiles.clear();
        self.groups.clear();
        let mut properties = crate::tables::Pairs::default();
        for one in changed.profiles() {
            let groups = fulmar_event::encode_texts(one.value.groups());
            let of = (one.project.as_str(), one.id.as_str());
            let row = profile_row(of, &one.value, &groups, &mut properties, one.at);
            self.profiles.append(&row);
        }
        for one in changed.groups() {
            let of = (one.project.as_str(), one.id.as_str());
            let row = group_row(of, &one.value, &mut properties, one.at);
            self.groups.append(&row);
        }
        self.files.clear();
        let builders: [&dyn TableBuilder; 2] = [&self.profiles, &self.groups];
        for builder in builders.into_iter().filter(|builder| !builder.is_empty()) {
            let order = builder.sorted_order();
            let file = self.lake.write_block(&name.to_string(), builder, &order)?;
            self.files.push(file);
        }
        Ok(())
    }
}

impl Fold for ProfileWriter {
    fn name(&self) -> &'static str {
        PROFILES
    }

    fn version(&self) -> u32 {
        VERSION
    }

    fn fold(&mut self, block: &Block, batch: &mut StateBatch) -> Result<BlockCounts, FoldError> {
        let phases = Arc::clone(&self.phases);
        await_room(&self.lake, &phases)?;
        let began = Instant::now();
        let (identities, mut refused, mut ticks) = self.identify(block);
        let hashes: Vec<IdHash> = identities.iter().map(|(hash, _)| *hash).collect();
        let mut is_new = Vec::new();
        let log_time_ms = block.append_last_ms();
        self.repeats.admit(&hashes, log_time_ms, &mut is_new)?;
        phases.add(Phase::Admit, began.elapsed());
        let began = Instant::now();
        let mut changed = Changed::default();
        let mut stored = 0;
        for ((hash, record), _) in identities.iter().zip(&is_new).filter(|(_, new)| **new) {
            match self.take(record, &mut changed) {
                Ok(()) => stored += 1,
                Err(Taking::Refused(refusal)) => {
                    self.repeats.withdraw(*hash);
                    refused.push((*record, refusal));
                }
                Err(Taking::Failed(error)) => return Err(fold_error(error)),
            }
        }
        phases.add(Phase::Fold, began.elapsed());
        self.append(std::mem::take(&mut changed.onward), &refused)
            .map_err(fold_error)?;
        let written = phases.time(Phase::Insert, || self.write_rows(block.name(), &changed));
        written.map_err(fold_error)?;
        for file in &self.files {
            self.lake.stage(file, batch);
        }
        self.repeats.stage(block.name(), log_time_ms, batch)?;
        changed.stage(&self.state, batch).map_err(fold_error)?;
        self.forgotten = changed.forgotten;
        for forgotten in &self.forgotten {
            forgotten.stage(batch);
        }
        // They have no row, and stand in no ledger.
        let passed = self.forgotten.len() as u64;
        (stored, ticks) = (stored - passed, ticks + passed);
        Ok(BlockCounts {
            stored,
            repeats: is_new.iter().filter(|is_new| !**is_new).count() as u64,
            quarantined: refused.len() as u64,
            ticks,
            ..BlockCounts::default()
        })
    }

    fn phases(&self) -> Arc<Phases> {
        Arc::clone(&self.phases)
    }

    fn committed(&mut self, _name: &BlockName) {
        let forgotten = std::mem::take(&mut self.forgotten);
        self.lake
            .committed(std::mem::take(&mut self.files), forgotten);
        self.repeats.committed();
    }
}

impl ProfileWriter {
    /// Appends servers' events to the topic that they belong to, and what is refused.
    fn append(&self, onward: Records, refused: &[(Record<'_>, Refusal)]) -> Result<(), StoreError> {
        let Some(journals) = &self.journals else {
            return Ok(());
        };
        journals.events.append_all_blocking(onward)?;
        append_refused(&journals.quarantine, Topic::Profiles, refused)
    }

    /// Each record with the hash of its identity; those that can't be read; how many ticks.
    #[expect(clippy::type_complexity, reason = "three lists that are used once")]
    fn identify<'b>(
        &self,
        block: &'b Block,
    ) -> (Vec<(IdHash, Record<'b>)>, Vec<(Record<'b>, Refusal)>, u64) {
        let (mut identities, mut refused, mut ticks) = (Vec::new(), Vec::new(), 0);
        for record in block.records() {
            if record.is_tick() {
                ticks += 1;
                continue;
            }
            match read_record(&record) {
                Ok(event) => {
                    let (project, source) = (event.stamp.project, event.stamp.source);
                    let id = event.event_id.as_bytes();
                    let hash = self.repeats.hash(project.as_bytes(), source.as_bytes(), id);
                    identities.push((hash, record));
                }
                Err(refusal) => refused.push((record, refusal)),
            }
        }
        (identities, refused, ticks)
    }
}

/// Appends the event as it was sent, and the device behind it: the last of a field counts. It goes
/// to the partition of its key, or of its id.
fn send_on(
    (event, record): (&EventView<'_>, &Record<'_>),
    device: Option<&str>,
    key: Option<&str>,
    partitions: u16,
    onward: &mut Records,
) {
    let key = key.unwrap_or(event.event_id);
    let mark = onward.begin(partition_of(key.as_bytes(), partitions));
    onward.buffer().extend_from_slice(record.bytes);
    if let Some(device) = device {
        encode_device(device, onward.buffer());
    }
    onward.end(mark);
}

/// Why a record was not applied.
enum Taking {
    Refused(Refusal),
    Failed(StoreError),
}

impl From<Refusal> for Taking {
    fn from(refusal: Refusal) -> Taking {
        Taking::Refused(refusal)
    }
}

impl From<Unstorable> for Taking {
    fn from(error: Unstorable) -> Taking {
        Taking::Refused(error.into())
    }
}

impl From<StoreError> for Taking {
    fn from(error: StoreError) -> Taking {
        Taking::Failed(error)
    }
}
