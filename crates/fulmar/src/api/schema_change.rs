//! Whether a schema refuses what another took, as far as that shows without solving it: types,
//! required members, enumerations and closed objects, at any depth.

use serde_json::Value;

/// Depth to which members are compared; registered schemas are no deeper.
const DEPTH_MAX: usize = 64;

/// What the new schema refuses that the old one took; none when nothing is seen.
#[must_use]
pub fn breaking_change(old: Option<&Value>, new: Option<&Value>) -> Option<String> {
    match (old, new) {
        (_, None) => None,
        (None, Some(new)) => match new.as_object().is_some_and(|members| !members.is_empty()) {
            true => Some("there was no schema before".to_owned()),
            false => None,
        },
        (Some(old), Some(new)) => compare(old, new, "payload", 0),
    }
}

fn compare(old: &Value, new: &Value, at: &str, depth: usize) -> Option<String> {
    if depth > DEPTH_MAX {
        return None;
    }
    if *new == Value::Bool(false) && *old != Value::Bool(false) {
        return Some(format!("{at} takes nothing any more"));
    }
    let types = names(old.get("type"));
    let narrowed = names(new.get("type"));
    if !narrowed.is_empty() {
        let lost = types.iter().find(|name| !takes(&narrowed, name));
        match lost {
            Some(lost) => return Some(format!("{at} takes no {lost} any more")),
            None if types.is_empty() => return Some(format!("{at} had any type")),
            None => {}
        }
    }
    let required = names(old.get("required"));
    for name in names(new.get("required")) {
        if !required.contains(&name) {
            return Some(format!("{at}.{name} is required"));
        }
    }
    if let Some(values) = new.get("enum").and_then(Value::as_array) {
        let before = old.get("enum").and_then(Value::as_array);
        let lost = before.is_none_or(|before| before.iter().any(|one| !values.contains(one)));
        if lost {
            return Some(format!("{at} takes fewer values"));
        }
    }
    let is_closed =
        |schema: &Value| schema.get("additionalProperties") == Some(&Value::Bool(false));
    if is_closed(new) && !is_closed(old) {
        return Some(format!("{at} takes no further members"));
    }
    let members = |schema: &Value| schema.get("properties").and_then(Value::as_object).cloned();
    let (before, after) = (
        members(old).unwrap_or_default(),
        members(new).unwrap_or_default(),
    );
    for (name, old) in &before {
        let place = format!("{at}.{name}");
        match after.get(name) {
            Some(new) => {
                if let Some(broken) = compare(old, new, &place, depth + 1) {
                    return Some(broken);
                }
            }
            None if is_closed(new) => return Some(format!("{place} is gone")),
            None => {}
        }
    }
    match (old.get("items"), new.get("items")) {
        (Some(old), Some(new)) => compare(old, new, &format!("{at}[]"), depth + 1),
        _ => None,
    }
}

/// A number is what an integer is, too.
fn takes(types: &[String], name: &str) -> bool {
    types
        .iter()
        .any(|one| one == name || one == "number" && name == "integer")
}

fn names(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(name)) => vec![name.clone()],
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_refused_from_now_on_is_named() {
        let old = json!({
            "type": "object",
            "required": ["id"],
            "properties": {
                "id": {"type": "integer"},
                "state": {"enum": ["a", "b"]},
                "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "number"}}}},
            },
        });
        let with = |pointer: &str, value: Value| {
            let mut new = old.clone();
            *new.pointer_mut(pointer).unwrap() = value;
            breaking_change(Some(&old), Some(&new))
        };
        let table = [
            (
                "/required",
                json!(["id", "total"]),
                Some("payload.total is required"),
            ),
            ("/required", json!([]), None),
            (
                "/properties/id/type",
                json!("string"),
                Some("payload.id takes no integer any more"),
            ),
            ("/properties/id/type", json!("number"), None),
            ("/properties/id/type", json!(["integer", "null"]), None),
            (
                "/properties/state/enum",
                json!(["a"]),
                Some("payload.state takes fewer values"),
            ),
            ("/properties/state/enum", json!(["a", "b", "c"]), None),
            (
                "/properties/lines/items/properties/n/type",
                json!("integer"),
                Some("payload.lines[].n takes no number any more"),
            ),
            (
                "/properties/state",
                json!({"type": "string"}),
                Some("payload.state had any type"),
            ),
        ];
        for (pointer, value, expected) in table {
            let found = with(pointer, value.clone());
            assert_eq!(found.as_deref(), expected, "{pointer} {value}");
        }
        let mut closed = old.clone();
        closed["additionalProperties"] = json!(false);
        let found = breaking_change(Some(&old), Some(&closed));
        assert_eq!(found.as_deref(), Some("payload takes no further members"));
        assert_eq!(breaking_change(None, Some(&json!({}))), None);
        assert!(breaking_change(None, Some(&old)).is_some());
        assert_eq!(breaking_change(Some(&old), None), None);
    }
}
