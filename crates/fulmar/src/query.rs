//! SQL over a snapshot of the tables: what the server and a command beside no server share.

use std::collections::BTreeMap;
use std::path::Path;

use fulmar_gateway::http::Answer;
use fulmar_gateway::problem::problem;
use fulmar_store::query::{
    QueryError, QueryFormat, QueryLimits, QueryRequest, QueryRunner, QueryTable, QueryView,
};
use fulmar_store::{Lake, Table};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use crate::config::Config;

/// What dashboards ask of `events` again and again.
const SUMMARIES: [(&str, QueryView); 3] = [
    (
        "events_per_minute",
        QueryView {
            of: "events",
            sql: "SELECT project_id, date_trunc('minute', created_at) AS minute, \
                  count(*) AS events FROM events GROUP BY ALL",
        },
    ),
    (
        "event_names",
        QueryView {
            of: "events",
            sql: "SELECT project_id, name, count(*) AS events, min(created_at) AS first_seen, \
                  max(created_at) AS last_seen FROM events GROUP BY ALL",
        },
    ),
    (
        "daily_visitors",
        QueryView {
            of: "events",
            sql: "SELECT project_id, CAST(created_at AS DATE) AS day, \
                  count(DISTINCT profile_id) AS visitors FROM events GROUP BY ALL",
        },
    ),
];

/// `POST /v1/query`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryBody {
    /// One reading statement.
    pub sql: String,
    /// `table`, `json`, `csv`, `ndjson` or `parquet`.
    #[serde(default = "default_format")]
    pub format: String,
    /// Do not wait until what is durable now is stored.
    #[serde(default)]
    pub stale: bool,
    /// Show the rows of this project only.
    #[serde(default)]
    pub project: Option<String>,
}

fn default_format() -> String {
    "json".to_owned()
}

/// Finds the program and sets its limits.
pub fn runner(data: &Path, config: &Config) -> Result<QueryRunner, QueryError> {
    let limits = QueryLimits {
        memory_bytes: config.number("query.memory_max"),
        time_max: config.duration("query.timeout"),
        at_once_max: usize::try_from(config.number("query.concurrent_max")).unwrap_or(usize::MAX),
        ..QueryLimits::default()
    };
    match config.path("query.program") {
        Some(program) => Ok(QueryRunner::with_program(program, data, limits)),
        None => QueryRunner::find(data, limits),
    }
}

/// A request over the committed files of this moment, which stay until the query has ended.
pub fn request(lake: &Lake, body: &QueryBody) -> Result<QueryRequest, QueryError> {
    let format = QueryFormat::of_name(&body.format).ok_or_else(|| {
        let formats = "table, json, csv, ndjson and parquet";
        QueryError::Refused(format!(
            "no format `{}`; formats are {formats}",
            body.format
        ))
    })?;
    let snapshot = lake.snapshot();
    let mut tables = BTreeMap::new();
    for table in Table::ALL {
        let seen = QueryTable::of_snapshot(&snapshot, table)?;
        if table.is_versioned() {
            let name = format!("{}_latest", table.name());
            tables.insert(name, seen.clone().latest(table));
        }
        tables.insert(table.name().to_owned(), seen);
    }
    Ok(QueryRequest {
        sql: body.sql.clone(),
        format,
        tables,
        views: SUMMARIES.into_iter().collect(),
        project: body.project.clone(),
        held: Box::new(snapshot),
    })
}

/// A query that cannot be answered, as problem details.
pub fn refusal(error: &QueryError) -> Answer {
    let status = match error {
        QueryError::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
        QueryError::NoProgram { .. } => StatusCode::SERVICE_UNAVAILABLE,
        QueryError::Refused(_) | QueryError::Sql(_) => StatusCode::BAD_REQUEST,
        QueryError::Memory(_) | QueryError::Time(_) => StatusCode::UNPROCESSABLE_ENTITY,
        QueryError::Program(_) | QueryError::Io(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    problem(status, error.code(), &error.to_string())
}
