//! Event types: names that may be published, with the schemas of their payloads.

use fulmar_registry::{Change, EventType, Snapshot, TypeVersion};
use fulmar_webhooks::schema::Schema;
use hyper::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::paging::Page;
use super::route::{PAGING, Route};
use super::schema_change::breaking_change;
use super::webhook_fields::given;
use super::{ApiError, Call, Reply};
use crate::admin::time_text;

pub fn routes(routes: &mut Vec<Route>) {
    routes.extend(types());
    routes.extend(versions());
}

fn types() -> impl IntoIterator<Item = Route> {
    let (list_path, one) = ("/v1/event-types", "/v1/event-types/{name}");
    [
        Route::new(
            Method::GET,
            list_path,
            ("listEventTypes", "Event types"),
            list,
        )
        .gives::<EventTypePage>(200)
        .asks(PAGING),
        Route::new(
            Method::POST,
            list_path,
            ("createEventType", "A new event type"),
            create,
        )
        .takes::<NewEventType>()
        .gives::<EventTypeView>(201),
        Route::new(
            Method::GET,
            one,
            ("getEventType", "One event type, with its schema"),
            get,
        )
        .gives::<EventTypeView>(200),
        Route::new(
            Method::PATCH,
            one,
            (
                "updateEventType",
                "Changes it; another schema is a new version",
            ),
            update,
        )
        .takes::<EventTypeFields>()
        .gives::<EventTypeView>(200),
    ]
}

fn versions() -> impl IntoIterator<Item = Route> {
    let all = "/v1/event-types/{name}/versions";
    let one = "/v1/event-types/{name}/versions/{version}";
    let validating = "/v1/event-types/{name}:validate";
    [
        Route::new(
            Method::GET,
            all,
            ("listEventTypeVersions", "All versions of its schema"),
            list_versions,
        )
        .gives::<Versions>(200),
        Route::new(
            Method::GET,
            one,
            ("getEventTypeVersion", "One version of its schema"),
            get_version,
        )
        .gives::<VersionView>(200),
        Route::new(
            Method::POST,
            validating,
            ("validatePayload", "Whether a payload holds to its schema"),
            validate,
        )
        .takes::<Sample>()
        .gives::<Checked>(200),
    ]
}

/// What a new event type is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewEventType {
    /// Its name.
    name: String,
    /// For people.
    #[serde(default)]
    description: String,
    /// The JSON Schema of its payloads.
    #[serde(default)]
    schema: Option<Value>,
}

/// What of an event type can be changed.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct EventTypeFields {
    /// For people.
    description: Option<String>,
    /// Another JSON Schema: a new version; null for none.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<Value>")]
    schema: Option<Option<Value>>,
    /// False refuses events of it.
    active: Option<bool>,
    /// Take a schema that refuses what the one before took.
    allow_breaking: bool,
}

/// An event type as it is shown.
#[derive(Serialize, JsonSchema)]
struct EventTypeView {
    name: String,
    description: String,
    active: bool,
    /// Number of the version that counts.
    version: usize,
    schema: Option<Value>,
    created_at: String,
    updated_at: String,
}

/// A page of event types.
#[derive(Serialize, JsonSchema)]
struct EventTypePage {
    event_types: Vec<EventTypeView>,
    /// Of the next page; null at the end.
    next_cursor: Option<String>,
}

/// One version of a schema.
#[derive(Serialize, JsonSchema)]
struct VersionView {
    version: usize,
    schema: Option<Value>,
    created_at: String,
}

/// All versions, oldest first.
#[derive(Serialize, JsonSchema)]
struct Versions {
    versions: Vec<VersionView>,
}

/// A payload to be checked.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Sample {
    payload: Value,
}

/// What a check gave.
#[derive(Serialize, JsonSchema)]
struct Checked {
    schema_valid: bool,
    warnings: Vec<String>,
}

impl EventTypeView {
    fn of(one: &EventType) -> Self {
        Self {
            name: one.name.clone(),
            description: one.description.clone(),
            active: !one.deactivated,
            version: one.versions.len(),
            schema: one.schema().cloned(),
            created_at: time_text(one.created_ms),
            updated_at: time_text(one.updated_ms),
        }
    }
}

fn version_view((place, version): (usize, &TypeVersion)) -> VersionView {
    VersionView {
        version: place + 1,
        schema: version.schema.clone(),
        created_at: time_text(version.created_ms),
    }
}

