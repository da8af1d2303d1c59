//! The steps of a block, killed between any two of them.

use proptest::prelude::*;

use super::*;
use crate::ledger::Ledger;
use crate::tape::{Scribe, Tape, committed_text};

const LIMITS: BlockLimits = BlockLimits {
    rows: 4,
    bytes: 1_000,
    age_ms: 1_000,
};

struct Bed {
    dir: tempfile::TempDir,
    state: Arc<State>,
    tape: Arc<Tape>,
}

impl Bed {
    fn new() -> Bed {
        Bed::from(0)
    }

    fn from(start: u64) -> Bed {
        let dir = tempfile::tempdir().unwrap();
        let state = Arc::new(State::open(&dir.path().join("state")).unwrap());
        let tape = Tape::from(&state, start);
        Bed { dir, state, tape }
    }

    fn engine(&self) -> Engine {
        let (dir, state) = (self.dir.path().to_path_buf(), Arc::clone(&self.state));
        let mishaps = Arc::default();
        let scribe = Box::new(Scribe {
            dir,
            state: Arc::clone(&state),
            mishaps,
        });
        Engine::new(
            scribe,
            Arc::clone(&self.tape) as Arc<dyn Input>,
            state,
            LIMITS,
        )
        .unwrap()
    }

    fn ledger(&self) -> Ledger {
        let ledger = Ledger::read(&self.state, "scribe", self.tape.end()).unwrap();
        assert!(ledger.balances(), "{ledger:?}");
        ledger
    }

    fn text(&self) -> String {
        committed_text(&self.state, self.dir.path())
    }

    fn blocks(&self) -> Vec<String> {
        let names = self.state.prefix(crate::tape::SCRIBE_FILES, b"").unwrap();
        let names = names
            .into_iter()
            .map(|(name, _)| String::from_utf8(name).unwrap());
        names
            .map(|name| name.replace("000000000000000000", ""))
            .collect()
    }
}

#[test]
fn a_block_closes_by_rows_by_age_or_when_asked() {
    let bed = Bed::new();
    let mut engine = bed.engine();
    let waiting = |end, due_ms| Step::Waiting { end, due_ms };
    assert_eq!(engine.step(0, 0).unwrap(), waiting(1, None));
    bed.tape.append(5_000, &["a", "b"]);
    assert_eq!(engine.step(5_999, 0).unwrap(), waiting(4, Some(6_000)));
    assert_eq!(engine.step(6_000, 0).unwrap(), Step::Moved, "a second old");
    bed.tape.append(7_000, &["c", "d"]);
    bed.tape.append(7_000, &["e", "f", "g"]);
    bed.tape.append(7_000, &["h"]);
    assert_eq!(
        engine.step(7_000, 0).unwrap(),
        Step::Moved,
        "four rows and the rest of a frame"
    );
    assert_eq!(engine.step(7_000, 7).unwrap(), waiting(11, Some(8_000)));
    assert_eq!(engine.step(7_000, 8).unwrap(), Step::Moved, "asked for");
    assert_eq!(engine.step(7_000, 8).unwrap(), waiting(9, None));
    let long = "x".repeat(600);
    bed.tape.append(8_000, &[&long]);
    assert_eq!(engine.step(8_000, 0).unwrap(), waiting(12, Some(9_000)));
    bed.tape.append(8_000, &[&long]);
    assert_eq!(
        engine.step(8_000, 0).unwrap(),
        Step::Moved,
        "a thousand bytes"
    );
    let blocks = [
        "events-00-01",
        "events-02-06",
        "events-07-07",
        "events-08-09",
    ];
    assert_eq!(bed.blocks(), blocks);
}

#[test]
fn counts_are_committed_with_the_position() {
    let bed = Bed::new();
    let mut engine = bed.engine();
    bed.tape
        .append(0, &["a", "quarantine", "repeat", "bot", "b"]);
    engine.step(0, 5).unwrap();
    bed.tape.append(0, &["c", "d"]);
    let mut expected = Ledger {
        logged: 7,
        stored: 2,
        repeats: 1,
        quarantined: 1,
        ..Ledger::default()
    };
    expected.dropped.insert("bot".to_owned(), 1);
    expected.backlog = 2;
    assert_eq!(bed.ledger(), expected);
    // Rows that compaction removes as repeats move.
    let mut batch = StateBatch::new();
    crate::ledger::stage_moved_rows("scribe", 1, &mut batch);
    bed.state.commit(batch).unwrap();
    (expected.stored, expected.repeats) = (1, 2);
    assert_eq!(bed.ledger(), expected);
}

