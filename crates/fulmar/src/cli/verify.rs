//! `fulmar verify`: proves that nothing is lost, doubled or foreign.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fulmar_log::{Damage, TopicReport};
use serde_json::{Value, json};

use super::output::{note, print_json, print_line};
use crate::admin::{self, LakeRequest, now_ms};
use crate::client::Client;
use crate::exit::{Exit, Failure, Outcome};
use crate::folds::CUT_WAIT;
use crate::node::{LostControl, Node, block_on};
use crate::place::{DataArg, Place, PlaceArgs};
use crate::verify::{self, Deletions, Finding, Report, Retention, Subject, TableFile};

/// Longest wait for a running server to store what was durable at the start.
const STORE_TIME_MAX: Duration = Duration::from_secs(600);
/// How often the comparison begins anew when compaction replaced a file under it: files stay for
/// ten minutes, so that once is plenty for all but a huge folder.
const TRIES: usize = 3;

/// Prove by id that what was acknowledged and logged is stored, exactly once.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar verify\n  \
    fulmar verify --receipts receipts.ndjson --json\n\n\
    Checks every frame of the log and every file of the tables, then compares receipts,\n\
    log and tables by (project, source, id) over the offsets that the log still holds.\n\
    Without a running server the writer is first run to the log's end. Exit codes: 0 exact;\n\
    10 damage; 11 lost; 12 doubled; 13 foreign.")]
pub struct VerifyArgs {
    #[command(flatten)]
    data: DataArg,
    /// Receipts of `fulmar send`; may be given many times.
    #[arg(long, value_name = "FILE")]
    receipts: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Folder for the comparison's own files; default the system's.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

impl VerifyArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let place = PlaceArgs::of_folder(self.data.clone());
        let report = match place.resolve()? {
            Place::Server(client) => self.beside(&client)?,
            Place::Folder(data, lock) => {
                let topics = verify::integrity(&data.log())?;
                note(
                    "no server runs: taking the folder, running the writer to the log's end first",
                );
                let node = Node::open_as_made(data, lock, LostControl::Pass)?;
                let report = self.alone(&node, topics);
                node.close();
                report?
            }
        };
        match self.json {
            true => print_json(&report.to_json())?,
            false => print_line(&text(&report))?,
        };
        Ok(report.exit())
    }

    /// Beside a running server: up to the position at the start, once that is stored.
    fn beside(&self, client: &Client) -> Result<Report, Failure> {
        let data = self.data.dir();
        let mut topics = verify::integrity(&data.log())?;
        let known = damages_told(&block_on(
            client.post_json("/v1/admin/status", &json!({})),
        )??);
        verify::add_damages(&mut topics, &known);
        // A writer that stands at damage is not waited for: it moves only once that is given up.
        let damaged = topics.iter().any(|topic| !topic.damages.is_empty());
        let wait = if damaged { CUT_WAIT } else { STORE_TIME_MAX };
        let wait = json!({ "wait_ms": wait.as_millis() as u64 });
        let reached = block_on(client.post_json("/v1/admin/drain", &wait))??;
        let to = reached["target"].as_u64().unwrap_or(0);
        if reached["stored"] != json!(true) {
            let position = &reached["position"];
            note(format_args!(
                "the writer stands at {position}, before {to}: comparing up to it"
            ));
        }
        let to = to.min(reached["position"].as_u64().unwrap_or(0));
        for round in 1.. {
            let list = serde_json::to_value(LakeRequest::Files {})?;
            let files = block_on(client.post_json("/v1/admin/lake", &list))??;
            let status = block_on(client.post_json("/v1/admin/status", &json!({})))??;
            let subject = self.subject(data.log(), to, &status, &files)?;
            let missing = |file: &TableFile| !file.path.exists();
            match verify::compare(&subject, topics.clone()) {
                Err(_) if round < TRIES && subject.files.iter().any(missing) => {}
                Ok(report)
                    if round < TRIES
                        && !report.files.is_empty()
                        && subject.files.iter().any(missing) => {}
                found => return found,
            }
        }
        unreachable!("the loop ends by its return")
    }

    /// With the folder in hand: up to the log's end.
    fn alone(&self, node: &Node, mut topics: Vec<TopicReport>) -> Result<Report, Failure> {
        let end = node.log.journal(fulmar_log::Topic::Events).end();
        let stored = node.store_all()?;
        // What only committed state knows of: segments that are gone from either end.
        let found = node.log.stats();
        verify::add_damages(&mut topics, found.iter().flat_map(|topic| &topic.damages));
        let damaged = topics.iter().any(|topic| !topic.damages.is_empty());
        if !stored && !damaged {
            return Err(Failure::new(
                "the writer could not reach the log's end; see its log lines",
            ));
        }
        let status = crate::status::of_node(node)?;
        let files = admin::lake::answer(&node.lake, LakeRequest::Files {})?;
        verify::compare(
            &self.subject(node.data.log(), end, &status, &files)?,
            topics,
        )
    }

    fn subject(
        &self,
        log: PathBuf,
        to: u64,
        status: &Value,
        files: &Value,
    ) -> Result<Subject, Failure> {
        let losses = status["losses"].as_array().into_iter().flatten();
        let given_up = losses
            .filter_map(|loss| serde_json::from_value(loss.clone()).ok())
            .collect();
        let topics = status["topics"].as_array().into_iter().flatten();
        let events = topics.into_iter().find(|topic| topic["topic"] == "events");
        Ok(Subject {
            log,
            end: events.and_then(|topic| topic["end"].as_u64()).unwrap_or(to),
            scratch: self.scratch.clone().unwrap_or_else(std::env::temp_dir),
            to,
            given_up,
            files: serde_json::from_value(files["files"].clone())?,
            deletions: Deletions::new(serde_json::from_value(files["forgotten"].clone())?),
            retention: Retention {
                now_ms: now_ms(),
                kept_ms: serde_json::from_value(status["retention_ms"].clone())?,
            },
            receipts: self.receipts.clone(),
        })
    }
}

