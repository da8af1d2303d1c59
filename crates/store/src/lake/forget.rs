//! What operators had forgotten: profiles and projects whose earlier rows no query shows, and
//! which the lake then removes.
//!
//! A fold that reads such a record commits it with its block, so that rows are hidden from the
//! same position on wherever the log is read. Files are rewritten without them one by one, beside
//! the merges.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use fulmar_flow::StateBatch;
use fulmar_log::Topic;
use serde::{Deserialize, Serialize};
use tracing::info;

use super::entry::{self, KEYSPACE, LakeFile, Level};
use super::merge::{LeftOut, merge};
use super::snapshot::FileList;
use super::{Shared, hold};
use crate::error::Result;
use crate::table_reader::TableReader;
use crate::tables::{LOG_OFFSET, SESSION_PROFILE, Table, TextRows};

/// Key prefix of what was forgotten.
const PREFIX: &[u8] = b"forgotten/";

/// How long rows are hidden before files are rewritten, so that one pass serves what is asked for
/// within an hour. They are gone a day after the request at the latest.
const PURGE_AFTER_MS: i64 = 60 * 60_000;

/// Tables in the order in which rows are removed from them: recordings before the sessions, which
/// tell whose they are.
const ORDER: [Table; Table::COUNT] = [
    Table::SessionReplayChunks,
    Table::Events,
    Table::Sessions,
    Table::Profiles,
    Table::Groups,
    Table::EventsBots,
    Table::Messages,
    Table::SecurityEvents,
    Table::DeliveryAttempts,
    Table::Deliveries,
];

/// A profile or a project whose rows from before a position of a topic are not to be seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    /// The topic whose offsets count: `events`, `profiles` or `deliveries`.
    pub topic: String,
    /// The project.
    pub project: String,
    /// The profile; none for all of the project.
    pub profile: Option<String>,
    /// Sessions of the profile that were in memory then: no version of theirs may tell of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<String>,
    /// Offset of the record that asked for it: rows of lower ones are meant.
    pub before: u64,
    /// When that record was appended, ms since the epoch.
    pub asked_ms: i64,
    /// When the last of the rows was removed; none while some may be in files.
    pub removed_ms: Option<i64>,
}

impl Forgotten {
    /// What a record of a topic asks for.
    pub(crate) fn asked(
        topic: Topic,
        (project, profile): (&str, Option<&str>),
        (before, asked_ms): (u64, i64),
    ) -> Self {
        Self {
            topic: topic.name().to_owned(),
            project: project.to_owned(),
            profile: profile.map(str::to_owned),
            sessions: Vec::new(),
            before,
            asked_ms,
            removed_ms: None,
        }
    }

    fn key(&self) -> Vec<u8> {
        let mut key = PREFIX.to_vec();
        key.extend(format!("{}/{:020}", self.topic, self.before).bytes());
        key
    }

    /// Puts it into a batch: the one of the block that asked, or of its end.
    pub(crate) fn stage(&self, batch: &mut StateBatch) {
        let value = serde_json::to_vec(self).expect("numbers and texts always encode");
        batch.put(KEYSPACE, self.key(), value);
    }

    /// Whether it is about rows of the table.
    pub fn concerns(&self, table: Table) -> bool {
        let whose = self.profile.is_none() || table.whose().is_some();
        whose && self.topic == table.topic().name() && self.removed_ms.is_none()
    }
}

pub(super) fn read_all(state: &fulmar_flow::State) -> Result<Vec<Forgotten>> {
    let mut all = Vec::new();
    for (key, value) in state.prefix(KEYSPACE, PREFIX)? {
        let one = serde_json::from_slice(&value);
        all.push(one.map_err(|error| entry::bad_entry(&key, &error.to_string()))?);
    }
    Ok(all)
}

/// By project and by whose rows are: the offset before which they go.
type Whose = HashMap<String, HashMap<String, i64>>;

/// Rows that are to go.
#[derive(Debug, Default)]
pub(crate) struct ForgottenRows {
    /// Whole projects, with the offset before which.
    projects: HashMap<String, i64>,
    whose: Whose,
    /// The greatest of those offsets.
    before: i64,
}

impl ForgottenRows {
    fn of(table: Table, forgotten: &[Forgotten]) -> ForgottenRows {
        let mut rows = ForgottenRows::default();
        for one in forgotten.iter().filter(|one| one.concerns(table)) {
            let (project, before) = (one.project.clone(), one.before as i64);
            rows.before = rows.before.max(before);
            match &one.profile {
                None => raise(rows.projects.entry(project), before),
                Some(profile) => {
                    let of_project = rows.whose.entry(project).or_default();
                    raise(of_project.entry(profile.clone()), before);
                }
            }
        }
        rows
    }

