//! `fulmar publish`.

use std::io::Read as _;

use clap::Args;
use fulmar_gateway::http::percent_encoded;
use hyper::Method;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::calling::Api;
use super::output::print_json;
use crate::exit::{Context as _, Failure, Outcome};
use crate::keys;
use crate::place::PlaceArgs;

/// Publish an event for a consumer's webhooks; the answer comes once it is durable.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar publish order.paid --consumer acme --payload '{\"total\":42}'\n  \
    fulmar publish order.paid --consumer acme --key order-17 < order.json\n\n\
    A repeat of --key is a duplicate: nothing is sent twice.")]
pub struct PublishArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Its name.
    event: String,
    /// Whom it is for.
    #[arg(long, value_name = "NAME")]
    consumer: String,
    /// The payload, as JSON; default standard input.
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// Idempotency key.
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,
    /// Label as NAME=VALUE; may be given often.
    #[arg(long = "label", value_name = "NAME=VALUE")]
    labels: Vec<String>,
    /// Seconds after which it is of no use any more.
    #[arg(long, value_name = "N")]
    ttl_seconds: Option<u32>,
}

impl PublishArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let body = self.body()?;
        let mut place = self.place;
        if place.server.is_none() && place.key_file.is_none() {
            // Who publishes needs no more than to publish.
            place.key_file = Some(keys::path(&place.data.dir(), keys::INGEST));
        }
        let consumer = percent_encoded(&self.consumer);
        let event = percent_encoded(&self.event);
        let path = format!("/v1/consumers/{consumer}/events?event={event}");
        print_json(&Api::of(&place)?.send(Method::POST, &path, body)?)
    }

    /// The payload goes as it is written: receivers get those bytes.
    fn body(&self) -> Result<String, Failure> {
        let text = match &self.payload {
            Some(text) => text.clone(),
            None => {
                let mut text = String::new();
                let read = std::io::stdin().read_to_string(&mut text);
                read.context("cannot read the payload")?;
                text
            }
        };
        serde_json::from_str::<IgnoredAny>(&text)
            .map_err(|error| Failure::usage(format!("the payload is not JSON: {error}")))?;
        let mut body = format!("{{\"payload\":{}", text.trim());
        if let Some(key) = &self.key {
            body += &format!(",\"idempotency_key\":{}", Value::from(key.as_str()));
        }
        if let Some(seconds) = self.ttl_seconds {
            body += &format!(",\"ttl_seconds\":{seconds}");
        }
        let mut labels = Map::new();
        for label in &self.labels {
            let (name, value) = label.split_once('=').ok_or_else(|| {
                Failure::usage(format!("--label takes NAME=VALUE, not `{label}`"))
            })?;
            labels.insert(name.to_owned(), value.into());
        }
        if !labels.is_empty() {
            body += &format!(",\"labels\":{}", Value::Object(labels));
        }
        body.push('}');
        Ok(body)
    }
}
