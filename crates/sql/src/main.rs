//! Runs one SQL statement over a list of files, confined.
//!
//! Reads one line of JSON (`request.rs`), prints the rows on standard output and, when
//! something goes wrong, one line of JSON on standard error.

mod answer;
mod database;
mod failure;
mod fence;
mod format;
mod hidden;
mod instant;
mod request;
mod statement;
mod value;

use std::collections::BTreeSet;
use std::io;
use std::process::ExitCode;
use std::time::Instant;

use failure::Failure;
use fence::Watchdog;
use request::Request;

const HELP: &str = "\
fulmar-sql runs one statement of SQL over a list of Parquet files, confined. It is the program
behind `fulmar query`, which is what people want to call.

It takes no arguments: one line of JSON on standard input names the statement, the tables and
their files, the format and the limits. Rows go to standard output; an error is one line of JSON
on standard error.

  echo '{\"sql\":\"SELECT 1 AS one\",\"format\":\"json\",\"memory_bytes\":268435456,\"timeout_ms\":10000}' \\
    | fulmar-sql";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        None => {}
        Some("-h" | "--help") => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Some("-V" | "--version") => {
            println!("fulmar-sql {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Some(other) => {
            eprintln!("fulmar-sql takes no argument `{other}`: see fulmar-sql --help");
            return ExitCode::from(64);
        }
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}", failure.to_line());
            ExitCode::from(failure.exit_status())
        }
    }
}

fn run() -> Result<(), Failure> {
    let started = Instant::now();
    let request = Request::read(&mut io::stdin().lock())?;
    fence::limit_process(&request);
    if request.until_stdin_closes {
        fence::end_with_stdin();
    }
    if let Some(folder) = &request.folder {
        std::env::set_current_dir(folder).map_err(|error| {
            Failure::BadRequest(format!("cannot enter {}: {error}", folder.display()))
        })?;
    }
    let connection = database::open_confined(&request)?;
    let watchdog = Watchdog::start(request.timeout_ms, connection.interrupt_handle());
    let result = query(&connection, &request);
    watchdog.stop();
    let late = started.elapsed().as_millis() >= u128::from(request.timeout_ms);
    match result {
        Err(Failure::Sql(text)) if late && text.contains("INTERRUPT") => {
            Err(Failure::Time(request.timeout_ms))
        }
        other => other,
    }
}

fn query(connection: &duckdb::Connection, request: &Request) -> Result<(), Failure> {
    let project = request.project.is_some();
    let mut known: BTreeSet<String> = request
        .tables
        .iter()
        .filter(|(_, table)| !project || table.project_column.is_some())
        .map(|(name, _)| name.clone())
        .collect();
    let views = request.views.iter();
    let views = views.filter(|(_, view)| known.contains(&view.of));
    known.extend(views.map(|(name, _)| name.clone()).collect::<Vec<_>>());
    let answered = statement::examine(connection, &request.sql, &known, project).and_then(|sql| {
        database::create_views(connection, request, sql.tables.as_ref())?;
        answer::print(connection, request, &sql)
    });
    answered.map_err(|failure| failure.naming_tables(&known))
}
