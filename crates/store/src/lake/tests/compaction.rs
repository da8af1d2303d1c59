//! Compaction: what it keeps, what it removes, what a crash leaves.

use proptest::prelude::*;

use super::super::{merge, plan, repeats};
use super::*;

#[test]
fn compaction_splits_by_day_and_moves_repeats_in_the_ledger() {
    let mut test = TestLake::new();
    let (day_1, day_2) = (DAY_MS, 2 * DAY_MS);
    test.write(
        &[
            ("p", "s", "a", day_1),
            ("p", "s", "b", day_2 - 1),
            ("p", "s", "c", day_2),
        ],
        true,
    );
    // `a` again on its day, at another time; on another day; of another source.
    test.write(
        &[
            ("p", "s", "a", day_1 + 7),
            ("p", "s", "a", day_2),
            ("p", "t", "a", day_1),
        ],
        true,
    );
    let report = test.lake.compact_now().unwrap();
    assert_eq!((report.repeats_removed, report.files_after), (1, 2));
    let moved = fulmar_flow::moved_rows(&test.lake.shared.state, crate::writer::WRITER);
    assert_eq!(moved.unwrap(), 1);
    let offsets: Vec<i64> = test.rows().iter().map(|row| row.4).collect();
    // By (project, time, id, source): day 1 has a of s, a of t, b; the repeat at
    // offset 3 is out, and the first, at offset 0, stays.
    assert_eq!(offsets, [0, 5, 1, 4, 2]);
    let snapshot = test.lake.snapshot();
    let mut days: Vec<_> = snapshot.files(TABLE).iter().map(|f| f.entry.day).collect();
    days.sort();
    assert_eq!(days, [Some(1), Some(2)]);
    test.assert_links_follow_the_list();
    // Nothing is left to be done, also after a restart.
    assert_eq!(test.lake.compact_now().unwrap().merges, 0);
    let test = test.reopen();
    assert_eq!(test.lake.check().problems, Vec::<String>::new());
    test.assert_links_follow_the_list();
}

#[test]
fn a_block_of_many_days_becomes_one_file_a_day() {
    let mut test = TestLake::new();
    let rows: Vec<(&str, &str, &str, i64)> = (0..300)
        .map(|day| ("p", "s", "a", (299 - day) * DAY_MS))
        .collect();
    let mut expected = test.write(&rows, true);
    expected.sort();
    test.lake.compact_now().unwrap();
    assert_eq!(test.lake.snapshot().files(TABLE).len(), 300);
    assert_eq!(test.rows(), expected);
    test.assert_links_follow_the_list();
}

#[test]
fn a_day_that_could_not_be_shown_is_shown_later() {
    let mut test = TestLake::new();
    test.write(&[("p", "s", "a", DAY_MS)], true);
    let shown = test.lake.shared.tables_dir.join("security_events");
    std::fs::remove_dir(&shown).unwrap();
    assert!(test.lake.compact_now().is_err());
    assert_eq!(test.rows().len(), 1);
    std::fs::create_dir(&shown).unwrap();
    test.lake.shared.show_days().unwrap();
    test.assert_links_follow_the_list();
}

#[test]
fn late_rows_reopen_a_day() {
    let mut test = TestLake::new();
    test.write(&[("p", "s", "a", DAY_MS), ("p", "s", "c", DAY_MS)], true);
    test.lake.compact_now().unwrap();
    test.write(&[("p", "s", "b", DAY_MS), ("p", "s", "a", DAY_MS)], true);
    test.lake.compact_now().unwrap();
    let snapshot = test.lake.snapshot();
    assert_eq!(snapshot.files(TABLE).len(), 1);
    let ids: Vec<String> = test.rows().into_iter().map(|row| row.2).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    test.assert_links_follow_the_list();
}

#[test]
fn compaction_in_the_background_makes_room() {
    let mut test = TestLake::new();
    let mut expected = Vec::new();
    for _ in 0..16 {
        expected.extend(test.write(&[("p", "s", "a", DAY_MS), ("p", "t", "b", DAY_MS)], true));
    }
    let compaction = test.lake.start_compaction().unwrap();
    let is_whole = |test: &TestLake| {
        let snapshot = test.lake.snapshot();
        snapshot
            .files(TABLE)
            .iter()
            .all(|file| file.entry.level == Level::Day)
    };
    while !is_whole(&test) {
        test.lake.shared.wait_for_change(Duration::from_millis(50));
    }
    compaction.stop();
    assert_eq!(test.rows(), without_repeats(&expected));
    test.assert_links_follow_the_list();
}

