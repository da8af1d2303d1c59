//! Opening a lake: the list is read, what is not in it is removed.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::sync::{Arc, Condvar, Mutex};

use fulmar_flow::{State, StateBatch};
use fulmar_log::disk;

use super::entry::{
    self, DEAD_PREFIX, FILE_PREFIX, FileEntry, KEYSPACE, LakeFile, Level, SEQUENCE_KEY, bad_entry,
};
use super::{DeadFile, Figures, FileList, Lake, LakeConfig, Shared, forget, plan};
use crate::error::{Result, StoreError, io_error};
use crate::tables::Table;

impl Lake {
    /// Opens the lake of the data folder `dir` (its `lake/` and `tables/`),
    /// whose list is in `state`. Files in no list are removed.
    ///
    /// # Errors
    /// When the list or the folders can't be read, or a later version wrote them.
    pub fn open(dir: &Path, state: Arc<State>, config: LakeConfig) -> Result<Lake> {
        let (files_dir, tables_dir) = (dir.join("lake"), dir.join("tables"));
        for table in Table::ALL {
            for folder in [&files_dir, &tables_dir] {
                let folder = folder.join(table.name());
                disk::create_dir_all(&folder).map_err(io_error("make", &folder))?;
            }
        }
        same_file_system(&files_dir, &tables_dir)?;
        check_versions(&state, &files_dir)?;
        let mut list = FileList::default();
        for (key, value) in state.prefix(KEYSPACE, FILE_PREFIX)? {
            let (table, entry) = entry::decode(&key, &value)?;
            let path = Arc::new(files_dir.join(table.name()).join(&entry.name));
            list.of_mut(table)
                .push(Arc::new(LakeFile { table, entry, path }));
        }
        list.forget(forget::read_all(&state)?);
        let dead = read_dead(&state, &files_dir)?;
        let sequence = read_sequence(&state)?;
        let shared = Shared {
            files_dir,
            tables_dir,
            state,
            config,
            list: Mutex::new(Arc::new(list)),
            changed: Condvar::new(),
            dead: Mutex::new(dead),
            replacing: Mutex::new(()),
            days_to_show: Mutex::default(),
            damaged: Mutex::default(),
            sequence: AtomicU64::new(sequence),
            purge_again_ms: AtomicI64::new(i64::MIN),
            stopping: AtomicBool::new(false),
            activity: Mutex::new(plan::Activity::default()),
            figures: Figures::default(),
        };
        shared.remove_orphans()?;
        shared.mend_day_links()?;
        Ok(Lake {
            shared: Arc::new(shared),
        })
    }
}

/// Said at the start, since the first link may be made hours later.
fn same_file_system(files: &Path, tables: &Path) -> Result<()> {
    let device = |dir: &Path| {
        fs::metadata(dir)
            .map(|of| of.dev())
            .map_err(io_error("read", dir))
    };
    if device(files)? == device(tables)? {
        return Ok(());
    }
    Err(StoreError::TwoFileSystems {
        tables: tables.to_owned(),
        files: files.to_owned(),
    })
}

/// Refuses tables of a later version; takes note of ours.
fn check_versions(state: &State, files_dir: &Path) -> Result<()> {
    let mut batch = StateBatch::new();
    for table in Table::ALL {
        let key = entry::version_key(table);
        let stored = match state.get(KEYSPACE, &key)? {
            Some(text) => parse_number(&key, &text)? as u32,
            None => 0,
        };
        let known = table.version();
        if stored > known {
            let (path, table) = (files_dir.to_owned(), table.name());
            return Err(StoreError::NewerTable {
                path,
                table,
                found: stored,
                known,
            });
        }
        if stored < known {
            batch.put(KEYSPACE, key, known.to_string());
        }
    }
    Ok(state.commit(batch)?)
}

fn read_sequence(state: &State) -> Result<u64> {
    match state.get(KEYSPACE, SEQUENCE_KEY)? {
        Some(text) => parse_number(SEQUENCE_KEY, &text),
        None => Ok(0),
    }
}

fn parse_number(key: &[u8], value: &[u8]) -> Result<u64> {
    let text = std::str::from_utf8(value).ok();
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| bad_entry(key, "its value is no number"))
}

/// Replaced files that a reader outside may still have in hand.
fn read_dead(state: &State, files_dir: &Path) -> Result<Vec<DeadFile>> {
    let mut dead = Vec::new();
    for (key, value) in state.prefix(KEYSPACE, DEAD_PREFIX)? {
        let (table, name) = entry::split_key(&key)?;
        let path = Arc::new(files_dir.join(table.name()).join(&name));
        let file = Arc::new(LakeFile {
            table,
            entry: forgotten_entry(name),
            path,
        });
        let replaced_at_ms = parse_number(&key, &value)? as i64;
        dead.push(DeadFile {
            file,
            replaced_at_ms,
        });
    }
    Ok(dead)
}

/// Of a replaced file only the name is still known.
fn forgotten_entry(name: String) -> FileEntry {
    FileEntry {
        name,
        level: Level::Block,
        day: None,
        run: 0,
        rows: 0,
        bytes: 0,
        crc32c: None,
        time_min_ms: 0,
        time_max_ms: 0,
        offset_min: 0,
        offset_max: 0,
        version: 0,
    }
}

impl Shared {
    /// Removes what no list names: temporary files, a block that was written
    /// and not committed, the output of a compaction that a crash ended.
    fn remove_orphans(&self) -> Result<()> {
        let list = self.list();
        for table in Table::ALL {
            let mut known: HashSet<String> = HashSet::new();
            known.extend(list.of(table).iter().map(|file| file.entry.name.clone()));
            let dead = super::hold(&self.dead);
            let of_table = dead.iter().filter(|dead| dead.file.table == table);
            known.extend(of_table.map(|dead| dead.file.entry.name.clone()));
            drop(dead);
            let folder = self.files_dir.join(table.name());
            for name in names_in(&folder)? {
                if !known.contains(&name) {
                    let path = folder.join(&name);
                    disk::unlink(&path).map_err(io_error("remove", &path))?;
                }
            }
        }
        Ok(())
    }

    /// Makes `tables/` show the committed list, whatever a crash left there.
    fn mend_day_links(&self) -> Result<()> {
        self.remove_unfinished_links()?;
        let list = self.list();
        for table in Table::ALL {
            let mut days: BTreeMap<i32, HashSet<String>> = BTreeMap::new();
            for file in list.of(table) {
                if let Some(day) = file.entry.day {
                    days.entry(day).or_default().insert(file.entry.name.clone());
                }
            }
            for (day, shown) in self.shown_days(table)? {
                if days.get(&day).is_some_and(|listed| *listed == shown) {
                    days.remove(&day);
                } else {
                    days.entry(day).or_default();
                }
            }
            for day in days.into_keys() {
                self.show_day(table, day)?;
            }
        }
        Ok(())
    }
}

/// The names in a folder.
pub(crate) fn names_in(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).map_err(io_error("list", folder))?;
    let mut names = Vec::new();
    for item in entries {
        let item = item.map_err(io_error("list", folder))?;
        names.push(item.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}
