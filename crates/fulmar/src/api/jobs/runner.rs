//! The thread that does jobs, one after another, a page at a time.

use std::time::Duration;

use fulmar_store::query::QueryError;
use serde_json::Value;
use tokio::runtime::Handle;

use super::super::paging::Page;
use super::super::repush::{self, Pushing};
use super::super::retry::{self, Batch};
use super::super::{Api, ApiError, Call, delivery_filter, events};
use super::kept::{Job, Jobs, Kind, Status};
use crate::admin::now_ms;

/// Items of a page.
const PAGE_OF_DELIVERIES: &str = "1000";
const PAGE_OF_EVENTS: &str = "200";
/// After a page that could not be done now, until the next try.
const TRY_AGAIN: Duration = Duration::from_secs(1);

impl Jobs {
    /// Goes on with what has not ended, and with what comes, on a thread of its own, until
    /// [`Jobs::stop`].
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(&self, api: Api, runtime: &Handle) -> std::io::Result<()> {
        let runtime = runtime.clone();
        let thread = std::thread::Builder::new().name("jobs".to_owned());
        let thread = thread.spawn(move || {
            let _inside = runtime.enter();
            while !api.jobs.is_stopping() {
                match step(&api) {
                    Ok(true) => {}
                    Ok(false) => runtime.block_on(api.jobs.changed()),
                    Err(error) => {
                        tracing::warn!(%error, "a job waits");
                        std::thread::sleep(TRY_AGAIN);
                    }
                }
            }
        })?;
        self.runs_on(thread);
        Ok(())
    }
}

/// Does a page of the oldest job; false when there is none.
fn step(api: &Api) -> Result<bool, ApiError> {
    let Some(job) = api.jobs.next()? else {
        return Ok(false);
    };
    let page = match page(api, &job) {
        Err(error) if passes(&error) => return Err(error),
        done => done,
    };
    api.jobs.change(&job.project, &job.id, |now| {
        now.updated_ms = now_ms();
        match page {
            Ok(page) => {
                now.sent += page.done as u64;
                now.skipped += page.skipped as u64;
                let has_more = page.next_cursor.is_some();
                now.cursor = page.next_cursor;
                // Whoever cancelled it meanwhile has the last word.
                if !has_more && now.status == Status::Running {
                    now.status = Status::Completed;
                }
            }
            Err(error) => {
                now.status = Status::Failed;
                now.error = Some(error.to_string());
            }
        }
        Ok(())
    })?;
    Ok(true)
}

/// Whether a page may well be done later.
fn passes(error: &ApiError) -> bool {
    use QueryError::{Busy, Io, Program, Time};
    matches!(
        error,
        ApiError::Unavailable(_) | ApiError::Query(Busy(_) | Io(_) | Program(_) | Time(_))
    )
}

/// The call that a page of a job comes to.
fn asked(api: &Api, job: &Job) -> Call {
    let consumer = job.consumer.iter();
    let consumer = consumer.map(|name| ("consumer".to_owned(), name.clone()));
    let mut query = job.query.clone();
    let limit = match job.kind {
        Kind::Retry => PAGE_OF_DELIVERIES,
        Kind::Repush => PAGE_OF_EVENTS,
    };
    query.insert("limit".to_owned(), limit.to_owned());
    if let Some(cursor) = &job.cursor {
        query.insert("cursor".to_owned(), cursor.clone());
    }
    Call {
        api: api.clone(),
        project: job.project.clone(),
        path: consumer.collect(),
        query,
        body: Value::Null,
        now_ms: now_ms(),
    }
}

/// That its filters are such.
pub fn check(api: &Api, job: &Job) -> Result<(), ApiError> {
    let asked = asked(api, job);
    let page = Page::of(&asked)?;
    match job.kind {
        Kind::Retry => delivery_filter::Wanted::of(&asked, &page).map(drop),
        Kind::Repush => events::conditions(&asked, &page).map(drop),
    }
}

fn page(api: &Api, job: &Job) -> Result<Batch, ApiError> {
    let asked = asked(api, job);
    match job.kind {
        Kind::Retry => retry::page(&asked, job.before),
        Kind::Repush => {
            let pushing = Pushing {
                webhook: job.webhook.as_deref(),
                force: job.force,
                before: job.before,
            };
            repush::page(&asked, &pushing)
        }
    }
}