    /// Whether the file has rows from before the last of the offsets.
    fn may_hold(&self, file: &LakeFile) -> bool {
        file.entry.offset_min < self.before
    }

    /// Whether the row goes.
    pub(crate) fn removes(&self, project: &str, whose: &str, offset: i64) -> bool {
        let of_project = self.projects.get(project);
        let of_whose = || self.whose.get(project).and_then(|of| of.get(whose));
        of_project.is_some_and(|before| offset < *before)
            || of_whose().is_some_and(|before| offset < *before)
    }
}

fn raise(bound: Entry<'_, String, i64>, before: i64) {
    let bound = bound.or_default();
    *bound = before.max(*bound);
}

/// A pass over the files, one a step.
pub(crate) struct Purge {
    forgotten: Vec<Forgotten>,
    rows: HashMap<Table, ForgottenRows>,
    /// Files that hold none of the rows.
    clean: HashSet<std::path::PathBuf>,
}

impl Shared {
    /// What is to be removed by now; all of it when `at_once`.
    pub(super) fn begin_purge(&self, at_once: bool) -> Result<Option<Purge>> {
        let now_ms = self.now_ms();
        let list = self.sound_list();
        let open = list.forgotten().iter().filter(|f| f.removed_ms.is_none());
        let forgotten: Vec<Forgotten> = open.cloned().collect();
        let due = |f: &Forgotten| at_once || f.asked_ms.saturating_add(PURGE_AFTER_MS) <= now_ms;
        let waits = !at_once && now_ms < self.purge_again_ms.load(Ordering::Relaxed);
        if waits || !forgotten.iter().any(due) {
            return Ok(None);
        }
        let told = self.told_by_sessions(&list, &forgotten)?;
        let of_table = |table: Table| {
            let mut rows = ForgottenRows::of(table, &forgotten);
            if table.is_told_by_sessions() {
                rows.whose.clone_from(&told);
            }
            (table, rows)
        };
        Ok(Some(Purge {
            rows: ORDER.map(of_table).into(),
            forgotten,
            clean: HashSet::new(),
        }))
    }

    /// The sessions of forgotten profiles.
    fn told_by_sessions(&self, list: &FileList, forgotten: &[Forgotten]) -> Result<Whose> {
        let table = Table::Sessions;
        let profiles = ForgottenRows::of(table, forgotten);
        let mut told = Whose::new();
        for one in forgotten.iter().filter(|one| one.concerns(table)) {
            let of_project = told.entry(one.project.clone()).or_default();
            for session in &one.sessions {
                raise(of_project.entry(session.clone()), one.before as i64);
            }
        }
        for file in list.of(table).iter().filter(|file| profiles.may_hold(file)) {
            self.or_damage(file, self.add_sessions(&profiles, file, &mut told))?;
        }
        Ok(told)
    }

    /// Adds the sessions of a file that are of one of the profiles.
    fn add_sessions(
        &self,
        profiles: &ForgottenRows,
        file: &LakeFile,
        told: &mut Whose,
    ) -> Result<()> {
        let table = Table::Sessions;
        let key = table.key_columns();
        let columns = columns_of(table, [key.project, SESSION_PROFILE, LOG_OFFSET, key.id]);
        let mut reader = TableReader::open(table, &file.path, &columns)?;
        while let Some(columns) = reader.next_columns(table)? {
            self.check_stop()?;
            let texts = |index: usize| TextRows::new(&columns[index]);
            let (projects, names, ids) = (texts(0), texts(1), texts(3));
            let offsets = columns[2].as_primitive::<Int64Type>().values();
            for (row, offset) in offsets.iter().enumerate() {
                let project = projects.value(row);
                let of_project = profiles.whose.get(project);
                let before = of_project.and_then(|of| of.get(names.value(row)));
                if let Some(before) = before.filter(|before| offset < before) {
                    let of_project = told.entry(project.to_owned()).or_default();
                    raise(of_project.entry(ids.value(row).to_owned()), *before);
                }
            }
        }
        Ok(())
    }

    /// What came of reading a file. Where that failed its bytes are compared, so that damage is
    /// known, and passed over from then on.
    fn or_damage<T>(&self, file: &Arc<LakeFile>, read: Result<T>) -> Result<T> {
        read.or_else(|error| {
            self.check_sources([file])?;
            Err(error)
        })
    }

