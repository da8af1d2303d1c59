//! `fulmar webhooks`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fulmar_gateway::http::percent_encoded;
use hyper::Method;
use serde_json::{Value, json};

use super::calling::Api;
use super::output::{note, print_json, print_members};
use super::registry::{hand_secret_over, key_path, print_list};
use crate::admin::SecretsRequest;
use crate::exit::{Exit, Failure, Outcome};
use crate::node::ask;
use crate::place::PlaceArgs;

/// Webhooks listed at most.
const LIST_MAX: usize = 100_000;

/// Receivers of events. A secret is written to a file; it is printed to a terminal only.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar webhooks add https://shop.example/hook --consumer acme --event 'order.*'\n  \
    fulmar webhooks list\n  \
    fulmar webhooks test wh_0199… --event order.paid --payload '{\"total\":42}'\n  \
    fulmar webhooks health wh_0199…\n  \
    fulmar webhooks rotate wh_0199… --overlap-seconds 3600   # the old secret signs for an hour\n  \
    fulmar webhooks rewrap --new-key                         # a new key for secrets at rest\n  \
    fulmar webhooks resume wh_0199…                          # sends what was held")]
pub struct WebhooksArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(subcommand)]
    command: WebhooksCommand,
}

#[derive(Subcommand, Debug)]
enum WebhooksCommand {
    /// Webhooks, of all consumers or of one.
    List {
        /// Of this consumer.
        #[arg(long, value_name = "NAME")]
        consumer: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// A new webhook; where its secret lies is printed.
    Add(AddArgs),
    /// One webhook with all its fields.
    Show(OneArgs),
    /// How its receiver does.
    Health(OneArgs),
    /// Send it an event that never happened, once, and tell what came of it.
    Test {
        #[command(flatten)]
        one: OneArgs,
        /// The event's name; default webhook.test.
        #[arg(long, value_name = "NAME")]
        event: Option<String>,
        /// Its payload, as JSON.
        #[arg(long, value_name = "JSON")]
        payload: Option<String>,
    },
    /// Hold its deliveries.
    Pause(OneArgs),
    /// Send again, first what was held.
    Resume(OneArgs),
    /// A new secret; the old one signs on for a while.
    Rotate {
        #[command(flatten)]
        one: OneArgs,
        /// Seconds that the old secret signs on; default a day.
        #[arg(long, value_name = "N")]
        overlap_seconds: Option<u32>,
        /// File to write the secret to; default ID.key in the data folder's keys/.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Delete it; what it had not got is cancelled.
    Delete(OneArgs),
    /// Read the keyring's file anew, and seal every secret with its first key; old keys can be
    /// deleted from it then.
    Rewrap {
        /// First put a new key there.
        #[arg(long)]
        new_key: bool,
    },
}

#[derive(Args, Debug)]
struct AddArgs {
    /// Where deliveries go.
    url: String,
    /// Whose it is.
    #[arg(long, value_name = "NAME")]
    consumer: String,
    /// Event name, `prefix.*` or `*`; may be given often.
    #[arg(long = "event", value_name = "NAME", required = true)]
    events: Vec<String>,
    /// For people.
    #[arg(long, default_value = "", value_name = "TEXT")]
    description: String,
    /// Deliveries a second at most.
    #[arg(long, value_name = "N")]
    rate: Option<u32>,
    /// Attempts after the first.
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// File to write the secret to; default ID.key in the data folder's keys/.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct OneArgs {
    /// The webhook's id.
    id: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl WebhooksArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        if let WebhooksCommand::Rewrap { new_key } = self.command {
            let request = SecretsRequest::Rewrap { new_key };
            return print_json(&ask(&self.place, "secrets", &request)?);
        }
        let api = Api::of(&self.place)?;
        match self.command {
            WebhooksCommand::List { consumer, json } => list(&api, consumer.as_deref(), json),
            WebhooksCommand::Add(args) => add(&api, &self.place, args),
            WebhooksCommand::Show(one) => one.print(&api.get(&path(&api, &one.id, "")?)?),
            WebhooksCommand::Health(one) => {
                let id = percent_encoded(&one.id);
                let mut health = api.get(&format!("/v1/webhooks/{id}/health"))?;
                if let Some(members) = health.as_object_mut().filter(|_| !one.json) {
                    // They are for who reads them once, and in the manual.
                    members.remove("rules");
                }
                one.print(&health)
            }
            WebhooksCommand::Test {
                one,
                event,
                payload,
            } => test(&api, &one, event, payload),
            WebhooksCommand::Pause(one) => one.post(&api, ":pause"),
            WebhooksCommand::Resume(one) => one.post(&api, ":resume"),
            WebhooksCommand::Rotate {
                one,
                overlap_seconds,
                out,
            } => {
                // Told before it is made, so that none is made for nobody.
                let file = key_path(&self.place, &one.id, out)?;
                let path = path(&api, &one.id, ":rotateSecret")?;
                let body = json!({ "overlap_seconds": overlap_seconds });
                hand_over(api.call(Method::POST, &path, &body)?, &file)
            }
            WebhooksCommand::Delete(one) => {
                let path = path(&api, &one.id, "")?;
                api.call(Method::DELETE, &path, &Value::Null)?;
                note(format_args!("deleted {}", one.id));
                Ok(Exit::Done)
            }
            WebhooksCommand::Rewrap { .. } => unreachable!("it needs no server"),
        }
    }
}

impl OneArgs {
    fn post(&self, api: &Api, verb: &str) -> Outcome {
        let path = path(api, &self.id, verb)?;
        self.print(&api.call(Method::POST, &path, &Value::Null)?)
    }

