//! A handler that panics costs its own request, not the connection's others.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future whose panic is its result.
pub(super) struct CatchPanic<'a, F>(Pin<&'a mut F>);

impl<'a, F> CatchPanic<'a, F> {
    pub(super) fn new(future: Pin<&'a mut F>) -> Self {
        Self(future)
    }
}

impl<F: Future> Future for CatchPanic<'_, F> {
    type Output = Result<F::Output, Box<dyn Any + Send>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // The future is never polled again after it panicked, and what it
        // shares with others is behind locks that are taken even if poisoned.
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}
