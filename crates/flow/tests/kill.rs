//! The kill matrix of the fold runtime and the index of repeats (M5): a child process is aborted
//! at a counted call (every write, sync, rename, unlink and commit), started again, and must end
//! with every identity done exactly once.
//!
//! A seeded sample by default; all points with `FULMAR_TORTURE=1`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use fulmar_flow::repeats::{Repeats, RepeatsConfig, RunSizes};
use fulmar_flow::{
    Block, BlockCounts, BlockLimits, BlockName, Fold, FoldError, Ledger, State, StateBatch,
    start_fold,
};
use fulmar_log::{Log, LogConfig, Records, Topic, disk};

const FRAMES: u64 = 40;
const FRAME_RECORDS: u64 = 25;
/// Kill points of the default run.
const SAMPLE: u64 = 24;

/// The identity of a record: of five, four are new and one is of an earlier record.
fn identity(offset: u64) -> u64 {
    if offset % 5 == 3 {
        offset * 7 % (offset + 1)
    } else {
        offset
    }
}

/// Writes each block's new identities to a file of its name, and lists the file.
struct Once {
    out: PathBuf,
    repeats: Repeats,
}

impl Fold for Once {
    fn name(&self) -> &'static str {
        "once"
    }

    fn version(&self) -> u32 {
        1
    }

    fn fold(&mut self, block: &Block, batch: &mut StateBatch) -> Result<BlockCounts, FoldError> {
        let ids: Vec<_> = block
            .records()
            .map(|record| record.bytes.to_vec())
            .collect();
        let hash = |id: &Vec<u8>| self.repeats.hash(b"project", b"source", id);
        let hashes: Vec<_> = ids.iter().map(hash).collect();
        let (mut new, mut text) = (Vec::new(), String::new());
        self.repeats
            .admit(&hashes, block.append_last_ms(), &mut new)?;
        for (id, _) in ids.iter().zip(&new).filter(|(_, new)| **new) {
            text.push_str(std::str::from_utf8(id).unwrap());
            text.push('\n');
        }
        let name = block.name().to_string();
        disk::write_atomic(&self.out.join(&name), text.as_bytes()).unwrap();
        batch.put("once", name, Vec::new());
        self.repeats
            .stage(block.name(), block.append_last_ms(), batch)?;
        let stored = new.iter().filter(|new| **new).count() as u64;
        let repeats = block.len() - stored;
        Ok(BlockCounts {
            stored,
            repeats,
            ..BlockCounts::default()
        })
    }

    fn committed(&mut self, _name: &BlockName) {
        self.repeats.committed();
    }
}

/// What is killed: appends what is missing, folds all of it, ends in order.
#[test]
fn child() {
    let Some(dir) = std::env::var_os("FULMAR_FLOW_KILL_DIR").map(PathBuf::from) else {
        return;
    };
    let log = Log::open(&dir.join("log"), LogConfig::default()).unwrap();
    let state = Arc::new(State::open(&dir.join("state")).unwrap());
    let sizes = RunSizes {
        young_ids_max: 60,
        run_ids_max: 600,
    };
    let config = RepeatsConfig::default();
    let repeats = Repeats::open_sized(&dir.join("repeats"), &state, config, sizes).unwrap();
    let journal = log.journal(Topic::Events);
    let out = dir.join("out");
    disk::create_dir_all(&out).unwrap();
    let limits = BlockLimits {
        rows: 50,
        bytes: u64::MAX,
        age_ms: i64::MAX,
    };
    let once = Once { out, repeats };
    let fold = start_fold(once, Arc::clone(&journal), Arc::clone(&state), limits).unwrap();
    while journal.end() < FRAMES * FRAME_RECORDS {
        let mut records = Records::new();
        for offset in journal.end()..journal.end() + FRAME_RECORDS {
            records.push(0, identity(offset).to_string().as_bytes());
        }
        journal.append_blocking(records).unwrap();
        let end = fold.cut();
        while fold.position() < end {
            thread::yield_now();
        }
    }
    fold.stop();
    assert_eq!(
        fold.position(),
        FRAMES * FRAME_RECORDS,
        "{:?}",
        fold.stats()
    );
    log.close();
}

/// Runs the child; true when it ended by itself.
fn run(dir: &Path, kill_at: Option<u64>, count_file: Option<&Path>) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "child", "--nocapture"])
        .env("FULMAR_FLOW_KILL_DIR", dir);
    if let Some(kill_at) = kill_at {
        child.env("FULMAR_FAULT_KILL_AT", kill_at.to_string());
    }
    if let Some(count_file) = count_file {
        child.env("FULMAR_FAULT_COUNT_FILE", count_file);
    }
    let output = child.output().unwrap();
    if output.status.code() == Some(101) {
        panic!("{}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

/// Every identity is in exactly one listed file, and the ledger says so.
fn check(dir: &Path, kill_at: Option<u64>) {
    let state = Arc::new(State::open(&dir.join("state")).unwrap());
    let mut done = BTreeSet::new();
    for (name, _) in state.prefix("once", b"").unwrap() {
        let text = fs::read_to_string(dir.join("out").join(String::from_utf8(name).unwrap()));
        for id in text.unwrap().lines() {
            let id: u64 = id.parse().unwrap();
            assert!(done.insert(id), "killed at {kill_at:?}: {id} is done twice");
        }
    }
    let end = FRAMES * FRAME_RECORDS;
    let all: BTreeSet<_> = (0..end).map(identity).collect();
    assert_eq!(done, all, "killed at {kill_at:?}");
    let ledger = Ledger::read(&state, "once", end).unwrap();
    assert!(
        ledger.balances() && ledger.backlog == 0,
        "killed at {kill_at:?}: {ledger:?}"
    );
    assert_eq!(ledger.stored, all.len() as u64);
    let config = RepeatsConfig::default();
    let repeats = Repeats::open(&dir.join("repeats"), &state, config).unwrap();
    for id in &all {
        let hash = repeats.hash(b"project", b"source", id.to_string().as_bytes());
        assert!(
            repeats.reader().contains(hash).unwrap(),
            "killed at {kill_at:?}: {id}"
        );
    }
}

#[test]
fn every_identity_is_done_once_wherever_the_process_is_killed() {
    let whole = tempfile::tempdir().unwrap();
    let count_file = whole.path().join("count");
    assert!(run(whole.path(), None, Some(&count_file)));
    check(whole.path(), None);
    let calls: u64 = fs::read_to_string(count_file)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(calls > 200, "only {calls} calls are counted");
    let torture = std::env::var_os("FULMAR_TORTURE").is_some();
    let step = if torture { 1 } else { calls / SAMPLE };
    let mut killed = 0;
    for kill_at in (1..=calls).step_by(step as usize) {
        let dir = tempfile::tempdir().unwrap();
        if !run(dir.path(), Some(kill_at), None) {
            killed += 1;
            assert!(
                run(dir.path(), None, None),
                "killed at {kill_at}: it does not start again"
            );
        }
        check(dir.path(), Some(kill_at));
    }
    // Threads interleave, so that the last points may lie beyond a run's end.
    assert!(
        killed >= (calls / step) * 3 / 4,
        "only {killed} of {calls} by {step} were reached"
    );
}
