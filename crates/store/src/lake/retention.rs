//! Rows past their table's age, and files that nobody needs any more.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fulmar_flow::StateBatch;
use fulmar_log::disk;

use super::entry::{DAY_MS, FileEntry, KEYSPACE, LakeFile, dead_key};
use super::{DeadFile, Shared, hold};
use crate::error::{Result, io_error};
use crate::tables::Table;

impl Shared {
    /// Removes the files of which every row is past its table's age. A day goes
    /// whole: its end counts, so that no row goes early.
    pub(crate) fn remove_expired(&self) -> Result<u64> {
        let _replacing = hold(&self.replacing);
        let now_ms = self.now_ms();
        let list = self.list();
        let mut expired = Vec::new();
        for (&table, &days) in &self.config.retention_days {
            let keep_ms = i64::from(days) * DAY_MS;
            let is_expired = |file: &&Arc<LakeFile>| {
                let day_end_ms = (file.entry.time_max_ms.div_euclid(DAY_MS) + 1) * DAY_MS;
                day_end_ms + keep_ms <= now_ms
            };
            expired.extend(list.of(table).iter().filter(is_expired).cloned());
        }
        if expired.is_empty() {
            return Ok(0);
        }
        let rows = expired.iter().map(|file| file.entry.rows).sum();
        self.replace(&expired, Vec::new(), StateBatch::new())?;
        self.figures.rows_expired.fetch_add(rows, Ordering::Relaxed);
        Ok(rows)
    }

    /// Takes `old` out of the list and puts `new` in, in one synced batch; then
    /// memory and the days' folders follow. The caller holds `replacing`.
    pub(crate) fn replace(
        &self,
        old: &[Arc<LakeFile>],
        new: Vec<LakeFile>,
        mut batch: StateBatch,
    ) -> Result<()> {
        let now_ms = self.now_ms();
        for file in old {
            batch.delete(KEYSPACE, FileEntry::key(file.table, &file.entry.name));
            let key = dead_key(file.table, &file.entry.name);
            batch.put(KEYSPACE, key, now_ms.to_string());
        }
        for file in &new {
            let key = FileEntry::key(file.table, &file.entry.name);
            batch.put(KEYSPACE, key, file.entry.encode());
        }
        self.state.commit(batch)?;
        let mut days: BTreeSet<(Table, i32)> = BTreeSet::new();
        let of_old = old
            .iter()
            .filter_map(|file| Some((file.table, file.entry.day?)));
        days.extend(of_old);
        days.extend(
            new.iter()
                .filter_map(|file| Some((file.table, file.entry.day?))),
        );
        let mut damaged = hold(&self.damaged);
        old.iter().for_each(|file| {
            damaged.remove(&*file.path);
        });
        drop(damaged);
        self.change_list(|list| {
            for file in old {
                let of_table = list.of_mut(file.table);
                of_table.retain(|listed| listed.entry.name != file.entry.name);
            }
            for file in new {
                list.of_mut(file.table).push(Arc::new(file));
            }
        });
        let replaced = old.iter().map(|file| DeadFile {
            file: Arc::clone(file),
            replaced_at_ms: now_ms,
        });
        hold(&self.dead).extend(replaced);
        hold(&self.days_to_show).extend(days);
        self.show_days()
    }

    /// Makes the folders of changed days show the list. What fails is tried
    /// again later: a folder left behind shows the rows of before, whole.
    /// The caller holds `replacing`.
    pub(crate) fn show_days(&self) -> Result<()> {
        let days = hold(&self.days_to_show).clone();
        for (table, day) in days {
            self.show_day(table, day)?;
            hold(&self.days_to_show).remove(&(table, day));
        }
        Ok(())
    }

    /// Unlinks replaced files whose time is over and that no snapshot holds.
    pub(crate) fn unlink_dead(&self) -> Result<()> {
        let now_ms = self.now_ms();
        let keep_ms = self.config.replaced_keep_ms;
        let mut gone = Vec::new();
        hold(&self.dead).retain(|dead| {
            // A snapshot holds the list, the list the file, or an earlier entry
            // of the same file, which has the same path.
            let held = Arc::strong_count(&dead.file) > 1 || Arc::strong_count(&dead.file.path) > 1;
            let keeps = held || now_ms < dead.replaced_at_ms.saturating_add(keep_ms);
            if !keeps {
                gone.push(Arc::clone(&dead.file));
            }
            keeps
        });
        if gone.is_empty() {
            return Ok(());
        }
        let mut batch = StateBatch::new();
        for file in &gone {
            match disk::unlink(&file.path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                unlinked => unlinked.map_err(io_error("remove", &file.path))?,
            }
            batch.delete(KEYSPACE, dead_key(file.table, &file.entry.name));
        }
        Ok(self.state.commit(batch)?)
    }
}
