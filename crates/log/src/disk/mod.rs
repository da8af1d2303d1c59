//! Every write, sync, rename, link and unlink that durability relies on.
//!
//! The functions are thin wrappers over the system calls. Built with the
//! feature `faults` each of them is a counted kill point (M5), see
//! [`faults`]; without it they cost nothing. All of them block.

#[cfg(any(test, feature = "faults"))]
pub mod faults;
mod output;

pub use output::{Output, write_atomic};

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FallocateFlags, RenameFlags};

/// Most slices that one `pwritev` takes (Linux's IOV_MAX).
const SLICES_MAX: usize = 1024;

/// What a file system has, in bytes, as `statvfs` answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that a process without privileges may still take.
    pub free_bytes: u64,
    /// Size of the file system.
    pub total_bytes: u64,
}

/// Creates a file that must not exist, for reading and writing. The entry is
/// durable after [`sync_dir`] of its folder.
pub fn create_new(path: &Path) -> io::Result<File> {
    #[cfg(any(test, feature = "faults"))]
    let _step = faults::create(path)?;
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
}

/// Creates a file, or empties it if it is there, for reading and writing.
pub fn create(path: &Path) -> io::Result<File> {
    match unlink(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    create_new(path)
}

/// Opens a file that is there, for reading and writing.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Writes all bytes at the offset. Durable only after [`fdatasync`].
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    #[cfg(any(test, feature = "faults"))]
    let _step = faults::write(file, &[IoSlice::new(bytes)], offset)?;
    file.write_all_at(bytes, offset)
}

/// Writes all slices, one after another, at the offset, with as few calls as
/// the system allows. Durable only after [`fdatasync`]. The slices are
/// consumed.
pub fn write_vectored_at(
    file: &File,
    mut slices: &mut [IoSlice<'_>],
    mut offset: u64,
) -> io::Result<()> {
    #[cfg(any(test, feature = "faults"))]
    let _step = faults::write(file, slices, offset)?;
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        let count = slices.len().min(SLICES_MAX);
        match rustix::io::pwritev(file, &slices[..count], offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                IoSlice::advance_slices(&mut slices, written);
                offset += written as u64;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Makes the file's bytes and its length durable. After an error nothing that
/// was written since the last success may be trusted, and a second try proves
/// nothing: the system may have marked the lost pages clean (L2).
pub fn fdatasync(file: &File) -> io::Result<()> {
    #[cfg(any(test, feature = "faults"))]
    let _step = faults::sync(file)?;
    file.sync_data()
}

/// As [`fdatasync`], with all of the file's metadata.
pub fn fsync(file: &File) -> io::Result<()> {
    #[cfg(any(test, feature = "faults"))]
    let _step = faults::sync(file)?;
    file.sync_all()
}

/// Makes the entries of a folder durable: files created, renamed, linked and
/// unlinked in it.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    #[cfg(any(test, feature = "faults"))]
    let _step = faults::sync_dir(dir)?;
    File::open(dir)?.sync_all()
}

/// Syncs the folder that holds the path.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    sync_dir(&parent(path))
}

/// Renames, replacing what stands at `to`. Durable after [`sync_dir`].
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(any(test, feature = "faults"))]
    let _step = faults::rename(from, to)?;
    fs::rename(from, to)
}

/// Exchanges two entries (files or folders) in one step.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    #[cfg(any(test, feature = "faults"))]
    let _step = faults::exchange(one, other)?;
    Ok(rustix::fs::renameat_with(
        CWD,
        one,
        CWD,
        other,
        RenameFlags::EXCHANGE,
    )?)
}

/// Makes a hard link `to` of the file `from`.
pub fn link(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(any(test, feature = "faults"))]
    let _step = faults::link(to)?;
    fs::hard_link(from, to)
}

/// Removes a file's entry.
pub fn unlink(path: &Path) -> io::Result<()> {
    #[cfg(any(test, feature = "faults"))]
    let _step = faults::unlink(path)?;
    fs::remove_file(path)
}

/// Makes a folder and what is missing above it, each entry synced.
pub fn create_dir_all(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let above = parent(dir);
    create_dir_all(&above)?;
    // Not held over the sync below, which is a step of its own.
    #[cfg(any(test, feature = "faults"))]
    drop(faults::other()?);
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    sync_dir(&above)
}

/// Removes a folder with all that is in it. Not one step: a crash may leave
/// a part.
pub fn remove_dir_all(dir: &Path) -> io::Result<()> {
    #[cfg(any(test, feature = "faults"))]
    let _step = faults::other()?;
    fs::remove_dir_all(dir)
}

/// Sets the file's length: cuts it, or fills up with zeros.
pub fn set_len(file: &File, len_bytes: u64) -> io::Result<()> {
    #[cfg(any(test, feature = "faults"))]
    let _step = faults::set_len(file, len_bytes)?;
    file.set_len(len_bytes)
}

/// Takes space for the first `len_bytes` of the file and makes it at least as
/// long; bytes never written read as zero. On a file system that can't take
/// space ahead the file only gets the length.
pub fn preallocate(file: &File, len_bytes: u64) -> io::Result<()> {
    let len_now = file.metadata()?.len();
    #[cfg(any(test, feature = "faults"))]
    let _step = faults::set_len(file, len_bytes.max(len_now))?;
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len_bytes) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            file.set_len(len_bytes.max(len_now))
        }
        Err(error) => Err(error.into()),
    }
}

/// Space of the file system that holds the path.
pub fn space(path: &Path) -> io::Result<Space> {
    #[cfg(any(test, feature = "faults"))]
    if let Some(space) = faults::space() {
        return Ok(space);
    }
    let answer = rustix::fs::statvfs(path)?;
    Ok(Space {
        free_bytes: answer.f_bavail.saturating_mul(answer.f_frsize),
        total_bytes: answer.f_blocks.saturating_mul(answer.f_frsize),
    })
}

/// Bytes free on the file system that holds the path.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    Ok(space(path)?.free_bytes)
}

/// A kill point for effects that are no file operation (a request sent, a
/// batch committed elsewhere). Does nothing without the feature `faults`.
pub fn kill_point() {
    #[cfg(any(test, feature = "faults"))]
    drop(faults::other());
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above.to_path_buf(),
        _ => PathBuf::from("."),
    }
}