fn list(call: &Call) -> Result<Reply, ApiError> {
    let (page, state) = (Page::of(call)?, call.state());
    let own = state
        .event_types
        .values()
        .filter(|one| one.project == call.project);
    let after = page.after.clone().unwrap_or_default();
    let rest = own.filter(|one| one.name > after);
    let mut rest: Vec<_> = rest
        .map(|one| (one.name.clone(), EventTypeView::of(one)))
        .collect();
    rest.sort_by(|a, b| a.0.cmp(&b.0));
    let (event_types, next_cursor) = page.cut(rest.into_iter());
    Reply::ok(&EventTypePage {
        event_types,
        next_cursor,
    })
}

fn create(call: &Call) -> Result<Reply, ApiError> {
    let new: NewEventType = call.read()?;
    check_schema(new.schema.as_ref())?;
    let event_type = EventType {
        project: call.project.clone(),
        name: new.name,
        description: new.description,
        versions: vec![TypeVersion {
            schema: new.schema,
            created_ms: call.now_ms,
        }],
        deactivated: false,
        created_ms: call.now_ms,
        updated_ms: call.now_ms,
    };
    let view = EventTypeView::of(&event_type);
    call.change(|state| {
        if state.event_type(&call.project, &event_type.name).is_some() {
            let detail = format!("the event type `{}` exists already", event_type.name);
            let code = "exists";
            return Err(ApiError::Conflict { code, detail });
        }
        Ok(Change::EventTypeSet {
            event_type: Box::new(event_type),
        })
    })?;
    Reply::created(&view)
}

/// That a schema is one, and not too much.
pub fn check_schema(schema: Option<&Value>) -> Result<(), ApiError> {
    let Some(schema) = schema else {
        return Ok(());
    };
    let compiled = Schema::compile(schema);
    compiled
        .map(drop)
        .map_err(|wrong| ApiError::invalid("schema", wrong))
}

fn found<'a>(call: &Call, state: &'a Snapshot) -> Result<&'a EventType, ApiError> {
    let name = call.part("name");
    let found = state.event_type(&call.project, name);
    found
        .map(|one| &**one)
        .ok_or_else(|| ApiError::unknown("event type", name))
}

fn get(call: &Call) -> Result<Reply, ApiError> {
    let state = call.state();
    Reply::ok(&EventTypeView::of(found(call, &state)?))
}

fn update(call: &Call) -> Result<Reply, ApiError> {
    let fields: EventTypeFields = call.read()?;
    check_schema(fields.schema.as_ref().and_then(Option::as_ref))?;
    let mut view = None;
    call.change(|state| {
        let mut next = found(call, state)?.clone();
        if let Some(description) = fields.description {
            next.description = description;
        }
        if let Some(active) = fields.active {
            next.deactivated = !active;
        }
        if let Some(schema) = fields.schema
            && next.schema() != schema.as_ref()
        {
            let broken = breaking_change(next.schema(), schema.as_ref());
            if let Some(broken) = broken.filter(|_| !fields.allow_breaking) {
                let detail = format!(
                    "the schema refuses what the one before took: {broken}; set allow_breaking \
                     to take it all the same"
                );
                let code = "breaking_schema";
                return Err(ApiError::Conflict { code, detail });
            }
            next.versions.push(TypeVersion {
                schema,
                created_ms: call.now_ms,
            });
        }
        next.updated_ms = call.now_ms;
        view = Some(EventTypeView::of(&next));
        Ok(Change::EventTypeSet {
            event_type: Box::new(next),
        })
    })?;
    Reply::ok(&view)
}

fn list_versions(call: &Call) -> Result<Reply, ApiError> {
    let state = call.state();
    let versions = found(call, &state)?.versions.iter().enumerate();
    Reply::ok(&Versions {
        versions: versions.map(version_view).collect(),
    })
}

fn get_version(call: &Call) -> Result<Reply, ApiError> {
    let (state, wanted) = (call.state(), call.part("version"));
    let mut versions = found(call, &state)?.versions.iter().enumerate();
    let version = versions.find(|(place, _)| (place + 1).to_string() == wanted);
    let version = version.ok_or_else(|| ApiError::unknown("version", wanted))?;
    Reply::ok(&version_view(version))
}

fn validate(call: &Call) -> Result<Reply, ApiError> {
    let sample: Sample = call.read()?;
    let state = call.state();
    let warnings = match found(call, &state)?.schema() {
        None => Vec::new(),
        Some(schema) => {
            let schema = Schema::compile(schema).map_err(ApiError::Failed)?;
            schema.faults(&sample.payload)
        }
    };
    Reply::ok(&Checked {
        schema_valid: warnings.is_empty(),
        warnings,
    })
}
