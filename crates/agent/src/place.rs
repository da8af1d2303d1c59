//! Where a sender keeps its spool, and what it calls its sources.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::SendError;
use crate::id::hex;
use crate::options::{Address, SendOptions, Source};

/// The canonical path of a source, as text.
pub fn canonical(path: &Path) -> Result<String, SendError> {
    let found = std::fs::canonicalize(path).map_err(|e| SendError::file("read", path, e))?;
    Ok(found.to_string_lossy().into_owned())
}

/// The folder of this sending's spool: one for each door, server, identity and
/// set of sources, so that what is left of one is never taken for another's.
pub fn spool_folder(options: &SendOptions) -> Result<PathBuf, SendError> {
    let root = match &options.spool {
        Some(root) => root.clone(),
        None => state_folder()?,
    };
    let mut hasher = Sha256::new();
    for part in scope(options)? {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let name = format!(
        "{}-{}",
        options.door.as_str(),
        &hex(&hasher.finalize())[..16]
    );
    Ok(root.join(name))
}

fn scope(options: &SendOptions) -> Result<Vec<Vec<u8>>, SendError> {
    let text = |text: Option<&str>| text.unwrap_or("").as_bytes().to_vec();
    let path = |path: Option<&PathBuf>| {
        path.map(|path| path.as_os_str().as_encoded_bytes().to_vec())
            .unwrap_or_default()
    };
    let mut parts = vec![
        text(Some(options.door.as_str())),
        text(Some(options.format.as_str())),
        text(options.source_name.as_deref()),
        text(options.timezone.as_deref()),
        text(options.agent.as_deref()),
        path(
            options
                .credentials
                .certificate
                .as_ref()
                .map(|files| &files.certificate),
        ),
        vec![u8::from(options.rebase), u8::from(options.follow)],
    ];
    // A hash of the key, so that it can't be guessed from the folder's name
    // together with the rest.
    let key = options.credentials.api_key.as_deref().unwrap_or("");
    parts.push(Sha256::digest(key.as_bytes()).to_vec());
    match &options.address {
        Address::Url(url) => parts.push(text(Some(url))),
        Address::Folder(dir) => {
            let dir = canonical(dir).unwrap_or_else(|_| dir.to_string_lossy().into_owned());
            parts.push(text(Some(&dir)));
            parts.push(incarnation(Path::new(&dir)));
        }
    }
    for source in &options.sources {
        parts.push(match source {
            Source::Stdin => text(Some("-")),
            Source::File(path) => text(Some(&canonical(path)?)),
        });
    }
    Ok(parts)
}

/// Tells a data folder from one that was made anew under the same path: what
/// the old one acknowledged, the new one does not have.
fn incarnation(dir: &Path) -> Vec<u8> {
    let Ok(metadata) = std::fs::metadata(dir) else {
        return Vec::new();
    };
    let born = metadata.created().ok();
    let born = born.and_then(|born| born.duration_since(std::time::UNIX_EPOCH).ok());
    let born_ns = born.map_or(0, |born| born.as_nanos());
    let mut bytes = metadata.ino().to_le_bytes().to_vec();
    bytes.extend_from_slice(&born_ns.to_le_bytes());
    bytes
}

fn state_folder() -> Result<PathBuf, SendError> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = variable("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    match state.or_else(home) {
        Some(state) => Ok(state.join("fulmar/send")),
        None => Err(SendError::Usage(
            "no home folder: say --spool DIR".to_owned(),
        )),
    }
}
