//! Connections that are kept: by scheme, name, port and whose certificates are believed, so that
//! webhooks of one receiver share them. Each stays with the address that was judged.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper::client::conn::{TrySendError, http1, http2};
use hyper::rt::{Executor, Read, Write};
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use url::{Host, Url};

use super::connect::{Trust, dial, secure};
use super::course::Course;
use super::resolve::{Names, Resolver};
use super::response::Payload;
use super::{Category, Fault, Phase};
use crate::guard::Guard;

/// How long a connection may be idle: most servers close theirs after 60 s.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// How long a connection is used: after it, the name is asked again.
const AGE_MAX: Duration = Duration::from_secs(300);
/// Idle connections kept in all: more than exchanges at once, so that many webhooks of one receiver
/// do not close each other's.
const IDLE_CONNECTIONS_MAX: usize = 8_192;
/// Bytes of an answer's head, and headers in it.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 100;

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    is_tls: bool,
    host: String,
    port: u16,
    own_roots: Option<Rc<str>>,
}

impl Target {
    /// The target of a URL that the guard has let through.
    #[must_use]
    pub fn of(url: &Url, own_roots: Option<&str>) -> Self {
        Self {
            is_tls: url.scheme() == "https",
            host: url.host_str().unwrap_or_default().to_owned(),
            port: url.port_or_known_default().unwrap_or(0),
            own_roots: own_roots.map(Rc::from),
        }
    }
}

/// The `Host` of a URL.
#[must_use]
pub fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// The path and query of a URL.
#[must_use]
pub fn path_of(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

/// What a pool has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Connections opened.
    pub opened: u64,
    /// Connections kept now.
    pub idle: u64,
}

/// A connection that a request can be sent on.
pub(super) struct Connection {
    sender: Sender,
    born: Instant,
}

enum Sender {
    One(http1::SendRequest<Payload>),
    Many(http2::SendRequest<Payload>),
}

/// A request that got no answer.
pub(super) struct Unanswered {
    pub(super) error: hyper::Error,
    /// The request, if none of it was written.
    pub(super) unsent: Option<Request<Payload>>,
}

impl From<TrySendError<Request<Payload>>> for Unanswered {
    fn from(mut error: TrySendError<Request<Payload>>) -> Self {
        Self {
            unsent: error.take_message(),
            error: error.into_error(),
        }
    }
}

impl Connection {
    pub(super) async fn send(
        &mut self,
        request: Request<Payload>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let sent = match &mut self.sender {
            Sender::One(sender) => sender.try_send_request(request).await,
            Sender::Many(sender) => sender.try_send_request(request).await,
        };
        sent.map_err(Unanswered::from)
    }

    fn is_usable(&self) -> bool {
        let open = match &self.sender {
            Sender::One(sender) => !sender.is_closed(),
            Sender::Many(sender) => !sender.is_closed(),
        };
        open && self.born.elapsed() < AGE_MAX
    }

    /// The same connection once more, if it carries many requests.
    fn shared(&self) -> Option<Connection> {
        let Sender::Many(sender) = &self.sender else {
            return None;
        };
        Some(Connection {
            sender: Sender::Many(sender.clone()),
            born: self.born,
        })
    }

    async fn is_ready(&mut self) -> bool {
        let ready = match &mut self.sender {
            Sender::One(sender) => sender.ready().await,
            Sender::Many(sender) => sender.ready().await,
        };
        ready.is_ok()
    }
}

struct Idle {
    connection: Connection,
    since: Instant,
}

/// Kept connections, and how new ones are made.
pub(super) struct Pool {
    guard: Guard,
    resolver: Rc<dyn Resolver>,
    names: Names,
    trust: Trust,
    idle: RefCell<HashMap<Target, Vec<Idle>>>,
    kept: Cell<usize>,
    opened: Cell<u64>,
}

impl Pool {
    pub(super) fn new(guard: Guard, resolver: Rc<dyn Resolver>, trust: Trust) -> Self {
        Self {
            guard,
            resolver,
            names: Names::default(),
            trust,
            idle: RefCell::default(),
            kept: Cell::new(0),
            opened: Cell::new(0),
        }
    }

    pub(super) fn stats(&self) -> PoolStats {
        PoolStats {
            opened: self.opened.get(),
            idle: self.kept.get() as u64,
        }
    }