    fn print(&self, answer: &Value) -> Outcome {
        match self.json {
            true => print_json(answer),
            false => print_members(answer),
        }
    }
}

fn test(api: &Api, one: &OneArgs, event: Option<String>, payload: Option<String>) -> Outcome {
    let mut body = json!({});
    if let Some(name) = event {
        body["event_name"] = name.into();
    }
    if let Some(text) = payload {
        let not_json = |error| Failure::usage(format!("the payload is not JSON: {error}"));
        body["payload"] = serde_json::from_str(&text).map_err(not_json)?;
    }
    let answer = api.call(Method::POST, &path(api, &one.id, ":test")?, &body)?;
    one.print(&answer)?;
    match answer["delivered"].as_bool() {
        Some(true) => Ok(Exit::Done),
        _ => Ok(Exit::Failed),
    }
}

/// The path of a webhook, which names its consumer.
fn path(api: &Api, id: &str, verb: &str) -> Result<String, Failure> {
    let id = percent_encoded(id);
    let known = api.get(&format!("/v1/webhooks/{id}/health"))?;
    let consumer = known["consumer"].as_str().unwrap_or_default();
    let consumer = percent_encoded(consumer);
    Ok(format!("/v1/consumers/{consumer}/webhooks/{id}{verb}"))
}

fn list(api: &Api, consumer: Option<&str>, json: bool) -> Outcome {
    let path = match consumer {
        None => "/v1/webhooks".to_owned(),
        Some(name) => format!("/v1/consumers/{}/webhooks", percent_encoded(name)),
    };
    let found = api.list((&path, "webhooks"), &[], LIST_MAX)?;
    let columns = ["id", "consumer", "state", "events", "url", "created_at"];
    print_list(&found, "webhooks", &columns, json)
}

fn add(api: &Api, place: &PlaceArgs, args: AddArgs) -> Outcome {
    // Told before it is made, so that none is made for nobody.
    let file = key_path(place, "webhook", args.out.clone())?;
    if args.out.is_some() && file.exists() {
        let told = format!("{} exists: --out names another file", file.display());
        return Err(Failure::usage(told));
    }
    let mut fields = json!({
        "url": args.url,
        "events": args.events,
        "description": args.description,
    });
    if let Some(rate) = args.rate {
        fields["rate_limit_rps"] = rate.into();
    }
    if let Some(retries) = args.retries {
        fields["http_config"] = json!({ "max_retries": retries });
    }
    let path = format!("/v1/consumers/{}/webhooks", percent_encoded(&args.consumer));
    let made = api.call(Method::POST, &path, &fields)?;
    let id = made["id"].as_str().unwrap_or_default();
    let file = match args.out {
        Some(file) => file,
        None => file.with_file_name(format!("{id}.key")),
    };
    hand_over(made, &file)
}

/// Hands a new secret over, and tells of its webhook.
fn hand_over(mut answer: Value, file: &std::path::Path) -> Outcome {
    let secret = answer["secret"].take();
    let secret = secret.as_str().unwrap_or_default();
    let told = json!({
        "id": answer["id"],
        "consumer": answer["consumer"],
        "url": answer["url"],
        "events": answer["events"],
        "secret_file": file.display().to_string(),
    });
    hand_secret_over(("secret", secret), file, &told)
}
