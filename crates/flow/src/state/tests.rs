//! What a batch promises, and what a torn one does.

use std::fs;

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
    let snapshot = state.snapshot();
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
