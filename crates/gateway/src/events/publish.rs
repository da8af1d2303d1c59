//! The publish door: `POST /v1/consumers/{consumer}/events?event=NAME`, for services whose events
//! are delivered to webhooks.
//!
//! One object is answered 201 with its id; an array or NDJSON with a verdict per event. A repeat of
//! an idempotency key is a duplicate if type and payload are the same bytes, and a conflict if not
//! (R4).

use std::borrow::Cow;

use fulmar_event::{SchemaCheck, Timestamp};
use hyper::{StatusCode, Uri};

use super::envelope::Shape;
use super::event::{Event, Members, Refused, each_member, labels_member, text_member};
use super::ids::keyed_id;
use super::verdict::{Fault, Verdict, code, list_json, push_fault, push_json_string};
use crate::http::{Answer, answer, no_store, percent_decoded};
use crate::json::Scanner;
use crate::problem::problem_of_field;

/// The metrics' label of the route.
pub(super) const ROUTE: &str = "/v1/consumers/{consumer}/events";
/// What the path begins with and ends with.
const PREFIX: &str = "/v1/consumers/";
const SUFFIX: &str = "/events";
/// Bytes of a name of an event or a consumer, and of an idempotency key.
const NAME_BYTES_MAX: usize = 255;
/// Longest time to live, in seconds: a year.
const TTL_SECONDS_MAX: u64 = 365 * 86_400;

const MEMBERS: [&str; 6] = [
    "payload",
    "event",
    "idempotency_key",
    "labels",
    "metadata",
    "ttl_seconds",
];

/// Whom a request publishes for, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Publication {
    pub(super) consumer: String,
    /// The name of its events, where they do not say it themselves.
    event: Option<String>,
}

/// What the registry says of an event's type and payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeVerdict {
    /// Nobody registered the type.
    Unknown,
    /// Events of it are refused by now.
    Deactivated,
    /// It has no schema.
    Unchecked,
    /// The payload is as its schema says.
    Valid,
    /// It is not, and why.
    Invalid(Vec<String>),
}

/// The registry's event types. Wired by the binary.
pub trait EventTypes: Send + Sync + 'static {
    /// Judges an event of a project. A look into memory, and a check of bounded time.
    fn judge(&self, project: &str, name: &str, payload: &[u8]) -> TypeVerdict;
}

/// What a project has published that its webhooks have not got. Wired by the binary.
pub trait Backlog: Send + Sync + 'static {
    /// How much that is, if it is so much that no more is taken.
    fn over_full(&self, project: &str) -> Option<u64>;

    /// Events are about to be appended.
    fn publishing(&self, project: &str, events: u64);

    /// They could not be.
    fn not_published(&self, project: &str, events: u64);
}

/// Whether a path is the door's.
pub(super) fn consumer_of(path: &str) -> Option<&str> {
    let consumer = path.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    (!consumer.contains('/')).then_some(consumer)
}

/// What a request's target says.
pub(super) fn publication_of(uri: &Uri) -> Result<Publication, Fault> {
    let raw = consumer_of(uri.path()).unwrap_or_default();
    let consumer =
        percent_decoded(raw).ok_or_else(|| Fault::of_field("consumer", "is not UTF-8"))?;
    name_ok("consumer", &consumer)?;
    if consumer.starts_with('_') {
        let detail = "names that start with `_` are the server's";
        return Err(Fault::of_field("consumer", detail));
    }
    let query = uri.query().unwrap_or_default().split('&');
    let mut named = query.filter_map(|pair| pair.strip_prefix("event="));
    let event = match named.next() {
        None => None,
        Some(raw) => {
            let name = percent_decoded(&raw.replace('+', " "));
            Some(name.ok_or_else(|| Fault::of_field("event", "is not UTF-8"))?)
        }
    };
    if let Some(name) = &event {
        name_ok("event", name)?;
    }
    Ok(Publication { consumer, event })
}

fn name_ok(field: &str, name: &str) -> Result<(), Fault> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let detail = format!("must have 1 to {NAME_BYTES_MAX} bytes");
        return Err(Fault::of_field(field, detail));
    }
    match name.chars().any(|c| c.is_control() || c == '/' || c == '*') {
        true => Err(Fault::of_field(
            field,
            "takes no control characters, `/` or `*`",
        )),
        false => Ok(()),
    }
}

impl Publication {
    /// Reads one event whose text is grammatical JSON.
    pub(super) fn parse<'a>(
        &self,
        project: &str,
        text: &'a str,
        now: Timestamp,
    ) -> Result<Event<'a>, Refused> {
        let mut event = Event::default();
        match self.read(text, now, &mut event) {
            Ok(()) => {
                event.key = Some(Cow::Owned(self.consumer.clone()));
                if !event.idempotency_key.is_empty() {
                    let id = keyed_id(project, &self.consumer, &event.idempotency_key);
                    event.id = Some(Cow::Owned(id));
                }
                Ok(event)
            }
            Err(fault) => Err(Refused { id: None, fault }),
        }
    }

    fn read<'a>(&self, text: &'a str, now: Timestamp, event: &mut Event<'a>) -> Result<(), Fault> {
        let mut seen = Members::default();
        each_member(&mut Scanner::new(text), |name, value| {
            let Some(place) = MEMBERS.iter().position(|member| *member == name) else {
                let detail = format!("an event has {}", MEMBERS.join(", "));
                return Err(Fault::new(code::UNKNOWN_MEMBER, name.into_owned(), detail));
            };
            seen.once(place, &name)?;
            read_member(&name, value, now, event)
        })?;
        if !seen.has(0) {
            return Err(Fault::of_field("payload", "is missing"));
        }
        match (&self.event, event.kind.is_empty()) {
            (Some(name), true) => event.kind = Cow::Owned(name.clone()),
            (None, true) => {
                let detail = "is missing: name it in the query, `?event=NAME`, or in the event";
                return Err(Fault::of_field("event", detail));
            }
            _ => {}
        }
        Ok(())
    }
}

