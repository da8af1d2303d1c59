//! Runs the built program as users do: a server in a folder of its own, and commands beside it.

#![allow(dead_code)]

pub mod caller;
pub mod deaths;
pub mod receiver;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longest wait for something that must come. Only a broken program gets near it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder for one test: data, spool, files.
pub struct Folder(tempfile::TempDir);

/// A command's end.
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A running server. Dropped, it is killed.
pub struct Server {
    child: Child,
    lines: Receiver<String>,
    /// Lines of its start, the ready line last.
    pub start: Vec<String>,
    pub public: String,
    pub agents: String,
    pub ops: String,
}

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// The program with nothing of the caller's environment that it reads.
    pub fn command(&self, args: &[&str]) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_fulmar"), args)
    }

    /// The same of another program.
    pub fn command_of(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FULMAR_")) {
            command.env_remove(name);
        }
        command
            .args(args)
            .env("FULMAR_DATA", self.data())
            .env("FULMAR_SPOOL", self.path("spool"))
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args))
    }

    /// Runs a command that must be done, and gives its standard output.
    pub fn done(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(
            ran.code,
            Some(0),
            "{args:?}\n{}\n{}",
            ran.stdout,
            ran.stderr
        );
        ran.stdout
    }

    /// Runs a command that must be done and print JSON.
    pub fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.done(args)).unwrap()
    }

    /// Starts a server on free ports.
    pub fn serve(&self, more: &[&str]) -> Server {
        self.serve_with(more, &[])
    }

    /// The same with variables in its environment.
    pub fn serve_with(&self, more: &[&str], variables: &[(&str, &str)]) -> Server {
        Server::start(self.serve_command(more, variables))
    }

    pub fn serve_command(&self, more: &[&str], variables: &[(&str, &str)]) -> Command {
        let any = "127.0.0.1:0";
        let mut args = vec!["serve", "--public", any, "--agents", any, "--ops", any];
        args.extend(["--set", "server.settle=0"]);
        args.extend(more);
        let mut command = self.command(&args);
        command.envs(variables.iter().copied());
        command
    }

    /// Writes a file and gives its path as text.
    pub fn write(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// One of the project's samples.
    pub fn sample(name: &str) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
        root.join(name).to_str().unwrap().to_owned()
    }
}

impl Ran {
    pub fn of(mut command: Command) -> Self {
        let output = command.output().unwrap();
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub fn all(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

impl Server {
    pub fn start(command: Command) -> Self {
        Self::try_start(command).unwrap_or_else(|said| panic!("no ready line:\n{said}"))
    }

    /// Starts a server; what it said when it ended before it was ready.
    pub fn try_start(mut command: Command) -> Result<Self, String> {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut start = Vec::new();
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => start.push(line),
                Err(_) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(start.join("\n"));
                }
            }
            if let Some(ready) = start.last().and_then(|line| line.strip_prefix("ready ")) {
                let of = |name: &str| {
                    let found = ready.split(' ').find_map(|part| part.strip_prefix(name));
                    found.unwrap().to_owned()
                };
                let (public, agents, ops) = (of("public="), of("agents="), of("ops="));
                return Ok(Self {
                    child,
                    lines,
                    start,
                    public,
                    agents,
                    ops,
                });
            }
        }
    }

    /// Waits for a line that holds the text.
    pub fn wait_line(&self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("the line comes");
            if line.contains(text) {
                return line;
            }
        }
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// `kill -9`, and waits until it is dead.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// A first signal; gives how it ended.
    pub fn stop(mut self) -> ExitStatus {
        if let Some(ended) = self.ended() {
            return ended;
        }
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Whether it has ended by itself; by a signal or with a code.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a process died of an abort or a kill.
pub fn died(status: ExitStatus) -> bool {
    status.signal().is_some()
}

/// One HTTP/1.1 request; the answer's status and body.
pub fn http(
    address: &str,
    method: &str,
    path: &str,
    key: Option<&str>,
    body: &str,
) -> (u16, String) {
    let key = key
        .map(|key| format!("authorization: Bearer {key}\r\n"))
        .unwrap_or_default();
    http_with(address, method, path, &key, body)
}

/// The same with header lines of one's own, each ended.
pub fn http_with(
    address: &str,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\n{headers}\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// Lines of an OpenSSH server, one logon each, with times of now.
pub fn sshd_lines(count: usize) -> String {
    let now = jiff::Timestamp::now();
    let mut text = String::new();
    for number in 0..count {
        let word = if number % 3 == 0 {
            "Failed"
        } else {
            "Accepted"
        };
        text.push_str(&format!(
            "{now:.0} gate-1 sshd[{}]: {word} password for user{number} from 192.0.2.{} port {} \
             ssh2\n",
            1_000 + number,
            number % 250 + 1,
            1_024 + number % 60_000
        ));
    }
    text
}
