//! Folders of measurements.

use std::path::{Path, PathBuf};

use crate::BenchError;

/// A folder of one measurement, removed with all that is in it.
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
}

impl Folder {
    /// Makes one for a phase of a round, in `root` or the system's temporary folder.
    pub fn make(root: Option<&Path>, phase: &str, round: u32) -> Result<Folder, BenchError> {
        let root = root.map_or_else(std::env::temp_dir, Path::to_owned);
        let name = format!("fulmar-bench-{}-{round}-{phase}", std::process::id());
        let path = root.join(name);
        std::fs::create_dir_all(&path)?;
        Ok(Folder { path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
