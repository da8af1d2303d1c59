//! Published events, from the table `messages`.

use hyper::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::delivery_filter::{Place, time_of};
use super::paging::Page;
use super::prepared::prepared;
use super::reading::{moment, quoted};
use super::route::Route;
use super::{ApiError, Call, Reply};
use crate::admin::time_text;

/// Query parameters of the lists.
const FILTERS: &[(&str, &str)] = &[
    ("event", "of this name"),
    (
        "schema_valid",
        "whether the payload fitted its type's schema: true or false",
    ),
    (
        "labels",
        "`name=value`, several by commas: all must be there",
    ),
    ("created_after", "at this time or later, RFC 3339"),
    ("created_before", "before this time, RFC 3339"),
    ("prepare_repush", "true gives `repush_id`"),
    ("limit", "items of a page, 1 to 1000; default 50"),
    ("cursor", "`next_cursor` of the page before"),
];

pub fn routes(routes: &mut Vec<Route>) {
    let route = |path, told, handle| Route::new(Method::GET, path, told, handle);
    let told = (
        "listEvents",
        "Events published for a consumer, newest first",
    );
    let of_consumer = route("/v1/consumers/{consumer}/events", told, list);
    routes.push(of_consumer.gives::<EventPage>(200).asks(FILTERS));
    let told = ("listAllEvents", "Events published for all consumers");
    let of_all = route("/v1/events", told, list);
    routes.push(of_all.gives::<EventPage>(200).asks(FILTERS));
    let told = ("getEvent", "One event");
    let of_consumer = route("/v1/consumers/{consumer}/events/{id}", told, one);
    routes.push(of_consumer.gives::<EventView>(200));
    let told = ("getAnyEvent", "One event, of whichever consumer");
    routes.push(route("/v1/events/{id}", told, one).gives::<EventView>(200));
}

/// A published event.
#[derive(Serialize, JsonSchema)]
struct EventView {
    event_id: String,
    event_name: String,
    consumer: String,
    /// As it was published, byte for byte; a text where it is no JSON.
    #[schemars(with = "serde_json::Value")]
    payload: Box<RawValue>,
    #[schemars(with = "serde_json::Value")]
    labels: Box<RawValue>,
    idempotency_key: Option<String>,
    /// Null where its type has no schema.
    schema_valid: Option<bool>,
    created_at: String,
}

/// A page of events.
#[derive(Serialize, JsonSchema)]
struct EventPage {
    events: Vec<EventView>,
    /// Of the next page; null at the end.
    next_cursor: Option<String>,
    /// With `prepare_repush=true`: stands for all that these filters take, in `events:rePush`.
    repush_id: Option<String>,
}

/// A row of the query below.
#[derive(Deserialize)]
struct EventLine {
    event_id: String,
    r#type: String,
    consumer: String,
    data: Option<String>,
    labels: String,
    idempotency_key: String,
    schema_valid: Option<bool>,
    created_ms: i64,
}

impl EventLine {
    fn place(&self) -> Place {
        Place {
            created_ms: self.created_ms,
            id: self.event_id.clone(),
        }
    }

    fn view(self) -> EventView {
        EventView {
            event_id: self.event_id,
            event_name: self.r#type,
            consumer: self.consumer,
            payload: raw(self.data.unwrap_or_default(), "null"),
            labels: raw(self.labels, "{}"),
            idempotency_key: Some(self.idempotency_key).filter(|key| !key.is_empty()),
            schema_valid: self.schema_valid,
            created_at: time_text(self.created_ms),
        }
    }
}

/// JSON as it is; what is none as a text.
fn raw(text: String, absent: &str) -> Box<RawValue> {
    let text = if text.is_empty() {
        absent.to_owned()
    } else {
        text
    };
    RawValue::from_string(text.clone()).unwrap_or_else(|_| {
        let quoted = serde_json::Value::String(text).to_string();
        RawValue::from_string(quoted).expect("a quoted text is JSON")
    })
}

fn statement(conditions: &[String], limit: usize) -> String {
    let columns = "event_id, type, consumer, data, labels, idempotency_key, schema_valid, \
                   epoch_ms(event_time) AS created_ms";
    // What consumers have no part in was not published here.
    format!(
        "SELECT {columns} FROM messages WHERE consumer <> '' AND {} \
         ORDER BY event_time DESC, event_id DESC LIMIT {limit}",
        conditions.join(" AND ")
    )
}

/// What of the table the path and the query ask for.
pub fn conditions(call: &Call, page: &Page) -> Result<Vec<String>, ApiError> {
    let mut conditions = of_path(call);
    let given = |name: &str| call.query.get(name).filter(|text| !text.is_empty());
    conditions.extend(given("event").map(|name| format!("type = {}", quoted(name))));
    if let Some(valid) = given("schema_valid") {
        if !matches!(valid.as_str(), "true" | "false") {
            return Err(ApiError::invalid("schema_valid", "takes true or false"));
        }
        conditions.push(format!("schema_valid = {valid}"));
    }
    for pair in given("labels").into_iter().flat_map(|text| text.split(',')) {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| ApiError::invalid("labels", "takes `name=value`, several by commas"))?;
        let path = format!("$.\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
        let (path, value) = (quoted(&path), quoted(value));
        conditions.push(format!(
            "labels <> '' AND json_extract_string(labels, {path}) = {value}"
        ));
    }
    let after = time_of(call, "created_after")?;
    conditions.extend(after.map(|ms| format!("event_time >= {}", moment(ms))));
    let before = time_of(call, "created_before")?;
    conditions.extend(before.map(|ms| format!("event_time < {}", moment(ms))));
    let below = Place::below(page)?;
    conditions.extend(below.map(|place| place.followed_by("event_time", "event_id")));
    Ok(conditions)
}

fn list(call: &Call) -> Result<Reply, ApiError> {
    let page = Page::of(call)?;
    let sql = statement(&conditions(call, &page)?, page.limit + 1);
    let mut lines: Vec<EventLine> = call.api.reading.rows(&call.project, sql)?;
    let is_more = lines.len() > page.limit;
    lines.truncate(page.limit);
    let last = lines.last().filter(|_| is_more);
    Reply::ok(&EventPage {
        next_cursor: last.map(|last| last.place().cursor()),
        events: lines.into_iter().map(EventLine::view).collect(),
        repush_id: prepared(call, "prepare_repush")?,
    })
}

fn one(call: &Call) -> Result<Reply, ApiError> {
    let id = call.part("id");
    let mut conditions = of_path(call);
    conditions.push(format!("event_id = {}", quoted(id)));
    let lines: Vec<EventLine> = call
        .api
        .reading
        .rows(&call.project, statement(&conditions, 1))?;
    let line = lines.into_iter().next();
    Reply::ok(&line.ok_or_else(|| ApiError::unknown("event", id))?.view())
}

/// That it is of the consumer that the path names, if it names one.
pub fn of_path(call: &Call) -> Vec<String> {
    let named = call.path.get("consumer");
    let named = named.map(|name| format!("consumer = {}", quoted(name)));
    vec![named.unwrap_or_else(|| "true".to_owned())]
}
