//! `--follow` over growth, rotation, truncation and restarts.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod fake;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use fake::{FakeDoor, sshd_lines};
use fulmar_agent::{Door, Format, SendOptions, Summary, run};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const MIB: usize = 1 << 20;

struct Sender {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Summary>,
}

impl Sender {
    fn start(options: SendOptions) -> Sender {
        let (stop, stopped) = oneshot::channel();
        let interrupt = async {
            let _ = stopped.await;
        };
        let running = tokio::spawn(async move { run(options, interrupt).await.unwrap() });
        Sender { stop, running }
    }

    async fn stop(self) -> Summary {
        self.stop.send(()).unwrap();
        self.running.await.unwrap()
    }
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

async fn has(door: &Arc<FakeDoor>, count: usize) {
    door.wait(|stored| stored.times.len() >= count).await;
    let stored = door.stored.lock().unwrap();
    assert_eq!(stored.times.len(), count);
    assert!(stored.times.values().all(|times| *times == 1));
}

async fn followed() -> (
    tempfile::TempDir,
    std::path::PathBuf,
    Arc<FakeDoor>,
    SendOptions,
) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auth.log");
    std::fs::write(&file, sshd_lines(0, 10, -100)).unwrap();
    let door = FakeDoor::start(Door::Agents, 8 * MIB, vec![]).await;
    let mut options = door.options(Format::Sshd, &file);
    options.follow = true;
    options.limits.age_max = std::time::Duration::from_millis(10);
    (dir, file, door, options)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn growth_rotation_and_truncation_lose_and_repeat_nothing() {
    let (dir, file, door, options) = followed().await;
    let sender = Sender::start(options);
    has(&door, 10).await;
    append(&file, &sshd_lines(10, 20, -90));
    has(&door, 20).await;

    // Renamed; the last line comes under the new name, without a line end.
    let rotated = dir.path().join("auth.log.1");
    std::fs::rename(&file, &rotated).unwrap();
    append(&rotated, sshd_lines(20, 25, -80).trim_end());
    append(&file, &sshd_lines(25, 30, -70));
    has(&door, 30).await;

    // Cut in place, then written anew.
    std::fs::write(&file, sshd_lines(30, 32, -60)).unwrap();
    has(&door, 32).await;
    // Written anew in place and at once longer than it was.
    std::fs::write(&file, sshd_lines(32, 60, -50)).unwrap();
    has(&door, 60).await;
    assert!(sender.stop().await.interrupted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_written_line_waits_for_its_end() {
    let (_dir, file, door, options) = followed().await;
    let sender = Sender::start(options);
    let line = sshd_lines(10, 11, -50);
    append(&file, &line[..40]);
    has(&door, 10).await;
    append(&file, &line[40..]);
    append(&file, &sshd_lines(11, 12, -49));
    has(&door, 12).await;
    assert_eq!(sender.stop().await.skipped, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_reads_on_where_it_was_also_in_a_file_renamed_meanwhile() {
    let (dir, file, door, options) = followed().await;
    let sender = Sender::start(options.clone());
    has(&door, 10).await;
    sender.stop().await;

    append(&file, &sshd_lines(10, 15, -90));
    std::fs::rename(&file, dir.path().join("auth.log.1")).unwrap();
    std::fs::write(&file, sshd_lines(15, 20, -80)).unwrap();
    let sender = Sender::start(options);
    has(&door, 20).await;
    let order = door.stored.lock().unwrap().bodies.len();
    assert_eq!(order, 20);
    sender.stop().await;
}
