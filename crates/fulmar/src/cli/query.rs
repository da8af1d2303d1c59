//! `fulmar query`: SQL over the tables.

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use http_body_util::BodyExt as _;
use hyper::Method;

use super::output::{note, to_terminal};
use fulmar_store::Lake;

use crate::client::{BEHIND_HEADER, Client, read_whole, refusal};
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::exit::{Context as _, Exit, Failure, Outcome};
use crate::node::{LostControl, Node, Tables, block_on};
use crate::place::{Place, PlaceArgs};
use crate::query::{self, QueryBody};

/// Longest statement that is read from standard input, in bytes.
const STATEMENT_BYTES_MAX: u64 = 256 << 10;

/// Ask the tables with SQL. Everything durable when it is asked is in the answer.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar query \"select auth_outcome, count(*) from security_events group by 1\"\n  \
    fulmar query --format json \"select * from messages order by event_time desc limit 10\"\n  \
    fulmar query --format parquet \"select * from security_events\" > events.parquet\n  \
    echo \"select 1\" | fulmar query -\n\n\
    Tables: security_events, messages. One reading statement; 512 MiB, 30 s. Without a running\n\
    server the folder itself is read, under its lock.")]
pub struct QueryArgs {
    /// The statement; `-` reads it from standard input.
    sql: String,
    #[command(flatten)]
    place: PlaceArgs,
    /// How rows are printed; default table on a terminal, else json.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Do not wait until what is durable now is stored.
    #[arg(long)]
    stale: bool,
    /// Show the rows of this project only.
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Table,
    Json,
    Csv,
    Ndjson,
    Parquet,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
            Self::Parquet => "parquet",
        }
    }
}

impl QueryArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let format = self.format.unwrap_or(match to_terminal() {
            true => Format::Table,
            false => Format::Json,
        });
        if matches!(format, Format::Parquet) && to_terminal() {
            return Err(Failure::usage("Parquet is no text: send it into a file"));
        }
        let body = QueryBody {
            sql: self.statement()?,
            format: format.name().to_owned(),
            stale: self.stale,
            project: self.project.clone(),
        };
        ask(&self.place, &body, &mut print)?;
        Ok(Exit::Done)
    }

    fn statement(&self) -> Result<String, Failure> {
        if self.sql != "-" {
            return Ok(self.sql.clone());
        }
        let mut text = String::new();
        std::io::stdin()
            .lock()
            .take(STATEMENT_BYTES_MAX)
            .read_to_string(&mut text)?;
        Ok(text)
    }
}

/// What is done with each piece of an answer; false when no more is wanted.
type Take<'t> = &'t mut dyn FnMut(&[u8]) -> Result<bool, Failure>;

/// Asks the server, or the folder itself, and gives the answer away piece by piece.
pub fn ask(place: &PlaceArgs, body: &QueryBody, take: Take<'_>) -> Result<(), Failure> {
    match place.resolve()? {
        Place::Server(client) => block_on(of_server(&client, body, take))?,
        Place::Folder(data, _lock) if data.is_replayed() => {
            let tables = Tables::open(&data)?;
            of_lake(&data, &tables.config, &tables.lake, body, take)
        }
        Place::Folder(data, lock) => {
            let node = Node::open_as_made(data, lock, LostControl::Refuse)?;
            let answered = of_folder(&node, body, take);
            node.close();
            answered
        }
    }
}

async fn of_server(client: &Client, body: &QueryBody, take: Take<'_>) -> Result<(), Failure> {
    let bytes = Bytes::from(serde_json::to_vec(body)?);
    let mut response = client
        .send(Method::POST, "/v1/query", "application/json", bytes)
        .await?;
    if !response.status().is_success() {
        let status = response.status();
        return Err(refusal(status, &read_whole(response).await?));
    }
    if let Some(records) = response.headers().get(BEHIND_HEADER) {
        let records = records.to_str().unwrap_or("some");
        note(format!(
            "the answer lacks {records} records that were durable when it was asked: the writer is \
             behind, see `fulmar status`"
        ));
    }
    while let Some(frame) = response.body_mut().frame().await {
        let frame = frame.context("the answer broke off")?;
        if let Ok(piece) = frame.into_data()
            && !take(&piece)?
        {
            return Ok(());
        }
    }
    Ok(())
}

fn of_folder(node: &Node, body: &QueryBody, take: Take<'_>) -> Result<(), Failure> {
    if !body.stale && !node.store_all()? {
        note("the writer could not reach the log's end; the answer is of what is stored");
    }
    of_lake(&node.data, &node.config, &node.lake, body, take)
}

fn of_lake(
    data: &DataDir,
    config: &Config,
    lake: &Lake,
    body: &QueryBody,
    take: Take<'_>,
) -> Result<(), Failure> {
    block_on(async {
        let runner = query::runner(data.root(), config)?;
        let mut answer = runner.start(query::request(lake, body)?).await?;
        while let Some(piece) = answer.next_piece().await? {
            if !take(&piece)? {
                break;
            }
        }
        Ok(())
    })?
}

/// Prints a piece; false when the reader went away, as `head` does.
fn print(piece: &[u8]) -> Result<bool, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(piece).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(format!("cannot print: {error}"))),
    }
}
