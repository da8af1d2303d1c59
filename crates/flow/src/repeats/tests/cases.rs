//! Single cases, with figures worked by hand.

use std::fs;
use std::sync::Arc;
use std::thread;

use super::super::run::RunEntry;
use super::*;

#[test]
fn runs_are_merged_by_fours_and_nothing_is_lost() {
    let mut bed = Bed::new(roomy());
    for block in 0..16u32 {
        let ids: Vec<_> = (block * 10..block * 10 + 10).collect();
        assert_eq!(bed.block(&ids, 0), vec![true; 10]);
        while bed.merge() {}
    }
    // Sixteen runs of 10 ids, level 0: four of 40 (level 1), then one of 160 (level 2).
    let set = bed.repeats().index.set();
    assert_eq!(
        set.runs.iter().map(|run| run.entry.ids).collect::<Vec<_>>(),
        [160]
    );
    drop(set);
    assert_eq!(bed.run_files(), 1);
    assert_eq!(bed.block(&(0..170).collect::<Vec<_>>(), 0)[155..], {
        let mut last = [true; 15];
        last[..5].fill(false);
        last
    });
}

#[test]
fn no_merge_is_beyond_the_largest_run_or_a_part_of_the_window() {
    let entry = |id, ids, at_ms| RunEntry {
        id,
        ids,
        first_ms: at_ms,
        last_ms: at_ms,
    };
    let pick = |runs: &[RunEntry]| merge::pick(runs, &SMALL, 1_000);
    // Four of level 2 (128 ids and more): two fit into 300.
    assert_eq!(pick(&[0, 1, 2, 3].map(|id| entry(id, 140, 0))), Some(0..2));
    assert_eq!(pick(&[0, 1, 2, 3].map(|id| entry(id, 160, 0))), None);
    // Largest runs are left alone, and what is behind them waits for its own level to fill.
    let largest = [
        (0, 290),
        (1, 290),
        (2, 290),
        (3, 290),
        (4, 10),
        (5, 10),
        (6, 40),
    ];
    assert_eq!(pick(&largest.map(|(id, ids)| entry(id, ids, 0))), None);
    // Three are too few.
    assert_eq!(pick(&[0, 1, 2].map(|id| entry(id, 10, 0))), None);
    // 600 ms apart: two are within 1000 ms of each other, three are not.
    assert_eq!(
        pick(&[0, 1, 2, 3].map(|id| entry(id, 10, id as i64 * 600))),
        Some(0..2)
    );
    assert_eq!(
        pick(&[0, 1, 2, 3].map(|id| entry(id, 10, id as i64 * 1_001))),
        None
    );
    // A small run between larger ones does not keep them apart.
    let mixed = [(0, 40), (1, 10), (2, 40), (3, 40), (4, 40)].map(|(id, ids)| entry(id, ids, 0));
    assert_eq!(pick(&mixed), Some(0..4));
    assert_eq!(pick(&mixed[..4]), None, "and does not stand in for one");
}

#[test]
fn ids_outlive_the_window_and_go_soon_after() {
    let mut bed = Bed::new(roomy());
    let ids: Vec<_> = (0..8).collect();
    bed.block(&ids, 0);
    assert_eq!(bed.block(&ids, WINDOW_MS), [false; 8]);
    assert_eq!(bed.run_files(), 1);
    assert_eq!(
        bed.block(&ids, WINDOW_MS + 1),
        [true; 8],
        "older than the window by 1 ms"
    );
    assert_eq!(
        bed.run_files(),
        1,
        "the old run is gone, the new one is there"
    );
    assert_eq!(bed.repeats().window_in_force_ms(), WINDOW_MS);
}

