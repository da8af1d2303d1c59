//! Where a query puts what does not fit its memory.

use std::path::{Path, PathBuf};

/// A folder of one query's spills, removed with it.
#[derive(Debug)]
pub(super) struct Spill {
    pub(super) folder: PathBuf,
}

impl Spill {
    /// A query without a folder still runs, within its memory.
    pub(super) fn create(data: &Path, number: u64) -> Option<Spill> {
        let folder = data
            .join("spill")
            .join(format!("{}-{number}", std::process::id()));
        match std::fs::create_dir_all(&folder) {
            Ok(()) => Some(Spill { folder }),
            Err(error) => {
                tracing::warn!(%error, folder = %folder.display(), "queries cannot spill");
                None
            }
        }
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        // What a killed query left; an empty folder more or less does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
        // Goes with the last query's folder; while others have theirs, it stays.
        let _ = self.folder.parent().map(std::fs::remove_dir);
    }
}

/// Removes what queries of an earlier process left behind; call it under the folder's lock.
pub fn remove_spills(data: &Path) {
    let _ = std::fs::remove_dir_all(data.join("spill"));
}