#[test]
fn a_begun_block_is_done_again_as_it_was_though_more_has_come() {
    let bed = Bed::new();
    bed.tape.append(0, &["a", "b"]);
    let mut engine = bed.engine();
    let Plan::Block(block) = engine.plan(2_000, 0).unwrap() else {
        panic!("it is due")
    };
    engine.begin(block).unwrap();
    drop(engine);
    bed.tape.append(0, &["c"]);
    let mut engine = bed.engine();
    assert_eq!(engine.step(2_000, 0).unwrap(), Step::Moved);
    assert_eq!(bed.blocks(), ["events-00-01"]);
    assert_eq!(engine.step(2_000, 0).unwrap(), Step::Moved);
    assert_eq!(bed.blocks(), ["events-00-01", "events-02-02"]);
}

#[test]
fn damage_stops_after_what_can_be_read_and_a_given_up_range_is_counted() {
    let bed = Bed::new();
    for words in [["a", "b"], ["c", "d"], ["e", "f"]] {
        bed.tape.append(0, &words);
    }
    *bed.tape.damage.lock().unwrap() = Some((2..4, false));
    let mut engine = bed.engine();
    assert_eq!(
        engine.step(0, 0).unwrap(),
        Step::Moved,
        "before the damage, at once"
    );
    for _ in 0..2 {
        assert!(matches!(engine.step(0, 0), Err(FoldError::Damaged(_))));
    }
    assert_eq!((engine.position(), bed.ledger().backlog), (2, 4));
    bed.tape.damage.lock().unwrap().as_mut().unwrap().1 = true;
    assert_eq!(engine.step(0, 0).unwrap(), Step::Moved);
    assert_eq!(engine.position(), 4);
    assert_eq!(engine.step(0, 6).unwrap(), Step::Moved);
    let ledger = bed.ledger();
    assert_eq!(
        (ledger.stored, ledger.dropped["damage"], ledger.backlog),
        (4, 2, 0)
    );
    assert_eq!(bed.text(), "0 a\n1 b\n4 e\n5 f\n");
}

#[test]
fn a_begun_block_that_lost_a_part_is_cut_anew() {
    let bed = Bed::new();
    bed.tape.append(0, &["a", "b"]);
    bed.tape.append(0, &["c"]);
    let mut engine = bed.engine();
    let Plan::Block(block) = engine.plan(2_000, 0).unwrap() else {
        panic!("it is due")
    };
    assert_eq!(block.len(), 3);
    engine.begin(block).unwrap();
    drop(engine);
    *bed.tape.damage.lock().unwrap() = Some((2..3, false));
    let mut engine = bed.engine();
    assert!(
        matches!(engine.step(0, 0), Err(FoldError::Damaged(_))),
        "not another block by itself"
    );
    bed.tape.damage.lock().unwrap().as_mut().unwrap().1 = true;
    assert_eq!(engine.step(0, 0).unwrap(), Step::Moved);
    assert_eq!(engine.step(0, 0).unwrap(), Step::Moved);
    assert_eq!(bed.blocks(), ["events-00-01"]);
    assert_eq!(bed.ledger().dropped["damage"], 1);
}

#[test]
fn a_fold_that_is_new_to_an_old_log_names_what_is_gone() {
    let bed = Bed::from(10);
    let mut engine = bed.engine();
    bed.tape.append(0, &["a"]);
    engine.step(0, 11).unwrap();
    let ledger = bed.ledger();
    assert_eq!(
        (ledger.stored, ledger.dropped["expired"], ledger.logged),
        (1, 10, 11)
    );
}

/// An engine over another log than the one that its state is of.
/// Has something due a second after each word; a tick at that time or later settles it.
#[derive(Default)]
struct Alarm {
    due_ms: Option<i64>,
    rung: Arc<std::sync::Mutex<Vec<i64>>>,
}

