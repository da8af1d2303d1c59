//! Fault hooks (M5): kill points, power loss, failing syncs, a full disk.
//!
//! Set by the environment, read once:
//! - `FULMAR_FAULT_KILL_AT=n`: abort at the n-th counted call (from 1). A
//!   write aborts half way through, any other call before it happens.
//! - `FULMAR_FAULT_COUNT_FILE=path`: the number of calls so far, kept current.
//! - `FULMAR_FAULT_POWER_LOSS=seed`: before that abort, undo a seeded part of
//!   what no sync made durable: per file a subset of writes, per page; of
//!   folder entries all after a seeded point, since file systems keep those
//!   in order.
//! - `FULMAR_FAULT_FSYNC_FAIL_AT=n`: the n-th fsync or fdatasync fails and
//!   its pages count as lost though a later sync succeeds (L2).
//! - `FULMAR_FAULT_SYNC_MS=n`: every fsync and fdatasync of a file takes so much longer.
//! - `FULMAR_FAULT_NO_SPACE_AT=n` with `FULMAR_FAULT_NO_SPACE_FOR=m` (default
//!   for ever): the n-th to (n+m-1)-th writes, creations and preallocations
//!   answer ENOSPC.
//! - `FULMAR_FAULT_FREE_BYTES_FILE=path`: while that file holds a number, it
//!   is what [`super::space`] answers, of a disk of 100 GiB.

mod unsynced;

use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use super::Space;
use unsynced::Unsynced;

struct Faults {
    kill_at: Option<u64>,
    count_file: Option<File>,
    power_loss_seed: Option<u64>,
    fsync_fail_at: Option<u64>,
    sync_time: Option<Duration>,
    no_space_at: Option<u64>,
    no_space_for: u64,
    free_bytes_file: Option<PathBuf>,
    calls: AtomicU64,
    syncs: AtomicU64,
    takes: AtomicU64,
    unsynced: Mutex<Unsynced>,
}

/// Held while the call runs, so that no write slips between the record of it
/// and a power loss on another thread.
pub(super) struct Step {
    _held: Option<MutexGuard<'static, Unsynced>>,
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn faults() -> &'static Faults {
    static FAULTS: OnceLock<Faults> = OnceLock::new();
    FAULTS.get_or_init(|| Faults {
        kill_at: number("FULMAR_FAULT_KILL_AT"),
        count_file: std::env::var_os("FULMAR_FAULT_COUNT_FILE")
            .and_then(|path| File::create(path).ok()),
        power_loss_seed: number("FULMAR_FAULT_POWER_LOSS"),
        fsync_fail_at: number("FULMAR_FAULT_FSYNC_FAIL_AT"),
        sync_time: number("FULMAR_FAULT_SYNC_MS").map(Duration::from_millis),
        no_space_at: number("FULMAR_FAULT_NO_SPACE_AT"),
        no_space_for: number("FULMAR_FAULT_NO_SPACE_FOR").unwrap_or(u64::MAX),
        free_bytes_file: std::env::var_os("FULMAR_FAULT_FREE_BYTES_FILE").map(PathBuf::from),
        calls: AtomicU64::new(0),
        syncs: AtomicU64::new(0),
        takes: AtomicU64::new(0),
        unsynced: Mutex::new(Unsynced::default()),
    })
}

impl Faults {
    /// Counts a call; true when it is the one to die at.
    fn count(&self) -> bool {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(file) = &self.count_file {
            // A count that can't be written shows as a matrix that runs nothing.
            let _ = file.write_all_at(format!("{call:<12}").as_bytes(), 0);
        }
        self.kill_at == Some(call)
    }

