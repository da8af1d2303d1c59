//! What a batch promises, and what a torn one does.

use std::fs;
use std::io::Write as _;
use std::process::Command;

use super::*;

fn put(state: &State, keyspace: &'static str, key: &str, value: &[u8]) {
    let mut batch = StateBatch::new();
    batch.put(keyspace, key, value);
    state.commit(batch).unwrap();
}

fn open(dir: &tempfile::TempDir) -> State {
    State::open(&dir.path().join("state")).unwrap()
}

#[test]
fn a_batch_holds_over_keyspaces_and_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(&dir);
    put(&state, "one", "gone", b"x");
    let mut batch = StateBatch::new();
    batch.put("one", "a", "1");
    batch.put("two", "a", "2");
    batch.put("two", "ab", "3");
    batch.delete("one", "gone");
    assert_eq!(state.get("one", b"a").unwrap(), None);
    state.commit(batch).unwrap();
    drop(state);
    let state = open(&dir);
    assert_eq!(state.get("one", b"a").unwrap().unwrap(), b"1");
    assert_eq!(state.get("one", b"gone").unwrap(), None);
    let found = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
    let both = [found(b"a", b"2"), found(b"ab", b"3")];
    assert_eq!(state.prefix("two", b"a").unwrap(), both);
    assert_eq!(state.prefix("two", b"ab").unwrap(), both[1..]);
    assert_eq!(
        state
            .iter("two")
            .unwrap()
            .map(Result::unwrap)
            .collect::<Vec<_>>(),
        both
    );
}

#[test]
fn the_last_change_of_a_key_holds() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(&dir);
    let mut batch = StateBatch::new();
    batch.put("one", "a", "1");
    batch.delete("one", "a");
    batch.delete("one", "b");
    batch.put("one", "b", "1");
    batch.put("one", "b", "2");
    assert_eq!(batch.len(), 2);
    state.commit(batch).unwrap();
    assert_eq!(state.get("one", b"a").unwrap(), None);
    assert_eq!(state.get("one", b"b").unwrap().unwrap(), b"2");
}

#[test]
fn a_snapshot_and_a_copy_do_not_move() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(&dir);
    put(&state, "one", "a", b"1");
    let snapshot = state.snapshot().unwrap();
    put(&state, "one", "a", b"2");
    put(&state, "one", "b", b"2");
    assert_eq!(snapshot.get("one", b"a").unwrap().unwrap(), b"1");
    assert_eq!(
        snapshot.prefix("one", b"").unwrap(),
        [(b"a".to_vec(), b"1".to_vec())]
    );
    state.copy_to(&dir.path().join("copy")).unwrap();
    put(&state, "one", "a", b"3");
    let copy = State::open(&dir.path().join("copy")).unwrap();
    let copied = copy.prefix("one", b"").unwrap();
    assert_eq!(
        copied,
        [
            (b"a".to_vec(), b"2".to_vec()),
            (b"b".to_vec(), b"2".to_vec())
        ]
    );
}

/// Zeroes a page in the value of `key`, as a power cut before the sync may.
fn lose_page(dir: &tempfile::TempDir, filler: u8) {
    let folder = fs::read_dir(dir.path().join("state")).unwrap();
    let paths = folder.map(|found| found.unwrap().path());
    let path = paths
        .filter(|path| path.extension().is_some_and(|end| end == "jnl"))
        .max();
    let path = path.unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes
        .windows(8192)
        .position(|window| window.iter().all(|byte| *byte == filler));
    let at = at.unwrap();
    bytes[at..at + 4096].fill(0);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_batch_that_lost_a_page_before_its_sync_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(&dir);
    put(&state, "one", "a", &[1; 20_000]);
    put(&state, "one", "b", &[2; 20_000]);
    drop(state);
    lose_page(&dir, 2);
    for _ in 0..2 {
        let state = open(&dir);
        assert_eq!(state.get("one", b"a").unwrap().unwrap(), [1; 20_000]);
        assert_eq!(state.get("one", b"b").unwrap(), None);
    }
    let state = open(&dir);
    put(&state, "one", "b", b"again");
    drop(state);
    assert_eq!(open(&dir).get("one", b"b").unwrap().unwrap(), b"again");
}

