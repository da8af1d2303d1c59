//! A receiver of deliveries: it takes them over kept connections, notes when each came, and answers
//! 200, after a while if it is told to.

use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

use crate::BenchError;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// Bytes of one request at most.
const REQUEST_BYTES_MAX: usize = 8 << 20;
/// The header that names the event; the tool and the servers that it measures agree on it.
const EVENT_ID: &str = "x-sparrow-event-id";

/// One delivery that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Hash of the event's id; none where the request did not name it.
    pub event: Option<u64>,
    /// Which of the receiver's paths it came to.
    pub path: u64,
    /// When it was there whole.
    pub at: Instant,
}

/// A running receiver, on one thread.
pub struct Receiver {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    receipts: Mutex<Vec<Receipt>>,
    count: AtomicU64,
    connections: AtomicU64,
    hashing: RandomState,
    delay: Duration,
    /// Paths that do not answer for long: every so many; 0 is none.
    hangs_every: AtomicU64,
}

/// How long a path hangs that does.
const HANG: Duration = Duration::from_secs(30);

/// Whether a path hangs, of which every so many do.
pub fn hangs(path: u64, every: u64) -> bool {
    every > 0 && path % every == every - 1
}

impl Receiver {
    /// Starts one that takes `delay` to answer.
    ///
    /// # Errors
    /// When it can't listen.
    pub fn start(address: &str, delay: Duration) -> Result<Receiver, BenchError> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            receipts: Mutex::default(),
            count: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            hashing: RandomState::new(),
            delay,
            hangs_every: AtomicU64::new(0),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let serving = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("receiver".to_owned())
            .spawn(move || {
                LocalSet::new().block_on(&runtime, async {
                    let listener = TcpListener::from_std(listener).expect("it was just bound");
                    while let Ok((stream, _)) = listener.accept().await {
                        serving.connections.fetch_add(1, Ordering::Relaxed);
                        let _ = stream.set_nodelay(true);
                        tokio::task::spawn_local(serve(stream, Arc::clone(&serving)));
                    }
                });
            })?;
        Ok(Receiver { address, shared })
    }

    /// Deliveries so far.
    pub fn count(&self) -> u64 {
        self.shared.count.load(Ordering::Relaxed)
    }

    /// Connections so far.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// The receipts since the last call; the counts begin anew.
    pub fn take(&self) -> Vec<Receipt> {
        let mut receipts = self.shared.receipts.lock().expect("no holder panics");
        self.shared.count.store(0, Ordering::Relaxed);
        self.shared.connections.store(0, Ordering::Relaxed);
        std::mem::take(&mut receipts)
    }

    /// From now on every so many paths hang; 0 is none.
    pub fn hang_every(&self, every: u64) {
        self.shared.hangs_every.store(every, Ordering::Relaxed);
    }

    /// Every so many paths hang; 0 is none.
    pub fn hangs_every(&self) -> u64 {
        self.shared.hangs_every.load(Ordering::Relaxed)
    }

    /// The hash under which an event's id is noted.
    pub fn hash(&self, id: &[u8]) -> u64 {
        self.shared.hashing.hash_one(id)
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut buffer = Vec::with_capacity(16 << 10);
    loop {
        while let Some((head, end)) = whole(&buffer) {
            let receipt = read_head(&buffer[..head], &shared.hashing);
            buffer.drain(..end);
            if hangs(receipt.path, shared.hangs_every.load(Ordering::Relaxed)) {
                tokio::time::sleep(HANG).await;
                if stream.write_all(ANSWER).await.is_err() {
                    return;
                }
                continue;
            }
            if !shared.delay.is_zero() {
                tokio::time::sleep(shared.delay).await;
            }
            shared
                .receipts
                .lock()
                .expect("no holder panics")
                .push(receipt);
            shared.count.fetch_add(1, Ordering::Relaxed);
            if stream.write_all(ANSWER).await.is_err() {
                return;
            }
        }
        match stream.read_buf(&mut buffer).await {
            Ok(read) if read > 0 && buffer.len() <= REQUEST_BYTES_MAX => {}
            _ => return,
        }
    }
}

/// Ends of the first request's head and of its body, once all of it is there.
fn whole(buffer: &[u8]) -> Option<(usize, usize)> {
    let head = buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let length = header(&buffer[..head], "content-length");
    let length = length.and_then(|text| std::str::from_utf8(text).ok()?.parse::<usize>().ok());
    let end = head + 4 + length.unwrap_or(0);
    (buffer.len() >= end).then_some((head, end))
}

fn header<'h>(head: &'h [u8], name: &str) -> Option<&'h [u8]> {
    head.split(|byte| *byte == b'\n').find_map(|line| {
        let found = line.get(..name.len())?;
        if !found.eq_ignore_ascii_case(name.as_bytes()) || line.get(name.len()) != Some(&b':') {
            return None;
        }
        Some(line[name.len() + 1..].trim_ascii())
    })
}

/// The path's last part is the number of the webhook.
fn read_head(head: &[u8], hashing: &RandomState) -> Receipt {
    let line = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    let last = line.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let number = std::str::from_utf8(last)
        .ok()
        .and_then(|text| text.parse().ok());
    Receipt {
        event: header(head, EVENT_ID).map(|id| hashing.hash_one(id)),
        path: number.unwrap_or(u64::MAX),
        at: Instant::now(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_whole_when_its_body_is() {
        let text = b"POST /hook/17 HTTP/1.1\r\nHost: x\r\nX-Sparrow-Event-Id: e-1\r\n\
                     Content-Length: 3\r\n\r\nabcPOST";
        for end in 0..text.len() - 4 {
            assert_eq!(whole(&text[..end]), None, "{end}");
        }
        let (head, end) = whole(text).unwrap();
        assert_eq!(&text[end..], b"POST");
        let hashing = RandomState::new();
        let receipt = read_head(&text[..head], &hashing);
        assert_eq!(receipt.event, Some(hashing.hash_one(&b"e-1"[..])));
        assert_eq!(receipt.path, 17);
    }
}
