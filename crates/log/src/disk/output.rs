//! Whole files: written under a temporary name, synced, then renamed.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// A sequential writer over the hooked calls, for libraries that want
/// [`Write`]. It does not buffer: wrap it in a `BufWriter` for small writes.
#[derive(Debug)]
pub struct Output {
    file: File,
    offset: u64,
}

impl Output {
    /// Creates (or empties) the file.
    pub fn create(path: &Path) -> io::Result<Output> {
        Ok(Output {
            file: super::create(path)?,
            offset: 0,
        })
    }

    /// Bytes written so far.
    pub fn len_bytes(&self) -> u64 {
        self.offset
    }

    /// Syncs what was written; its entry still wants [`super::sync_dir`].
    pub fn finish(self) -> io::Result<File> {
        super::fsync(&self.file)?;
        Ok(self.file)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        super::write_all_at(&self.file, bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a small file so that a reader, also after a power cut, sees the old
/// content or the new one: temporary name, fsync, rename, fsync of the folder.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let mut output = Output::create(&temporary)?;
    output.write_all(bytes)?;
    output.finish()?;
    super::rename(&temporary, path)?;
    super::sync_parent(path)
}
