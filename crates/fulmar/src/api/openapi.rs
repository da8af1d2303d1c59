//! The OpenAPI 3.1 document, made from the routes.

use fulmar_gateway::problem;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::route::{Route, routes};

/// The document.
#[must_use]
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in routes() {
        let operation = operation(&route, &mut generator);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation;
    }
    publishing(&mut paths);
    let mut schemas = generator.take_definitions(true);
    schemas.insert("Problem".to_owned(), problem_schema());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Fulmar",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Publish events, and deliver them to webhooks.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"bearer": []}, {"apiKey": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
            "schemas": schemas,
        },
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = names(route.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    parameters.extend(route.query.iter().map(|(name, what)| {
        json!({"name": name, "in": "query", "description": what, "schema": {"type": "string"}})
    }));
    let (status, gives) = route.gives;
    let mut answer = json!({"description": route.summary});
    if let Some(gives) = gives {
        answer["content"] = json!({"application/json": {"schema": gives(generator)}});
    }
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "responses": {
            status.to_string(): answer,
            "default": problem_answer(),
        },
    });
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(takes) = route.takes {
        operation["requestBody"] = json!({
            "content": {"application/json": {"schema": takes(generator)}},
        });
    }
    operation
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('{')
        .skip(1)
        .filter_map(|rest| rest.split('}').next())
}

fn problem_answer() -> Value {
    json!({
        "description": "Refused",
        "content": {
            problem::PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}},
        },
    })
}

fn problem_schema() -> Value {
    json!({
        "type": "object",
        "description": "A refusal (RFC 9457).",
        "required": ["type", "title", "status", "code", "detail"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"type": "string", "description": "for machines"},
            "field": {"type": "string", "description": "the field at fault"},
            "detail": {"type": "string", "description": "for people"},
        },
    })
}

/// The publish door answers beside these routes; its shapes are written here by hand.
fn publishing(paths: &mut Map<String, Value>) {
    let event = json!({
        "type": "object",
        "required": ["payload"],
        "properties": {
            "payload": {"description": "any JSON, kept byte for byte"},
            "event": {"type": "string", "description": "its name, where the query does not say it"},
            "idempotency_key": {"type": "string", "maxLength": 255},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "metadata": {"type": "object"},
            "ttl_seconds": {"type": "integer", "minimum": 0},
        },
    });
    let taken = json!({
        "type": "object",
        "properties": {
            "event_id": {"type": "string"},
            "duplicate": {"type": "boolean"},
            "schema_valid": {"type": "boolean"},
            "warnings": {"type": "array", "items": {"type": "string"}},
        },
    });
    let operation = json!({
        "operationId": "publishEvent",
        "summary": "Publishes an event, an array of them, or one a line (NDJSON)",
        "parameters": [
            {"name": "consumer", "in": "path", "required": true, "schema": {"type": "string"}},
            {"name": "event", "in": "query", "description": "the event's name", "schema": {"type": "string"}},
        ],
        "requestBody": {
            "required": true,
            "content": {
                "application/json": {"schema": {"oneOf": [event, {"type": "array", "items": event}]}},
                "application/x-ndjson": {"schema": {"type": "string"}},
            },
        },
        "responses": {
            "201": {
                "description": "Durable; of several, at least one",
                "content": {"application/json": {"schema": taken}},
            },
            "default": problem_answer(),
        },
    });
    let path = paths
        .entry("/v1/consumers/{consumer}/events")
        .or_insert_with(|| json!({}));
    path["post"] = operation;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the repository keeps it.
    const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");

    #[test]
    fn the_repository_s_copy_is_what_the_routes_say() {
        let made = serde_json::to_string_pretty(&document()).unwrap() + "\n";
        if std::env::var_os("FULMAR_WRITE_OPENAPI").is_some() {
            std::fs::write(KEPT, &made).unwrap();
        }
        let kept = std::fs::read_to_string(KEPT).unwrap_or_default();
        assert!(
            kept == made,
            "docs/openapi.json is not what the routes say: `make openapi`"
        );
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let mut references = Vec::new();
        collect(&document, &mut references);
        assert!(references.len() > 20);
        for reference in references {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    fn collect<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| collect(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| collect(value, found)),
            _ => {}
        }
    }
}
