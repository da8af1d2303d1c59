//! `fulmar status`: ledger, lag, backlog, disk, rates.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::output::{print_json, print_line};
use crate::addresses::Addresses;
use crate::client::Client;
use crate::config::{duration_text, size_text};
use crate::exit::{Failure, Outcome};
use crate::node::{LostControl, Node, block_on};
use crate::place::{Place, PlaceArgs};
use crate::status::of_node;

/// Longest wait for a server's answer, which it gives from memory.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// Show the ledger, lag, backlog, disk and rates.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  fulmar status\n  fulmar status --json | jq .ledger\n\n\
    logged = stored + repeats + quarantined + dropped + backlog, always."
)]
pub struct StatusArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl StatusArgs {
    /// The status that a running server tells, unless it hangs.
    async fn of_server(&self, client: &Client) -> Result<Value, Failure> {
        let nothing = json!({});
        let asked = client.post_json("/v1/admin/status", &nothing);
        if let Ok(answer) = tokio::time::timeout(ANSWER_TIME_MAX, asked).await {
            return answer;
        }
        let seconds = ANSWER_TIME_MAX.as_secs();
        let who = match &self.place.server {
            Some(url) => format!("the server at {url}"),
            None => {
                let data = self.place.data.dir();
                let addresses = Addresses::read(&data)?;
                let pid = addresses.and_then(|addresses| addresses.pid);
                let pid = pid.map_or("unknown".to_owned(), |pid| pid.to_string());
                format!("the server of {} (process {pid})", data.root().display())
            }
        };
        Err(Failure::locked(format!(
            "{who} does not answer within {seconds} s: it is stopped, or has far too much to do"
        )))
    }

    /// Runs the command.
    pub fn run(self) -> Outcome {
        let status = match self.place.resolve()? {
            Place::Server(client) => block_on(self.of_server(&client))??,
            Place::Folder(data, lock) => {
                let node = Node::open_as_made(data, lock, LostControl::Refuse)?;
                let status = of_node(&node);
                node.close();
                status?
            }
        };
        if self.json {
            return print_json(&status);
        }
        print_line(&text(&status)?)
    }
}

/// The status for a person.
fn text(status: &Value) -> Result<String, Failure> {
    let mut lines = whole_lines(status);
    lines.extend(part_lines(status));
    Ok(lines.join("\n"))
}

/// What holds for the server as a whole.
fn whole_lines(status: &Value) -> Vec<String> {
    let balanced = if status["balanced"] == json!(true) {
        "balanced"
    } else {
        "NOT BALANCED"
    };
    let mut lines = vec![
        format!(
            "server    {} {}, {}",
            word(&status["id"]),
            word(&status["version"]),
            word(&status["state"])
        ),
        format!("ledger    {} ({balanced})", equation(&status["ledger"])),
        format!("profiles  {}", equation(&status["ledger_of_profiles"])),
        format!("outcomes  {}", equation(&status["ledger_of_deliveries"])),
        format!("lag       {} records", count(&status["lag"])),
    ];
    if status["webhooks"].is_object() {
        lines.push(format!(
            "webhooks  {}",
            sending(&status["webhooks"]["ledger"])
        ));
    }
    if let Some(rates) = status["rates"].as_object() {
        let rate = |name: &str| rates.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        lines.push(format!(
            "rates     {:.0} logged/s, {:.0} written/s",
            rate("logged_per_second"),
            rate("written_per_second")
        ));
        lines.extend(pace_line(&status["rates"]));
    }
    let disk = &status["disk"];
    lines.push(format!(
        "disk      {} free of {}; log {}, tables {}, state {}",
        size(&disk["free_bytes"]),
        size(&disk["total_bytes"]),
        size(&disk["log_bytes"]),
        size(&disk["lake_bytes"]),
        size(&disk["state_bytes"]),
    ));
    let repeats = &status["repeats"];
    if let Some(in_force) = repeats["window_in_force_ms"].as_u64() {
        lines.push(format!(
            "repeats   {} ids, window in force {} of {}, {} on disk, {} in memory",
            count(&repeats["ids"]),
            duration_text(in_force),
            duration_text(count(&repeats["window_ms"])),
            size(&repeats["disk_bytes"]),
            size(&repeats["memory_bytes"]),
        ));
    }
    lines
}