impl Fold for Alarm {
    fn name(&self) -> &'static str {
        "alarm"
    }

    fn version(&self) -> u32 {
        1
    }

    fn fold(
        &mut self,
        block: &Block,
        _batch: &mut StateBatch,
    ) -> std::result::Result<BlockCounts, FoldError> {
        let mut counts = BlockCounts::default();
        for record in block.records() {
            let time_ms = record.append_time_ms;
            if self.due_ms.is_some_and(|due_ms| due_ms <= time_ms) {
                self.due_ms = None;
                self.rung.lock().unwrap().push(time_ms);
            }
            if record.bytes.is_empty() {
                counts.ticks += 1;
            } else {
                counts.stored += 1;
                self.due_ms = Some(time_ms + 1_000);
            }
        }
        Ok(counts)
    }

    fn committed(&mut self, _name: &BlockName) {}

    fn next_due_ms(&self) -> Option<i64> {
        self.due_ms
    }
}

#[test]
fn time_goes_on_by_one_tick_when_something_is_due_and_nothing_comes() {
    let bed = Bed::new();
    let alarm = Alarm::default();
    let rung = Arc::clone(&alarm.rung);
    let (tape, state) = (Arc::clone(&bed.tape), Arc::clone(&bed.state));
    let mut engine = Engine::new(Box::new(alarm), tape, state, LIMITS).unwrap();
    let waiting = |end, due_ms| Step::Waiting { end, due_ms };
    assert_eq!(engine.step(9_000_000, 0).unwrap(), waiting(1, None));
    assert_eq!(bed.tape.end(), 0, "nothing is open: no tick");
    bed.tape.append(5_000, &["a"]);
    assert_eq!(engine.step(6_000, 0).unwrap(), Step::Moved);
    // Due at 6,000, which has come.
    assert_eq!(engine.step(5_999, 0).unwrap(), waiting(2, Some(6_000)));
    assert_eq!(bed.tape.end(), 1);
    *bed.tape.ticks_at_ms.lock().unwrap() = 6_001;
    assert_eq!(engine.step(6_001, 0).unwrap(), waiting(2, Some(6_000)));
    assert_eq!(bed.tape.end(), 2, "the tick is a record of the log");
    // While it is not folded no second one is appended.
    assert_eq!(engine.step(6_002, 0).unwrap(), waiting(5, Some(7_001)));
    assert_eq!(engine.step(7_001, 0).unwrap(), Step::Moved);
    assert_eq!(*rung.lock().unwrap(), [6_001]);
    assert_eq!(engine.step(9_000_000, 0).unwrap(), waiting(3, None));
    assert_eq!(bed.tape.end(), 2);
    let ledger = Ledger::read(&bed.state, "alarm", 2).unwrap();
    assert!(ledger.balances());
    assert_eq!((ledger.logged, ledger.stored, ledger.backlog), (1, 1, 0));
}

fn engine_on(bed: &Bed, tape: Arc<Tape>) -> Result<Engine> {
    let (dir, state) = (bed.dir.path().to_path_buf(), Arc::clone(&bed.state));
    let scribe = Box::new(Scribe {
        dir,
        state: Arc::clone(&state),
        mishaps: Arc::default(),
    });
    Engine::new(scribe, tape, state, LIMITS)
}

#[test]
fn a_log_of_another_folder_is_refused() {
    let bed = Bed::new();
    bed.tape.append(0, &["a", "b"]);
    bed.engine().step(0, 2).unwrap();
    let refused = engine_on(&bed, Tape::new(&bed.state)).err();
    assert!(matches!(
        refused,
        Some(FlowError::PositionOutside { position: 2, .. })
    ));
}

#[test]
fn a_log_that_begins_behind_the_position_is_damage_until_it_is_given_up() {
    let bed = Bed::new();
    bed.tape.append(0, &["a", "b"]);
    bed.engine().step(0, 2).unwrap();
    let tape = Tape::from(&bed.state, 5);
    tape.append(0, &["f"]);
    let mut engine = engine_on(&bed, Arc::clone(&tape)).unwrap();
    let stopped = engine.step(0, 0).unwrap_err();
    assert!(matches!(stopped, FoldError::Damaged(_)), "{stopped}");
    assert!(stopped.to_string().contains("from 2 to 5 are missing"));
    *tape.damage.lock().unwrap() = Some((2..5, true));
    assert_eq!(engine.step(0, 0).unwrap(), Step::Moved);
    assert_eq!(engine.step(0, 6).unwrap(), Step::Moved);
    let ledger = Ledger::read(&bed.state, "scribe", 6).unwrap();
    assert!(ledger.balances());
    assert_eq!((ledger.stored, ledger.dropped["damage"]), (3, 3));
}

