//! A project's events as they come, for who asks again and again: what `fulmar listen` reads. It
//! holds nothing: who is away for longer than the log is kept has missed some.

use std::sync::Arc;
use std::time::Duration;

use fulmar_event::EventView;
use fulmar_log::{LogError, Record};
use fulmar_webhooks::occurrence::Occurrence;
use fulmar_webhooks::sender::DeliveryId;
use hyper::Method;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::runtime::Handle;

use super::reading::Reading;
use super::route::Route;
use super::{ApiError, Call, Reply};

/// How long a call waits for a first event.
const WAIT: Duration = Duration::from_secs(5);
/// Calls that wait at once: each holds a thread.
const LISTENERS_MAX: usize = 64;
/// Bytes of the log read at once, and events of an answer.
const READ_BYTES: usize = 1 << 20;
const EVENTS_MAX: usize = 500;
/// Names the listener in the ids of what it gets, where webhooks have theirs.
const LISTENER: &str = "listen";

const ASKED: &[(&str, &str)] = &[
    (
        "from",
        "`next` of the answer before; the log's end if it is left out",
    ),
    ("consumer", "published for this consumer"),
    ("event", "of this name, `prefix.*` or `*`"),
];

pub fn routes(routes: &mut Vec<Route>) {
    let told = (
        "listen",
        "Events after a place in the log; waits up to 5 seconds for one",
    );
    let route = Route::new(Method::GET, "/v1/listen", told, listen).asks(ASKED);
    routes.push(route.gives::<Heard>(200));
}

/// Events after a place in the log.
#[derive(Serialize, JsonSchema)]
struct Heard {
    events: Vec<HeardEvent>,
    /// Where the next call goes on.
    next: u64,
    /// Records that are not in the log any more: they came before the oldest that is.
    missed: u64,
}

/// An event, and what a webhook would be sent of it.
#[derive(Serialize, JsonSchema)]
struct HeardEvent {
    offset: u64,
    event_id: String,
    event_name: String,
    consumer: String,
    /// `webhook-id` of its delivery: the same whenever it is heard again.
    message_id: String,
    /// The body.
    #[schemars(with = "serde_json::Value")]
    envelope: Box<RawValue>,
}

fn listen(call: &Call) -> Result<Reply, ApiError> {
    let reading = &call.api.reading;
    let one_more = Arc::clone(&reading.listeners);
    if Arc::strong_count(&one_more) > 1 + LISTENERS_MAX {
        return Err(ApiError::Busy(format!(
            "{LISTENERS_MAX} calls listen already"
        )));
    }
    let given = |name: &str| call.query.get(name).filter(|text| !text.is_empty());
    let asked = match given("from") {
        None => reading.events.end(),
        Some(text) => {
            let offset = text.parse().ok();
            offset.ok_or_else(|| ApiError::invalid("from", "takes `next` of an answer"))?
        }
    };
    let wanted = Wanted {
        project: &call.project,
        consumer: given("consumer").map(String::as_str),
        name: given("event").map_or("*", String::as_str),
    };
    let from = asked.max(reading.events.start());
    let mut heard = Heard {
        events: Vec::new(),
        next: from,
        missed: from - asked.min(from),
    };
    let waited = async {
        while heard.events.is_empty() {
            let mut end = reading.events.watch_end();
            if !heard.read_on(reading, &wanted)? && heard.events.is_empty() {
                let _ = end.wait_for(|end| *end > heard.next).await;
            }
        }
        Ok::<_, ApiError>(())
    };
    // Where nothing came in time, the answer says how far it looked.
    if let Ok(read) = Handle::current().block_on(tokio::time::timeout(WAIT, waited)) {
        read?;
    }
    Reply::ok(&heard)
}

/// What is listened for.
struct Wanted<'c> {
    project: &'c str,
    consumer: Option<&'c str>,
    name: &'c str,
}

impl Wanted<'_> {
    fn takes(&self, event: &Occurrence<'_>) -> bool {
        let is_named = match self.name.strip_suffix('*') {
            Some(prefix) => event.name.starts_with(prefix),
            None => event.name == self.name,
        };
        event.project == self.project
            && self.consumer.is_none_or(|name| name == event.consumer)
            && is_named
    }
}

impl Heard {
    /// Reads a piece of the log; false at its end.
    fn read_on(&mut self, reading: &Reading, wanted: &Wanted<'_>) -> Result<bool, ApiError> {
        let chunk = match reading.events.read(self.next, READ_BYTES) {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return Ok(false),
            Err(LogError::OutOfRange { start, .. }) if start > self.next => {
                self.missed += start - self.next;
                self.next = start;
                return Ok(true);
            }
            Err(LogError::OutOfRange { .. }) => {
                return Err(ApiError::invalid("from", "is beyond the log's end"));
            }
            Err(error) => return Err(ApiError::Failed(error.to_string())),
        };
        let first = self.next;
        for record in chunk.iter().filter(|record| record.offset >= first) {
            if self.events.len() >= EVENTS_MAX {
                return Ok(true);
            }
            self.next = record.offset + 1;
            self.events.extend(heard(&record, wanted));
        }
        self.next = self.next.max(chunk.end_offset());
        Ok(true)
    }
}

fn heard(record: &Record<'_>, wanted: &Wanted<'_>) -> Option<HeardEvent> {
    let view = EventView::parse(record.bytes).ok()?;
    let event = Occurrence::of(&view).filter(|event| wanted.takes(event))?;
    let envelope = event.body(fulmar_registry::BodyShape::Envelope);
    let envelope = String::from_utf8(envelope.to_vec()).ok()?;
    Some(HeardEvent {
        offset: record.offset,
        event_id: event.id.to_owned(),
        event_name: event.name.to_string(),
        consumer: event.consumer.to_owned(),
        message_id: format!("msg_{}", DeliveryId::of(&event, LISTENER)),
        envelope: RawValue::from_string(envelope).ok()?,
    })
}
