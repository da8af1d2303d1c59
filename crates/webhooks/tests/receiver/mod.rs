//! Receivers that behave as they are told, on real sockets.

#![allow(dead_code, reason = "each test uses its part")]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use fulmar_webhooks::client::{
    Addresses, Client, Fault, Outgoing, Reply, Resolver, SystemResolver, Target, Trust,
};
use fulmar_webhooks::guard::Guard;
use hyper::header::{HOST, HeaderValue};
use hyper::{HeaderMap, Method};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

/// Runs a test on one thread, as the client lives on one.
pub fn on_one_thread<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, test);
}

/// What a receiver has seen.
#[derive(Clone, Default)]
pub struct Seen {
    pub connections: Rc<Cell<usize>>,
    pub requests: Rc<RefCell<Vec<String>>>,
}

impl Seen {
    pub fn count(&self) -> usize {
        self.requests.borrow().len()
    }
}

/// A receiver that calls `serve` with each connection.
pub async fn listen<F, S>(serve: S) -> (SocketAddr, Seen)
where
    F: Future<Output = ()> + 'static,
    S: Fn(BufReader<TcpStream>, Seen) -> F + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Seen::default();
    let watched = seen.clone();
    tokio::task::spawn_local(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            watched.connections.set(watched.connections.get() + 1);
            tokio::task::spawn_local(serve(BufReader::new(stream), watched.clone()));
        }
    });
    (address, seen)
}

/// A receiver that answers every request with the same bytes and keeps its connections.
pub async fn answering(answer: &'static str) -> (SocketAddr, Seen) {
    listen(move |mut stream, seen| async move {
        while read_request(&mut stream, &seen).await {
            if stream.get_mut().write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    })
    .await
}

/// Reads one request, head and body; false at the end of the connection.
pub async fn read_request(stream: &mut BufReader<TcpStream>, seen: &Seen) -> bool {
    let (mut head, mut body_bytes) = (String::new(), 0);
    loop {
        let start = head.len();
        match stream.read_line(&mut head).await {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
        let line = head[start..].trim_end().to_ascii_lowercase();
        if let Some(length) = line.strip_prefix("content-length:") {
            body_bytes = length.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; body_bytes];
    if stream.read_exact(&mut body).await.is_err() {
        return false;
    }
    head.push_str(&String::from_utf8_lossy(&body));
    seen.requests.borrow_mut().push(head);
    true
}

/// A client that may reach 127.0.0.1 and nothing else.
pub fn client() -> Client {
    client_with(Rc::new(SystemResolver))
}

pub fn client_with(resolver: Rc<dyn Resolver>) -> Client {
    let allowed = vec!["127.0.0.1/32".parse().unwrap()];
    Client::new(
        Guard::new(allowed, Vec::new()),
        resolver,
        Trust::of_system(),
    )
}

/// Answers with the same addresses, and counts how often it was asked.
pub struct Fixed {
    pub addresses: Vec<IpAddr>,
    pub asked: Cell<usize>,
}

impl Fixed {
    pub fn new(addresses: &[&str]) -> Rc<Self> {
        Rc::new(Self {
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            asked: Cell::new(0),
        })
    }
}

impl Resolver for Fixed {
    fn resolve(&self, _: &str) -> Addresses {
        self.asked.set(self.asked.get() + 1);
        let addresses = self.addresses.clone();
        Box::pin(async move { Ok(addresses) })
    }
}

/// Never answers.
pub struct Silent;

impl Resolver for Silent {
    fn resolve(&self, _: &str) -> Addresses {
        Box::pin(std::future::pending())
    }
}

/// Knows no name.
pub struct Unknowing;

impl Resolver for Unknowing {
    fn resolve(&self, host: &str) -> Addresses {
        let told = format!("no such name: {host}");
        let failed: Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>>>> =
            Box::pin(async move { Err(io::Error::other(told)) });
        failed
    }
}

/// Posts a body and gives what came of it.
pub async fn post(
    client: &Client,
    url: &str,
    own_roots: Option<&str>,
    body: impl Into<Bytes>,
    timeout: Duration,
) -> Result<Reply, Fault> {
    let url = url::Url::parse(url).unwrap();
    let mut headers = HeaderMap::new();
    let host = format!(
        "{}:{}",
        url.host_str().unwrap(),
        url.port_or_known_default().unwrap()
    );
    headers.insert(HOST, HeaderValue::from_str(&host).unwrap());
    let outgoing = Outgoing {
        method: Method::POST,
        path: url.path().parse().unwrap(),
        headers,
        body: body.into(),
        timeout,
    };
    client
        .exchange(&Target::of(&url, own_roots), outgoing)
        .await
}

/// Long enough for whatever is to happen.
pub const PATIENT: Duration = Duration::from_secs(20);
/// Short, where the end of the time is what is waited for.
pub const BRIEF: Duration = Duration::from_millis(150);
