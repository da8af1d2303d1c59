//! Child processes: started, waited for, watched, stopped.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::BenchError;

/// Time for a child to say that it is ready.
const READY_MAX: Duration = Duration::from_secs(60);

/// Time for a child to end after it was told to: a server first writes what
/// its log still holds.
const STOP_MAX: Duration = Duration::from_secs(300);

/// Nanoseconds of one tick in `/proc/PID/stat`: 100 Hz on every Linux.
const TICK_NS: u64 = 10_000_000;

/// A server as a child process.
pub struct ChildServer {
    child: Child,
    name: String,
    /// The addresses of its ready line, by listener.
    pub addresses: BTreeMap<String, String>,
}

impl ChildServer {
    /// Starts `exe` and waits for its line `ready NAME=ADDR …`. What it says
    /// before goes into the error when it ends instead.
    pub fn start(exe: &Path, args: &[OsString]) -> Result<ChildServer, BenchError> {
        let name = args
            .first()
            .map_or_else(String::new, |arg| arg.to_string_lossy().into_owned());
        let mut child = Command::new(exe)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = child.stderr.take().expect("it was asked for");
        let (sink, lines) = mpsc::channel();
        std::thread::spawn(move || {
            // Read to the end, so that the child never waits for a reader.
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = sink.send(line);
            }
        });
        let mut said = Vec::new();
        let deadline = Instant::now() + READY_MAX;
        loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => match line.strip_prefix("ready ") {
                    Some(ready) => {
                        let addresses = addresses(ready);
                        return Ok(ChildServer {
                            child,
                            name,
                            addresses,
                        });
                    }
                    None => said.push(line),
                },
                Err(_) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    let what = format!("{name} did not start");
                    return Err(BenchError::Child {
                        what,
                        why: said.join("; "),
                    });
                }
            }
        }
    }

    /// Processor time so far, all threads, in ns.
    pub fn cpu_ns(&self) -> u64 {
        cpu_ns(self.child.id())
    }

    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1_024
    }

    /// Kills it, without a word before.
    pub fn kill(&mut self) -> Result<(), BenchError> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to end and waits for that; a clean end is exit code 0.
    pub fn stop(mut self) -> Result<(), BenchError> {
        terminate(self.child.id())?;
        let deadline = Instant::now() + STOP_MAX;
        loop {
            if let Some(status) = self.child.try_wait()? {
                let why = format!("it ended with {status}");
                let what = self.name.clone();
                return match status.success() {
                    true => Ok(()),
                    false => Err(BenchError::Child { what, why }),
                };
            }
            if Instant::now() > deadline {
                let why = format!("it did not end within {STOP_MAX:?}");
                return Err(BenchError::Child {
                    what: self.name.clone(),
                    why,
                });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for ChildServer {
    fn drop(&mut self) {
        // After a clean stop there is nothing left to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The arguments that start a server of a folder, on free ports, with settings of its own.
pub fn serve_args(dir: &Path, settings: &[(&str, &str)]) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["serve".into(), "--data".into(), dir.into()];
    for listener in ["--public", "--agents", "--ops"] {
        args.extend([listener.into(), "127.0.0.1:0".into()]);
    }
    args.extend(["--log-level".into(), "warn".into()]);
    for (key, value) in settings {
        args.extend(["--set".into(), format!("{key}={value}").into()]);
    }
    args
}

/// Runs `exe` to its end; an error unless it succeeds.
pub fn run(exe: &Path, args: &[OsString]) -> Result<(), BenchError> {
    output(exe, args).map(drop)
}

/// The same; gives its standard output.
pub fn output(exe: &Path, args: &[OsString]) -> Result<String, BenchError> {
    let output = Command::new(exe).args(args).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(BenchError::Child {
        what: words.join(" "),
        why,
    })
}

/// Processor time of this process so far, in ns.
pub fn own_cpu_ns() -> u64 {
    cpu_ns(std::process::id())
}

fn cpu_ns(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The command may hold blanks and brackets; fields count behind the last.
    let Some((_, fields)) = text.rsplit_once(") ") else {
        return 0;
    };
    let ticks: u64 = fields
        .split(' ')
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    ticks * TICK_NS
}

fn terminate(pid: u32) -> Result<(), BenchError> {
    let raw = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let Some(pid) = raw else { return Ok(()) };
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)
        .map_err(std::io::Error::from)?;
    Ok(())
}

fn addresses(ready: &str) -> BTreeMap<String, String> {
    let pairs = ready
        .split_whitespace()
        .filter_map(|part| part.split_once('='));
    pairs
        .map(|(name, address)| (name.to_owned(), address.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_processor_time_grows_with_work() {
        let before = own_cpu_ns();
        let mut sum = 0u64;
        while own_cpu_ns() < before + 2 * TICK_NS {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        assert!(own_cpu_ns() > before);
    }

    #[test]
    fn a_ready_line_names_its_listeners() {
        let found = addresses("public=127.0.0.1:1 agents=127.0.0.1:2 ops=[::1]:3");
        assert_eq!(found["agents"], "127.0.0.1:2");
        assert_eq!(found["ops"], "[::1]:3");
    }

    #[test]
    fn a_child_that_ends_at_once_is_an_error_with_its_words() {
        let args = ["-c".into(), "echo no folder >&2; exit 3".into()];
        let result = ChildServer::start(Path::new("/bin/sh"), &args);
        let error = result.err().expect("it never was ready").to_string();
        assert!(error.contains("no folder"), "{error}");
    }
}
