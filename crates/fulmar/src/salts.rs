//! The salts of device ids in their file: one a day, kept for two, made half a day ahead (R3).

use std::sync::Arc;

use fulmar_gateway::track::{SaltDays, Salts};
use fulmar_registry::new_salt;

use crate::data_dir::{DataDir, create_private_dir, write_private};
use crate::exit::{Context as _, Failure};

/// Longest file that is read, in bytes: three salts are 200.
const FILE_BYTES_MAX: u64 = 4_096;

/// The salts of a folder, with today's among them.
///
/// # Errors
/// A file that cannot be read or written, or no randomness.
pub fn open(data: &DataDir, now_ms: i64) -> Result<Arc<Salts>, Failure> {
    let salts = Arc::new(Salts::default());
    if let Some(days) = read(data)? {
        salts.set(days);
    }
    advance(&salts, data, now_ms)?;
    Ok(salts)
}

/// Makes what is due and forgets what is past. A salt is on disk before any id is made with it:
/// after a restart a device must have the id that it had.
///
/// # Errors
/// As [`open`].
pub fn advance(salts: &Salts, data: &DataDir, now_ms: i64) -> Result<(), Failure> {
    let Some(next) = salts.days().advanced(now_ms, new_salt)? else {
        return Ok(());
    };
    let path = data.salts();
    create_private_dir(&data.keys()).context(format!("cannot make {}", data.keys().display()))?;
    let text = serde_json::to_vec(&next)?;
    write_private(&path, &text).context(format!("cannot write {}", path.display()))?;
    salts.set(next);
    Ok(())
}

fn read(data: &DataDir) -> Result<Option<SaltDays>, Failure> {
    use std::io::Read as _;
    let path = data.salts();
    let file = match std::fs::File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context(format!("cannot open {}", path.display())),
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .context(format!("cannot read {}", path.display()))?;
    let days = serde_json::from_str(&text);
    days.map(Some)
        .context(format!("{} is no file of salts", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const DAY_MS: i64 = 86_400_000;

    #[test]
    fn a_salt_survives_a_restart_and_is_gone_after_two_days() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::new(folder.path());
        let first = open(&data, 10 * DAY_MS).unwrap().days();
        let again = open(&data, 10 * DAY_MS + 1).unwrap();
        assert_eq!(again.days(), first);
        let text = |salts: &SaltDays| serde_json::to_value(salts).unwrap()["days"].clone();
        let salt = text(&first)["10"].as_str().unwrap().to_owned();
        assert_eq!(salt.len(), 32);
        let mode = std::fs::metadata(data.salts())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        advance(&again, &data, 12 * DAY_MS).unwrap();
        let kept = std::fs::read_to_string(data.salts()).unwrap();
        assert!(!kept.contains(&salt) && kept.contains("\"12\""), "{kept}");
    }

    #[test]
    fn a_broken_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::new(folder.path());
        create_private_dir(&data.keys()).unwrap();
        std::fs::write(data.salts(), "{").unwrap();
        let error = open(&data, 0).unwrap_err().to_string();
        assert!(error.contains("salts.json is no file of salts"), "{error}");
    }
}
