//! The folder's lock (L4).

use std::fs::{File, OpenOptions};
use std::path::Path;

use rustix::fs::FlockOperation;

use crate::disk;
use crate::error::{At, LogError, Result};

/// Held while a process owns the data folder; given back when dropped, and by
/// the system when the process ends in any way.
#[derive(Debug)]
#[must_use = "the folder is locked only while this lives"]
pub struct FolderLock {
    _file: File,
}

/// Takes the exclusive lock `DIR/lock`, making the folder if it is missing.
///
/// # Errors
/// [`LogError::Locked`] at once when another process has it.
pub fn lock_folder(dir: &Path) -> Result<FolderLock> {
    disk::create_dir_all(dir).at(dir)?;
    let path = dir.join("lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .at(&path)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(FolderLock { _file: file }),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(LogError::Locked { path }),
        Err(error) => Err(LogError::io(&path, error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_refused_by_name_until_the_first_lets_go() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("data");
        let lock = lock_folder(&folder).unwrap();
        let refused = lock_folder(&folder).unwrap_err();
        assert!(matches!(&refused, LogError::Locked { path } if path.ends_with("data/lock")));
        drop(lock);
        let _again = lock_folder(&folder).unwrap();
    }
}
