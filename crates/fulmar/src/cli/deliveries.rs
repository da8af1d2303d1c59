//! `fulmar deliveries`.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use fulmar_gateway::http::percent_encoded;
use hyper::Method;
use serde_json::{Value, json};

use super::calling::Api;
use super::output::{note, print_json, print_members, print_table};
use super::registry::print_list;
use crate::exit::{Exit, Failure, Outcome};
use crate::place::PlaceArgs;

/// What a list shows of each.
const COLUMNS: [&str; 8] = [
    "delivery_id",
    "webhook_id",
    "event_name",
    "status",
    "attempt_count",
    "response_code",
    "error_category",
    "created_at",
];

/// Between two looks at a job, and between two words of it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const TELL_EVERY: Duration = Duration::from_secs(2);

/// What became of events on their way to webhooks; and once more, by hand.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar deliveries list --status failed --after 2026-12-01T00:00:00Z\n  \
    fulmar deliveries show 2ecd4c223ad983dc71222aeeb362e47e      # with every attempt\n  \
    fulmar deliveries replay --after 2026-12-01T00:00:00Z --webhook wh_0199…   # a new one\n  \
    fulmar deliveries retry 2ecd4c223ad983dc71222aeeb362e47e\n  \
    fulmar deliveries retry --webhook wh_0199… --status failed   # all of them, page by page")]
pub struct DeliveriesArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(subcommand)]
    command: DeliveriesCommand,
}

