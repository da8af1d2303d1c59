//! Folders of measurements.

use std::path::PathBuf;

use super::IngestOptions;
use crate::BenchError;

/// A folder of one measurement, removed with all that is in it.
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
}

impl Folder {
    /// Makes one for a phase of a round.
    pub fn make(options: &IngestOptions, phase: &str, round: u32) -> Result<Folder, BenchError> {
        let root = options.folder.clone().unwrap_or_else(std::env::temp_dir);
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