#[test]
fn an_older_batch_that_lost_a_page_is_damage_and_nothing_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(&dir);
    put(&state, "one", "a", &[1; 20_000]);
    put(&state, "one", "b", &[2; 20_000]);
    drop(state);
    lose_page(&dir, 1);
    let folder = dir.path().join("state");
    let journal = || {
        let paths = fs::read_dir(&folder)
            .unwrap()
            .map(|found| found.unwrap().path());
        fs::read(
            paths
                .filter(|path| path.extension().is_some_and(|e| e == "jnl"))
                .max()
                .unwrap(),
        )
    };
    let before = journal().unwrap();
    assert!(State::open(&folder).is_err());
    assert!(journal().unwrap() == before, "the journal is as it was");
}

/// A small file system in memory, where this process may mount one; it goes with the value.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<SmallDisk> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(dir.path())
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("skipped: no file system can be mounted here");
        }
        mounted.then_some(SmallDisk(dir))
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn filler(&self) -> PathBuf {
        self.0.path().join("filler")
    }

    /// Takes every free byte.
    fn fill(&self) {
        let mut file = fs::File::create(self.filler()).unwrap();
        for size in [1 << 16, 1 << 12, 1] {
            while file.write(&vec![1; size]).is_ok_and(|taken| taken == size) {}
        }
    }

    fn empty(&self) {
        fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

fn of(key: &str, value: &[u8]) -> StateBatch {
    let mut batch = StateBatch::new();
    batch.put("one", key, value);
    batch.put("one", "last", key);
    batch.delete("one", "old");
    batch
}

#[test]
fn a_full_disk_passes_and_what_was_said_to_have_failed_did_fail() {
    // What fails at once, what the store still holds in its buffer, and what is half written.
    for size in [10, 5_000, 20_000, 300_000] {
        let Some(disk) = SmallDisk::mount("8m") else {
            return;
        };
        let state = State::open(&disk.state()).unwrap();
        put(&state, "one", "old", b"kept");
        put(&state, "one", "last", b"none");
        // The journal's last page must be full too.
        let mut number = 0;
        disk.fill();
        let error = loop {
            match state.commit(of(&format!("key-{number}"), &vec![7; size])) {
                Ok(()) => put_old(&state),
                Err(error) => break error,
            }
            number += 1;
        };
        assert!(!error.is_damage(), "{error}");
        let failed = format!("key-{number}");
        for _ in 0..3 {
            let waits = state.commit(of(&failed, b"again")).unwrap_err();
            assert!(
                matches!(waits, FlowError::StateWaits { .. }),
                "size {size}: {waits}"
            );
        }
        let shown = |state: &State| {
            let get = |key: &str| state.get("one", key.as_bytes()).unwrap();
            (get(&failed), get("old"), get("last"))
        };
        let before = shown(&state);
        assert_eq!(before.0, None, "it can be read meanwhile");

        disk.empty();
        state.ready().unwrap();
        assert_eq!(shown(&state), before, "size {size}: it failed");
        state.commit(of("later", b"x")).unwrap();
        drop(state);
        let state = State::open(&disk.state()).unwrap();
        let get = |key: &str| state.get("one", key.as_bytes()).unwrap();
        assert_eq!((get(&failed), get("old")), (None, None));
        assert_eq!(get("last").unwrap(), b"later");
    }
}

/// Commits that fit come before the one that does not: each takes `old` away.
fn put_old(state: &State) {
    let mut batch = StateBatch::new();
    batch.put("one", "old", "kept");
    // On a disk this full it may be the one that fails.
    let _ = state.commit(batch);
}

#[test]
fn a_failed_batch_that_reached_the_journal_after_all_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(&dir);
    put(&state, "one", "old", b"kept");
    put(&state, "one", "last", b"none");
    // As a failed sync leaves it: the batch is in the journal, and was said to have failed.
    let opened = state.opened().unwrap();
    let batch = of("a", b"1");
    let failed = FlowError::State(fjall::Error::Io(std::io::Error::other("planted")));
    state.failed(&opened, &batch, &failed);
    opened.write(&batch).unwrap();
    let held = state.ready().unwrap_err();
    assert!(held.to_string().contains("it is being read"), "{held}");
    drop(opened);
    state.ready().unwrap();
    for _ in 0..2 {
        assert_eq!(state.get("one", b"a").unwrap(), None);
        assert_eq!(state.get("one", b"old").unwrap().unwrap(), b"kept");
        assert_eq!(state.get("one", b"last").unwrap().unwrap(), b"none");
    }
    drop(state);
    assert_eq!(open(&dir).get("one", b"a").unwrap(), None);
}
