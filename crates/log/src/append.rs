//! The answer to an append, as a future.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::{LogError, Result, Topic};

/// Where an append went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record; the others follow densely.
    pub first_offset: u64,
    /// Its stamp, in ms since the epoch (L5).
    pub append_time_ms: i64,
}

/// Resolves when the append is on disk and synced (I1), or was refused.
/// Dropping it does not take the append back.
#[derive(Debug)]
#[must_use = "an append is durable only when its future has resolved to Ok"]
pub struct Append {
    topic: Topic,
    state: State,
}

#[derive(Debug)]
enum State {
    Ready(Option<Result<Appended>>),
    Waiting(oneshot::Receiver<Result<Appended>>),
}

impl Append {
    pub(crate) fn ready(topic: Topic, answer: Result<Appended>) -> Append {
        Append {
            topic,
            state: State::Ready(Some(answer)),
        }
    }

    pub(crate) fn waiting(topic: Topic, answer: oneshot::Receiver<Result<Appended>>) -> Append {
        Append {
            topic,
            state: State::Waiting(answer),
        }
    }

    /// Blocks this thread until the answer. Not for use on an async runtime.
    pub fn wait(self) -> Result<Appended> {
        let closed = Err(LogError::Closed { topic: self.topic });
        match self.state {
            State::Ready(answer) => answer.unwrap_or(closed),
            State::Waiting(receiver) => receiver.blocking_recv().unwrap_or(closed),
        }
    }
}

impl Future for Append {
    type Output = Result<Appended>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Appended>> {
        let topic = self.topic;
        let closed = || Err(LogError::Closed { topic });
        match &mut self.state {
            State::Ready(answer) => Poll::Ready(answer.take().unwrap_or_else(closed)),
            State::Waiting(receiver) => Pin::new(receiver)
                .poll(context)
                .map(|answer| answer.unwrap_or_else(|_| closed())),
        }
    }
}
