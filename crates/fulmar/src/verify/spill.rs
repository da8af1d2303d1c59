//! Identities on disk, split by hash, so that any number is compared in bounded memory.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::judge::{Identity, Met};

/// Files that identities are split over. One is loaded at a time: at 100 million identities in all
/// that is 12 MiB.
const BUCKETS: usize = 256;
/// Write buffer of one file, in bytes: 4 MiB over all.
const BUFFER_BYTES: usize = 16 << 10;
/// One entry: identity, offset, tag.
const ENTRY_BYTES: usize = 16 + 8 + 1;

/// A folder of files that takes what is met, in any order.
pub struct Spill {
    folder: PathBuf,
    files: Vec<BufWriter<File>>,
}

impl Spill {
    /// An empty one in a new folder below `parent`; it is removed when this is dropped.
    pub fn new(parent: &Path) -> std::io::Result<Self> {
        let mut random = [0_u8; 8];
        getrandom::fill(&mut random).map_err(|e| std::io::Error::other(e.to_string()))?;
        let name = format!("fulmar-verify-{:016x}", u64::from_le_bytes(random));
        let folder = parent.join(name);
        crate::data_dir::create_private_dir(&folder)?;
        let files = (0..BUCKETS)
            .map(|bucket| {
                let file = File::create(folder.join(bucket.to_string()))?;
                Ok(BufWriter::with_capacity(BUFFER_BYTES, file))
            })
            .collect::<std::io::Result<_>>()?;
        Ok(Self { folder, files })
    }

    /// Takes one.
    pub fn add(&mut self, identity: Identity, met: Met) -> std::io::Result<()> {
        let (tag, offset) = match met {
            Met::Logged { offset } => (0, offset),
            Met::Expired { offset } => (1, offset),
            Met::Quarantined { offset } => (2, offset),
            Met::Stored { offset } => (3, offset),
            Met::Acknowledged => (4, 0),
            Met::Deleted { offset } => (5, offset),
        };
        let mut entry = [0_u8; ENTRY_BYTES];
        entry[..16].copy_from_slice(&identity.0.to_le_bytes());
        entry[16..24].copy_from_slice(&offset.to_le_bytes());
        entry[24] = tag;
        self.files[(identity.0 % BUCKETS as u128) as usize].write_all(&entry)
    }

    /// Calls `each` with every identity and all that was met of it, sorted.
    pub fn groups(mut self, mut each: impl FnMut(Identity, &[Met])) -> std::io::Result<()> {
        for file in &mut self.files {
            file.flush()?;
        }
        let mut met = Vec::new();
        for bucket in 0..BUCKETS {
            let mut entries = self.load(bucket)?;
            entries.sort_unstable();
            for group in entries.chunk_by(|one, other| one.0 == other.0) {
                met.clear();
                met.extend(group.iter().map(|(_, met)| *met));
                each(group[0].0, &met);
            }
        }
        Ok(())
    }

    fn load(&self, bucket: usize) -> std::io::Result<Vec<(Identity, Met)>> {
        let file = File::open(self.folder.join(bucket.to_string()))?;
        let count = file.metadata()?.len() / ENTRY_BYTES as u64;
        let mut entries = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        let mut file = BufReader::new(file);
        let mut entry = [0_u8; ENTRY_BYTES];
        for _ in 0..count {
            file.read_exact(&mut entry)?;
            entries.push(decode(&entry)?);
        }
        Ok(entries)
    }
}

fn decode(entry: &[u8; ENTRY_BYTES]) -> std::io::Result<(Identity, Met)> {
    let identity = Identity(u128::from_le_bytes(
        entry[..16].try_into().expect("16 bytes"),
    ));
    let offset = u64::from_le_bytes(entry[16..24].try_into().expect("8 bytes"));
    let met = match entry[24] {
        0 => Met::Logged { offset },
        1 => Met::Expired { offset },
        2 => Met::Quarantined { offset },
        3 => Met::Stored { offset },
        4 => Met::Acknowledged,
        5 => Met::Deleted { offset },
        tag => return Err(std::io::Error::other(format!("no tag {tag}"))),
    };
    Ok((identity, met))
}

impl Drop for Spill {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn any_met() -> impl Strategy<Value = Met> {
        prop_oneof![
            any::<u64>().prop_map(|offset| Met::Logged { offset }),
            any::<u64>().prop_map(|offset| Met::Expired { offset }),
            any::<u64>().prop_map(|offset| Met::Quarantined { offset }),
            any::<u64>().prop_map(|offset| Met::Stored { offset }),
            Just(Met::Acknowledged),
            any::<u64>().prop_map(|offset| Met::Deleted { offset }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn groups_are_those_of_a_map_in_memory(
            items in prop::collection::vec((0_u128..600, any_met()), 0..400),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut spill = Spill::new(folder.path()).unwrap();
            let mut expected: BTreeMap<Identity, Vec<Met>> = BTreeMap::new();
            for (id, met) in items {
                spill.add(Identity(id), met).unwrap();
                expected.entry(Identity(id)).or_default().push(met);
            }
            for met in expected.values_mut() {
                met.sort_unstable();
            }
            let mut found = BTreeMap::new();
            spill.groups(|id, met| { found.insert(id, met.to_vec()); }).unwrap();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }
}
