//! `tables/T/day=YYYY-MM-DD/`: hard links for readers that know nothing of the
//! list. Only committed, compacted files stand there, and a day is replaced
//! whole by one exchange of folders, so that a glob is exact or fails, never
//! double. The links follow from the list; what a crash leaves is mended at open.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use fulmar_log::disk;

use super::Shared;
use super::entry::{DAY_MS, day_name};
use super::open::names_in;
use crate::error::{Result, io_error};
use crate::tables::Table;

/// Start of the names of folders that are being filled or emptied. They stand
/// beside the tables' private folders, where no glob over `tables/` goes.
const UNFINISHED_PREFIX: &str = "links-";

const DAY_PREFIX: &str = "day=";

impl Shared {
    /// Makes a day's folder show exactly the listed files of that day.
    pub(crate) fn show_day(&self, table: Table, day: i32) -> Result<()> {
        let name = format!("{UNFINISHED_PREFIX}{}-{}", table.name(), day_name(day));
        let new = self.files_dir.join(name);
        let shown = self.day_dir(table, day);
        remove_dir(&new)?;
        let list = self.list();
        let mut files = list
            .of(table)
            .iter()
            .filter(|f| f.entry.day == Some(day))
            .peekable();
        if files.peek().is_none() {
            // Out of sight in one step, then emptied.
            match disk::rename(&shown, &new) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                moved => moved.map_err(io_error("rename", &shown))?,
            }
            return remove_dir(&new);
        }
        disk::create_dir_all(&new).map_err(io_error("make", &new))?;
        for file in files {
            let link = new.join(&file.entry.name);
            disk::link(&file.path, &link).map_err(io_error("link", &link))?;
        }
        if shown.exists() {
            disk::exchange(&new, &shown).map_err(io_error("exchange", &shown))?;
            return remove_dir(&new);
        }
        disk::rename(&new, &shown).map_err(io_error("rename", &new))
    }

    /// The days that are shown, with the names of their files.
    pub(crate) fn shown_days(&self, table: Table) -> Result<Vec<(i32, HashSet<String>)>> {
        let folder = self.tables_dir.join(table.name());
        let mut days = Vec::new();
        for name in names_in(&folder)? {
            let Some(day) = name.strip_prefix(DAY_PREFIX).and_then(parse_day) else {
                continue;
            };
            let files = names_in(&folder.join(&name))?.into_iter().collect();
            days.push((day, files));
        }
        Ok(days)
    }

    /// Removes folders that a crash left half filled or half emptied.
    pub(crate) fn remove_unfinished_links(&self) -> Result<()> {
        for name in names_in(&self.files_dir)? {
            if name.starts_with(UNFINISHED_PREFIX) {
                remove_dir(&self.files_dir.join(name))?;
            }
        }
        Ok(())
    }

    pub(crate) fn day_dir(&self, table: Table, day: i32) -> PathBuf {
        let name = format!("{DAY_PREFIX}{}", day_name(day));
        self.tables_dir.join(table.name()).join(name)
    }
}

fn remove_dir(path: &std::path::Path) -> Result<()> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    disk::remove_dir_all(path).map_err(io_error("remove", path))
}

fn parse_day(text: &str) -> Option<i32> {
    let date: jiff::civil::Date = text.parse().ok()?;
    let start = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    let days = start.timestamp().as_millisecond().div_euclid(DAY_MS);
    i32::try_from(days).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_read_as_it_is_named() {
        for day in [-25_567, -1, 0, 19_782, 106_751] {
            assert_eq!(parse_day(&day_name(day)), Some(day));
        }
        assert_eq!(parse_day("2024-13-01"), None);
    }
}
