//! A disk that is really full: a small file system in memory, where this
//! process may mount one; elsewhere there is nothing to show.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::process::Command;

use fulmar_log::{LogError, Records};

struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

fn mount(dir: &Path) -> Option<Mounted<'_>> {
    let mut command = Command::new("mount");
    command
        .args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"])
        .arg(dir);
    let mounted = command.output().is_ok_and(|output| output.status.success());
    mounted.then_some(Mounted(dir))
}

fn large(index: usize) -> Records {
    let mut records = Records::new();
    records.push(0, format!("{index:05}{}", "f".repeat(40_000)).as_bytes());
    records
}

#[test]
fn a_full_disk_refuses_loses_nothing_and_recovers_by_retention() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_mounted) = mount(dir.path()) else {
        eprintln!("skipped: no file system can be mounted here");
        return;
    };
    let folder = dir.path().join("log");
    let (log, journal) = support::open(&folder, 1 << 17);
    let mut accepted = 0;
    let refused = loop {
        match journal.append_blocking(large(accepted)) {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 100, "2 MiB don't hold this");
    };
    assert!(matches!(refused, LogError::DiskLow { .. }), "{refused}");
    assert_eq!(journal.end() as usize, accepted);
    assert_eq!(support::read_all(&journal).len(), accepted);
    // Space comes back (elsewhere by retention, which the disk being full
    // does not hinder): the oldest file goes, appends go on.
    drop(journal);
    log.close();
    std::fs::remove_file(&support::segments(&folder, fulmar_log::Topic::Events)[0]).unwrap();
    let (_log, journal) = support::open(&folder, 1 << 17);
    assert!(journal.stats().damages.is_empty());
    journal.append_blocking(large(accepted)).unwrap();
    let texts = support::read_all(&journal);
    assert_eq!(texts.last().unwrap()[..5], format!("{accepted:05}"));
    assert_eq!(texts.len() as u64, journal.end() - journal.start());
}