/// One of each fate, and one more that is stored.
const WORDS: [&str; 5] = ["s", "t", "quarantine", "repeat", "bot"];

/// Where the process dies.
#[derive(Clone, Copy, Debug)]
enum Dies {
    Not,
    AfterPlan,
    AfterBoundary,
    AfterOutput,
    AfterCommit,
}

#[derive(Clone, Debug)]
enum Act {
    Append(Vec<u8>),
    Work { now_ms: i64, cut: bool, dies: Dies },
    FailingRead,
}

fn act() -> impl Strategy<Value = Act> {
    let dies = prop_oneof![
        4 => Just(Dies::Not),
        1 => Just(Dies::AfterPlan),
        1 => Just(Dies::AfterBoundary),
        1 => Just(Dies::AfterOutput),
        1 => Just(Dies::AfterCommit),
    ];
    prop_oneof![
        3 => prop::collection::vec(0u8..5, 1..4).prop_map(Act::Append),
        4 => (0i64..2_000, any::<bool>(), dies)
            .prop_map(|(now_ms, cut, dies)| Act::Work { now_ms, cut, dies }),
        1 => Just(Act::FailingRead),
    ]
}

fn work(bed: &Bed, engine: Engine, now_ms: i64, cut_to: u64, dies: Dies) -> Engine {
    let mut engine = engine;
    let Ok(Plan::Block(block)) = engine.plan(now_ms, cut_to) else {
        return engine;
    };
    if matches!(dies, Dies::AfterPlan) {
        return bed.engine();
    }
    let name = block.name().clone();
    engine.begin(block).unwrap();
    if matches!(dies, Dies::AfterBoundary | Dies::AfterOutput) {
        if matches!(dies, Dies::AfterOutput) {
            drop(engine.run().unwrap());
        }
        let mut again = bed.engine();
        let Plan::Block(block) = again.plan(0, 0).unwrap() else {
            panic!("{name} is begun")
        };
        assert_eq!(block.name(), &name, "the same block under the same name");
        // Dies once more, while it does it again.
        again.begin(block).unwrap();
        return bed.engine();
    }
    let (counts, batch) = engine.run().unwrap();
    engine.commit(counts, batch).unwrap();
    if matches!(dies, Dies::AfterCommit) {
        bed.engine()
    } else {
        engine
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn every_record_is_done_once_wherever_the_process_dies(
        acts in prop::collection::vec(act(), 1..40),
    ) {
        let bed = Bed::new();
        let mut engine = bed.engine();
        let (mut logged, mut expected) = (0, Ledger::default());
        let mut text = String::new();
        for act in acts {
            match act {
                Act::Append(kinds) => {
                    let words: Vec<_> =
                        kinds.iter().map(|kind| WORDS[*kind as usize]).collect();
                    bed.tape.append(0, &words);
                    for word in words {
                        text.push_str(&format!("{logged} {word}\n"));
                        logged += 1;
                        match word {
                            "quarantine" => expected.quarantined += 1,
                            "repeat" => expected.repeats += 1,
                            "bot" => *expected.dropped.entry("bot".to_owned()).or_default() += 1,
                            _ => expected.stored += 1,
                        }
                    }
                }
                Act::Work { now_ms, cut, dies } => {
                    let cut_to = if cut { bed.tape.end() } else { 0 };
                    engine = work(&bed, engine, now_ms, cut_to, dies);
                    let position = engine.position();
                    prop_assert_eq!(bed.text().lines().count() as u64, position, "I6");
                    prop_assert_eq!(bed.ledger().backlog, logged - position);
                }
                Act::FailingRead => *bed.tape.failing_reads.lock().unwrap() += 1,
            }
        }
        while engine.position() < logged {
            match engine.step(0, logged) {
                Ok(Step::Moved) | Err(FoldError::Transient(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        expected.logged = logged;
        prop_assert_eq!(bed.ledger(), expected);
        prop_assert_eq!(bed.text(), text);
    }
}
