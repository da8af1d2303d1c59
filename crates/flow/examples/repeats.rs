//! Measures the index of repeats: processor time per new id, merges included, and what it takes
//! in memory, on disk and at open.
//!
//! `cargo run -p fulmar-flow --example repeats -- [--ids N] [--block N] [--dir DIR]`

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_flow::repeats::{IdHash, Repeats, RepeatsConfig};
use fulmar_flow::{BlockName, FlowError, State, StateBatch};

/// The allocator of the binary, so that memory is measured as it will be.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Clock ticks of `/proc/self/stat` in a second; fixed on Linux.
const TICKS_PER_SECOND: u64 = 100;
/// Blocks between two lines of the report.
const REPORT_BLOCKS: u64 = 100;

struct Options {
    ids: u64,
    block: u64,
    dir: PathBuf,
}

fn options() -> Options {
    let (mut ids, mut block) = (5_000_000, 131_072);
    let mut dir = std::env::temp_dir().join(format!("fulmar-repeats-{}", std::process::id()));
    let mut words = std::env::args().skip(1);
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        let number = || value.replace('_', "").parse().expect("a number");
        match name.as_str() {
            "--ids" => ids = number(),
            "--block" => block = number(),
            "--dir" => dir = PathBuf::from(&value),
            _ => panic!("unknown option {name}"),
        }
    }
    Options { ids, block, dir }
}

/// Processor time of all threads, system time included.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<_> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split(' ')
        .collect();
    let ticks = |at: usize| {
        fields
            .get(at)
            .and_then(|field| field.parse::<u64>().ok())
            .unwrap_or(0)
    };
    // utime and stime are fields 14 and 15; the split begins before field 3.
    Duration::from_millis((ticks(12) + ticks(13)) * 1_000 / TICKS_PER_SECOND)
}

/// Resident memory now, and the most so far, in MiB.
fn resident_mib() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let field = |name: &str| {
        let line = status
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_default();
        let kib = line
            .split_whitespace()
            .nth(1)
            .and_then(|kib| kib.parse::<u64>().ok());
        kib.unwrap_or(0) / 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

fn hash(repeats: &Repeats, number: u64) -> IdHash {
    // As long as a UUID in text.
    let id = format!("{number:036x}");
    repeats.hash(b"default", b"agent-0001", id.as_bytes())
}

fn block(
    repeats: &mut Repeats,
    state: &State,
    ids: std::ops::Range<u64>,
    first: u64,
    new: &mut Vec<bool>,
) -> Result<(), FlowError> {
    let log_ms = 1_700_000_000_000 + (first / 131_072) as i64 * 1_000;
    let hashes: Vec<_> = ids.map(|number| hash(repeats, number)).collect();
    let last = first + hashes.len() as u64 - 1;
    let name = BlockName {
        stream: "events".to_owned(),
        first,
        last,
    };
    let mut batch = StateBatch::new();
    repeats.admit(&hashes, log_ms, new)?;
    repeats.stage(&name, log_ms, &mut batch)?;
    state.commit(batch)?;
    repeats.committed();
    Ok(())
}

fn main() -> Result<(), FlowError> {
    let options = options();
    let state = Arc::new(State::open(&options.dir.join("state"))?);
    let files = options.dir.join("repeats");
    let mut repeats = Repeats::open(&files, &state, RepeatsConfig::default())?;
    let (before_mib, _) = resident_mib();
    let (cpu_before, began) = (cpu(), Instant::now());
    let mut new = Vec::new();
    let mut done = 0;
    while done < options.ids {
        let to = options.ids.min(done + options.block);
        block(&mut repeats, &state, done..to, done, &mut new)?;
        assert!(
            new.iter().all(|new| *new),
            "a new id was taken for a repeat"
        );
        done = to;
        if (done / options.block).is_multiple_of(REPORT_BLOCKS) || done == options.ids {
            let stats = repeats.reader().stats();
            let cpu_ns = (cpu() - cpu_before).as_nanos() as u64 / done;
            let (now_mib, peak_mib) = resident_mib();
            println!(
                "{done} ids, {cpu_ns} ns CPU/id, {} runs, {:.2} rewrites/id, filters {} MiB, \
                 disk {} MiB, resident +{} MiB (peak +{} MiB), {:.0} ids/s",
                stats.runs,
                stats.merged_ids as f64 / done as f64,
                stats.memory_bytes >> 20,
                stats.disk_bytes >> 20,
                now_mib.saturating_sub(before_mib),
                peak_mib - before_mib,
                done as f64 / began.elapsed().as_secs_f64(),
            );
        }
    }
    repeated(&mut repeats, &state, &options, done)?;
    reopened(repeats, &state, &options)
}

/// The cost of ids that are known: recent ones, then ones spread over everything.
fn repeated(
    repeats: &mut Repeats,
    state: &State,
    options: &Options,
    done: u64,
) -> Result<(), FlowError> {
    let mut new = Vec::new();
    for (what, from) in [
        ("newest", done.saturating_sub(options.block)),
        ("oldest", 0),
    ] {
        let to = done.min(from + options.block);
        let (cpu_before, began) = (cpu(), Instant::now());
        for round in 0..4 {
            block(
                repeats,
                state,
                from..to,
                done + round * options.block,
                &mut new,
            )?;
            assert!(new.iter().all(|new| !*new), "a repeat was taken for new");
        }
        let cpu_ns = (cpu() - cpu_before).as_nanos() as u64 / (4 * (to - from));
        let ns = began.elapsed().as_nanos() as u64 / (4 * (to - from));
        println!("{what} ids again: {cpu_ns} ns CPU and {ns} ns each");
    }
    Ok(())
}

fn reopened(repeats: Repeats, state: &Arc<State>, options: &Options) -> Result<(), FlowError> {
    let sample: Vec<_> = (0..1_000)
        .map(|n| hash(&repeats, n * options.ids / 1_000))
        .collect();
    drop(repeats);
    let began = Instant::now();
    let config = RepeatsConfig::default();
    let repeats = Repeats::open(&options.dir.join("repeats"), state, config)?;
    println!("opened again in {} ms", began.elapsed().as_millis());
    let (reader, began) = (repeats.reader(), Instant::now());
    for hash in &sample {
        assert!(reader.contains(*hash)?, "an id is lost");
    }
    println!(
        "a door's question: {} ns",
        began.elapsed().as_nanos() / 1_000
    );
    drop(repeats);
    fs::remove_dir_all(&options.dir).expect("the folder is ours");
    Ok(())
}
