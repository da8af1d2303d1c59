//! The index against a model: a map from identity to the log time at which it was stored.

mod cases;

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// Small enough that a few dozen ids make runs, levels and the largest run.
const SMALL: RunSizes = RunSizes {
    young_ids_max: 8,
    run_ids_max: 300,
};
const WINDOW_MS: i64 = 8_000;

struct Bed {
    dir: TempDir,
    state: Option<Arc<State>>,
    repeats: Option<Repeats>,
    config: RepeatsConfig,
    sizes: RunSizes,
    next_offset: u64,
}

impl Bed {
    fn new(config: RepeatsConfig) -> Bed {
        Bed::with_sizes(config, SMALL)
    }

    fn with_sizes(config: RepeatsConfig, sizes: RunSizes) -> Bed {
        let dir = tempfile::tempdir().unwrap();
        let (state, repeats) = (None, None);
        let mut bed = Bed {
            dir,
            state,
            repeats,
            config,
            sizes,
            next_offset: 0,
        };
        bed.reopen();
        bed
    }

    fn files(&self) -> PathBuf {
        self.dir.path().join("repeats")
    }

    /// As after a crash: nothing in memory survives.
    fn reopen(&mut self) {
        self.repeats = None;
        self.state = None;
        let state = Arc::new(State::open(&self.dir.path().join("state")).unwrap());
        let opened = Repeats::open_without_merger(&self.files(), &state, self.config, self.sizes);
        self.repeats = Some(opened.unwrap());
        self.state = Some(state);
    }

    fn repeats(&mut self) -> &mut Repeats {
        self.repeats.as_mut().unwrap()
    }

    fn hash(&self, id: u32) -> IdHash {
        self.repeats
            .as_ref()
            .unwrap()
            .hash(b"project", b"source", &id.to_le_bytes())
    }

    /// Admits and stages a block; what is committed decides the caller.
    fn stage(&mut self, ids: &[u32], log_ms: i64) -> (Vec<bool>, StateBatch) {
        let hashes: Vec<_> = ids.iter().map(|id| self.hash(*id)).collect();
        let first = self.next_offset;
        let last = first + ids.len().max(1) as u64 - 1;
        let name = BlockName {
            stream: "events".to_owned(),
            first,
            last,
        };
        let (mut new, mut batch) = (Vec::new(), StateBatch::new());
        self.repeats().admit(&hashes, log_ms, &mut new).unwrap();
        self.repeats().stage(&name, log_ms, &mut batch).unwrap();
        (new, batch)
    }

    fn commit(&mut self, ids: &[u32], batch: StateBatch) {
        self.state.as_ref().unwrap().commit(batch).unwrap();
        self.next_offset += ids.len().max(1) as u64;
    }

    fn block(&mut self, ids: &[u32], log_ms: i64) -> Vec<bool> {
        let (new, batch) = self.stage(ids, log_ms);
        self.commit(ids, batch);
        self.repeats().committed();
        new
    }

    fn merge(&mut self) -> bool {
        merge::merge_once(&self.repeats().index).unwrap()
    }

    fn run_files(&self) -> usize {
        fs::read_dir(self.files()).unwrap().count()
    }
}

fn roomy() -> RepeatsConfig {
    RepeatsConfig {
        keyspace: "repeats",
        window_ms: WINDOW_MS,
        disk_bytes_max: 1 << 30,
        memory_bytes_max: 1 << 30,
    }
}

#[derive(Clone, Debug)]
enum Act {
    Block {
        ids: Vec<u32>,
        later_ms: i64,
        ends: Ends,
    },
    Merge,
    Reopen,
}

/// How far a block gets.
#[derive(Clone, Copy, Debug)]
enum Ends {
    Committed,
    /// The batch is dropped and the block done again.
    Retried,
    /// The process dies after the files were written.
    DiesBeforeCommit,
    /// The process dies after the commit, before memory follows.
    DiesAfterCommit,
}

fn act() -> impl Strategy<Value = Act> {
    let ends = prop_oneof![
        5 => Just(Ends::Committed),
        1 => Just(Ends::Retried),
        1 => Just(Ends::DiesBeforeCommit),
        1 => Just(Ends::DiesAfterCommit),
    ];
    let ids = prop::collection::vec(0u32..200, 0..24);
    prop_oneof![
        8 => (ids, 0i64..700, ends)
            .prop_map(|(ids, later_ms, ends)| Act::Block { ids, later_ms, ends }),
        3 => Just(Act::Merge),
        1 => Just(Act::Reopen),
    ]
}

/// Stored identities by log time. Within the window the index must know them; beyond it may.
#[derive(Default)]
struct Model {
    stored_ms: HashMap<u32, i64>,
}

impl Model {
    fn check(&self, ids: &[u32], now_ms: i64, new: &[bool]) {
        let mut in_block = std::collections::HashSet::new();
        assert_eq!(ids.len(), new.len());
        for (id, new) in ids.iter().zip(new) {
            let stored_ms = self.stored_ms.get(id);
            if !in_block.insert(*id) {
                assert!(!new, "{id} is earlier in the block");
            } else if stored_ms.is_none() {
                assert!(new, "{id} was never stored");
            } else if stored_ms.is_some_and(|stored_ms| now_ms - stored_ms <= WINDOW_MS) {
                assert!(!new, "{id} was stored at {stored_ms:?}, it is {now_ms}");
            }
        }
    }

    fn store(&mut self, ids: &[u32], now_ms: i64, new: &[bool]) {
        for (id, _) in ids.iter().zip(new).filter(|(_, new)| **new) {
            self.stored_ms.insert(*id, now_ms);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 16,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn the_index_agrees_with_a_map_whatever_happens(
        acts in prop::collection::vec(act(), 1..60),
    ) {
        let mut bed = Bed::new(roomy());
        let mut model = Model::default();
        let mut now_ms = 1_000_000;
        for act in acts {
            let (ids, ends) = match act {
                Act::Merge => { bed.merge(); continue }
                Act::Reopen => { bed.reopen(); continue }
                Act::Block { ids, later_ms, ends } => { now_ms += later_ms; (ids, ends) }
            };
            let (new, batch) = bed.stage(&ids, now_ms);
            model.check(&ids, now_ms, &new);
            match ends {
                Ends::Committed => {
                    bed.commit(&ids, batch);
                    bed.repeats().committed();
                    model.store(&ids, now_ms, &new);
                }
                Ends::Retried => {
                    drop(batch);
                    let again = bed.block(&ids, now_ms);
                    prop_assert_eq!(&again, &new, "a try leaves no trace");
                    model.store(&ids, now_ms, &new);
                }
                Ends::DiesBeforeCommit => { drop(batch); bed.reopen() }
                Ends::DiesAfterCommit => {
                    bed.commit(&ids, batch);
                    bed.reopen();
                    model.store(&ids, now_ms, &new);
                }
            }
            let runs = bed.repeats().index.set().runs.len();
            prop_assert_eq!(bed.run_files(), runs, "a file per committed run, none else");
            let listed = bed.state.as_ref().unwrap().prefix("repeats", b"young/").unwrap().len();
            let young_ids = bed.repeats().index.set().young.len() as u64;
            prop_assert!(listed as u64 <= young_ids, "ids that are in a run leave the state");
            prop_assert!(young_ids < SMALL.young_ids_max);
            for (id, stored_ms) in &model.stored_ms {
                let known = bed.repeats.as_ref().unwrap().reader().contains(bed.hash(*id));
                prop_assert!(known.unwrap() || now_ms - stored_ms > WINDOW_MS, "{}", id);
            }
        }
    }
}
