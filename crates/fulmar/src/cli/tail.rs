//! `fulmar tail`: the records as they come.

use std::time::Duration;

use clap::Args;
use fulmar_event::{Body, EventView};
use fulmar_log::{ReadOnly, Record, Topic};
use serde_json::{Value, json, value::RawValue};

use super::output::print_line;
use crate::admin::time_text;
use crate::exit::{Failure, Outcome};
use crate::place::DataArg;

/// Bytes of the log that one read takes.
const READ_BYTES: usize = 1 << 20;
/// Pause at the log's end. Another process appends, so that there is no wake-up to be had.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Print the records of `events` as they come, one JSON object a line. Holds nothing back.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fulmar tail | jq .id\n  fulmar tail --from 0 --no-follow")]
pub struct TailArgs {
    #[command(flatten)]
    data: DataArg,
    /// First offset; default the log's end.
    #[arg(long, value_name = "OFFSET")]
    from: Option<u64>,
    /// End at the log's end.
    #[arg(long)]
    no_follow: bool,
}

impl TailArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let folder = self.data.dir().log();
        if !folder.is_dir() {
            return Err(Failure::usage(format!("{} holds no log", folder.display())));
        }
        let log = ReadOnly::open(&folder, Topic::Events)?;
        let from = self.from.unwrap_or(log.end()).max(log.start());
        let mut reader = log.reader(from);
        loop {
            match reader.next(READ_BYTES)? {
                Some(chunk) => {
                    for record in chunk.iter().filter(|record| !record.is_tick()) {
                        print_line(&row(&record).to_string())?;
                    }
                }
                None if self.no_follow => return Ok(crate::exit::Exit::Done),
                None => std::thread::sleep(LOOK_AGAIN),
            }
        }
    }
}

fn row(record: &Record<'_>) -> Value {
    let mut row = json!({
        "offset": record.offset,
        "partition": record.partition,
        "append_time": time_text(record.append_time_ms),
    });
    let Ok(event) = EventView::parse(record.bytes) else {
        row["unreadable"] = json!(true);
        return row;
    };
    row["project"] = json!(event.stamp.project);
    row["source"] = json!(event.stamp.source);
    row["id"] = json!(event.event_id);
    row["key"] = json!(event.stamp.key);
    row["event_time"] = json!(event.event_time.map(|time| time_text(time.as_millis())));
    match event.body {
        Body::Message(message) => {
            row["type"] = json!(message.kind);
            let text = std::str::from_utf8(message.data).unwrap_or_default();
            let data: Option<Box<RawValue>> = serde_json::from_str(text).ok();
            row["data"] = json!(data);
        }
        Body::Authentication(body) => {
            row["type"] = json!("authentication");
            row["user"] = json!(body.user_name);
            row["raw_record"] = json!(body.raw_record);
        }
        Body::Track(body) => {
            row["type"] = json!(body.name);
            row["device"] = json!(body.device_id);
            row["session"] = json!(body.session_id);
            let text = std::str::from_utf8(body.properties).unwrap_or_default();
            let properties: Option<Box<RawValue>> = serde_json::from_str(text).ok();
            row["properties"] = json!(properties);
        }
        Body::Bot(body) => row["type"] = json!(format!("bot {}", body.name)),
        Body::Replay(body) => {
            row["type"] = json!("replay");
            row["session"] = json!(body.session_id);
        }
        Body::Profile(_) | Body::None => {}
    }
    row
}