#[test]
fn a_byte_bound_cuts_the_window_and_says_so() {
    // A run of 8 ids is a page, a fence entry, a line of filter and a footer: 4,232 bytes, 72 of
    // them in memory. Four fit into 20,000 less an eighth.
    for (disk_bytes_max, memory_bytes_max) in [(20_000, 1 << 30), (1 << 30, 350)] {
        let config = RepeatsConfig {
            keyspace: "repeats",
            window_ms: WINDOW_MS,
            disk_bytes_max,
            memory_bytes_max,
        };
        let mut bed = Bed::new(config);
        let ids = |block: u32| (block * 8..block * 8 + 8).collect::<Vec<_>>();
        for block in 0..4 {
            bed.block(&ids(block), i64::from(block) * 100);
        }
        assert_eq!(bed.repeats().window_in_force_ms(), WINDOW_MS);
        bed.block(&ids(4), 450);
        // The run of time 0 had to go: everything after it is known.
        for reopened in [false, true] {
            if reopened {
                bed.reopen();
            }
            assert_eq!(bed.repeats().window_in_force_ms(), 450);
            assert_eq!(bed.run_files(), 4);
            assert!(!bed.repeats().reader().contains(bed.hash(0)).unwrap());
            assert!(bed.repeats().reader().contains(bed.hash(8)).unwrap());
        }
    }
}

#[test]
fn a_withdrawn_id_leaves_no_trace() {
    let mut bed = Bed::new(roomy());
    let (new, _) = bed.stage(&[1, 2], 0);
    assert_eq!(new, [true, true]);
    let hashes = [bed.hash(1), bed.hash(2)];
    let name = BlockName {
        stream: "events".to_owned(),
        first: 0,
        last: 1,
    };
    let (mut new, mut batch) = (Vec::new(), StateBatch::new());
    bed.repeats().admit(&hashes, 0, &mut new).unwrap();
    bed.repeats().withdraw(hashes[0]);
    bed.repeats().stage(&name, 0, &mut batch).unwrap();
    bed.commit(&[1, 2], batch);
    bed.repeats().committed();
    assert_eq!(bed.block(&[1, 2], 0), [true, false]);
}

#[test]
fn what_is_not_committed_is_not_seen_by_doors() {
    let mut bed = Bed::new(roomy());
    let reader = bed.repeats().reader();
    let hash = bed.hash(1);
    let (_, batch) = bed.stage(&[1], 0);
    assert!(!reader.contains(hash).unwrap());
    bed.commit(&[1], batch);
    bed.repeats().committed();
    assert!(reader.contains(hash).unwrap());
    assert_eq!(
        hash,
        reader.hash(b"project", b"source", &1u32.to_le_bytes())
    );
}

#[test]
fn a_damaged_page_stops_and_a_damaged_filter_is_built_again() {
    let ids: Vec<_> = (0..600).collect();
    let sizes = RunSizes {
        young_ids_max: 8,
        run_ids_max: 1_000,
    };
    // 600 ids: 3 pages, then 3 fence entries, then 13 lines of filter, then the footer.
    let (fence, filter) = (3 * 4096, 3 * 4096 + 24);
    for (at, is_fatal) in [
        (5_000, true),
        (fence + 3, false),
        (filter + 100, false),
        (filter + 13 * 64 + 9, true),
    ] {
        let mut bed = Bed::with_sizes(roomy(), sizes);
        bed.block(&ids, 0);
        let path = fs::read_dir(bed.files())
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let mut bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), filter + 13 * 64 + 64);
        bytes[at] ^= 0x10;
        (bed.repeats, bed.state) = (None, None);
        fs::write(&path, bytes).unwrap();
        let state = Arc::new(State::open(&bed.dir.path().join("state")).unwrap());
        let opened = Repeats::open_without_merger(&bed.files(), &state, roomy(), sizes);
        let asked = opened.and_then(|mut repeats| {
            let hash = |id: &u32| repeats.hash(b"project", b"source", &id.to_le_bytes());
            let hashes: Vec<_> = ids.iter().map(hash).collect();
            let mut new = Vec::new();
            repeats.admit(&hashes, 0, &mut new)?;
            Ok(new)
        });
        match asked {
            Ok(new) => {
                assert!(!is_fatal, "byte {at} is not noticed");
                assert_eq!(new, [false; 600]);
            }
            Err(error) => {
                assert!(is_fatal, "byte {at}: {error}");
                assert!(matches!(error, FlowError::DamagedRun { .. }), "{error}");
            }
        }
    }
}

