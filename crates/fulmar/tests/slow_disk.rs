//! A disk whose syncs take long: memory keeps its bound however many requests come, the answers
//! say so at once, and the status names the log. Needs the feature `faults`.

#![allow(clippy::unwrap_used)]

mod server;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use server::{Folder, Server, http, sshd_lines};

/// Requests at the same time.
const REQUESTS: usize = 6_400;
/// The default of `server.memory_max`, which the bounds are checked against at the start.
const MEMORY_MAX: u64 = 768 << 20;
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lets this process open a connection for each request.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let open = limit.current.unwrap_or(u64::MAX);
    assert!(
        open as usize > REQUESTS + 100,
        "the machine allows {open} open files"
    );
}

/// Highest resident memory of the server so far, in bytes.
fn resident_max(running: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// Sends a request whose body may be longer than what comes of it.
fn request(address: &str, key: &str, declared: usize, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
         content-length: {declared}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // Who is refused early may find the connection closed.
    let _ = stream.write_all(body.as_bytes());
    stream
}

/// The status and all of an answer; a reset after the refusal has come is its end.
fn answer(stream: &mut TcpStream) -> (u16, String) {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    (status.unwrap_or(0), text)
}

#[test]
fn thousands_of_requests_against_a_slow_log_stay_within_the_memory() {
    raise_open_files();
    let folder = Folder::new();
    let running = folder.serve_with(&[], &[("FULMAR_FAULT_SYNC_MS", "200")]);
    let key = std::fs::read_to_string(folder.data().join("keys/ingest.key")).unwrap();
    let (key, address) = (key.trim(), &running.public);
    let filler = "x".repeat(15 << 10);
    let mut waiting: Vec<TcpStream> = (0..REQUESTS)
        .map(|number| {
            let body =
                format!(r#"{{"type":"t","id":"e-{number}","data":{{"filler":"{filler}"}}}}"#);
            request(address, key, body.len(), &body)
        })
        .collect();
    let mut accepted = 0;
    for stream in &mut waiting {
        let (status, text) = answer(stream);
        match status {
            200 => accepted += 1,
            503 => {
                assert!(text.contains("gateway_at_capacity"), "{text}");
                assert!(
                    text.to_ascii_lowercase().contains("retry-after: "),
                    "{text}"
                );
            }
            _ => panic!("neither taken nor refused: {text:?}"),
        }
    }
    assert!(
        (1..REQUESTS).contains(&accepted),
        "{accepted} of {REQUESTS}"
    );
    let sql = "select count(*) as n from messages";
    let stored = folder.json(&["query", "--format", "json", sql]);
    assert_eq!(stored[0]["n"], accepted, "what was refused is not there");

    // Bodies that never come to their end hold what they have reserved, and no more.
    let held = waiting.len();
    waiting.clear();
    waiting.extend((0..held).map(|_| request(address, key, 256 << 10, &filler)));
    let (status, text) = answer(&mut request(address, key, 2, "{}"));
    assert_eq!(status, 503, "all is reserved: {text}");
    drop(waiting);
    while http(address, "POST", "/v1/events", Some(key), r#"{"type":"t"}"#).0 != 200 {
        std::thread::yield_now();
    }
    let resident = resident_max(&running);
    assert!(resident < MEMORY_MAX, "{} MiB", resident >> 20);
    println!(
        "{accepted} of {REQUESTS} taken, {} MiB at most",
        resident >> 20
    );
}

#[test]
fn the_status_names_the_log_when_its_disk_sets_the_pace() {
    let folder = Folder::new();
    let running = folder.serve_with(&[], &[("FULMAR_FAULT_SYNC_MS", "100")]);
    let file = folder.write("auth.log", &sshd_lines(2_000));
    let args = [
        "send", "--door", "agents", "--format", "sshd", "--quiet", "--batch", "5", &file,
    ];
    let mut sender = folder.command(&args).spawn().unwrap();
    let named = |status: &serde_json::Value| {
        let busy = status["rates"]["busy"]["log"].as_f64().unwrap_or(0.0);
        status["rates"]["slowest"] == "log" && busy > 0.5
    };
    while !named(&folder.json(&["status", "--json"])) {
        assert!(
            sender.try_wait().unwrap().is_none(),
            "all was sent, and the log never named"
        );
    }
    sender.kill().unwrap();
    sender.wait().unwrap();
    drop(running);
}
