//! The exact committed list, and the files that it names.

use std::sync::Arc;

use super::entry::LakeFile;
use super::forget::Forgotten;
use crate::tables::Table;

/// All files of all tables at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileList {
    files: [Vec<Arc<LakeFile>>; Table::COUNT],
    forgotten: Arc<Vec<Forgotten>>,
}

impl FileList {
    pub(crate) fn of(&self, table: Table) -> &Vec<Arc<LakeFile>> {
        &self.files[table as usize]
    }

    pub(crate) fn of_mut(&mut self, table: Table) -> &mut Vec<Arc<LakeFile>> {
        &mut self.files[table as usize]
    }

    pub(crate) fn forgotten(&self) -> &[Forgotten] {
        &self.forgotten
    }

    /// Takes note of what was forgotten, or of how that stands now.
    pub(crate) fn forget(&mut self, news: Vec<Forgotten>) {
        if news.is_empty() {
            return;
        }
        let place = |one: &Forgotten| (one.topic.clone(), one.before);
        let mut all = Vec::clone(&self.forgotten);
        all.retain(|known| news.iter().all(|new| place(new) != place(known)));
        all.extend(news);
        all.sort_by_key(place);
        self.forgotten = Arc::new(all);
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

    /// What operators had forgotten; rows of it that are still in files are not to be shown.
    pub fn forgotten(&self) -> &[Forgotten] {
        self.list.forgotten()
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
