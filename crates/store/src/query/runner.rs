//! Starts queries: finds the program, counts what runs, hands over the tables.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use tokio::process::{Child, Command};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::child::Answer;
use super::spill::Spill;
use super::{QueryError, QueryFormat, QueryLimits, QueryRequest, QueryTable, QueryView};

/// Runs queries within their limits.
#[derive(Debug, Clone)]
pub struct QueryRunner {
    program: PathBuf,
    folder: PathBuf,
    limits: QueryLimits,
    running: Arc<Semaphore>,
    started: Arc<AtomicU64>,
}

impl QueryRunner {
    /// Finds `fulmar-sql`: by `FULMAR_SQL`, else beside the running program. Files below
    /// `folder` (the data folder) are passed relative to it, so that its name may hold
    /// characters that SQL takes for a pattern; spills go to `folder/spill`.
    pub fn find(folder: &Path, limits: QueryLimits) -> Result<QueryRunner, QueryError> {
        let program = find_program()?;
        Ok(QueryRunner::with_program(program, folder, limits))
    }

    /// The same with the program given.
    pub fn with_program(program: PathBuf, folder: &Path, limits: QueryLimits) -> QueryRunner {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
        let running = Arc::new(Semaphore::new(limits.at_once_max));
        QueryRunner {
            program,
            folder,
            limits,
            running,
            started: Arc::default(),
        }
    }

    /// Queries that run now.
    pub fn running(&self) -> usize {
        self.limits.at_once_max - self.running.available_permits()
    }

    /// Starts a query. The first piece of its answer says whether it can be answered.
    ///
    /// Must be called within a tokio runtime. Fails with [`QueryError::Busy`] at once when
    /// as many queries run as may.
    pub async fn start(&self, request: QueryRequest) -> Result<Answer, QueryError> {
        let permit = Arc::clone(&self.running)
            .try_acquire_owned()
            .map_err(|_| QueryError::Busy(self.limits.at_once_max))?;
        let deadline = Instant::now() + self.limits.time_max;
        let spill = Spill::create(&self.folder, self.started.fetch_add(1, Ordering::Relaxed));
        let line = self.request_line(&request, spill.as_ref())?;
        let child = self.spawn()?;
        let held = Running {
            _permit: permit,
            _spill: spill,
            _held: request.held,
        };
        Ok(Answer::of(child, line, deadline, Box::new(held)))
    }

    fn request_line(
        &self,
        request: &QueryRequest,
        spill: Option<&Spill>,
    ) -> Result<Vec<u8>, QueryError> {
        let mut tables = request.tables.clone();
        for file in tables.values_mut().flat_map(QueryTable::every_file) {
            let relative = Path::new(file).strip_prefix(&self.folder).ok();
            if let Some(relative) = relative.and_then(Path::to_str) {
                *file = relative.to_string();
            }
        }
        let line = RequestLine {
            sql: &request.sql,
            format: request.format,
            tables: &tables,
            views: &request.views,
            folder: &self.folder,
            memory_bytes: self.limits.memory_bytes,
            timeout_ms: u64::try_from(self.limits.time_max.as_millis()).unwrap_or(u64::MAX),
            threads: self.limits.threads,
            temp_dir: spill.map(|spill| spill.folder.as_path()),
            temp_bytes_max: self.limits.spill_bytes_max,
            project: request.project.as_deref(),
            until_stdin_closes: true,
        };
        let mut text = serde_json::to_vec(&line)
            .map_err(|error| QueryError::Program(format!("the request has no JSON: {error}")))?;
        text.push(b'\n');
        Ok(text)
    }

    fn spawn(&self) -> Result<Child, QueryError> {
        let child = Command::new(&self.program)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        Ok(child)
    }
}

#[derive(Serialize)]
struct RequestLine<'a> {
    sql: &'a str,
    format: QueryFormat,
    tables: &'a BTreeMap<String, QueryTable>,
    views: &'a BTreeMap<&'static str, QueryView>,
    folder: &'a Path,
    memory_bytes: u64,
    timeout_ms: u64,
    threads: u32,
    temp_dir: Option<&'a Path>,
    temp_bytes_max: u64,
    project: Option<&'a str>,
    until_stdin_closes: bool,
}

/// What is given back when the query has ended.
struct Running {
    _permit: OwnedSemaphorePermit,
    _spill: Option<Spill>,
    _held: Box<dyn Any + Send>,
}

fn find_program() -> Result<PathBuf, QueryError> {
    let mut looked_at = Vec::new();
    if let Some(path) = std::env::var_os("FULMAR_SQL") {
        looked_at.push(PathBuf::from(path));
    } else if let Ok(this) = std::env::current_exe() {
        let name = format!("fulmar-sql{}", std::env::consts::EXE_SUFFIX);
        // Tests run one folder below the programs.
        looked_at.extend(
            this.ancestors()
                .skip(1)
                .take(2)
                .map(|folder| folder.join(&name)),
        );
    }
    if let Some(found) = looked_at.iter().find(|path| path.is_file()) {
        return Ok(found.clone());
    }
    let looked_at: Vec<String> = looked_at.iter().map(|p| p.display().to_string()).collect();
    Err(QueryError::NoProgram {
        looked_at: looked_at.join(", "),
    })
}