#[test]
fn a_merge_that_was_not_committed_leaves_the_list_as_it_was() {
    let mut test = TestLake::new();
    let mut expected = test.write(&[("p", "s", "a", DAY_MS)], true);
    expected.extend(test.write(&[("p", "s", "b", DAY_MS)], true));
    let job = plan::next_job_of_all(&test.lake.shared.list()).unwrap();
    let none = repeats::Repeated::none();
    merge::merge(
        &test.lake.shared,
        TABLE,
        &job.runs,
        job.level,
        &merge::LeftOut::Repeats(&none),
    )
    .unwrap();
    assert_eq!(test.names().len(), 3);
    drop(job);
    let test = test.reopen();
    assert_eq!(test.names().len(), 2);
    assert_eq!(test.rows(), expected);
}

#[test]
fn a_stopped_lake_gives_up_a_merge_without_a_trace() {
    let mut test = TestLake::new();
    test.write(&[("p", "s", "a", DAY_MS)], true);
    test.lake.shared.tell_stop();
    let stopped = test.lake.compact_now();
    assert!(matches!(stopped, Err(crate::StoreError::Stopped)));
    assert_eq!(test.names().len(), 1);
}

#[test]
fn the_writer_waits_at_the_bound_and_goes_on_after_compaction() {
    let mut test = TestLake::new();
    for _ in 0..UNCOMPACTED_FILES_MAX {
        assert!(test.lake.wait_for_room(Duration::ZERO));
        test.write(&[("p", "s", "a", DAY_MS)], true);
    }
    assert!(!test.lake.wait_for_room(Duration::ZERO));
    test.lake.compact_now().unwrap();
    assert!(test.lake.wait_for_room(Duration::ZERO));
}

fn blocks() -> impl Strategy<Value = Vec<Vec<(u8, u8, u8, i64)>>> {
    let row = (0_u8..2, 0_u8..2, 0_u8..5, 0_i64..4);
    proptest::collection::vec(proptest::collection::vec(row, 1..12), 1..8)
}

/// What is left of `rows`: of each identity and day the one of least offset.
fn without_repeats(rows: &[Row]) -> Vec<Row> {
    let mut least: BTreeMap<(&str, &str, &str, i32), i64> = BTreeMap::new();
    for row in rows {
        let kept = least
            .entry((&row.0, &row.3, &row.2, day_of(row.1)))
            .or_insert(row.4);
        *kept = row.4.min(*kept);
    }
    let stays = |row: &&Row| least[&(&*row.0, &*row.3, &*row.2, day_of(row.1))] == row.4;
    let mut rows: Vec<Row> = rows.iter().filter(stays).cloned().collect();
    rows.sort();
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Whatever the blocks, and however often compaction runs between them: the
    /// rows stay the same but for repeats of one day, each file is sorted and of
    /// one day, and the ledger's counts follow.
    #[test]
    fn compaction_keeps_every_row_but_repeats(blocks in blocks(), compact_after in 0_usize..8) {
        let mut test = TestLake::new();
        let mut all = Vec::new();
        for (number, block) in blocks.iter().enumerate() {
            let names: Vec<(String, String, String, i64)> = block
                .iter()
                .map(|(p, s, id, half_days)| {
                    (format!("p{p}"), format!("s{s}"), format!("id-{id}"), half_days * DAY_MS / 2)
                })
                .collect();
            let rows: Vec<_> =
                names.iter().map(|(p, s, id, time)| (&**p, &**s, &**id, *time)).collect();
            all.extend(test.write(&rows, true));
            if number == compact_after {
                test.lake.compact_now().unwrap();
            }
        }
        test.lake.compact_now().unwrap();
        let expected = without_repeats(&all);
        prop_assert_eq!(test.rows(), &*expected);
        let moved = fulmar_flow::moved_rows(&test.lake.shared.state, crate::writer::WRITER);
        prop_assert_eq!(moved.unwrap(), (all.len() - expected.len()) as u64);
        for file in test.lake.snapshot().files(TABLE) {
            let rows = rows_of(file);
            let key = |row: &Row| (row.0.clone(), row.1, row.2.clone(), row.4);
            prop_assert!(rows.is_sorted_by_key(key));
            prop_assert!(rows.iter().all(|row| Some(day_of(row.1)) == file.entry.day));
            prop_assert_eq!(file.entry.level, Level::Day);
        }
        test.assert_links_follow_the_list();
        prop_assert_eq!(test.lake.check().problems, Vec::<String>::new());
    }
}
