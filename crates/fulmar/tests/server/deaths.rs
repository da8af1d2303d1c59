//! Deaths at counted calls of the fault hooks, and requests to servers that may be dead.

use std::io::{Read as _, Write as _};

/// The calls that a server counted into its file.
pub fn counted(file: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap();
    text.trim().parse().unwrap()
}

/// What makes a server die at a call, without what it had not synced if power is lost.
pub fn deadly(at: &str, power_loss: bool) -> Vec<(&'static str, &str)> {
    let mut variables = vec![("FULMAR_FAULT_KILL_AT", at)];
    if power_loss {
        variables.push(("FULMAR_FAULT_POWER_LOSS", at));
    }
    variables
}

/// Dies at a seeded sample of the calls, or at each; every other time power is lost as well.
pub fn at_each(calls: u64, die: impl Fn(u64, bool)) {
    assert!(calls > 50, "the hooks are compiled in: {calls}");
    let all = std::env::var("FULMAR_TORTURE").is_ok_and(|all| all == "all");
    let seed: u64 = std::env::var("FULMAR_KILL_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| u64::from(std::process::id()));
    println!("FULMAR_KILL_SEED={seed}, {calls} calls");
    let step = if all { 1 } else { (calls / 10).max(1) };
    for call in (1 + seed % step..=calls).step_by(usize::try_from(step).unwrap()) {
        die(call, call % 2 == 0);
    }
}

/// Sends a request with header lines of its own, each ended; the status and all of the answer, or
/// none when the server is not there to give it.
pub fn exchange(address: &str, path: &str, headers: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = std::net::TcpStream::connect(address).ok()?;
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some((answer.get(9..12)?.parse().ok()?, answer))
}
