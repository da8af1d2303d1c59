//! A copy of a folder at one committed position, while a server runs or beside none.
//!
//! The state is copied as of one moment. What it names is held or linked around that moment: the
//! tables' files by two snapshots, the index of repeats by two listings, the log by segments that
//! were ended after it, so that they reach past the position. What is too much is removed when the
//! restored folder is opened.

use std::fs;
use std::path::{Path, PathBuf};

use fulmar_log::Topic;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::admin::Desk;
use crate::data_dir::{DataDir, create_private_dir};
use crate::exit::{Context as _, Failure};

/// `POST /v1/admin/backup`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupRequest {
    /// The new folder, an absolute path on the server's machine.
    pub dir: PathBuf,
    /// Copy `pki` and `keys` too.
    #[serde(default)]
    pub with_secrets: bool,
}

/// Takes a backup into a folder that is new or empty.
pub fn take(desk: &Desk, data: &DataDir, request: &BackupRequest) -> Result<Value, Failure> {
    let target = DataDir::new(&request.dir);
    if !request.dir.is_absolute() {
        return Err(Failure::usage(
            "the backup's folder must be an absolute path",
        ));
    }
    let root = fs::canonicalize(data.root())?;
    if request
        .dir
        .ancestors()
        .any(|above| fs::canonicalize(above).is_ok_and(|above| above == root))
    {
        return Err(Failure::usage(format!(
            "{} lies inside of the data folder",
            request.dir.display()
        )));
    }
    need_empty(&request.dir)?;
    let target = target.create()?;

    let before = desk.lake.snapshot();
    let mut count = Count::default();
    link_repeats(data, &target, &mut count)?;
    desk.state.copy_to(&target.state())?;
    link_repeats(data, &target, &mut count)?;
    let after = desk.lake.snapshot();
    for file in before.all().chain(after.all()) {
        let place = file.path.strip_prefix(data.root())?;
        link(&file.path, &target.root().join(place), &mut count)?;
    }
    // The log last: everything that the state has passed is in segments that are ended now.
    for topic in Topic::ALL {
        for segment in desk.journal(topic).roll()? {
            let place = segment.strip_prefix(data.root())?;
            link(&segment, &target.root().join(place), &mut count)?;
        }
    }
    if request.with_secrets {
        copy_all(&data.pki(), &target.pki(), &mut count)?;
        copy_all(&data.keys(), &target.keys(), &mut count)?;
    }
    // The version last: without it a folder is no folder, so that a cut backup is none.
    target.claim()?;
    Ok(json!({
        "dir": target.root().display().to_string(),
        "files": count.files,
        "bytes": count.bytes,
        "with_secrets": request.with_secrets,
    }))
}

/// Copies a backup into a folder that is new or empty.
pub fn restore(backup: &DataDir, target: &DataDir) -> Result<Value, Failure> {
    if !backup.is_made() {
        return Err(Failure::usage(format!(
            "{} is no backup",
            backup.root().display()
        )));
    }
    backup.claim()?;
    need_empty(target.root())?;
    let target = target.create()?;
    let mut count = Count::default();
    for name in ["log", "state", "lake", "pki", "keys"] {
        let from = backup.root().join(name);
        if from.is_dir() {
            copy_all(&from, &target.root().join(name), &mut count)?;
        }
    }
    target.claim()?;
    let missing = [target.pki(), target.keys()].into_iter();
    let missing: Vec<PathBuf> = missing.filter(|folder| !folder.is_dir()).collect();
    Ok(json!({
        "dir": target.root().display().to_string(),
        "files": count.files,
        "bytes": count.bytes,
        "missing": missing,
    }))
}

/// What was linked or copied.
#[derive(Default)]
struct Count {
    files: u64,
    bytes: u64,
}

fn need_empty(dir: &Path) -> Result<(), Failure> {
    let holds_some = fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
    if holds_some {
        return Err(Failure::usage(format!("{} is not empty", dir.display())));
    }
    Ok(())
}

/// The indexes of repeats: their files before the state that names them, and what it has added.
fn link_repeats(data: &DataDir, target: &DataDir, count: &mut Count) -> Result<(), Failure> {
    for of in [
        DataDir::repeats,
        DataDir::profile_repeats,
        DataDir::webhook_repeats,
    ] {
        link_all(&of(data), &of(target), count)?;
    }
    Ok(())
}

/// Links every file of a folder that is not there yet; what vanishes meanwhile is passed over.
fn link_all(from: &Path, to: &Path, count: &mut Count) -> Result<(), Failure> {
    each_file(
        from,
        &mut |file, place| match link(file, &to.join(place), count) {
            Err(_) if !file.exists() => Ok(()),
            linked => linked,
        },
    )
}

fn copy_all(from: &Path, to: &Path, count: &mut Count) -> Result<(), Failure> {
    each_file(from, &mut |file, place| copy(file, &to.join(place), count))
}

/// Calls `each` with every file below a folder, and its path within it.
fn each_file(
    folder: &Path,
    each: &mut dyn FnMut(&Path, &Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(current) = folders.pop() {
        let Ok(entries) = fs::read_dir(&current) else {
            continue;
        };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let place = path.strip_prefix(folder)?;
                each(&path, place)?;
            }
        }
    }
    Ok(())
}

/// Links a file that never changes, or copies it onto another file system.
fn link(from: &Path, to: &Path, count: &mut Count) -> Result<(), Failure> {
    if to.exists() {
        return Ok(());
    }
    make_parent(to)?;
    if fs::hard_link(from, to).is_err() {
        return copy(from, to, count);
    }
    count.files += 1;
    count.bytes += fs::metadata(to)?.len();
    Ok(())
}

fn copy(from: &Path, to: &Path, count: &mut Count) -> Result<(), Failure> {
    make_parent(to)?;
    let bytes = fs::copy(from, to).context(format!(
        "cannot copy {} to {}",
        from.display(),
        to.display()
    ))?;
    fs::File::open(to)?.sync_all()?;
    count.files += 1;
    count.bytes += bytes;
    Ok(())
}

fn make_parent(path: &Path) -> Result<(), Failure> {
    match path.parent() {
        Some(parent) => {
            create_private_dir(parent).context(format!("cannot make {}", parent.display()))
        }
        None => Ok(()),
    }
}
