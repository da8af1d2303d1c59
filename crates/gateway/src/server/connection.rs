//! One connection: TLS, then HTTP/1.1 or HTTP/2, with its time-outs.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::CONNECTION;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;

use super::activity::{Activity, Expiry, RequestGuard};
use super::io::{ReadWatch, WriteStall};
use super::panics::CatchPanic;
use super::{Drain, ServerLimits};
use crate::http::{AnswerBody, AnyHandler, Peer, method_label, plain, status_label};
use crate::limits;
use crate::metrics::Metrics;
use crate::tls::{ClientCertificate, Tls};

type BoxedAnswer = Pin<Box<dyn Future<Output = Result<Response<CountedBody>, Infallible>> + Send>>;

/// What the connections of one listener share.
pub(super) struct Connections {
    pub(super) name: &'static str,
    pub(super) handler: Arc<dyn AnyHandler>,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) limits: ServerLimits,
    pub(super) metrics: Arc<Metrics>,
}

impl Connections {
    pub(super) async fn serve(
        self: &Arc<Self>,
        stream: TcpStream,
        remote: SocketAddr,
        drain: Drain,
    ) {
        // Answers are small and whole: waiting to fill a segment only delays them.
        let _ = stream.set_nodelay(true);
        let stream = WriteStall::new(stream, self.limits.write_stall_max);
        let Some(tls) = &self.tls else {
            let peer = Peer {
                remote,
                certificate: None,
            };
            return self.http1(stream, Arc::new(peer), drain).await;
        };
        let material = match tls.material() {
            Ok(material) => material,
            Err(error) => {
                tracing::error!(listener = self.name, %error, "no handshake");
                return self.metrics.handshake(self.name, "no_material");
            }
        };
        let acceptor = TlsAcceptor::from(Arc::clone(&material.config));
        // TLS asks for 4 KiB at a time: give it whole records for one system call.
        let stream = BufReader::with_capacity(limits::SOCKET_BUFFER_BYTES, stream);
        let handshake = acceptor.accept(stream);
        let stream = match tokio::time::timeout(self.limits.handshake_time_max, handshake).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(listener = self.name, %error, "handshake failed");
                return self.metrics.handshake(self.name, "failed");
            }
            Err(_) => return self.metrics.handshake(self.name, "timed_out"),
        };
        self.metrics.handshake(self.name, "ok");
        let session = stream.get_ref().1;
        let certificate = session
            .peer_certificates()
            .and_then(|chain| ClientCertificate::new(chain, &material, tls));
        let peer = Arc::new(Peer {
            remote,
            certificate,
        });
        if session.alpn_protocol() == Some(b"h2") {
            self.http2(stream, peer, drain).await;
        } else {
            self.http1(stream, peer, drain).await;
        }
    }

    async fn http1<S>(self: &Arc<Self>, stream: S, peer: Arc<Peer>, drain: Drain)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let activity = Activity::new();
        let io = TokioIo::new(ReadWatch::new(stream, Arc::clone(&activity)));
        let service = service_fn(|request| self.answer(request, &activity, &peer));
        let mut connection = http1::Builder::new()
            .header_read_timeout(None)
            .max_buf_size(limits::READ_BUFFER_BYTES_MAX)
            .max_header_size(limits::HEADER_BYTES_MAX)
            // Answers are short: one copy costs less than a list of pieces.
            .writev(false)
            .serve_connection(io, service);
        let steps = |cx: &mut Context<'_>, finish: bool| {
            if finish {
                Pin::new(&mut connection).graceful_shutdown();
            }
            connection.poll_without_shutdown(cx).map(|_| ())
        };
        let header_max = Some(self.limits.header_time_max);
        drive(
            steps,
            &activity,
            header_max,
            self.limits.idle_time_max,
            drain,
        )
        .await;
        let stream = connection.into_parts().io.into_inner().stream;
        close(stream, activity.is_unread()).await;
    }

    async fn http2<S>(self: &Arc<Self>, stream: S, peer: Arc<Peer>, drain: Drain)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let activity = Activity::new();
        let io = TokioIo::new(ReadWatch::new(stream, Arc::clone(&activity)));
        let service = service_fn(|request| self.answer(request, &activity, &peer));
        let mut connection = pin!(
            http2::Builder::new(TokioExecutor::new())
                .max_concurrent_streams(limits::STREAMS_PER_CONNECTION_MAX)
                .initial_stream_window_size(limits::STREAM_WINDOW_BYTES)
                .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
                .max_header_list_size(limits::HEADER_BYTES_MAX as u32)
                .serve_connection(io, service)
        );
        let steps = |cx: &mut Context<'_>, finish: bool| {
            if finish {
                connection.as_mut().graceful_shutdown();
            }
            connection.as_mut().poll(cx).map(|_| ())
        };
        drive(steps, &activity, None, self.limits.idle_time_max, drain).await;
    }

    /// One request's future: owned, as HTTP/2 runs each on a task of its own,
    /// and boxed, as HTTP/1.1 moves it.
    fn answer(
        self: &Arc<Self>,
        request: Request<Incoming>,
        activity: &Arc<Activity>,
        peer: &Arc<Peer>,
    ) -> BoxedAnswer {
        let shared = Arc::clone(self);
        let guard = activity.request();
        let activity = Arc::clone(activity);
        let peer = Arc::clone(peer);
        Box::pin(async move { Ok(shared.respond(request, &peer, &activity, guard).await) })
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
        peer: &Arc<Peer>,
        activity: &Activity,
        guard: RequestGuard,
    ) -> Response<CountedBody> {
        let started = Instant::now();
        let route = self.handler.route(request.uri().path());
        let method = method_label(request.method());
        let handled = pin!(self.handler.handle(request, peer));
        let response = match CatchPanic::new(handled).await {
            Ok(response) => response,
            Err(_) => {
                tracing::error!(listener = self.name, route, "a handler panicked");
                self.metrics.panicked(route);
                plain(StatusCode::INTERNAL_SERVER_ERROR, "internal server error\n")
            }
        };
        let status = status_label(response.status());
        self.metrics
            .http_request(self.name, route, method, status, started.elapsed());
        if response
            .headers()
            .get(CONNECTION)
            .is_some_and(|value| value == "close")
        {
            activity.mark_unread();
        }
        response.map(|body| CountedBody {
            body,
            _guard: guard,
        })
    }
}