#[derive(Subcommand, Debug)]
enum DeliveriesCommand {
    /// Deliveries, the newest first.
    List {
        #[command(flatten)]
        filter: FilterArgs,
        /// At most so many.
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// One delivery and its attempts.
    Show {
        /// The delivery's id.
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Push events anew to the webhooks that match them now and have not taken them; among these
    /// are webhooks that came later. A job of the server, which this waits for.
    Replay(ReplayArgs),
    /// Send again what has ended: those that are named, or all that a filter takes.
    Retry {
        /// Ids of deliveries.
        ids: Vec<String>,
        #[command(flatten)]
        filter: FilterArgs,
        /// Also those that their receivers have taken.
        #[arg(long)]
        force: bool,
    },
}

#[derive(Args, Debug)]
struct ReplayArgs {
    /// Events published for this consumer.
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Events of this name.
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Events that carry these labels, NAME=VALUE, several by commas.
    #[arg(long, value_name = "LABELS")]
    labels: Option<String>,
    /// Events of this time or later, RFC 3339.
    #[arg(long, value_name = "TIME")]
    after: Option<String>,
    /// Events before this time, RFC 3339.
    #[arg(long, value_name = "TIME")]
    before: Option<String>,
    /// To this webhook alone.
    #[arg(long, value_name = "ID")]
    webhook: Option<String>,
    /// Also to webhooks that have taken them.
    #[arg(long)]
    force: bool,
}

#[derive(Args, Debug, Default)]
struct FilterArgs {
    /// Of this consumer.
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Of this webhook.
    #[arg(long, value_name = "ID")]
    webhook: Option<String>,
    /// Of this event.
    #[arg(long, value_name = "ID")]
    event_id: Option<String>,
    /// Of events of this name.
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// pending, paused, retrying, success, failed, expired or cancelled.
    #[arg(long, value_name = "WORD")]
    status: Option<String>,
    /// Whose last failure was of this kind, such as timeout.
    #[arg(long, value_name = "KIND")]
    error: Option<String>,
    /// Matched at this time or later, RFC 3339.
    #[arg(long, value_name = "TIME")]
    after: Option<String>,
    /// Matched before this time, RFC 3339.
    #[arg(long, value_name = "TIME")]
    before: Option<String>,
}

impl FilterArgs {
    fn path(&self) -> String {
        match &self.consumer {
            None => "/v1/deliveries".to_owned(),
            Some(name) => format!("/v1/consumers/{}/deliveries", percent_encoded(name)),
        }
    }

    fn pairs(&self) -> [(&'static str, Option<&str>); 7] {
        [
            ("webhook_id", self.webhook.as_deref()),
            ("event_id", self.event_id.as_deref()),
            ("event_name", self.event.as_deref()),
            ("status", self.status.as_deref()),
            ("error_category", self.error.as_deref()),
            ("created_after", self.after.as_deref()),
            ("created_before", self.before.as_deref()),
        ]
    }

    fn is_empty(&self) -> bool {
        self.consumer.is_none() && self.pairs().iter().all(|(_, value)| value.is_none())
    }
}

impl DeliveriesArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let api = Api::of(&self.place)?;
        match self.command {
            DeliveriesCommand::List {
                filter,
                limit,
                json,
            } => {
                let list = (filter.path(), "deliveries");
                let found = api.list((&list.0, list.1), &filter.pairs(), limit.max(1))?;
                print_list(&found, list.1, &COLUMNS, json)
            }
            DeliveriesCommand::Show { id, json } => show(&api, &id, json),
            DeliveriesCommand::Replay(args) => replay(&api, &args),
            DeliveriesCommand::Retry { ids, filter, force } => match ids.as_slice() {
                [] if filter.is_empty() => Err(Failure::usage(
                    "name deliveries, or a filter such as --webhook ID or --status failed",
                )),
                [] => retry_all(&api, &filter, force),
                _ if !filter.is_empty() => Err(Failure::usage(
                    "takes ids or a filter, not both: a filter is for all that it takes",
                )),
                ids => retry(&api, ids, force),
            },
        }
    }
}

fn show(api: &Api, id: &str, json: bool) -> Outcome {
    let path = format!("/v1/deliveries/{}", percent_encoded(id));
    let mut delivery = api.get(&path)?;
    let attempts = api.get(&format!("{path}/attempts"))?;
    if json {
        delivery["attempts"] = attempts["attempts"].clone();
        return print_json(&delivery);
    }
    print_members(&delivery)?;
    let columns = [
        "attempt_number",
        "status",
        "attempted_at",
        "duration_ms",
        "response_code",
        "error_category",
        "phase",
        "error_message",
    ];
    match attempts["attempts"].as_array() {
        Some(found) if !found.is_empty() => print_table(&attempts["attempts"], &columns),
        _ => Ok(Exit::Done),
    }
}

/// Begins a job and follows it; it goes on if this is broken off.
fn replay(api: &Api, args: &ReplayArgs) -> Outcome {
    let mut body = json!({ "force": args.force });
    for (name, value) in [
        ("event", &args.event),
        ("labels", &args.labels),
        ("created_after", &args.after),
        ("created_before", &args.before),
        ("webhook_id", &args.webhook),
    ] {
        if let Some(value) = value {
            body[name] = value.as_str().into();
        }
    }
    let path = match &args.consumer {
        None => "/v1/events:rePush".to_owned(),
        Some(name) => format!("/v1/consumers/{}/events:rePush", percent_encoded(name)),
    };
    let mut job = api.call(Method::POST, &path, &body)?;
    let id = job["job_id"].as_str().unwrap_or_default().to_owned();
    note(format_args!(
        "job {id} runs; POST /v1/repush-jobs/{id}:cancel ends it"
    ));
    let mut told = Instant::now();
    while job["status"] == "running" {
        std::thread::sleep(LOOK_EVERY);
        job = api.get(&format!("/v1/repush-jobs/{id}"))?;
        if told.elapsed() >= TELL_EVERY {
            note(format_args!("{} are sent so far", job["sent"]));
            told = Instant::now();
        }
    }
    print_json(&job)?;
    match job["status"] == "completed" {
        true => Ok(Exit::Done),
        false => Ok(Exit::Failed),
    }
}

fn retry(api: &Api, ids: &[String], force: bool) -> Outcome {
    for id in ids {
        let path = format!("/v1/deliveries/{}:retry", percent_encoded(id));
        let answer = api.call(Method::POST, &path, &json!({ "force": force }))?;
        print_json(&answer)?;
    }
    Ok(Exit::Done)
}

/// Page by page, so that it can be broken off; what was taken up by then is sent.
fn retry_all(api: &Api, filter: &FilterArgs, force: bool) -> Outcome {
    let mut body = json!({ "force": force });
    for (name, value) in filter.pairs() {
        if let Some(value) = value {
            body[name] = value.into();
        }
    }
    let path = format!("{}:retry", filter.path());
    let (mut retried, mut skipped) = (0, 0);
    loop {
        let answer = api.call(Method::POST, &path, &body)?;
        retried += answer["retried"].as_u64().unwrap_or(0);
        skipped += answer["skipped"].as_u64().unwrap_or(0);
        match &answer["next_cursor"] {
            Value::String(cursor) => body["cursor"] = cursor.as_str().into(),
            _ => break,
        }
        note(format_args!("{retried} are sent again so far"));
    }
    print_json(&json!({ "retried": retried, "skipped": skipped }))
}
