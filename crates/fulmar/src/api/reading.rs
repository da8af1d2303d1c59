//! Rows for answers: SQL over the tables, after everything durable is in them (D6).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fulmar_event::EventView;
use fulmar_flow::{FoldHandle, State};
use fulmar_log::{Journal, LogError};
use fulmar_store::Lake;
use fulmar_store::query::QueryRunner;
use fulmar_webhooks::matching::Indexes;
use fulmar_webhooks::occurrence::Occurrence;
use fulmar_webhooks::sender::SenderHandle;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;

use super::ApiError;
use crate::folds::{CUT_WAIT, Folds, reach};
use crate::query::{self, QueryBody};

/// How long a list of deliveries waits until the sender has read what is durable.
const SENDER_WAIT: Duration = Duration::from_secs(5);

/// What rows are read with.
pub struct Reading {
    /// The tables.
    pub lake: Lake,
    /// Runs SQL, or why none can run.
    pub runner: Result<QueryRunner, String>,
    /// What fills the tables.
    pub folds: Folds,
    /// What sends deliveries.
    pub sender: Arc<SenderHandle>,
    /// What knows how receivers do.
    pub health: FoldHandle,
    /// Where it keeps those that are not decided.
    pub state: Arc<State>,
    /// Their events.
    pub events: Arc<Journal>,
    /// Shared by each call that listens for events.
    pub listeners: Arc<()>,
    /// What events matched when they came.
    pub matched: Mutex<Indexes>,
}

impl Reading {
    /// The rows of a statement, of one project, with all that was durable at the call. Blocks.
    pub fn rows<T: DeserializeOwned>(
        &self,
        project: &str,
        sql: String,
    ) -> Result<Vec<T>, ApiError> {
        let runner = self.runner.as_ref().map_err(|why| {
            let told = format!("no query can run: {why}");
            ApiError::Unavailable(told)
        })?;
        let body = QueryBody {
            sql,
            format: "json".to_owned(),
            stale: true,
            project: Some(project.to_owned()),
        };
        let answer = async {
            self.folds.cut_and_wait(CUT_WAIT).await;
            let request = query::request(&self.lake, &body)?;
            let mut rows = runner.start(request).await?;
            let mut text = Vec::new();
            while let Some(piece) = rows.next_piece().await? {
                text.extend_from_slice(&piece);
            }
            Ok::<_, ApiError>(text)
        };
        let text = Handle::current().block_on(answer)?;
        let failed = |error: serde_json::Error| ApiError::Failed(error.to_string());
        serde_json::from_slice(&text).map_err(failed)
    }

    /// What a function reads of the event at an offset; none for one that the log does not have any
    /// more.
    pub fn event<T>(
        &self,
        offset: u64,
        read: impl FnOnce(&Occurrence<'_>) -> T,
    ) -> Result<Option<T>, ApiError> {
        let chunk = match self.events.read(offset, 1) {
            Ok(chunk) => chunk,
            Err(LogError::OutOfRange { .. }) => None,
            Err(error) => return Err(ApiError::Failed(error.to_string())),
        };
        let mut records = chunk.iter().flatten();
        let record = records.find(|record| record.offset == offset);
        let view = record
            .as_ref()
            .and_then(|record| EventView::parse(record.bytes).ok());
        let event = view.as_ref().and_then(Occurrence::of);
        Ok(event.as_ref().map(read))
    }

    /// Waits until the sender's committed state is of all events before an offset. False when it is
    /// further behind than that. Blocks.
    pub fn is_matched(&self, before: u64) -> bool {
        Handle::current().block_on(self.sender.settled(before, SENDER_WAIT))
    }

    /// Waits until every outcome that is durable now stands in the health of its webhook. False
    /// when that takes too long. Blocks.
    pub fn settle_health(&self) -> bool {
        let reached = reach(&self.health, CUT_WAIT);
        Handle::current().block_on(reached).stored
    }

    /// Waits until what is undecided of the events that are durable now is in committed state.
    /// False when the sender is further behind than that. Blocks.
    pub fn settle(&self) -> bool {
        self.is_matched(self.events.end())
    }
}

/// A text in SQL.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A moment in SQL.
pub fn moment(ms: i64) -> String {
    format!("make_timestamptz({ms} * 1000)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_one_text() {
        assert_eq!(quoted("it's"), "'it''s'");
        assert_eq!(quoted("'; drop table x --"), "'''; drop table x --'");
        assert_eq!(quoted("\\'"), "'\\'''");
    }
}
