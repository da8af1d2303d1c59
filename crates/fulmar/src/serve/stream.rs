//! Answers of queries, as their rows come.

use std::io;

use bytes::Bytes;
use fulmar_gateway::http::{Answer, AnswerBody, answer as whole};
use fulmar_store::query::Answer as Rows;
use hyper::StatusCode;
use tokio::sync::mpsc;

use crate::query;

/// Pieces that wait for a slow client, 64 KiB each.
const PIECES_WAITING_MAX: usize = 4;

/// The answer in pieces. What fails before the first piece is a refusal; what fails later breaks
/// the connection, so that a part is never taken for the whole.
pub async fn answer(content_type: &'static str, mut rows: Rows) -> Answer {
    let first = match rows.next_piece().await {
        Ok(Some(piece)) => piece,
        Ok(None) => return whole(StatusCode::OK, content_type, Bytes::new()),
        Err(error) => return query::refusal(&error),
    };
    let (sender, receiver) = mpsc::channel(PIECES_WAITING_MAX);
    tokio::spawn(async move {
        let mut piece = Ok(first);
        loop {
            let last = piece.is_err();
            // A client that went away ends the query: dropping the rows stops it.
            if sender.send(piece).await.is_err() || last {
                return;
            }
            piece = match rows.next_piece().await {
                Ok(Some(piece)) => Ok(piece),
                Ok(None) => return,
                Err(error) => Err(io::Error::other(error.to_string())),
            };
        }
    });
    let mut response = whole(StatusCode::OK, content_type, Bytes::new());
    *response.body_mut() = AnswerBody::Streamed(receiver);
    response
}
