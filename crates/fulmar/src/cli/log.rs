//! `fulmar log`: look at the log, check it, give up a damaged range.

use std::path::Path;

use clap::{Args, Subcommand};
use fulmar_log::{Damage, ReadOnly, Topic, TopicReport};
use fulmar_registry::{Folded, Snapshot};
use serde_json::json;

use super::output::{note, print_json, print_line};
use crate::admin::LogRequest;
use crate::exit::{Exit, Failure, Outcome};
use crate::node::ask;
use crate::place::{DataArg, PlaceArgs};

/// The embedded log: look at it, check it, give up a damaged range.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar log inspect events\n  \
    fulmar log verify --json\n  \
    fulmar log accept-loss events 1200-1399    # folds pass the range and count it as dropped\n\n\
    inspect and verify only read, and may run beside a server.")]
pub struct LogArgs {
    #[command(flatten)]
    data: DataArg,
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Subcommand, Debug)]
enum LogCommand {
    /// Show topics and their segments.
    Inspect {
        /// The topic; default all.
        topic: Option<Topic>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check every frame; exit code 10 at damage.
    Verify {
        /// The topic; default all.
        topic: Option<Topic>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Give up a damaged range of a topic, so that folds pass it.
    AcceptLoss {
        /// The topic.
        topic: Topic,
        /// First and last offset, such as 1200-1399.
        #[arg(value_parser = range)]
        range: (u64, u64),
    },
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let parts = text
        .split_once('-')
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    match parts {
        Some((from, to)) if from <= to => Ok((from, to)),
        _ => Err("takes FROM-TO, the first and the last offset".to_owned()),
    }
}

impl LogArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let folder = self.data.dir().log();
        let topics = |topic: Option<Topic>| topic.map_or(Topic::ALL.to_vec(), |topic| vec![topic]);
        let (reports, json, whole) = match self.command {
            LogCommand::AcceptLoss {
                topic,
                range: (from, to),
            } => {
                return accept_loss(&PlaceArgs::of_folder(self.data), topic, from, to);
            }
            LogCommand::Inspect { topic, json } => {
                let read = |topic: Topic| fulmar_log::inspect(&folder, topic, &mut |_| {});
                (
                    topics(topic)
                        .into_iter()
                        .map(read)
                        .collect::<Result<Vec<_>, _>>()?,
                    json,
                    false,
                )
            }
            LogCommand::Verify { topic, json } => {
                let read = |topic: Topic| fulmar_log::verify(&folder, topic, &mut |_| {});
                (
                    topics(topic)
                        .into_iter()
                        .map(read)
                        .collect::<Result<Vec<_>, _>>()?,
                    json,
                    true,
                )
            }
        };
        if !folder.is_dir() {
            return Err(Failure::usage(format!("{} holds no log", folder.display())));
        }
        match json {
            true => print_json(&json!(reports))?,
            false => print_line(&text(&reports, whole))?,
        };
        let given_up = given_up(&folder)?;
        let is_open = |damage: &&Damage| {
            let (from, end) = (damage.first_offset, damage.end_offset);
            from == end || !given_up.gave_up(damage.topic.name(), from, end)
        };
        let damages = || reports.iter().flat_map(|report| &report.damages);
        let open = damages().filter(is_open).count();
        if open > 0 {
            note("damage is never cut or skipped by itself: see `fulmar log accept-loss --help`");
        } else if damages().next().is_some() {
            note("what is damaged was given up");
        }
        Ok(if open > 0 { Exit::Damage } else { Exit::Done })
    }
}

/// Writes the decision, and tells what it gives up.
fn accept_loss(place: &PlaceArgs, topic: Topic, from: u64, to: u64) -> Outcome {
    let request = LogRequest::AcceptLoss {
        topic: topic.name().to_owned(),
        from,
        to,
    };
    let answer = ask(place, "log", &request)?;
    for place in answer["given_up"].as_array().into_iter().flatten() {
        let again = match place["new"] == json!(true) {
            true => "",
            false => " (as before)",
        };
        let (records, place) = (&place["records"], &place["place"]);
        let place = place.as_str().unwrap_or_default();
        note(format_args!(
            "gave up {records} records of {topic}{again}: {place}"
        ));
    }
    print_json(&answer)
}

/// The decisions in `control`, as far as it can be read.
fn given_up(log: &Path) -> Result<Snapshot, Failure> {
    let control = ReadOnly::open(log, Topic::Control)?;
    Ok(Folded::of(&control, None)?.state)
}

fn text(reports: &[TopicReport], whole: bool) -> String {
    let checked = if whole {
        "every frame checked"
    } else {
        "headers checked"
    };
    let mut lines = Vec::new();
    for report in reports {
        lines.push(format!(
            "{}: offsets {} to {}, {} records in {} frames, {} bytes ({checked}); torn tail {} bytes",
            report.topic,
            report.start,
            report.end,
            report.records,
            report.frames,
            report.bytes,
            report.torn_bytes,
        ));
        for segment in report.segments.iter().filter(|_| !whole) {
            lines.push(format!(
                "  {}: offsets {} to {}, {} frames, {} seals, {} bytes of {}",
                segment.file,
                segment.first_offset,
                segment.end_offset,
                segment.frames,
                segment.seals,
                segment.bytes,
                segment.file_bytes,
            ));
        }
        for damage in &report.damages {
            lines.push(format!("  {damage}"));
        }
    }
    lines.join("\n")
}