/// A body that keeps its request in flight until it is sent or dropped.
pub(super) struct CountedBody {
    body: AnswerBody,
    _guard: RequestGuard,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Drives a connection to its end: by itself, by a drain or by its time-outs.
/// `connection` polls it, after telling it to take no further request if so
/// asked.
async fn drive(
    mut connection: impl FnMut(&mut Context<'_>, bool) -> Poll<()>,
    activity: &Activity,
    header_max: Option<Duration>,
    idle_max: Duration,
    mut drain: Drain,
) {
    let mut draining = pin!(drain.started());
    let mut drained = false;
    let mut idled = false;
    let mut timer = pin!(tokio::time::sleep(Duration::ZERO));
    poll_fn(|cx| {
        let finish = !drained && draining.as_mut().poll(cx).is_ready();
        drained |= finish;
        if connection(cx, finish).is_ready() {
            return Poll::Ready(());
        }
        loop {
            // Armed anew only when it fires: a request moves the deadline
            // later, and an early look costs less than moving a timer.
            let deadline = match activity.expires(header_max, idle_max) {
                Expiry::Busy => Instant::now() + header_max.unwrap_or(idle_max).min(idle_max),
                Expiry::Head(deadline) if deadline <= Instant::now() => return Poll::Ready(()),
                Expiry::Idle(deadline) if deadline <= Instant::now() => {
                    if idled {
                        return Poll::Ready(());
                    }
                    idled = true;
                    if connection(cx, true).is_ready() {
                        return Poll::Ready(());
                    }
                    Instant::now() + limits::LINGER_TIME_MAX
                }
                Expiry::Head(deadline) | Expiry::Idle(deadline) => deadline,
            };
            let armed: &mut Pin<&mut Sleep> = &mut timer;
            if armed.is_elapsed() || deadline < armed.deadline() {
                armed.as_mut().reset(deadline);
            }
            if armed.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await;
}

/// Ends a stream. With an unread body the client may be writing still, and a
/// close would reset the connection before it reads the answer: so say that
/// nothing more comes, and throw away a bounded rest.
async fn close<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, unread: bool) {
    let ended = async {
        if stream.shutdown().await.is_err() || !unread {
            return;
        }
        let mut scrap = [0_u8; 8 * 1024];
        let mut rest = limits::LINGER_BYTES_MAX;
        while let Ok(read @ 1..) = stream.read(&mut scrap).await {
            rest = rest.saturating_sub(read);
            if rest == 0 {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(limits::LINGER_TIME_MAX, ended).await;
}
