//! `fulmar lake` and `fulmar quarantine`.

use clap::{Args, Subcommand};

use super::output::{note, print_json, print_table};
use crate::admin::{LakeRequest, QuarantineRequest};
use crate::exit::{Exit, Outcome};
use crate::node::ask;
use crate::place::PlaceArgs;

/// The tables' files.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar lake files --json     # the exact list of one snapshot\n  \
    fulmar lake check            # reads every listed file\n  \
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
    /// Merge all that can be merged, now.
    Compact,
    /// Read every listed file; exit code 10 when one is damaged.
    Check,
}

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
            LakeCommand::Compact => {
                print_json(&ask(&self.place, "lake", &LakeRequest::Compact {})?)
            }
            LakeCommand::Check => {
                let answer = ask(&self.place, "lake", &LakeRequest::Check {})?;
                print_json(&answer)?;
                let sound = answer["problems"].as_array().is_some_and(Vec::is_empty);
                Ok(if sound { Exit::Done } else { Exit::Damage })
            }
        }
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
            QuarantineCommand::Show { id } => print_json(&ask(
                &self.place,
                "quarantine",
                &QuarantineRequest::Show { id },
            )?),
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
