//! The exact committed list, and the files that it names.

use std::sync::Arc;

use super::entry::LakeFile;
use crate::tables::Table;

/// All files of all tables at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileList([Vec<Arc<LakeFile>>; Table::COUNT]);

impl FileList {
    pub(crate) fn of(&self, table: Table) -> &Vec<Arc<LakeFile>> {
        &self.0[table as usize]
    }

    pub(crate) fn of_mut(&mut self, table: Table) -> &mut Vec<Arc<LakeFile>> {
        &mut self.0[table as usize]
    }

    pub(crate) fn blocks(&self, table: Table) -> usize {
        self.of(table)
            .iter()
            .filter(|file| !file.entry.compacted())
            .count()
    }
}

/// The committed files at one moment. They stay on disk while this is held.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) list: Arc<FileList>,
}

impl Snapshot {
    /// The files of a table, in no particular order.
    pub fn files(&self, table: Table) -> &[Arc<LakeFile>] {
        self.list.of(table)
    }

    /// Rows of a table.
    pub fn rows(&self, table: Table) -> u64 {
        self.files(table).iter().map(|file| file.entry.rows).sum()
    }

    /// All files of all tables.
    pub fn all(&self) -> impl Iterator<Item = &Arc<LakeFile>> {
        Table::ALL.into_iter().flat_map(|table| self.files(table))
    }
}
