//! Tells a supervisor how the server stands, by the protocol of `sd_notify(3)`: a service of
//! `Type=notify` is started once the doors are open, and restarted when it hangs.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The doors are open.
pub const READY: &str = "READY=1";
/// The stop has begun.
pub const STOPPING: &str = "STOPPING=1";
const ALIVE: &str = "WATCHDOG=1";

/// Tells the supervisor, if there is one.
pub fn tell(state: &str) {
    let Some(socket) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, "cannot tell the supervisor {state}");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    // A leading @ names a socket without a file.
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let from = UnixDatagram::unbound()?;
    // A supervisor that does not listen must not hold up requests.
    from.set_nonblocking(true)?;
    from.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

/// Says that the server lives, twice in each interval that the supervisor asks for. It runs on
/// the runtime that answers requests: what keeps those waiting keeps this waiting.
pub async fn keep_telling() {
    let Some(interval) = interval(&|name| env::var(name).ok()) else {
        return;
    };
    loop {
        tell(ALIVE);
        tokio::time::sleep(interval / 2).await;
    }
}

/// The interval, if it is for this process.
fn interval(variable: &dyn Fn(&str) -> Option<String>) -> Option<Duration> {
    let for_another = |pid: String| pid != std::process::id().to_string();
    if variable("WATCHDOG_PID").is_some_and(for_another) {
        return None;
    }
    let micros = variable("WATCHDOG_USEC")?.parse().ok()?;
    (micros > 0).then(|| Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_counts_for_the_process_that_it_names() {
        let own = std::process::id().to_string();
        let with = |pid: Option<&str>, micros: &str| {
            interval(&|name| match name {
                "WATCHDOG_PID" => pid.map(str::to_owned),
                _ => Some(micros.to_owned()),
            })
        };
        assert_eq!(with(Some(&own), "30000000"), Some(Duration::from_secs(30)));
        assert_eq!(with(None, "1000"), Some(Duration::from_millis(1)));
        assert_eq!(with(Some("1"), "1000"), None);
        assert_eq!(with(None, "0"), None);
        assert_eq!(with(None, "soon"), None);
    }
}
