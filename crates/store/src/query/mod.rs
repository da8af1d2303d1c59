//! SQL over the tables: runs `fulmar-sql`, confined, and streams what it prints (G3).
//!
//! The program is a child process of its own per query: limits hold by killing it, and
//! whatever a statement does to it, the server goes on.

mod child;
mod runner;
mod spill;
mod table;

use std::any::Any;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

pub use child::Answer;
pub use runner::QueryRunner;
pub use spill::remove_spills;
pub use table::QueryTable;

/// What one query may use, and how many run at once.
#[derive(Debug, Clone)]
pub struct QueryLimits {
    /// Bytes of memory of one query; beyond it spills, or fails where it cannot.
    pub memory_bytes: u64,
    /// Time of one query, its answer's reading included.
    pub time_max: Duration,
    /// Queries that run at the same time; one more is told to come again.
    pub at_once_max: usize,
    /// Threads of one query.
    pub threads: u32,
    /// Bytes that one query may spill to disk.
    pub spill_bytes_max: u64,
}

impl Default for QueryLimits {
    /// 512 MiB, 30 s, four at once: beside a server whose own ceiling is 512 MiB, four
    /// full queries still leave a machine of 4 GiB room.
    fn default() -> QueryLimits {
        QueryLimits {
            memory_bytes: 512 << 20,
            time_max: Duration::from_secs(30),
            at_once_max: 4,
            threads: 2,
            spill_bytes_max: 4 << 30,
        }
    }
}

/// Why there is no answer, or no more of one.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// As many queries run as may.
    #[error("{0} queries run already, which is as many as may; try again")]
    Busy(usize),
    /// `fulmar-sql` is not there.
    #[error(
        "cannot find fulmar-sql (looked at {looked_at}); it belongs beside fulmar: \
         `make build` builds both, or set FULMAR_SQL to its path"
    )]
    NoProgram {
        /// The places that were tried.
        looked_at: String,
    },
    /// The statement is none that may run.
    #[error("{0}")]
    Refused(String),
    /// The statement has a fault.
    #[error("{0}")]
    Sql(String),
    /// The query needed more than its memory.
    #[error("{0}")]
    Memory(String),
    /// The query took too long and was ended.
    #[error("the query took longer than {} ms and was ended", .0.as_millis())]
    Time(Duration),
    /// The program failed in a way that is no answer.
    #[error("fulmar-sql failed: {0}")]
    Program(String),
    /// The program could not be run or spoken to.
    #[error("cannot run fulmar-sql: {0}")]
    Io(#[from] std::io::Error),
}

impl QueryError {
    /// The stable name of the error, for problem details and programs.
    pub fn code(&self) -> &'static str {
        match self {
            QueryError::Busy(_) => "query_busy",
            QueryError::NoProgram { .. } => "query_unavailable",
            QueryError::Refused(_) => "statement_refused",
            QueryError::Sql(_) => "sql_error",
            QueryError::Memory(_) => "query_memory_exceeded",
            QueryError::Time(_) => "query_time_exceeded",
            QueryError::Program(_) | QueryError::Io(_) => "query_failed",
        }
    }
}

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum QueryFormat {
    /// Aligned columns for a terminal.
    Table,
    /// One array of objects.
    Json,
    /// RFC 4180 with a header.
    Csv,
    /// One object a line.
    Ndjson,
    /// One file of Parquet.
    Parquet,
}

impl QueryFormat {
    /// The format of a name, as `--format` takes it.
    pub fn of_name(name: &str) -> Option<QueryFormat> {
        Some(match name {
            "table" => QueryFormat::Table,
            "json" => QueryFormat::Json,
            "csv" => QueryFormat::Csv,
            "ndjson" => QueryFormat::Ndjson,
            "parquet" => QueryFormat::Parquet,
            _ => return None,
        })
    }

    /// The media type of an answer in this format.
    pub fn content_type(self) -> &'static str {
        match self {
            QueryFormat::Table => "text/plain; charset=utf-8",
            QueryFormat::Json => "application/json",
            QueryFormat::Csv => "text/csv; charset=utf-8",
            QueryFormat::Ndjson => "application/x-ndjson",
            QueryFormat::Parquet => "application/vnd.apache.parquet",
        }
    }
}

/// A view over one table.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct QueryView {
    /// The table.
    pub of: &'static str,
    /// The statement that it stands for.
    pub sql: &'static str,
}

/// A statement and the tables that it may see.
pub struct QueryRequest {
    /// The statement.
    pub sql: String,
    /// How its rows are printed.
    pub format: QueryFormat,
    /// The tables, by name.
    pub tables: BTreeMap<String, QueryTable>,
    /// Views over them, by name.
    pub views: BTreeMap<&'static str, QueryView>,
    /// Show the rows of this project only.
    pub project: Option<String>,
    /// Kept until the query has ended: the snapshot that holds the files.
    pub held: Box<dyn Any + Send>,
}
