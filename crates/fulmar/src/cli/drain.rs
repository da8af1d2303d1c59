//! `fulmar drain`: wait until what is durable now is stored.

use clap::Args;
use serde_json::json;

use super::output::print_json;
use crate::config::parse_duration_ms;
use crate::exit::{Exit, Outcome};
use crate::node::{LostControl, Node, block_on};
use crate::place::{Place, PlaceArgs};

/// Wait until everything that is durable now is stored; exit code 1 when the time is over first.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  fulmar drain --timeout 5m\n\n\
    Without a running server the writer is run to the log's end.")]
pub struct DrainArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Longest wait.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = wait_ms)]
    timeout: u64,
}

fn wait_ms(text: &str) -> Result<u64, String> {
    parse_duration_ms(text).ok_or_else(|| "takes a duration such as 60s".to_owned())
}

impl DrainArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let reached = match self.place.resolve()? {
            Place::Server(client) => {
                let wait = json!({ "wait_ms": self.timeout });
                block_on(client.post_json("/v1/admin/drain", &wait))??
            }
            Place::Folder(data, lock) => {
                let node = Node::open_as_made(data, lock, LostControl::Refuse)?;
                let end = node.log.journal(fulmar_log::Topic::Events).end();
                let stored = node.store_all();
                let ledger = crate::status::ledger(&node.desk(Vec::new()), &node.state);
                node.close();
                let position = end - ledger?.backlog;
                json!({ "target": end, "position": position, "stored": stored? })
            }
        };
        print_json(&reached)?;
        Ok(if reached["stored"] == json!(true) {
            Exit::Done
        } else {
            Exit::Failed
        })
    }
}
