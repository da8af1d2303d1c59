//! Kill points, power loss, failing syncs, a full disk (M5, L2, L3), each in a
//! child process: this same test program, told by the environment.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Mutex;

use super::*;

const CHILD_DIR: &str = "FULMAR_TEST_CHILD_DIR";
const THREADS: usize = 3;
const APPENDS: usize = 14;
/// Kill points tried of each kind; all of them with `FULMAR_TORTURE` set.
const SAMPLE: u64 = 24;

fn child_config() -> LogConfig {
    let mut config = config(8192);
    // Seals come while appends do.
    config.seal_after = Duration::from_micros(200);
    config
}

/// Appends from several threads, with a roll and retention in between, and
/// writes what was answered to `answers`: `ok OFFSET TEXT` or `no TEXT`.
#[test]
fn child_appends() {
    let Some(dir) = std::env::var_os(CHILD_DIR).map(PathBuf::from) else {
        return;
    };
    let journal = open_with(&dir.join("events"), &child_config());
    let answers = Mutex::new(
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(dir.join("answers"))
            .unwrap(),
    );
    let run = std::process::id();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (journal, answers) = (&journal, &answers);
            scope.spawn(move || {
                for turn in 0..APPENDS {
                    let text = format!("{run}-{thread}-{turn}-{}", "w".repeat(turn * 90));
                    let line = match journal.append_blocking(one(&text)) {
                        Ok(appended) => format!("ok {} {text}\n", appended.first_offset),
                        Err(_) => format!("no {text}\n"),
                    };
                    answers.lock().unwrap().write_all(line.as_bytes()).unwrap();
                }
            });
        }
        // No fold needs the first half: retention removes what it can.
        let _ = journal.roll();
        journal.release("fold", journal.end() / 2);
        journal.shared.expire(i64::MAX, &|| false);
    });
}

fn run_child(dir: &Path, faults: &[(&str, String)]) -> std::process::ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "tests::faults::child_appends",
        "--test-threads=1",
    ]);
    command
        .env(CHILD_DIR, dir)
        .envs(faults.iter().map(|(name, value)| (name, value)));
    command.output().unwrap().status
}

/// What must hold whatever happened: each acknowledged record stands at its
/// offset, none stands twice, one thread's records are in order, nothing is
/// damaged.
fn check(dir: &Path, refused_are_absent: bool, case: &str) {
    let journal = open_with(&dir.join("events"), &child_config());
    assert!(
        journal.stats().damages.is_empty(),
        "{case}: {:?}",
        journal.stats().damages
    );
    let start = journal.start();
    let texts = read_all(&journal);
    let mut seen: HashMap<&str, u64> = HashMap::new();
    let mut last_turn: HashMap<String, usize> = HashMap::new();
    for (index, text) in texts.iter().enumerate() {
        let offset = start + index as u64;
        assert!(
            seen.insert(text, offset).is_none(),
            "{case}: {offset} stands twice"
        );
        let mut parts = text.split('-');
        let thread = format!("{:?}{:?}", parts.next(), parts.next());
        let turn: usize = parts.next().unwrap().parse().unwrap();
        let before = last_turn.insert(thread, turn);
        assert!(
            before.is_none_or(|before| before < turn),
            "{case}: order at {offset}"
        );
    }
    let answers = std::fs::read_to_string(dir.join("answers")).unwrap_or_default();
    for line in answers.lines() {
        if let Some((offset, text)) = line.strip_prefix("ok ").and_then(|it| it.split_once(' ')) {
            let offset: u64 = offset.parse().unwrap();
            if offset >= start {
                assert_eq!(seen.get(text), Some(&offset), "{case}: lost {offset}");
            }
        }
        if let Some(text) = line.strip_prefix("no ").filter(|_| refused_are_absent) {
            assert!(!seen.contains_key(text), "{case}: {text:.20} was refused");
        }
    }
    append(&journal, "0-9-0-after");
    drop(journal);
    let journal = open_with(&dir.join("events"), &child_config());
    assert_eq!(read_all(&journal).len(), texts.len() + 1, "{case}");
}

