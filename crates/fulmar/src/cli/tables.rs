//! `fulmar lake` and `fulmar quarantine`.

use clap::{Args, Subcommand};
use fulmar_store::Table;
use serde_json::{Value, json};

use super::output::{note, print_json, print_line, print_members, print_table};
use crate::admin::{LakeRequest, QuarantineRequest};
use crate::exit::{Exit, Outcome};
use crate::node::{ask, block_on};
use crate::place::{Place, PlaceArgs};
use crate::query::QueryBody;

/// The tables' files.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar lake files --json     # the exact list of one snapshot\n  \
    fulmar lake check            # reads every listed file\n  \
    fulmar lake digest           # what the tables hold, as one number each\n  \
    fulmar lake compact          # merges all that can be merged, now\n\n\
    tables/TABLE/day=YYYY-MM-DD/*.parquet in the data folder is plain Parquet for any tool.")]
pub struct LakeArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(subcommand)]
    command: LakeCommand,
}

#[derive(Subcommand, Debug)]
enum LakeCommand {
    /// List the files of one snapshot.
    Files {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Store what is durable now, then merge all that can be merged.
    Compact {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Count and digest the rows of each table, of versions the last: two folders with one digest
    /// hold the same rows.
    Digest {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Read every listed file; exit code 10 when one is damaged.
    Check {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Longest wait for the writer before a compaction, in milliseconds: a block is stored in far
/// less, and a writer that stands still must not keep the rest from being merged.
const STORE_WAIT_MS: u64 = 30_000;

impl LakeArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        match self.command {
            LakeCommand::Files { json } => {
                let answer = ask(&self.place, "lake", &LakeRequest::Files {})?;
                let columns = [
                    "table",
                    "level",
                    "day",
                    "rows",
                    "bytes",
                    "offset_min",
                    "offset_max",
                    "path",
                ];
                match json {
                    true => print_json(&answer["files"]),
                    false => print_table(&answer["files"], &columns),
                }
            }
            LakeCommand::Compact { json } => self.compact(json),
            LakeCommand::Digest { json } => self.digest(json),
            LakeCommand::Check { json } => self.check(json),
        }
    }

    fn compact(&self, json: bool) -> Outcome {
        if let Place::Server(client) = self.place.resolve()? {
            let wait = json!({ "wait_ms": STORE_WAIT_MS });
            let reached = block_on(client.post_json("/v1/admin/drain", &wait))??;
            if reached["stored"] != json!(true) {
                note("the writer has not stored all yet: what it has is merged");
            }
        }
        let answer = ask(&self.place, "lake", &LakeRequest::Compact {})?;
        if json {
            return print_json(&answer);
        }
        print_line(&format!(
            "{} merges of {} rows: {} files became {}; {} rows removed as repeats, {} for their age, \
             {} as deleted",
            answer["merges"],
            answer["rows"],
            answer["files_before"],
            answer["files_after"],
            answer["repeats_removed"],
            answer["rows_expired"],
            answer["rows_forgotten"],
        ))
    }

    fn digest(&self, json: bool) -> Outcome {
        let mut answer = Vec::new();
        super::query::ask(&self.place, &digest_query(), &mut |piece| {
            answer.extend_from_slice(piece);
            Ok(true)
        })?;
        let rows: Value = serde_json::from_slice(&answer)?;
        match json {
            true => print_json(&rows),
            false => print_table(&rows, &["table", "rows", "digest"]),
        }
    }

    fn check(&self, json: bool) -> Outcome {
        let answer = ask(&self.place, "lake", &LakeRequest::Check {})?;
        let problems = answer["problems"].as_array().map_or(&[][..], Vec::as_slice);
        if json {
            print_json(&answer)?;
        } else {
            for problem in problems.iter().filter_map(Value::as_str) {
                print_line(problem)?;
            }
            print_line(&format!(
                "{} files with {} rows and {} bytes read, {} of them damaged",
                answer["files"],
                answer["rows"],
                answer["bytes"],
                problems.len(),
            ))?;
        }
        Ok(match problems.is_empty() {
            true => Exit::Done,
            false => Exit::Damage,
        })
    }
}

/// The sum of the rows' hashes, which knows of no order; of versions, the last alone (S2).
fn digest_query() -> QueryBody {
    let of_table = |table: Table| {
        let name = table.name();
        let latest = if table.is_versioned() { "_latest" } else { "" };
        format!(
            "select '{name}{latest}' as \"table\", count(*) as rows, \
             coalesce(sum(hash(t)::hugeint), 0)::varchar as digest from {name}{latest} t"
        )
    };
    let each: Vec<String> = Table::ALL.into_iter().map(of_table).collect();
    QueryBody {
        sql: each.join(" union all ") + " order by 1",
        format: "json".to_owned(),
        stale: false,
        project: None,
    }
}

/// Records that could not be stored, with their original bytes.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar quarantine list\n  \
    fulmar quarantine show 17\n  \
    fulmar quarantine replay 17     # appends the original bytes again, as a new record")]
pub struct QuarantineArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(subcommand)]
    command: QuarantineCommand,
}

#[derive(Subcommand, Debug)]
enum QuarantineCommand {
    /// List the latest records, oldest first.
    List {
        /// How many.
        #[arg(long, default_value_t = 100)]
        count: usize,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one record with its original bytes, in hex.
    Show {
        /// Its id, as the list shows it.
        id: u64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Append the original bytes to the log again.
    Replay {
        /// Ids, as the list shows them.
        #[arg(required = true)]
        ids: Vec<u64>,
    },
}

impl QuarantineArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        match self.command {
            QuarantineCommand::List { count, json } => {
                let answer = ask(
                    &self.place,
                    "quarantine",
                    &QuarantineRequest::List { count },
                )?;
                let rows = &answer["quarantine"];
                if json {
                    return print_json(rows);
                }
                if rows.as_array().is_some_and(Vec::is_empty) {
                    note("the quarantine is empty");
                    return Ok(Exit::Done);
                }
                print_table(
                    rows,
                    &["id", "time", "topic", "offset", "reason", "detail", "bytes"],
                )
            }
            QuarantineCommand::Show { id, json } => {
                let shown = ask(&self.place, "quarantine", &QuarantineRequest::Show { id })?;
                match json {
                    true => print_json(&shown),
                    false => print_members(&shown),
                }
            }
            QuarantineCommand::Replay { ids } => {
                for id in ids {
                    let request = QuarantineRequest::Replay { id };
                    print_json(&ask(&self.place, "quarantine", &request)?)?;
                }
                Ok(Exit::Done)
            }
        }
    }
}
