//! Speaks with one child: its request in, its rows out, its end explained.

use std::any::Any;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::QueryError;

/// Time beyond a query's own before it is killed: it stops by itself in between, and says
/// so better than a kill can.
const KILL_GRACE: Duration = Duration::from_millis(500);
/// Bytes of one piece of an answer.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces of an answer that wait for a slow reader: 256 KiB a query.
const PIECES_WAITING_MAX: usize = 4;
/// Bytes of the child's error line that are read: the longest message, and then some.
const ERROR_BYTES_MAX: u64 = 64 << 10;

/// The rows of a query, in pieces of text or Parquet.
#[derive(Debug)]
pub struct Answer {
    pieces: mpsc::Receiver<Piece>,
    ended: bool,
}

#[derive(Debug)]
enum Piece {
    Rows(Bytes),
    End(Result<(), QueryError>),
}

impl Answer {
    /// Follows a child that has its request still to come; `held` is kept until it is gone.
    pub(super) fn of(
        mut child: Child,
        line: Vec<u8>,
        deadline: Instant,
        held: Box<dyn Any + Send>,
    ) -> Answer {
        let (sender, pieces) = mpsc::channel(PIECES_WAITING_MAX);
        let started = Instant::now();
        tokio::spawn(async move {
            let killed_at = deadline + KILL_GRACE;
            let ended = tokio::select! {
                ended = timeout_at(killed_at, speak(&mut child, &line, &sender)) => ended,
                // Nobody takes the rows any more.
                () = sender.closed() => Ok(Ok(())),
            };
            // Whatever ended it: no child outlives its query.
            let _ = child.kill().await;
            drop(held);
            let time = deadline - started;
            let outcome = match ended {
                Err(_) => Err(QueryError::Time(time)),
                Ok(Err(Stopped::Late)) => Err(QueryError::Time(time)),
                Ok(Err(Stopped::Error(error))) => Err(error),
                Ok(Ok(())) => Ok(()),
            };
            // The last word may find nobody who still listens.
            let _ = sender.send(Piece::End(outcome)).await;
        });
        Answer {
            pieces,
            ended: false,
        }
    }

    /// The next piece. `Ok(None)` means that the answer is whole; an error that it is not,
    /// whatever came before. Dropping the answer ends the query.
    pub async fn next_piece(&mut self) -> Result<Option<Bytes>, QueryError> {
        if self.ended {
            return Ok(None);
        }
        match self.pieces.recv().await {
            Some(Piece::Rows(rows)) => Ok(Some(rows)),
            Some(Piece::End(outcome)) => {
                self.ended = true;
                outcome.map(|()| None)
            }
            None => Err(QueryError::Program("the query was given up".to_string())),
        }
    }
}

enum Stopped {
    Late,
    Error(QueryError),
}

impl<E: Into<QueryError>> From<E> for Stopped {
    fn from(error: E) -> Stopped {
        Stopped::Error(error.into())
    }
}

async fn speak(
    child: &mut Child,
    line: &[u8],
    pieces: &mpsc::Sender<Piece>,
) -> Result<(), Stopped> {
    let (Some(mut input), Some(mut output), Some(errors)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(QueryError::Program("a pipe is missing".to_string()).into());
    };
    // A child that ends before it has read everything says why on its own.
    let _ = input.write_all(line).await;
    let mut error_line = Vec::new();
    let read_errors = async {
        let mut limited = errors.take(ERROR_BYTES_MAX);
        limited.read_to_end(&mut error_line).await
    };
    let read_rows = async {
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            let length = output.read(&mut buffer).await?;
            if length == 0 {
                return Ok::<(), io::Error>(());
            }
            let rows = Bytes::copy_from_slice(&buffer[..length]);
            if pieces.send(Piece::Rows(rows)).await.is_err() {
                return Ok(());
            }
        }
    };
    let (errors_read, rows_read) = tokio::join!(read_errors, read_rows);
    errors_read?;
    rows_read?;
    let status = child.wait().await?;
    // Held open until here: its end would tell the child that we are gone.
    drop(input);
    if status.success() {
        return Ok(());
    }
    Err(outcome_of(&error_line, &status.to_string()))
}

fn outcome_of(error_line: &[u8], status: &str) -> Stopped {
    #[derive(serde::Deserialize)]
    struct ErrorLine {
        code: String,
        message: String,
    }
    let last = error_line
        .split(|byte| *byte == b'\n')
        .rfind(|line| !line.is_empty());
    let Some(Ok(error)) = last.map(serde_json::from_slice::<ErrorLine>) else {
        let text = String::from_utf8_lossy(error_line);
        return QueryError::Program(format!("{status} {}", text.trim())).into();
    };
    match error.code.as_str() {
        "statement_refused" => QueryError::Refused(error.message).into(),
        "sql_error" => QueryError::Sql(error.message).into(),
        "memory_exceeded" => QueryError::Memory(error.message).into(),
        "time_exceeded" => Stopped::Late,
        _ => QueryError::Program(error.message).into(),
    }
}

#[cfg(test)]
mod tests;