fn count_calls() -> u64 {
    let dir = scratch();
    let count = dir.path().join("count");
    let set = [("FULMAR_FAULT_COUNT_FILE", count.display().to_string())];
    assert!(run_child(dir.path(), &set).success());
    check(dir.path(), true, "without faults");
    std::fs::read_to_string(count)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// A sample of 1 to `total`, or all of them.
fn points(total: u64, salt: u64) -> Vec<u64> {
    if std::env::var_os("FULMAR_TORTURE").is_some() {
        return (1..=total).collect();
    }
    // The first calls make the folder and its first segment: always a few.
    let stride = (total / SAMPLE).max(1);
    (0..SAMPLE)
        .map(|turn| 1 + (turn * stride + salt % stride) % total)
        .collect()
}

#[test]
fn killed_at_any_call_nothing_acknowledged_is_lost_and_nothing_is_doubled() {
    let total = count_calls();
    assert!(total > 40, "{total} calls");
    for point in points(total, 3) {
        let dir = scratch();
        let status = run_child(dir.path(), &[("FULMAR_FAULT_KILL_AT", point.to_string())]);
        // Groups form as threads meet: a run may have fewer calls than another.
        assert!(
            status.signal() == Some(6) || status.success(),
            "{point}: {status}"
        );
        check(dir.path(), false, &format!("killed at {point}"));
        // Killed again while it recovers and goes on.
        let again = [("FULMAR_FAULT_KILL_AT", (point % 17 + 1).to_string())];
        run_child(dir.path(), &again);
        check(dir.path(), false, &format!("killed at {point} and again"));
    }
}

#[test]
fn power_lost_at_any_call_nothing_acknowledged_is_lost() {
    let total = count_calls();
    for point in points(total, 5) {
        let dir = scratch();
        for seed in [point, point + 1000] {
            let set = [
                ("FULMAR_FAULT_KILL_AT", point.to_string()),
                ("FULMAR_FAULT_POWER_LOSS", seed.to_string()),
            ];
            run_child(dir.path(), &set);
            check(
                dir.path(),
                false,
                &format!("power lost at {point}, seed {seed}"),
            );
        }
    }
}

#[test]
fn after_a_failed_sync_its_requests_are_refused_and_absent_and_appends_go_on() {
    for sync in points(60, 1) {
        let dir = scratch();
        let set = [("FULMAR_FAULT_FSYNC_FAIL_AT", sync.to_string())];
        let status = run_child(dir.path(), &set);
        // At the first syncs there is no journal yet, and opening says so.
        if !status.success() {
            assert!(sync <= 4, "{sync}: {status}");
        }
        check(dir.path(), status.success(), &format!("sync {sync} failed"));
    }
}

#[test]
fn a_failed_sync_and_a_power_loss_later_lose_nothing_acknowledged() {
    let total = count_calls();
    for (turn, sync) in points(60, 2).into_iter().enumerate() {
        let dir = scratch();
        let point = (sync * 2 + 7 + turn as u64) % total;
        let set = [
            ("FULMAR_FAULT_FSYNC_FAIL_AT", sync.to_string()),
            ("FULMAR_FAULT_KILL_AT", point.to_string()),
            ("FULMAR_FAULT_POWER_LOSS", sync.to_string()),
        ];
        run_child(dir.path(), &set);
        check(
            dir.path(),
            false,
            &format!("sync {sync} failed, power lost at {point}"),
        );
    }
}

#[test]
fn on_a_full_disk_appends_are_refused_and_go_on_when_there_is_space() {
    for first in [6, 9, 20, 33] {
        let dir = scratch();
        let set = [
            ("FULMAR_FAULT_NO_SPACE_AT", first.to_string()),
            ("FULMAR_FAULT_NO_SPACE_FOR", "4".to_owned()),
        ];
        assert!(run_child(dir.path(), &set).success(), "{first}");
        let answers = std::fs::read_to_string(dir.path().join("answers")).unwrap();
        assert!(
            answers.lines().any(|line| line.starts_with("no ")),
            "{first}: none refused"
        );
        assert!(
            answers.lines().any(|line| line.starts_with("ok ")),
            "{first}: none accepted"
        );
        check(dir.path(), true, &format!("no space at {first}"));
    }
}