/// What a running server has found by itself.
fn damages_told(status: &Value) -> Vec<Damage> {
    let topics = status["topics"].as_array().into_iter().flatten();
    topics
        .filter_map(|topic| topic["damages"].as_array())
        .flatten()
        .filter_map(|damage| serde_json::from_value(damage.clone()).ok())
        .collect()
}

/// The report for a person.
fn text(report: &Report) -> String {
    let mut lines = Vec::new();
    for topic in &report.topics {
        lines.push(format!(
            "log       {}: {} records whole, offsets {} to {}",
            topic.topic, topic.records, topic.start, topic.end
        ));
        for damage in &topic.damages {
            lines.push(format!("damage    {damage}"));
        }
    }
    for file in &report.files {
        lines.push(format!("damage    {file}"));
    }
    if let Some(tally) = &report.tally {
        lines.push(format!(
            "compared  offsets {} to {}: {} logged, {} rows, {} acknowledged; {} repeats, {} \
             quarantined, {} expired, {} deleted, {} given up",
            report.from,
            report.to,
            tally.logged,
            tally.stored,
            tally.acknowledged,
            tally.repeats,
            tally.quarantined,
            tally.expired,
            tally.deleted,
            report.given_up,
        ));
        if tally.hidden > 0 {
            lines.push(format!(
                "hidden    {} rows may be in the damaged files, and are nowhere else",
                tally.hidden
            ));
        }
        for (word, finding) in [
            ("lost", &report.lost),
            ("doubled", &report.doubled),
            ("foreign", &report.foreign),
        ] {
            lines.push(format!("{word:<9} {}{}", finding.count, first(finding)));
        }
    }
    let verdict = match report.exit() {
        Exit::Done => "exact: everything logged and acknowledged is stored once, and nothing else",
        _ => report.verdict(),
    };
    lines.push(format!("verdict   {verdict}"));
    lines.join("\n")
}

fn first(finding: &Finding) -> String {
    match &finding.first {
        Some(name) => format!(", first {name}"),
        None => String::new(),
    }
}