    /// Looks at one file, or at all of the sessions, and rewrites what holds such rows; false when
    /// all are done. The caller holds `replacing`.
    pub(super) fn purge_step(&self, purge: &mut Purge) -> Result<bool> {
        let list = self.sound_list();
        let next = ORDER.into_iter().find_map(|table| {
            let rows = &purge.rows[&table];
            let unseen =
                |file: &&Arc<LakeFile>| rows.may_hold(file) && !purge.clean.contains(&*file.path);
            let mut files = list.of(table).iter().filter(unseen).cloned().peekable();
            files.peek()?;
            // Were some of the sessions rewritten and others not, those would tell of no profile
            // any more after a crash.
            let at_once = if table == Table::Sessions {
                usize::MAX
            } else {
                1
            };
            Some((table, files.take(at_once).collect::<Vec<_>>()))
        });
        let Some((table, files)) = next else {
            self.end_purge(purge)?;
            return Ok(false);
        };
        self.purge_files(table, &files, &purge.rows[&table])?;
        purge
            .clean
            .extend(files.iter().map(|file| file.path.to_path_buf()));
        Ok(true)
    }

    fn purge_files(
        &self,
        table: Table,
        files: &[Arc<LakeFile>],
        rows: &ForgottenRows,
    ) -> Result<()> {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        let (mut removed, mut records) = (0, 0);
        for file in files {
            if !self.or_damage(file, self.holds(rows, file))? {
                continue;
            }
            self.check_sources([file])?;
            let (run, level) = (vec![Arc::clone(file)], file.entry.level.max(Level::Part));
            let merged = merge(self, table, &[run], level, &LeftOut::Forgotten(rows))?;
            old.push(Arc::clone(file));
            new.extend(merged.files);
            removed += merged.removed;
            records += merged.removed_of_records;
        }
        if old.is_empty() {
            return Ok(());
        }
        let mut batch = StateBatch::new();
        self.stage_sequence(&mut batch);
        self.replace(&old, new, batch)?;
        let figures = &self.figures;
        let add = |count: &AtomicU64, rows| count.fetch_add(rows, Ordering::Relaxed);
        add(&figures.rows_forgotten, removed);
        if !table.is_versioned() {
            add(&figures.records_forgotten, records);
        }
        Ok(())
    }

    fn holds(&self, rows: &ForgottenRows, file: &LakeFile) -> Result<bool> {
        let table = file.table;
        let project = table.key_columns().project;
        let whose = table.whose().unwrap_or(project);
        let columns = columns_of(table, [project, whose, LOG_OFFSET]);
        let mut reader = TableReader::open(table, &file.path, &columns)?;
        while let Some(columns) = reader.next_columns(table)? {
            self.check_stop()?;
            let [projects, whose] = [0, 1].map(|index| TextRows::new(&columns[index]));
            let offsets = columns[2].as_primitive::<Int64Type>().values();
            let removes = |(row, offset): (usize, &i64)| {
                rows.removes(projects.value(row), whose.value(row), *offset)
            };
            if offsets.iter().enumerate().any(removes) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All files that could be read are clean. What is damaged may still hold such rows, so that
    /// it stays hidden.
    fn end_purge(&self, purge: &mut Purge) -> Result<()> {
        let removed_ms = Some(self.now_ms());
        let list = self.list();
        let damaged = hold(&self.damaged).clone();
        let is_left = |one: &Forgotten| {
            let of_damaged = |file: &&Arc<LakeFile>| {
                damaged.contains(&*file.path)
                    && one.concerns(file.table)
                    && file.entry.offset_min < one.before as i64
            };
            let mut files = ORDER.into_iter().flat_map(|table| list.of(table));
            files.any(|file| of_damaged(&file))
        };
        let forgotten = std::mem::take(&mut purge.forgotten);
        let (left, done): (Vec<_>, Vec<_>) = forgotten.into_iter().partition(is_left);
        if !left.is_empty() {
            let again_ms = self.now_ms().saturating_add(PURGE_AFTER_MS);
            self.purge_again_ms.store(again_ms, Ordering::Relaxed);
        }
        let removed = |one| Forgotten { removed_ms, ..one };
        let done: Vec<Forgotten> = done.into_iter().map(removed).collect();
        let mut batch = StateBatch::new();
        done.iter().for_each(|one| one.stage(&mut batch));
        self.state.commit(batch)?;
        info!(
            requests = done.len(),
            "rows that were to be forgotten are out of the tables"
        );
        self.change_list(|list| list.forget(done));
        Ok(())
    }
}

fn columns_of<const N: usize>(table: Table, names: [&str; N]) -> [usize; N] {
    names.map(|name| table.column_index(name).expect("the table has the column"))
}
