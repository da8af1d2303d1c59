//! Fences that hold even if the database's own limits do not.

use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use duckdb::InterruptHandle;
use rustix::process::{Resource, Rlimit, Signal, getpid, getrlimit, kill_process, setrlimit};

use crate::failure::Failure;
use crate::request::Request;

/// Heap beyond the query's memory before the kernel refuses more: 256 MiB hold the stacks
/// of the threads, the allocator's arenas and the library's own data.
const HEAP_BYTES_BEYOND: u64 = 256 << 20;
/// Seconds of CPU beyond the query's time, per thread: reading the request and ending.
const CPU_SECONDS_BEYOND: u64 = 2;
/// What an interrupted query gets to stop by itself before the process is ended.
const INTERRUPT_GRACE: Duration = Duration::from_millis(300);

/// Asks the kernel to hold the process to its limits. What the kernel refuses is left:
/// the caller's clock and DuckDB's own accounting stand before these.
pub fn limit_process(request: &Request) {
    let heap = request.memory_bytes.saturating_add(HEAP_BYTES_BEYOND);
    lower(Resource::Data, heap);
    let seconds = request.timeout_ms / 1000 + 1 + CPU_SECONDS_BEYOND;
    lower(
        Resource::Cpu,
        seconds.saturating_mul(u64::from(request.threads)),
    );
    lower(Resource::Core, 0);
}

fn lower(resource: Resource, wanted: u64) {
    let now = getrlimit(resource);
    let value = now.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let _ = setrlimit(
        resource,
        Rlimit {
            current: Some(value),
            maximum: Some(value),
        },
    );
}

/// Ends the query when its time is up.
pub struct Watchdog {
    done: Sender<()>,
}

impl Watchdog {
    /// Starts counting: at `timeout_ms` the query is interrupted, and if it does not end
    /// by itself then, so is the process.
    pub fn start(timeout_ms: u64, interrupt: Arc<InterruptHandle>) -> Watchdog {
        let (done, ended) = channel();
        thread::spawn(move || watch(timeout_ms, &interrupt, &ended));
        Watchdog { done }
    }

    /// The query has ended in time.
    pub fn stop(self) {
        // The watcher may have ended already; then there is nobody to tell.
        let _ = self.done.send(());
    }
}

fn watch(timeout_ms: u64, interrupt: &InterruptHandle, ended: &Receiver<()>) {
    if ended.recv_timeout(Duration::from_millis(timeout_ms)) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    interrupt.interrupt();
    if ended.recv_timeout(INTERRUPT_GRACE) == Err(RecvTimeoutError::Timeout) {
        eprintln!("{}", Failure::Time(timeout_ms).to_line());
        end_now();
    }
}

/// Ends the process when standard input ends: whoever asked is gone.
pub fn end_with_stdin() {
    thread::spawn(|| {
        let mut buffer = [0u8; 64];
        let mut stdin = std::io::stdin();
        loop {
            match stdin.read(&mut buffer) {
                Ok(0) | Err(_) => end_now(),
                Ok(_) => {}
            }
        }
    });
}

/// Ends without running the library's destructors, which other threads may still need.
fn end_now() {
    let _ = kill_process(getpid(), Signal::KILL);
}