fn read_member<'a>(
    name: &str,
    value: &'a str,
    now: Timestamp,
    event: &mut Event<'a>,
) -> Result<(), Fault> {
    if value == "null" && name != "payload" {
        return Ok(());
    }
    match name {
        "payload" => {
            event.data = Cow::Borrowed(value.as_bytes());
            event.data_content_type = Cow::Borrowed("application/json");
        }
        "event" => {
            event.kind = text_member(name, value, 1, NAME_BYTES_MAX)?;
            name_ok(name, &event.kind)?;
        }
        "idempotency_key" => event.idempotency_key = text_member(name, value, 0, NAME_BYTES_MAX)?,
        "labels" => event.labels = labels_member(value)?,
        "metadata" if value.starts_with('{') => event.extensions = value.as_bytes().to_vec(),
        "metadata" => return Err(Fault::of_field(name, "must be an object")),
        _ => {
            let seconds: Option<u64> = value.parse().ok();
            let seconds = seconds.filter(|seconds| *seconds <= TTL_SECONDS_MAX);
            let Some(seconds) = seconds else {
                let detail = format!("takes whole seconds up to {TTL_SECONDS_MAX}; 0 is never");
                return Err(Fault::of_field(name, detail));
            };
            if seconds > 0 {
                let ttl_ms = i64::try_from(seconds * 1_000).unwrap_or(i64::MAX);
                event.expires_ms = now.as_millis().saturating_add(ttl_ms);
            }
        }
    }
    Ok(())
}

/// What the check of an event's type gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) schema: SchemaCheck,
    warnings: Vec<String>,
}

/// Judges an event's type and payload.
pub(super) fn check_type(
    types: &dyn EventTypes,
    project: &str,
    event: &Event<'_>,
) -> Result<Checked, Fault> {
    let checked = |schema, warnings| Ok(Checked { schema, warnings });
    match types.judge(project, &event.kind, &event.data) {
        TypeVerdict::Unchecked => checked(SchemaCheck::None, Vec::new()),
        TypeVerdict::Valid => checked(SchemaCheck::Valid, Vec::new()),
        TypeVerdict::Invalid(warnings) => checked(SchemaCheck::Invalid, warnings),
        TypeVerdict::Unknown => {
            let detail = format!(
                "no event type `{}`: register it with POST /v1/event-types, or set \
                 webhooks.auto_register_event_types",
                event.kind
            );
            Err(Fault::new(code::UNKNOWN_EVENT_TYPE, "event", detail))
        }
        TypeVerdict::Deactivated => {
            let detail = format!("the event type `{}` is deactivated", event.kind);
            Err(Fault::new(code::DEACTIVATED_EVENT_TYPE, "event", detail))
        }
    }
}

/// The answer to one event that was sent alone.
pub(super) fn answer_one(verdict: &Verdict, checked: &Checked) -> Answer {
    if let Verdict::Refused(_, fault) = verdict {
        return refused(fault);
    }
    let mut out = Vec::with_capacity(128);
    out.push(b'{');
    push_taken(verdict, checked, &mut out);
    out.push(b'}');
    no_store(answer(StatusCode::CREATED, "application/json", out))
}

/// A refusal of one event, or of what the path and query say.
pub(super) fn refused(fault: &Fault) -> Answer {
    let status = match fault.code {
        code::IDEMPOTENCY_CONFLICT => StatusCode::CONFLICT,
        code::UNKNOWN_EVENT_TYPE => StatusCode::NOT_FOUND,
        code::MALFORMED_JSON => StatusCode::BAD_REQUEST,
        code::EVENT_TOO_LARGE => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    problem_of_field(status, fault.code, &fault.field, &fault.detail)
}

/// The answer to several events.
pub(super) fn answer_all(verdicts: &[Verdict], checked: &[Checked]) -> Answer {
    let out = list_json(verdicts, |index, verdict, out| match verdict {
        Verdict::Refused(_, fault) => push_fault(fault, out),
        taken => {
            out.push(b',');
            push_taken(taken, &checked[index], out);
        }
    });
    let is_refused = |verdict: &Verdict| matches!(verdict, Verdict::Refused(..));
    let status = match verdicts.iter().all(is_refused) {
        true => StatusCode::UNPROCESSABLE_ENTITY,
        false => StatusCode::CREATED,
    };
    no_store(answer(status, "application/json", out))
}

fn push_taken(verdict: &Verdict, checked: &Checked, out: &mut Vec<u8>) {
    let (id, duplicate) = match verdict {
        Verdict::Accepted(id) => (id, false),
        Verdict::Duplicate(id) => (id, true),
        Verdict::Refused(..) => return,
    };
    out.extend_from_slice(b"\"event_id\":");
    push_json_string(id, out);
    let valid = checked.schema != SchemaCheck::Invalid;
    out.extend_from_slice(
        format!(",\"duplicate\":{duplicate},\"schema_valid\":{valid},\"warnings\":[").as_bytes(),
    );
    for (place, warning) in checked.warnings.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        push_json_string(warning, out);
    }
    out.push(b']');
}

/// Whether one object was sent, and not a list.
pub(super) fn is_single(shape: Shape, body: &[u8]) -> bool {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    shape != Shape::Lines && first == Some(&b'{')
}