    fn unsynced(&self) -> Option<MutexGuard<'_, Unsynced>> {
        self.power_loss_seed?;
        Some(
            self.unsynced
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
        )
    }

    fn die(&self, held: Option<MutexGuard<'_, Unsynced>>) -> ! {
        if let (Some(mut unsynced), Some(seed)) = (held, self.power_loss_seed) {
            unsynced.lose_power(seed);
            std::process::abort()
        }
        std::process::abort()
    }

    fn take_space(&self) -> io::Result<()> {
        let Some(first) = self.no_space_at else {
            return Ok(());
        };
        let take = self.takes.fetch_add(1, Ordering::SeqCst) + 1;
        if take >= first && take - first < self.no_space_for {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        Ok(())
    }
}

/// How many calls were counted so far.
pub fn calls() -> u64 {
    faults().calls.load(Ordering::SeqCst)
}

fn step(note: impl FnOnce(&mut Unsynced)) -> io::Result<Step> {
    let faults = faults();
    let mut held = faults.unsynced();
    if faults.count() {
        faults.die(held)
    }
    if let Some(unsynced) = &mut held {
        note(unsynced);
    }
    Ok(Step { _held: held })
}

pub(super) fn other() -> io::Result<Step> {
    step(|_| {})
}

pub(super) fn write(file: &File, slices: &[IoSlice<'_>], offset: u64) -> io::Result<Step> {
    let faults = faults();
    let mut held = faults.unsynced();
    let dies = faults.count();
    if !dies {
        faults.take_space()?;
    }
    if !dies && held.is_none() {
        return Ok(Step { _held: None });
    }
    let bytes: Vec<u8> = slices
        .iter()
        .flat_map(|slice| slice.iter().copied())
        .collect();
    if dies {
        let half = &bytes[..bytes.len() / 2];
        if let Some(unsynced) = &mut held {
            unsynced.note_write(file, offset, half);
        }
        let _ = file.write_all_at(half, offset);
        faults.die(held)
    }
    if let Some(unsynced) = &mut held {
        unsynced.note_write(file, offset, &bytes);
    }
    Ok(Step { _held: held })
}

pub(super) fn set_len(file: &File, len_bytes: u64) -> io::Result<Step> {
    faults().take_space()?;
    step(|unsynced| unsynced.note_len(file, len_bytes))
}

/// Notes the sync before it happens: the guard keeps everyone else out until
/// it is done, and a sync that fails for real only makes the shim kinder.
pub(super) fn sync(file: &File) -> io::Result<Step> {
    let faults = faults();
    if let Some(time) = faults.sync_time {
        std::thread::sleep(time);
    }
    let mut held = faults.unsynced();
    if faults.count() {
        faults.die(held)
    }
    let sync = faults.syncs.fetch_add(1, Ordering::SeqCst) + 1;
    if faults.fsync_fail_at == Some(sync) {
        if let Some(unsynced) = &mut held {
            unsynced.note_failed_sync(file);
        }
        return Err(rustix::io::Errno::IO.into());
    }
    if let Some(unsynced) = &mut held {
        unsynced.note_sync(file);
    }
    Ok(Step { _held: held })
}

pub(super) fn sync_dir(dir: &Path) -> io::Result<Step> {
    step(|unsynced| unsynced.note_sync_dir(dir))
}

pub(super) fn create(path: &Path) -> io::Result<Step> {
    faults().take_space()?;
    step(|unsynced| unsynced.note_made(path))
}

pub(super) fn link(to: &Path) -> io::Result<Step> {
    step(|unsynced| unsynced.note_made(to))
}

pub(super) fn unlink(path: &Path) -> io::Result<Step> {
    step(|unsynced| unsynced.note_unlink(path))
}

pub(super) fn rename(from: &Path, to: &Path) -> io::Result<Step> {
    step(|unsynced| unsynced.note_rename(from, to))
}

pub(super) fn exchange(one: &Path, other: &Path) -> io::Result<Step> {
    step(|unsynced| unsynced.note_exchange(one, other))
}

pub(super) fn space() -> Option<Space> {
    let path = faults().free_bytes_file.as_ref()?;
    let free_bytes = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    Some(Space {
        free_bytes,
        total_bytes: 100 << 30,
    })
}
