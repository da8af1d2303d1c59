//! Group commit against a plain loop on the same disk: bytes per second, and
//! the latency of small appends. Rounds are interleaved; medians are printed.
//!
//! `cargo run -p fulmar-log --example append_speed -- [FOLDER] [ROUNDS]`

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_log::{Journal, Log, LogConfig, Records, Topic, disk};

const CALLERS: usize = 16;
/// 500 events of about 290 bytes.
const PAYLOAD_BYTES: usize = 145 << 10;
const TOTAL_BYTES: usize = 512 << 20;
const SMALL_APPENDS: usize = 300;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn records(payload_bytes: usize) -> Records {
    let mut records = Records::with_capacity(payload_bytes + 4096);
    let record = vec![0x5a; 290];
    while records.bytes().len() + record.len() < payload_bytes {
        records.push(1, &record);
    }
    records
}

/// The limit: one thread, 1 MiB a write, a sync each, into a preallocated file.
fn plain_loop(dir: &Path) -> Outcome<f64> {
    let path = dir.join("plain");
    let file = disk::create(&path)?;
    disk::preallocate(&file, TOTAL_BYTES as u64)?;
    disk::fsync(&file)?;
    let bytes = vec![0x5a; 1 << 20];
    let started = Instant::now();
    for turn in 0..TOTAL_BYTES >> 20 {
        disk::write_all_at(&file, &bytes, (turn << 20) as u64)?;
        disk::fdatasync(&file)?;
    }
    let rate = TOTAL_BYTES as f64 / started.elapsed().as_secs_f64();
    disk::unlink(&path)?;
    Ok(rate)
}

fn group_commit(journal: &Arc<Journal>) -> Outcome<f64> {
    let template = records(PAYLOAD_BYTES);
    let appends = TOTAL_BYTES / template.bytes().len() / CALLERS;
    let started = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (journal, template) = (Arc::clone(journal), template.clone());
            std::thread::spawn(move || {
                (0..appends).try_for_each(|_| journal.append_blocking(template.clone()).map(drop))
            })
        })
        .collect();
    for caller in callers {
        caller.join().map_err(|_| "a caller panicked")??;
    }
    let bytes = appends * CALLERS * template.bytes().len();
    Ok(bytes as f64 / started.elapsed().as_secs_f64())
}

fn read_back(journal: &Journal, from: u64) -> Outcome<f64> {
    let mut reader = journal.reader(from);
    let started = Instant::now();
    let mut bytes = 0;
    while let Some(chunk) = reader.next(4 << 20)? {
        bytes += chunk.payload_bytes();
        reader.recycle(chunk);
    }
    Ok(bytes as f64 / started.elapsed().as_secs_f64())
}

fn small_appends(journal: &Journal) -> Outcome<Duration> {
    let template = records(1000);
    let mut times = Vec::with_capacity(SMALL_APPENDS);
    for _ in 0..SMALL_APPENDS {
        let started = Instant::now();
        journal.append_blocking(template.clone())?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    Ok(times[SMALL_APPENDS / 2])
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args_os().skip(1);
    let dir = PathBuf::from(arguments.next().unwrap_or_else(|| "append-speed".into()));
    let rounds: usize = match arguments.next() {
        Some(text) => text.to_string_lossy().parse()?,
        None => 5,
    };
    let log = Log::open(&dir, LogConfig::default())?;
    let journal = log.journal(Topic::Events);
    let (mut plain, mut grouped, mut read) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        plain.push(plain_loop(&dir)?);
        let from = journal.end();
        grouped.push(group_commit(&journal)?);
        read.push(read_back(&journal, from)?);
        let ratio = grouped[round] / plain[round];
        println!(
            "round {round}: plain loop {:.0} MB/s, 16 callers {:.0} MB/s, ratio {ratio:.2}, \
             read and checked {:.0} MB/s",
            plain[round] / 1e6,
            grouped[round] / 1e6,
            read[round] / 1e6
        );
    }
    println!("median ratio {:.2}", median(grouped) / median(plain));
    println!(
        "one caller, 1 kB appends: median {:?}",
        small_appends(&journal)?
    );
    let stats = journal.stats();
    println!(
        "{} appends in {} groups; busy {} ms, of it in sync {} ms, waiting {} ms",
        stats.appends,
        stats.groups,
        stats.busy_us / 1000,
        stats.sync_us / 1000,
        stats.wait_us / 1000
    );
    drop(journal);
    log.close();
    let started = Instant::now();
    let log = Log::open(&dir, LogConfig::default())?;
    println!(
        "opened {:.1} GB in {:?}",
        log.stats()[0].bytes as f64 / 1e9,
        started.elapsed()
    );
    log.close();
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
