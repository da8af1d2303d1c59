//! Many deliveries or events sent again, in the background: page by page, with progress, until all
//! are done or somebody cancels it. A job goes on after a restart, and sends nothing twice: what
//! has an outcome since the job was made is left alone.

mod kept;
mod runner;

use std::collections::BTreeMap;

use hyper::{Method, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::prepared::{filters_of, given};
use super::retry::Filter;
use super::route::Route;
use super::{ApiError, Call, Reply, new_id};
use crate::admin::time_text;
use kept::{Job, Kind, Status};

pub use kept::Jobs;

pub fn routes(routes: &mut Vec<Route>) {
    let post = |path, told, handle| Route::new(Method::POST, path, told, handle);
    let told = (
        "retryBatch",
        "A job that sends those again that a filter takes",
    );
    let path = "/v1/consumers/{consumer}/deliveries:retryBatch";
    let route = post(path, told, retry_batch).takes::<Filter>();
    routes.push(route.gives::<JobView>(202));
    let told = ("retryBatchOfAll", "The same, of all consumers");
    let route = post("/v1/deliveries:retryBatch", told, retry_batch).takes::<Filter>();
    routes.push(route.gives::<JobView>(202));
    let told = (
        "repushEvents",
        "A job that pushes events anew to webhooks that match now and have not taken them",
    );
    let path = "/v1/consumers/{consumer}/events:rePush";
    let route = post(path, told, repush_batch).takes::<RepushBatch>();
    routes.push(route.gives::<JobView>(202));
    let told = ("repushAllEvents", "The same, of all consumers");
    let route = post("/v1/events:rePush", told, repush_batch).takes::<RepushBatch>();
    routes.push(route.gives::<JobView>(202));
    of_one(routes);
}

fn of_one(routes: &mut Vec<Route>) {
    let shown = |path, told| Route::new(Method::GET, path, told, show).gives::<JobView>(200);
    let cancelled = |path, told| {
        let route = Route::new(Method::POST, path, told, cancel);
        route.gives::<JobView>(200)
    };
    let told = ("getRetryJob", "How far a job of deliveries is");
    routes.push(shown("/v1/consumers/{consumer}/retry-jobs/{id}", told));
    let told = ("getAnyRetryJob", "The same, of whichever consumer");
    routes.push(shown("/v1/retry-jobs/{id}", told));
    let told = ("cancelRetryJob", "Ends it; what it has sent stays sent");
    routes.push(cancelled(
        "/v1/consumers/{consumer}/retry-jobs/{id}:cancel",
        told,
    ));
    let told = ("cancelAnyRetryJob", "The same, of whichever consumer");
    routes.push(cancelled("/v1/retry-jobs/{id}:cancel", told));
    let told = ("getRepushJob", "How far a job of events is");
    routes.push(shown("/v1/consumers/{consumer}/repush-jobs/{id}", told));
    let told = ("getAnyRepushJob", "The same, of whichever consumer");
    routes.push(shown("/v1/repush-jobs/{id}", told));
    let told = (
        "cancelRepushJob",
        "Ends it; what it has pushed stays pushed",
    );
    routes.push(cancelled(
        "/v1/consumers/{consumer}/repush-jobs/{id}:cancel",
        told,
    ));
    let told = ("cancelAnyRepushJob", "The same, of whichever consumer");
    routes.push(cancelled("/v1/repush-jobs/{id}:cancel", told));
}

/// Which events a job pushes anew, and to whom.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct RepushBatch {
    /// Of a list that was asked for with `prepare_repush=true`, in place of filters.
    repush_id: Option<String>,
    /// Events of this name.
    event: Option<String>,
    /// Whether the payload fitted its type's schema.
    schema_valid: Option<bool>,
    /// `name=value`, several by commas: all must be there.
    labels: Option<String>,
    /// At this time or later, RFC 3339.
    created_after: Option<String>,
    /// Before this time, RFC 3339.
    created_before: Option<String>,
    /// To this webhook alone.
    webhook_id: Option<String>,
    /// Also to webhooks that have taken them.
    force: bool,
}

/// How far a job is.
#[derive(Serialize, JsonSchema)]
struct JobView {
    job_id: String,
    /// `running`, `completed`, `cancelled` or `failed`.
    status: &'static str,
    /// Deliveries that it has sent again, or pushed.
    sent: u64,
    /// Deliveries looked at and left alone.
    skipped: u64,
    /// Why it failed.
    error: Option<String>,
    created_at: String,
    updated_at: String,
    completed_at: Option<String>,
}

impl JobView {
    fn of(job: Job) -> Self {
        let has_ended = job.status != Status::Running;
        Self {
            job_id: job.id,
            status: job.status.as_str(),
            sent: job.sent,
            skipped: job.skipped,
            error: job.error,
            created_at: time_text(job.created_ms),
            updated_at: time_text(job.updated_ms),
            completed_at: has_ended.then(|| time_text(job.updated_ms)),
        }
    }
}

fn retry_batch(call: &Call) -> Result<Reply, ApiError> {
    let asked: Filter = call.read_or_default()?;
    asked.is_of_all()?;
    start(call, Kind::Retry, asked.query()?, (None, asked.force))
}

fn repush_batch(call: &Call) -> Result<Reply, ApiError> {
    let asked: RepushBatch = call.read_or_default()?;
    let mut query = given(&[
        ("event", &asked.event),
        (
            "schema_valid",
            &asked.schema_valid.map(|valid| valid.to_string()),
        ),
        ("labels", &asked.labels),
        ("created_after", &asked.created_after),
        ("created_before", &asked.created_before),
    ]);
    if let Some(id) = &asked.repush_id {
        query = filters_of(id, &query)?;
    }
    start(call, Kind::Repush, query, (asked.webhook_id, asked.force))
}

fn start(
    call: &Call,
    kind: Kind,
    query: BTreeMap<String, String>,
    (webhook, force): (Option<String>, bool),
) -> Result<Reply, ApiError> {
    let job = Job {
        id: new_id("job", call.now_ms)?,
        kind,
        project: call.project.clone(),
        consumer: call.path.get("consumer").cloned(),
        query,
        webhook,
        force,
        before: call.api.reading.folds.deliveries.cut(),
        cursor: None,
        sent: 0,
        skipped: 0,
        status: Status::Running,
        error: None,
        created_ms: call.now_ms,
        updated_ms: call.now_ms,
    };
    runner::check(&call.api, &job)?;
    call.api.jobs.add(&job)?;
    Reply::with(StatusCode::ACCEPTED, &JobView::of(job))
}

/// The caller's job that the path names.
fn found(call: &Call, job: Option<Job>) -> Result<Job, ApiError> {
    let named = call.path.get("consumer");
    let own = job.filter(|job| named.is_none() || job.consumer.as_ref() == named);
    own.ok_or_else(|| ApiError::unknown("job", call.part("id")))
}

fn show(call: &Call) -> Result<Reply, ApiError> {
    let job = call.api.jobs.get(&call.project, call.part("id"))?;
    Reply::ok(&JobView::of(found(call, job)?))
}

fn cancel(call: &Call) -> Result<Reply, ApiError> {
    let job = call
        .api
        .jobs
        .change(&call.project, call.part("id"), |job| {
            let job_of_path = found(call, Some(job.clone()))?;
            if job_of_path.status == Status::Running {
                job.status = Status::Cancelled;
                job.updated_ms = call.now_ms;
            }
            Ok(())
        })?;
    Reply::ok(&JobView::of(found(call, job)?))
}