#[test]
fn a_backup_of_state_and_files_is_whole_though_merges_go_on() {
    let mut bed = Bed::new(roomy());
    for block in 0..4u32 {
        let ids: Vec<_> = (block * 10..block * 10 + 10).collect();
        bed.block(&ids, 0);
    }
    let copy = tempfile::tempdir().unwrap();
    let index = Arc::clone(&bed.repeats().index);
    let reader = bed.repeats().reader();
    let frozen = reader.freeze();
    let merger = thread::spawn(move || merge::merge_once(&index).unwrap());
    bed.state
        .as_ref()
        .unwrap()
        .copy_to(&copy.path().join("state"))
        .unwrap();
    fs::create_dir(copy.path().join("repeats")).unwrap();
    for path in frozen.files().unwrap() {
        let to = copy.path().join("repeats").join(path.file_name().unwrap());
        fs::hard_link(path, to).unwrap();
    }
    drop(frozen);
    assert!(merger.join().unwrap());
    assert_eq!(bed.run_files(), 1, "the merge went on");
    let state = Arc::new(State::open(&copy.path().join("state")).unwrap());
    let files = copy.path().join("repeats");
    let restored = Repeats::open_without_merger(&files, &state, roomy(), SMALL).unwrap();
    assert_eq!(restored.reader().stats().ids, 40);
    let hash = bed.hash(39);
    assert!(restored.reader().contains(hash).unwrap());
}

#[test]
fn a_listed_run_that_is_not_there_is_named() {
    let mut bed = Bed::new(roomy());
    bed.block(&(0..8).collect::<Vec<_>>(), 0);
    let path = fs::read_dir(bed.files())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    (bed.repeats, bed.state) = (None, None);
    fs::remove_file(&path).unwrap();
    let state = Arc::new(State::open(&bed.dir.path().join("state")).unwrap());
    let opened = Repeats::open_without_merger(&bed.files(), &state, roomy(), SMALL);
    assert!(matches!(opened.err(), Some(FlowError::MissingRun { .. })));
}

#[test]
fn the_merger_merges_by_itself_and_ends_with_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let state = Arc::new(State::open(&dir.path().join("state")).unwrap());
    let mut repeats = Repeats::open(&dir.path().join("repeats"), &state, roomy()).unwrap();
    let reader = repeats.reader();
    let per_run = SIZES.young_ids_max as u32;
    for block in 0..4 {
        let ids = block * per_run..(block + 1) * per_run;
        let hashes: Vec<_> = ids
            .map(|id| repeats.hash(b"p", b"s", &id.to_le_bytes()))
            .collect();
        let first = u64::from(block * per_run);
        let last = first + u64::from(per_run) - 1;
        let name = BlockName {
            stream: "events".to_owned(),
            first,
            last,
        };
        let (mut new, mut batch) = (Vec::new(), StateBatch::new());
        repeats.admit(&hashes, 0, &mut new).unwrap();
        assert!(new.iter().all(|new| *new));
        repeats.stage(&name, 0, &mut batch).unwrap();
        state.commit(batch).unwrap();
        repeats.committed();
    }
    // Dropping waits for the merger, which has the news of four runs of one level; it gives up
    // only a merge that is under way, so that either all or none of it is there.
    drop(repeats);
    let stats = reader.stats();
    assert_eq!(stats.ids, u64::from(4 * per_run));
    assert!([1, 4].contains(&stats.runs), "{stats:?}");
    assert_eq!(stats.merge_error, None);
}
