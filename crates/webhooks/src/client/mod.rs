//! The HTTP client of deliveries: one exchange at a time over pooled, vetted connections, under
//! one deadline whose failing phase is named. It lives on one thread.

mod connect;
mod course;
mod pool;
mod resolve;
mod response;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use hyper::http::uri::PathAndQuery;
use hyper::{HeaderMap, Method, Request, Response, Uri};
use tokio::time::Instant;

pub use connect::{Trust, roots_of};
pub use course::{BOUNDS_US, PhaseTimes};
pub use pool::{PoolStats, Target, host_of, path_of};
pub use resolve::{Addresses, Resolver, SystemResolver};
pub use response::{Control, Reply};

use crate::guard::{Guard, Refused};
use course::Course;
use pool::{Connection, Pool};
use response::{Payload, read};

/// A part of an exchange, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Asking for the name's addresses.
    #[default]
    Resolve,
    /// Opening a connection.
    Connect,
    /// The TLS handshake.
    Tls,
    /// Sending the request.
    Send,
    /// Waiting for the answer's head.
    Wait,
    /// Reading the answer's body.
    Body,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Self; 6] = [
        Self::Resolve,
        Self::Connect,
        Self::Tls,
        Self::Send,
        Self::Wait,
        Self::Body,
    ];

    /// The word of tables and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Send => "send",
            Self::Wait => "wait",
            Self::Body => "body",
        }
    }
}

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is what its word says")]
pub enum Category {
    ClientError,
    ServerError,
    UnexpectedStatus,
    RateLimited,
    Gone,
    Timeout,
    ConnectionRefused,
    NetworkError,
    DnsError,
    TlsError,
    BlockedAddress,
    /// Nothing was sent: a secret can't be opened, or the webhook is not what can be sent to.
    Unsendable,
}

impl Category {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::ClientError,
        Self::ServerError,
        Self::UnexpectedStatus,
        Self::RateLimited,
        Self::Gone,
        Self::Timeout,
        Self::ConnectionRefused,
        Self::NetworkError,
        Self::DnsError,
        Self::TlsError,
        Self::BlockedAddress,
        Self::Unsendable,
    ];

    /// The word of tables and answers; Sparrow's where it has one.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClientError => "client_error",
            Self::ServerError => "server_error",
            Self::UnexpectedStatus => "unexpected_status",
            Self::RateLimited => "rate_limited",
            Self::Gone => "gone",
            Self::Timeout => "timeout",
            Self::ConnectionRefused => "connection_refused",
            Self::NetworkError => "network_error",
            Self::DnsError => "dns_error",
            Self::TlsError => "tls_error",
            Self::BlockedAddress => "blocked_address",
            Self::Unsendable => "unsendable",
        }
    }

    /// Whether another attempt may help.
    #[must_use]
    pub fn is_retried(self) -> bool {
        matches!(
            self,
            Self::ServerError
                | Self::RateLimited
                | Self::Timeout
                | Self::ConnectionRefused
                | Self::NetworkError
                | Self::DnsError
                | Self::TlsError
                | Self::Unsendable
        )
    }
}

/// An exchange that ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind of failure it was.
    pub category: Category,
    /// Where in the exchange.
    pub phase: Phase,
    /// For people.
    pub message: String,
}

impl Fault {
    pub(crate) fn new(category: Category, phase: Phase, message: impl Into<String>) -> Self {
        Self {
            category,
            phase,
            message: message.into(),
        }
    }

    pub(crate) fn blocked(refused: &Refused) -> Self {
        Self::new(
            Category::BlockedAddress,
            Phase::Connect,
            refused.to_string(),
        )
    }
}

/// What is sent.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Method.
    pub method: Method,
    /// Path and query of the target's URL.
    pub path: PathAndQuery,
    /// All headers but `Content-Length`.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// From the first look-up to the last byte of the answer.
    pub timeout: Duration,
}

/// The client.
pub struct Client {
    pool: Pool,
    times: RefCell<[PhaseTimes; Phase::ALL.len()]>,
}

impl Client {
    /// A client that dials what the guard lets through.
    #[must_use]
    pub fn new(guard: Guard, resolver: Rc<dyn Resolver>, trust: Trust) -> Self {
        Self {
            pool: Pool::new(guard, resolver, trust),
            times: RefCell::default(),
        }
    }

    /// Sends a request and reads its answer.
    ///
    /// # Errors
    /// [`Fault`] with the phase in which it failed.
    pub async fn exchange(&self, target: &Target, outgoing: Outgoing) -> Result<Reply, Fault> {
        let course = Rc::new(Course::new());
        let timeout = outgoing.timeout;
        let deadline = Instant::now() + timeout;
        let exchange = self.attempt(target, outgoing, &course);
        let ended = tokio::time::timeout_at(deadline, exchange).await;
        course.end(&mut self.times.borrow_mut());
        match ended {
            Ok(ended) => ended,
            Err(_) => {
                let phase = course.get();
                let message = format!(
                    "no end within {timeout:?}, in the phase `{}`",
                    phase.as_str()
                );
                Err(Fault::new(Category::Timeout, phase, message))
            }
        }
    }

    /// What the pool has done so far.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.pool.stats()
    }

    /// How long exchanges were in each phase, in the order of [`Phase::ALL`].
    #[must_use]
    pub fn times(&self) -> [PhaseTimes; Phase::ALL.len()] {
        *self.times.borrow()
    }

    /// Closes connections that were idle for long. To be called now and then.
    pub fn sweep(&self) {
        self.pool.sweep();
    }

    async fn attempt(
        &self,
        target: &Target,
        outgoing: Outgoing,
        phase: &Rc<Course>,
    ) -> Result<Reply, Fault> {
        let mut request = request(outgoing, phase);
        // A kept connection may turn out closed by the receiver. Nothing of the request was
        // written then, so that it is sent once all the same.
        loop {
            let (mut connection, is_kept) = self.pool.take(target, phase).await?;
            phase.set(Phase::Send);
            match connection.send(request).await {
                Ok(response) => {
                    phase.set(Phase::Body);
                    return self.finish(target, connection, response).await;
                }
                Err(refused) => match refused.unsent {
                    Some(unsent) if is_kept => request = unsent,
                    _ => return Err(of_hyper(&refused.error, phase.get())),
                },
            }
        }
    }

    async fn finish(
        &self,
        target: &Target,
        connection: Connection,
        response: Response<hyper::body::Incoming>,
    ) -> Result<Reply, Fault> {
        let (reply, is_whole) = read(response)
            .await
            .map_err(|error| of_hyper(&error, Phase::Body))?;
        if is_whole {
            self.pool.give_back(target, connection);
        }
        Ok(reply)
    }
}

fn request(outgoing: Outgoing, phase: &Rc<Course>) -> Request<Payload> {
    let mut request = Request::new(Payload::new(outgoing.body, Rc::clone(phase)));
    *request.method_mut() = outgoing.method;
    *request.uri_mut() = Uri::from(outgoing.path);
    *request.headers_mut() = outgoing.headers;
    request
}

fn of_hyper(error: &hyper::Error, phase: Phase) -> Fault {
    let told = match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    Fault::new(Category::NetworkError, phase, told)
}
