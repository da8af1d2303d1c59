//! A fold on its thread: retries, damage, hold, cut and stop.

use std::sync::Mutex;

use super::*;
use crate::handle::FoldStats;
use crate::ledger::Ledger;
use crate::tape::{Mishap, Scribe, Tape, committed_text};

/// Nothing closes by age or size: blocks close when asked.
const SLOW: BlockLimits = BlockLimits {
    rows: 1_000,
    bytes: 1 << 20,
    age_ms: i64::MAX,
};

struct Bed {
    dir: tempfile::TempDir,
    state: Arc<State>,
    tape: Arc<Tape>,
    mishaps: Arc<Mutex<Vec<Mishap>>>,
}

impl Bed {
    fn new(mishaps: Vec<Mishap>) -> Bed {
        let dir = tempfile::tempdir().unwrap();
        let state = Arc::new(State::open(&dir.path().join("state")).unwrap());
        let tape = Tape::new(&state);
        Bed {
            dir,
            state,
            tape,
            mishaps: Arc::new(Mutex::new(mishaps)),
        }
    }

    fn start(&self, limits: BlockLimits) -> FoldHandle {
        let (dir, state) = (self.dir.path().to_path_buf(), Arc::clone(&self.state));
        let mishaps = Arc::clone(&self.mishaps);
        let scribe = Box::new(Scribe {
            dir,
            state: Arc::clone(&state),
            mishaps,
        });
        start(
            scribe,
            Arc::clone(&self.tape) as Arc<dyn Input>,
            state,
            limits,
            1,
        )
        .unwrap()
    }

    fn text(&self) -> String {
        committed_text(&self.state, self.dir.path())
    }
}

fn wait_for_position(handle: &FoldHandle, position: u64) {
    let wakeup = Wakeup::of_this_thread();
    wakeup.sleep_until_at_least(&mut handle.watch_position(), position, || false, None);
}

fn wait_for_status(handle: &FoldHandle, is_it: impl Fn(&FoldStatus) -> bool) -> FoldStats {
    loop {
        let stats = handle.stats();
        if is_it(&stats.status) {
            return stats;
        }
        thread::yield_now();
    }
}

fn transient() -> Mishap {
    Mishap::Error(FoldError::Transient("planted".to_owned()))
}

#[test]
fn records_are_done_when_they_are_old_enough_without_being_asked() {
    let bed = Bed::new(vec![]);
    let handle = bed.start(BlockLimits { age_ms: 0, ..SLOW });
    bed.tape.append(0, &["a", "b"]);
    wait_for_position(&handle, 2);
    bed.tape.append(now_ms() + 1, &["c"]);
    wait_for_position(&handle, 3);
    handle.stop();
    assert_eq!(bed.text(), "0 a\n1 b\n2 c\n");
    assert_eq!(handle.stats().status, FoldStatus::Stopped);
}

#[test]
fn a_full_block_wakes_the_fold() {
    let bed = Bed::new(vec![]);
    let handle = bed.start(BlockLimits { rows: 3, ..SLOW });
    for word in ["a", "b", "c"] {
        bed.tape.append(now_ms(), &[word]);
    }
    wait_for_position(&handle, 3);
    assert_eq!(handle.stats().blocks, 1);
    handle.stop_now();
}

#[test]
fn cut_does_all_that_was_there_and_stop_too() {
    let bed = Bed::new(vec![]);
    let handle = bed.start(SLOW);
    bed.tape.append(now_ms(), &["a", "b"]);
    assert_eq!(handle.cut(), 2);
    wait_for_position(&handle, 2);
    bed.tape.append(now_ms(), &["c"]);
    handle.stop();
    assert_eq!(handle.position(), 3);
    let stats = handle.stats();
    assert_eq!((stats.lag, stats.records, stats.retries), (0, 3, 0));
    assert!(stats.busy_ns > 0);
}

#[test]
fn errors_that_pass_are_tried_again_and_count_nothing_twice() {
    let bed = Bed::new(vec![transient(), transient()]);
    *bed.tape.failing_reads.lock().unwrap() = 1;
    bed.tape.append(0, &["a", "quarantine"]);
    let handle = bed.start(BlockLimits { age_ms: 0, ..SLOW });
    wait_for_position(&handle, 2);
    handle.stop();
    assert_eq!(handle.stats().retries, 3);
    let ledger = Ledger::read(&bed.state, "scribe", 2).unwrap();
    assert_eq!(
        (ledger.stored, ledger.quarantined, ledger.backlog),
        (1, 1, 0)
    );
    assert_eq!(bed.text(), "0 a\n1 quarantine\n");
}

#[test]
fn stop_does_not_wait_for_an_error_to_pass() {
    let bed = Bed::new((0..1_000).map(|_| transient()).collect());
    bed.tape.append(0, &["a"]);
    let handle = bed.start(BlockLimits { age_ms: 0, ..SLOW });
    wait_for_status(&handle, |status| {
        matches!(status, FoldStatus::Retrying { .. })
    });
    handle.stop();
    assert_eq!((handle.position(), bed.text().as_str()), (0, ""));
    bed.mishaps.lock().unwrap().clear();
    let handle = bed.start(SLOW);
    wait_for_position(&handle, 1);
    handle.stop();
    assert_eq!(
        bed.text(),
        "0 a\n",
        "the begun block, though nothing closes it now"
    );
}

#[test]
fn a_held_fold_does_nothing_until_it_is_let_go() {
    let bed = Bed::new(vec![]);
    let handle = bed.start(BlockLimits { age_ms: 0, ..SLOW });
    handle.hold(true);
    wait_for_status(&handle, |status| *status == FoldStatus::Held);
    bed.tape.append(0, &["a"]);
    handle.stop();
    assert_eq!((handle.position(), handle.stats().lag), (0, 1));
    let handle = bed.start(SLOW);
    handle.hold(true);
    handle.hold(false);
    handle.stop();
    assert_eq!(handle.position(), 1);
}

#[test]
fn damage_is_shown_with_its_place_until_it_is_given_up() {
    let bed = Bed::new(vec![]);
    for words in [["a", "b"], ["c", "d"], ["e", "f"]] {
        bed.tape.append(0, &words);
    }
    *bed.tape.damage.lock().unwrap() = Some((2..4, false));
    let handle = bed.start(BlockLimits { age_ms: 0, ..SLOW });
    let stats = wait_for_status(&handle, |status| {
        matches!(status, FoldStatus::Damaged { .. })
    });
    let FoldStatus::Damaged { position: 2, error } = stats.status else {
        panic!("{stats:?}");
    };
    assert!(error.contains("segment tape, byte 7"), "{error}");
    bed.tape.damage.lock().unwrap().as_mut().unwrap().1 = true;
    handle.try_again();
    wait_for_position(&handle, 6);
    handle.stop();
    assert_eq!(bed.text(), "0 a\n1 b\n4 e\n5 f\n");
}

#[test]
fn a_miscount_or_a_panic_stops_for_good_and_shows() {
    for mishap in [Mishap::Miscount, Mishap::Panic] {
        let bed = Bed::new(vec![mishap]);
        bed.tape.append(0, &["a"]);
        let handle = bed.start(BlockLimits { age_ms: 0, ..SLOW });
        wait_for_status(&handle, |status| {
            matches!(status, FoldStatus::Failed { .. })
        });
        handle.cut();
        handle.stop();
        assert!(matches!(handle.stats().status, FoldStatus::Failed { .. }));
        assert_eq!((handle.position(), bed.text().as_str()), (0, ""));
    }
}