    /// A connection, kept (then true) or new.
    pub(super) async fn take(
        &self,
        target: &Target,
        phase: &Course,
    ) -> Result<(Connection, bool), Fault> {
        while let Some(mut connection) = self.take_kept(target) {
            if connection.is_ready().await {
                return Ok((connection, true));
            }
        }
        // On the heap, since it is seldom and its state is kilobytes: each exchange would carry it.
        let connection = Box::pin(self.open(target, phase)).await?;
        Ok((connection, false))
    }

    fn take_kept(&self, target: &Target) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        let kept = idle.get_mut(target)?;
        while let Some(last) = kept.last() {
            // One that speaks HTTP/2 carries many requests, and stays.
            if last.connection.is_usable()
                && let Some(shared) = last.connection.shared()
            {
                return Some(shared);
            }
            let last = kept.pop()?;
            self.kept.set(self.kept.get() - 1);
            if last.connection.is_usable() && last.since.elapsed() < IDLE_MAX {
                return Some(last.connection);
            }
        }
        None
    }

    /// Keeps a connection whose answer was read whole.
    pub(super) fn give_back(&self, target: &Target, connection: Connection) {
        if matches!(connection.sender, Sender::One(_)) && connection.is_usable() {
            self.keep(target, connection);
        }
    }

    fn keep(&self, target: &Target, connection: Connection) {
        let mut idle = self.idle.borrow_mut();
        // The key is copied once for a target, not for each of its deliveries.
        if !idle.contains_key(target) {
            idle.insert(target.clone(), Vec::new());
        }
        if let Some(kept) = idle.get_mut(target)
            && self.kept.get() < IDLE_CONNECTIONS_MAX
        {
            let since = Instant::now();
            kept.push(Idle { connection, since });
            self.kept.set(self.kept.get() + 1);
        }
    }

    pub(super) fn sweep(&self) {
        let mut idle = self.idle.borrow_mut();
        idle.retain(|_, kept| {
            kept.retain(|one| one.connection.is_usable() && one.since.elapsed() < IDLE_MAX);
            !kept.is_empty()
        });
        self.kept.set(idle.values().map(Vec::len).sum());
    }

    async fn open(&self, target: &Target, phase: &Course) -> Result<Connection, Fault> {
        phase.set(Phase::Resolve);
        let addresses = match Host::parse(&target.host) {
            Ok(Host::Ipv4(v4)) => vec![v4.into()],
            Ok(Host::Ipv6(v6)) => vec![v6.into()],
            _ => self
                .names
                .addresses(&target.host, &*self.resolver)
                .await
                .map_err(|e| Fault::new(Category::DnsError, Phase::Resolve, e.to_string()))?,
        };
        phase.set(Phase::Connect);
        let stream = dial(&self.guard, &addresses, target.port).await?;
        self.opened.set(self.opened.get() + 1);
        let born = Instant::now();
        let sender = match target.is_tls {
            false => Sender::One(handshake(TokioIo::new(stream)).await?),
            true => self.open_secure(target, stream, phase).await?,
        };
        let connection = Connection { sender, born };
        if let Some(shared) = connection.shared() {
            self.keep(target, shared);
        }
        Ok(connection)
    }

    async fn open_secure(
        &self,
        target: &Target,
        stream: TcpStream,
        phase: &Course,
    ) -> Result<Sender, Fault> {
        phase.set(Phase::Tls);
        let roots = target.own_roots.as_deref();
        let (stream, is_h2) = secure(&self.trust, roots, &target.host, stream).await?;
        let io = TokioIo::new(stream);
        Ok(match is_h2 {
            true => Sender::Many(handshake_h2(io).await?),
            false => Sender::One(handshake(io).await?),
        })
    }
}

/// Spawns on the thread that it is on.
#[derive(Clone)]
struct Local;

impl<F: Future + 'static> Executor<F> for Local {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(async move {
            future.await;
        });
    }
}

async fn handshake<S>(stream: S) -> Result<http1::SendRequest<Payload>, Fault>
where
    S: Read + Write + Unpin + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .handshake(stream)
        .await
        .map_err(of_handshake)?;
    // Its end is told to whoever sends on it.
    Local.execute(connection);
    Ok(sender)
}

async fn handshake_h2<S>(stream: S) -> Result<http2::SendRequest<Payload>, Fault>
where
    S: Read + Write + Unpin + 'static,
{
    let (sender, connection) = http2::Builder::new(Local)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .handshake(stream)
        .await
        .map_err(of_handshake)?;
    Local.execute(connection);
    Ok(sender)
}

fn of_handshake(error: hyper::Error) -> Fault {
    super::of_hyper(&error, Phase::Connect)
}
