//! What can go wrong with a query, as a code, an exit status and one line of JSON.

use std::collections::BTreeSet;
use std::io;

/// Why a request has no (whole) answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The request itself is not one.
    #[error("{0}")]
    BadRequest(String),
    /// The statement is none that may run here (G3).
    #[error("{0}")]
    Refused(String),
    /// DuckDB could not parse, bind or run the statement.
    #[error("{0}")]
    Sql(String),
    /// The query needed more than its memory.
    #[error("the query needs more than its {mib} MiB of memory: {detail}")]
    Memory {
        /// The limit, in MiB.
        mib: u64,
        /// What DuckDB said.
        detail: String,
    },
    /// The query ran out of time.
    #[error("the query took longer than its {0} ms")]
    Time(u64),
    /// Nobody takes the answer any more.
    #[error("cannot write the answer: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// Where a table is asked for that does not exist, says which ones do.
    pub fn naming_tables(self, known: &BTreeSet<String>) -> Failure {
        match self {
            Failure::Sql(text)
                if text.contains("Table with name") && text.contains("does not exist") =>
            {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                Failure::Sql(format!("{text}\n\nThe tables are {}.", known.join(", ")))
            }
            other => other,
        }
    }

    /// The stable name of the failure, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Failure::BadRequest(_) => "bad_request",
            Failure::Refused(_) => "statement_refused",
            Failure::Sql(_) => "sql_error",
            Failure::Memory { .. } => "memory_exceeded",
            Failure::Time(_) => "time_exceeded",
            Failure::Output(_) => "output_failed",
        }
    }

    /// The exit status that says the same.
    pub fn exit_status(&self) -> u8 {
        match self {
            Failure::BadRequest(_) => 64,
            Failure::Sql(_) => 2,
            Failure::Refused(_) => 3,
            Failure::Memory { .. } => 4,
            Failure::Time(_) => 5,
            Failure::Output(_) => 74,
        }
    }

    /// `{"code":…,"message":…}` on one line, without the line's end.
    pub fn to_line(&self) -> String {
        let line = serde_json::json!({ "code": self.code(), "message": self.to_string() });
        line.to_string()
    }

    /// Sorts an error of DuckDB by what it says.
    pub fn from_duckdb(error: &duckdb::Error, memory_bytes: u64) -> Failure {
        let text = error.to_string();
        if text.contains("Out of Memory Error") || text.contains("bad_alloc") {
            let mib = memory_bytes >> 20;
            return Failure::Memory {
                mib,
                detail: first_line(&text),
            };
        }
        if text.contains("disabled by configuration")
            || text.contains("disabled through configuration")
        {
            let first = first_line(&text);
            return Failure::Refused(format!("only the tables can be read here ({first})"));
        }
        Failure::Sql(text.trim().to_string())
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_string()
}
