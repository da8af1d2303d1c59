//! Files whose bytes changed behind the list's back.

use super::*;

/// Bytes between two flipped ones: some hundred places of a small file, prime so that no
/// structure of the format is passed over.
const STRIDE: usize = 13;

fn flip(path: &std::path::Path, place: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[place] ^= 0x04;
    std::fs::write(path, bytes).unwrap();
}

fn only_problem(test: &TestLake) -> String {
    let problems = test.lake.check().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].clone()
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let mut test = TestLake::new();
    test.write(&[("p", "s", "a", DAY_MS), ("p", "s", "b", DAY_MS)], true);
    for compacted in [false, true] {
        if compacted {
            test.lake.compact_now().unwrap();
        }
        let file = Arc::clone(&test.lake.snapshot().files(TABLE)[0]);
        assert_eq!(file.entry.compacted(), compacted);
        for place in (0..file.entry.bytes as usize).step_by(STRIDE) {
            flip(&file.path, place);
            let problem = only_problem(&test);
            assert!(
                problem.contains(&file.entry.name) && problem.contains("CRC32C"),
                "byte {place}: {problem}"
            );
            flip(&file.path, place);
            assert_eq!(test.lake.check().problems, Vec::<String>::new());
        }
    }
}

#[test]
fn what_changed_is_never_merged_and_does_not_stop_the_rest() {
    let mut test = TestLake::new();
    test.write(&[("p", "s", "a", DAY_MS)], true);
    test.write(&[("p", "s", "b", DAY_MS)], true);
    test.write(&[("p", "s", "c", DAY_MS)], true);
    let damaged = Arc::clone(&test.lake.snapshot().files(TABLE)[1]);
    flip(&damaged.path, 9);
    let refused = test.lake.compact_now().unwrap_err().to_string();
    assert!(refused.contains(&damaged.entry.name), "{refused}");
    assert_eq!(test.lake.stats().damaged_files, 1);
    // The other two are one day; the damaged one stands as it was, listed and named.
    let snapshot = test.lake.snapshot();
    let levels = snapshot.files(TABLE).iter().map(|file| file.entry.level);
    let mut levels: Vec<Level> = levels.collect();
    levels.sort();
    assert_eq!(levels, [Level::Block, Level::Day]);
    assert!(only_problem(&test).contains(&damaged.entry.name));
    // Mended from a backup, it is merged after the next start.
    flip(&damaged.path, 9);
    let test = test.reopen();
    test.lake.compact_now().unwrap();
    assert_eq!(test.rows().len(), 3);
    assert_eq!(test.lake.check().problems, Vec::<String>::new());
}

#[test]
fn a_file_without_a_checksum_is_still_read_and_is_counted() {
    let mut test = TestLake::new();
    test.write(&[("p", "s", "a", DAY_MS)], true);
    let file = Arc::clone(&test.lake.snapshot().files(TABLE)[0]);
    // As an earlier build wrote the entry.
    let mut entry: serde_json::Value = serde_json::from_slice(&file.entry.encode()).unwrap();
    entry.as_object_mut().unwrap().remove("crc32c").unwrap();
    let mut batch = StateBatch::new();
    let key = FileEntry::key(TABLE, &file.entry.name);
    batch.put("lake", key, entry.to_string().into_bytes());
    test.lake.shared.state.commit(batch).unwrap();
    let test = test.reopen();
    let report = test.lake.check();
    assert_eq!((report.files, report.without_checksum), (1, 1));
    assert_eq!(report.problems, Vec::<String>::new());
    // Compaction gives it one.
    test.lake.compact_now().unwrap();
    assert_eq!(test.lake.check().without_checksum, 0);
}

#[test]
fn damaged_files_neither_stop_the_writer_nor_outlive_their_rows() {
    let mut test = TestLake::new();
    for _ in 0..UNCOMPACTED_FILES_MAX {
        test.write(&[("p", "s", "a", DAY_MS)], true);
    }
    for file in test.lake.snapshot().files(TABLE) {
        flip(&file.path, 9);
    }
    test.lake.compact_now().unwrap_err();
    assert_eq!(
        test.lake.stats().damaged_files,
        UNCOMPACTED_FILES_MAX as u64
    );
    assert!(test.lake.wait_for_room(Duration::ZERO));
    // The day after a year: their rows are past their time, and so are they.
    test.pass(366 * DAY_MS);
    test.lake.compact_now().unwrap();
    assert_eq!(test.lake.stats().damaged_files, 0);
    assert_eq!(test.lake.check().files, 0);
}

#[test]
fn a_file_that_cannot_be_read_for_now_is_not_damaged() {
    let mut test = TestLake::new();
    test.write(&[("p", "s", "a", DAY_MS)], true);
    test.write(&[("p", "s", "b", DAY_MS)], true);
    let file = Arc::clone(&test.lake.snapshot().files(TABLE)[0]);
    let aside = file.path.with_extension("aside");
    std::fs::rename(&*file.path, &aside).unwrap();
    // A link to itself can be opened by nobody: an error that is no missing file.
    std::os::unix::fs::symlink(&*file.path, &*file.path).unwrap();
    test.lake.compact_now().unwrap_err();
    assert_eq!(test.lake.stats().damaged_files, 0);
    std::fs::rename(&aside, &*file.path).unwrap();
    test.lake.compact_now().unwrap();
    assert_eq!(test.rows().len(), 2);
}
