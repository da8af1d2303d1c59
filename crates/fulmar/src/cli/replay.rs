//! `fulmar replay`: the tables made anew from the log.

use std::path::PathBuf;

use clap::Args;
use fulmar_log::Topic;
use serde_json::Value;

use super::ConfigSource;
use super::output::{note, print_json, print_line};
use crate::config::Config;
use crate::exit::{Exit, Failure, Outcome};
use crate::folds::FOLDS;
use crate::place::DataArg;
use crate::replay::{ReplayRequest, offset_at};

/// Rebuild the tables from the log, into a new folder.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar replay --into lake:./rebuilt\n  \
    fulmar replay --into lake:./rebuilt --workers 2\n  \
    fulmar replay --topic events --from 2026-11-30T00:00:00Z --into lake:./yesterday\n  \
    fulmar lake digest --data ./rebuilt      # the same as that of the folder it came from\n  \
    fulmar query --data ./rebuilt \"select count(*) from events\"\n\n\
    The log is only read: a server may go on. The new folder holds the tables and no log: it can\n\
    be queried, and not be served from. Exit code 1 when the rows do not agree with the log.")]
pub struct ReplayArgs {
    #[command(flatten)]
    data: DataArg,
    /// Where to: lake:DIR, a folder that is empty or not there yet.
    #[arg(long, value_name = "lake:DIR")]
    into: String,
    /// Only this topic: events (all tables but the next), or profiles (profiles, groups).
    #[arg(long, value_name = "TOPIC")]
    topic: Option<Topic>,
    /// Start at this offset of --topic, or at this time (RFC 3339), instead of the log's start.
    #[arg(long, value_name = "OFFSET|TIME")]
    from: Option<String>,
    /// Threads that share the work; sets writer.workers.
    #[arg(long, value_name = "N")]
    workers: Option<String>,
    /// Leave the files as the folds write them; `fulmar lake compact --data DIR` merges them later.
    #[arg(long)]
    no_compact: bool,
    #[command(flatten)]
    source: ConfigSource,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl ReplayArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let Some(into) = self
            .into
            .strip_prefix("lake:")
            .filter(|dir| !dir.is_empty())
        else {
            let told = format!("--into takes lake:DIR, not `{}`", self.into);
            return Err(Failure::usage(told));
        };
        let mut flags = self.source.set.clone();
        let workers = self.workers.clone();
        flags.extend(workers.map(|workers| ("writer.workers".to_owned(), workers)));
        let request = ReplayRequest {
            source: self.data.dir(),
            into: PathBuf::from(into),
            topics: self.topics()?,
            compact: !self.no_compact,
            config: Config::load(self.source.config.as_deref(), &flags)?,
        };
        let report = request.run(&|line| note(line))?;
        match self.json {
            true => print_json(&report)?,
            false => print_line(&words(&report))?,
        };
        Ok(match report["exact"] == Value::Bool(true) {
            true => Exit::Done,
            false => Exit::Failed,
        })
    }

    /// The topics, each with its first offset.
    fn topics(&self) -> Result<Vec<(Topic, u64)>, Failure> {
        let source = self.data.dir();
        if !source.log().is_dir() {
            let told = format!("{} holds no log", source.root().display());
            return Err(Failure::usage(told));
        }
        let topics = match self.topic {
            None => FOLDS.map(|(topic, _)| topic).to_vec(),
            Some(topic) if FOLDS.iter().any(|(of, _)| *of == topic) => vec![topic],
            Some(topic) => {
                let told = format!(
                    "no table comes of {topic}: events, profiles and deliveries can be replayed"
                );
                return Err(Failure::usage(told));
            }
        };
        let Some(from) = self.from.as_deref() else {
            return Ok(topics.into_iter().map(|topic| (topic, 0)).collect());
        };
        if let Ok(offset) = from.parse::<u64>() {
            let [topic] = topics[..] else {
                return Err(Failure::usage(
                    "an offset is of one --topic; give it, or a time",
                ));
            };
            return Ok(vec![(topic, offset)]);
        }
        let time: jiff::Timestamp = from.parse().map_err(|_| {
            Failure::usage(format!(
                "--from takes an offset or an RFC 3339 time, not `{from}`"
            ))
        })?;
        let at = |topic| Ok((topic, offset_at(&source, topic, time.as_millisecond())?));
        topics.into_iter().map(at).collect()
    }
}

/// The report for a person.
fn words(report: &Value) -> String {
    let mut lines = Vec::new();
    for topic in report["topics"].as_array().into_iter().flatten() {
        lines.push(format!(
            "{:<10} offsets {} to {}: {}",
            topic["topic"].as_str().unwrap_or("-"),
            topic["from"],
            topic["end"],
            super::status::equation(&topic["ledger"]),
        ));
    }
    for table in report["tables"].as_array().into_iter().flatten() {
        if table["rows"] != 0 {
            let name = table["table"].as_str().unwrap_or("-");
            lines.push(format!(
                "table      {name}: {} rows in {} files",
                table["rows"], table["files"]
            ));
        }
    }
    let seconds = |phase: &str| report["seconds"][phase].as_f64().unwrap_or(0.0);
    let [open, fold, compact] = ["open", "fold", "compact"].map(seconds);
    lines.push(format!(
        "time       open {open:.2} s, folds {fold:.2} s, merging {compact:.2} s"
    ));
    let exact = report["exact"] == Value::Bool(true);
    lines.push(match exact {
        true => "verdict    exact: each record is stored, a repeat or named above".to_owned(),
        false => "verdict    the rows do not agree with the log".to_owned(),
    });
    lines.join("\n")
}
