//! API keys in files: those that a first start writes, and those that commands read.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use fulmar_registry::{ApiKey, DEFAULT_PROJECT, Registry, Scope};

use crate::config::Config;
use crate::data_dir::{DataDir, create_private_dir, write_private};
use crate::exit::{Context as _, Failure};

/// Name of the key that sends events.
pub const INGEST: &str = "ingest";
/// Name of the key that administers.
pub const ADMIN: &str = "admin";
/// Longest key file that is read, in bytes: a key is 84.
const KEY_FILE_BYTES_MAX: u64 = 4_096;

/// Where a key of a folder lies.
pub fn path(data: &DataDir, name: &str) -> PathBuf {
    data.keys().join(format!("{name}.key"))
}

/// Reads a key of a folder.
pub fn read(data: &DataDir, name: &str) -> Result<String, Failure> {
    read_file(&path(data, name))
}

/// Reads a key file; the line end is no part of the key.
pub fn read_file(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(KEY_FILE_BYTES_MAX).read_to_string(&mut text))
        .context(format!("cannot read the key {}", path.display()))?;
    Ok(text.trim().to_owned())
}

/// The key for a server elsewhere: from a file or from `FULMAR_KEY`, never from an argument, which
/// other users of the machine could read.
pub fn for_client(file: Option<&Path>) -> Result<Option<String>, Failure> {
    if let Some(path) = file {
        return read_file(path).map(Some);
    }
    Ok(std::env::var("FULMAR_KEY")
        .ok()
        .filter(|key| !key.is_empty()))
}

/// Makes the keys of a first start and writes them, 0600. Returns the paths that were written.
///
/// A key that the registry knows but whose file is gone is not made again: whoever removed the
/// file may have meant it.
pub fn ensure(
    data: &DataDir,
    registry: &Registry,
    config: &Config,
    now_ms: i64,
) -> Result<Vec<PathBuf>, Failure> {
    create_private_dir(&data.keys()).context(format!("cannot make {}", data.keys().display()))?;
    let mut written = Vec::new();
    for (name, scope, setting) in [
        (INGEST, Scope::Ingest, "keys.ingest"),
        (ADMIN, Scope::Admin, "keys.admin"),
    ] {
        let known = registry.current();
        let mut keys = known.keys.values();
        if keys.any(|key| key.project == DEFAULT_PROJECT && key.client == name) {
            continue;
        }
        let given = config.text(setting);
        let key = match given.is_empty() {
            true => ApiKey::generate()?,
            false => ApiKey::adopt(given).context(setting)?,
        };
        // The file first: a key that the registry knows and nobody holds would be lost for ever.
        let path = path(data, name);
        write_private(&path, format!("{}\n", key.reveal()).as_bytes())
            .context(format!("cannot write {}", path.display()))?;
        registry.admit_key(key, DEFAULT_PROJECT, name, vec![scope], now_ms)?;
        written.push(path);
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use fulmar_registry::MemoryLog;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_first_start_writes_private_keys_that_open_what_they_say() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::new(folder.path());
        let registry = Registry::open(MemoryLog::default()).unwrap();
        registry.ensure_default_project(1).unwrap();
        let config = Config::check(Settings::defaults()).unwrap();
        let written = ensure(&data, &registry, &config, 1).unwrap();
        assert_eq!(written, [path(&data, INGEST), path(&data, ADMIN)]);
        for (name, scope) in [(INGEST, Scope::Ingest), (ADMIN, Scope::Admin)] {
            let grant = registry.grant(&read(&data, name).unwrap(), 2).unwrap();
            assert_eq!(
                (grant.client.as_str(), grant.scopes.as_slice()),
                (name, &[scope][..])
            );
            let mode = std::fs::metadata(path(&data, name))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert!(ensure(&data, &registry, &config, 3).unwrap().is_empty());
    }

    #[test]
    fn a_given_key_is_taken_instead_of_a_random_one() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::new(folder.path());
        let registry = Registry::open(MemoryLog::default()).unwrap();
        registry.ensure_default_project(1).unwrap();
        let key = ApiKey::generate().unwrap();
        let mut settings = Settings::defaults();
        settings.add_flag("keys.admin", key.reveal());
        let config = Config::check(settings).unwrap();
        ensure(&data, &registry, &config, 1).unwrap();
        assert!(
            registry
                .grant(key.reveal(), 2)
                .unwrap()
                .scopes
                .allow(Scope::Admin)
        );
    }
}
