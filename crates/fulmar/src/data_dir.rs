//! The data folder: where each thing lies, and its format version.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// Format of the data folder that this build writes and the newest that it reads.
const FORMAT: u32 = 1;
/// Longest VERSION file that is read, in bytes.
const VERSION_BYTES_MAX: usize = 256;

/// What the note of a replay says at its end.
const REPLAYED_WHOLE: &str = "whole\n";

/// The data folder. Holding one says nothing about the lock.
#[derive(Clone, Debug)]
pub struct DataDir {
    root: PathBuf,
}

impl DataDir {
    /// The folder at a path, which may not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The topics of the embedded log.
    pub fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// The state store of the folds.
    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// The files of the index of repeats.
    pub fn repeats(&self) -> PathBuf {
        self.state().join("repeats")
    }

    /// The files of the profile fold's index of repeats.
    pub fn profile_repeats(&self) -> PathBuf {
        self.state().join("repeats-profiles")
    }

    /// The files of the webhooks' index of repeats.
    pub fn webhook_repeats(&self) -> PathBuf {
        self.state().join("repeats-webhooks")
    }

    /// The tables' files, under private names.
    pub fn lake(&self) -> PathBuf {
        self.root.join("lake")
    }

    /// Links to the compacted files, by day.
    pub fn tables(&self) -> PathBuf {
        self.root.join("tables")
    }

    /// Whether there is a file of any table.
    pub fn holds_tables(&self) -> bool {
        let names = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
        names(&self.lake()).any(|table| names(&table.path()).next().is_some())
    }

    /// Notes that a replay fills it: that it holds tables and no log, and whether all of them.
    pub fn mark_replayed(&self, whole: bool) -> std::io::Result<()> {
        let text = if whole {
            REPLAYED_WHOLE
        } else {
            "unfinished\n"
        };
        write_private(&self.replayed(), text.as_bytes())
    }

    /// Whether a replay has filled it.
    pub fn is_replayed(&self) -> bool {
        self.replayed().exists()
    }

    /// Whether that replay came to its end.
    pub fn is_replayed_whole(&self) -> bool {
        fs::read_to_string(self.replayed()).is_ok_and(|text| text == REPLAYED_WHOLE)
    }

    fn replayed(&self) -> PathBuf {
        self.root.join("REPLAYED")
    }

    /// Certificates and their keys.
    pub fn pki(&self) -> PathBuf {
        self.root.join("pki")
    }

    /// Keys in clear that a first start made.
    pub fn keys(&self) -> PathBuf {
        self.root.join("keys")
    }

    /// What the webhooks' secrets are sealed with.
    pub fn keyring(&self) -> PathBuf {
        self.keys().join("webhooks.keyring")
    }

    /// The salts of device ids.
    pub fn salts(&self) -> PathBuf {
        self.keys().join("salts.json")
    }

    /// Where a running server listens.
    pub fn addresses(&self) -> PathBuf {
        self.root.join("addresses.json")
    }

    fn version(&self) -> PathBuf {
        self.root.join("VERSION")
    }

    /// Whether a server has ever been started or a folder initialised here.
    pub fn is_made(&self) -> bool {
        self.version().exists()
    }

    /// Makes the folder, for its owner only, and gives it by its absolute path: what a server tells
    /// of its files must hold for clients in other working folders.
    pub fn create(&self) -> Result<Self, Failure> {
        create_private_dir(&self.root)
            .and_then(|()| fs::canonicalize(&self.root))
            .map(Self::new)
            .map_err(|e| Failure::new(format!("cannot make {}: {e}", self.root.display())))
    }

    /// Writes VERSION into a new folder, or refuses one of a newer format by name.
    pub fn claim(&self) -> Result<(), Failure> {
        let path = self.version();
        match fs::read_to_string(&path) {
            Ok(text) => self.check_version(&text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let text = format!("fulmar data format {FORMAT}\n");
                write_private(&path, text.as_bytes())
                    .map_err(|e| Failure::new(format!("cannot write {}: {e}", path.display())))
            }
            Err(error) => Err(Failure::new(format!(
                "cannot read {}: {error}",
                path.display()
            ))),
        }
    }

    fn check_version(&self, text: &str) -> Result<(), Failure> {
        let place = self.version().display().to_string();
        let format = (text.len() <= VERSION_BYTES_MAX)
            .then(|| {
                text.trim()
                    .strip_prefix("fulmar data format ")?
                    .parse::<u32>()
                    .ok()
            })
            .flatten();
        match format {
            Some(format) if (1..=FORMAT).contains(&format) => Ok(()),
            Some(format) => Err(Failure::new(format!(
                "{place}: data format {format} is of a newer version; fulmar {} reads up to {FORMAT}",
                env!("CARGO_PKG_VERSION")
            ))),
            None => Err(Failure::new(format!(
                "{place} is not a version file of fulmar"
            ))),
        }
    }
}

/// Makes a folder and those above it; the folder is for its owner only (0700).
pub fn create_private_dir(path: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Writes a file whole or not at all, for its owner only (0600), and syncs it: under a temporary
/// name, then renamed.
pub fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // The parent of a bare file name is the empty path, which no system call takes.
    let folder = match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    let name = path
        .file_name()
        .ok_or_else(|| std::io::Error::other("a file needs a name"))?;
    let mut temporary = name.to_os_string();
    temporary.push(format!(".{}.new", std::process::id()));
    let temporary = folder.join(temporary);
    // A file of a process that died on the way must not lend its mode.
    let _ = fs::remove_file(&temporary);
    let written = (|| {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        fs::File::open(folder)?.sync_all()
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_folder_is_claimed_once_and_a_newer_one_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::new(folder.path().join("a/b"));
        data.create().unwrap();
        assert!(!data.is_made());
        data.claim().unwrap();
        data.claim().unwrap();
        assert!(data.is_made());
        assert_eq!(
            fs::read_to_string(data.version()).unwrap(),
            "fulmar data format 1\n"
        );
        assert_eq!(
            fs::metadata(data.root()).unwrap().permissions().mode() & 0o777,
            0o700
        );

        fs::write(data.version(), "fulmar data format 2\n").unwrap();
        let told = data.claim().unwrap_err().to_string();
        assert!(
            told.contains("data format 2 is of a newer version"),
            "{told}"
        );
        for broken in ["", "2", "fulmar data format 0", "fulmar data format x"] {
            fs::write(data.version(), broken).unwrap();
            assert!(data.claim().is_err(), "{broken}");
        }
    }

    #[test]
    fn a_bare_file_name_means_this_folder() {
        let name = format!("bare-name-{}.key", std::process::id());
        write_private(Path::new(&name), b"x").unwrap();
        assert_eq!(fs::read(&name).unwrap(), b"x");
        fs::remove_file(&name).unwrap();
    }

    #[test]
    fn a_private_file_is_replaced_whole_and_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        for text in ["first", "second, longer"] {
            write_private(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o600
            );
        }
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no temporary is left"
        );
    }
}
