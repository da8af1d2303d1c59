//! What the spool remembers beside its entries.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::entry::Position;
use super::segment::sync_folder;
use crate::error::SendError;

const NAME: &str = "state.json";

/// How far entries are freed and sources read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// The first sequence number that is not freed.
    pub freed: u64,
    /// Where to read on.
    pub positions: Vec<Position>,
    /// The shift of times of `--rebase`, in ns.
    pub shift_ns: Option<i64>,
}

impl Saved {
    /// Takes newer positions in, one for each path.
    pub fn merge(&mut self, newer: Vec<Position>) {
        for position in newer {
            self.positions.retain(|old| old.path != position.path);
            self.positions.push(position);
        }
    }
}

/// The saved state; the default where there is none or it is torn. Then all
/// entries that are left are sent again and the sources read from their start,
/// under the same ids.
pub fn load(dir: &Path) -> Saved {
    let bytes = std::fs::read(dir.join(NAME)).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Replaces the saved state as a whole; `durable` before something is removed
/// that only this state makes up for.
pub fn store(dir: &Path, saved: &Saved, durable: bool) -> Result<(), SendError> {
    let path = dir.join(NAME);
    let fresh = dir.join("state.json.new");
    let fail = |e| SendError::file("write", &path, e);
    let bytes = serde_json::to_vec(saved).expect("plain fields");
    let mut file = File::create(&fresh).map_err(fail)?;
    file.write_all(&bytes).map_err(fail)?;
    if durable {
        file.sync_all().map_err(fail)?;
    }
    std::fs::rename(&fresh, &path).map_err(fail)?;
    if durable {
        sync_folder(dir)?;
    }
    Ok(())
}
