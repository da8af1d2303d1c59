//! A receiver of webhooks that answers as a function says, and remembers what it got.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use super::PATIENCE;

/// One request.
#[derive(Clone, Debug)]
pub struct Got {
    /// By name in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    /// What it was answered.
    pub status: u16,
}

impl Got {
    pub fn id(&self) -> &str {
        &self.headers["webhook-id"]
    }
}

type Answers = Arc<Mutex<dyn FnMut(&Got) -> u16 + Send>>;

/// A receiver on a port of its own.
pub struct Hooks {
    address: SocketAddr,
    got: Receiver<Got>,
    count: Arc<AtomicUsize>,
}

impl Hooks {
    pub fn new(answer: impl FnMut(&Got) -> u16 + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer: Answers = Arc::new(Mutex::new(answer));
        let (tell, got) = channel();
        let count = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&count);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, tell) = (Arc::clone(&answer), tell.clone());
                let counting = Arc::clone(&counting);
                std::thread::spawn(move || serve(&stream.unwrap(), &answer, &tell, &counting));
            }
        });
        Self {
            address,
            got,
            count,
        }
    }

    /// One whose answer can be changed.
    pub fn turning(first: u16) -> (Arc<AtomicU16>, Self) {
        let answer = Arc::new(AtomicU16::new(first));
        let seen = Arc::clone(&answer);
        (answer, Self::new(move |_| seen.load(Ordering::SeqCst)))
    }

    pub fn url(&self) -> String {
        format!("http://{}/in", self.address)
    }

    /// The next request; it must come.
    pub fn next(&self) -> Got {
        self.got
            .recv_timeout(PATIENCE)
            .expect("nothing was received")
    }

    /// How many have come.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// All that has come by now and was not looked at.
    pub fn so_far(&self) -> Vec<Got> {
        self.got.try_iter().collect()
    }
}

fn serve(stream: &TcpStream, answer: &Answers, tell: &Sender<Got>, count: &AtomicUsize) {
    let mut reader = BufReader::new(stream);
    while let Some((headers, body)) = read_request(&mut reader) {
        let mut got = Got {
            headers,
            body,
            status: 0,
        };
        got.status = (answer.lock().unwrap())(&got);
        let status = got.status;
        let _ = tell.send(got);
        count.fetch_add(1, Ordering::SeqCst);
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: 4\r\n\r\nsaid");
        if reader.get_mut().write_all(head.as_bytes()).is_err() {
            return;
        }
    }
}

/// None at the end of the connection, wherever that comes.
fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<(BTreeMap<String, String>, Vec<u8>)> {
    let mut headers = BTreeMap::new();
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    loop {
        line.clear();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or("0", String::as_str);
    let mut body = vec![0; length.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some((headers, body))
}