/// A ledger as a sum.
pub(super) fn equation(ledger: &Value) -> String {
    let dropped = ledger["dropped"].as_object().into_iter().flatten();
    let dropped: u64 = dropped.filter_map(|(_, count)| count.as_u64()).sum();
    format!(
        "{} logged = {} stored + {} repeats + {} quarantined + {dropped} dropped + {} backlog",
        count(&ledger["logged"]),
        count(&ledger["stored"]),
        count(&ledger["repeats"]),
        count(&ledger["quarantined"]),
        count(&ledger["backlog"]),
    )
}

/// The ledger of what is sent.
fn sending(ledger: &Value) -> String {
    let term = |name: &str| count(&ledger[name]);
    format!(
        "{} matched + {} reopened = {} delivered + {} failed + {} expired + {} cancelled + {} \
         undecided",
        term("matched"),
        term("reopened"),
        term("delivered"),
        term("failed"),
        term("expired"),
        term("cancelled"),
        term("undecided"),
    )
}

/// The stage that was busy most over the last seconds, and the others.
fn pace_line(rates: &Value) -> Option<String> {
    let slowest = rates["slowest"].as_str()?;
    let percent = |share: &Value| (share.as_f64().unwrap_or(0.0) * 100.0).round();
    let others = rates["busy"].as_object()?.iter();
    let others: Vec<String> = others
        .filter(|(stage, _)| *stage != slowest)
        .map(|(stage, share)| format!("{stage} {} %", percent(share)))
        .collect();
    let most = percent(&rates["busy"][slowest]);
    Some(format!(
        "pace      {slowest} is busiest, {most} % of the time; {}",
        others.join(", ")
    ))
}

/// What a fold's flushes went into.
fn phases_line(fold: &Value) -> Option<String> {
    let phases = fold["phases_ns"].as_object()?;
    let all: f64 = phases.values().filter_map(Value::as_f64).sum();
    let share = |(name, ns): (&String, &Value)| {
        let percent = ns.as_f64().unwrap_or(0.0) / all * 100.0;
        (percent >= 0.5).then(|| format!("{name} {percent:.0} %"))
    };
    let shares: Vec<String> = phases.iter().filter_map(share).collect();
    (all > 0.0).then(|| format!("flushes   {}: {}", word(&fold["name"]), shares.join(", ")))
}

/// One damaged place, and whether it was given up.
fn damage_line(status: &Value, damage: &Value) -> String {
    let (from, end) = (count(&damage["first_offset"]), count(&damage["end_offset"]));
    let gave_up = |loss: &Value| {
        loss["topic"] == damage["topic"]
            && count(&loss["from"]) <= from
            && end <= count(&loss["to"]) + 1
    };
    let losses = status["losses"].as_array();
    let given_up = from < end && losses.is_some_and(|losses| losses.iter().any(gave_up));
    format!(
        "{}: records {from} to {end} (exclusive), segment {}, byte {}: {}{}",
        word(&damage["topic"]),
        word(&damage["segment"]),
        count(&damage["byte"]),
        word(&damage["reason"]),
        if given_up { "; given up" } else { "" },
    )
}

/// What holds for each table, fold and topic.
fn part_lines(status: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for table in status["lake"]["tables"].as_array().into_iter().flatten() {
        lines.push(format!(
            "table     {}: {} rows in {} files ({} uncompacted), {}",
            word(&table["table"]),
            count(&table["rows"]),
            count(&table["files"]),
            count(&table["uncompacted_files"]),
            size(&table["bytes"]),
        ));
    }
    for fold in status["folds"].as_array().into_iter().flatten() {
        let error = fold["error"]
            .as_str()
            .map(|e| format!(": {e}"))
            .unwrap_or_default();
        lines.push(format!(
            "fold      {} {} at {}{error}",
            word(&fold["name"]),
            word(&fold["state"]),
            count(&fold["position"]),
        ));
        lines.extend(phases_line(fold));
    }
    for topic in status["topics"].as_array().into_iter().flatten() {
        lines.push(format!(
            "topic     {}: {} to {}, {} segments, {}, torn tail {} bytes, {} damages",
            word(&topic["topic"]),
            count(&topic["start"]),
            count(&topic["end"]),
            count(&topic["segments"]),
            size(&topic["bytes"]),
            count(&topic["torn_tail_bytes"]),
            topic["damages"].as_array().map_or(0, Vec::len),
        ));
        for damage in topic["damages"].as_array().into_iter().flatten() {
            lines.push(format!("damage    {}", damage_line(status, damage)));
        }
    }
    lines
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn size(value: &Value) -> String {
    rounded(count(value))
}

/// A size to three figures: exact ones are for programs.
fn rounded(bytes: u64) -> String {
    let units = [
        (1_u64 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => size_text(bytes),
    }
}
