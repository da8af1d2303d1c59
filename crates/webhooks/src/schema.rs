//! JSON Schemas of event types: what may be registered (G5), and whether a payload holds to one.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// Depth of a schema at most.
const DEPTH_MAX: usize = 64;
/// Bytes of a schema at most.
const BYTES_MAX: usize = 64 * 1024;
/// Bytes of a compiled pattern at most: the engine's time is linear in the text, whatever it says.
const PATTERN_BYTES_MAX: usize = 256 * 1024;
/// What is told of a payload that does not hold to its schema.
const FAULTS_TOLD_MAX: usize = 5;

/// A schema that payloads can be checked against.
pub struct Schema {
    validator: Validator,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Schema")
    }
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// What it breaks: too large or deep, a reference to elsewhere, a pattern that looks around or
    /// back, or no schema at all.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
            return Err("takes a JSON Schema: an object, true or false".to_owned());
        }
        if schema.to_string().len() > BYTES_MAX {
            return Err(format!("takes at most {BYTES_MAX} bytes"));
        }
        walk(schema, 0)?;
        let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX);
        let options = jsonschema::options()
            .with_pattern_options(patterns)
            .offline();
        let built = options.build(schema);
        let validator = built.map_err(|error| format!("is no JSON Schema: {error}"))?;
        Ok(Self { validator })
    }

    /// Why a payload does not hold to it, the first few reasons; none when it does.
    #[must_use]
    pub fn faults(&self, payload: &Value) -> Vec<String> {
        let faults = self.validator.iter_errors(payload).take(FAULTS_TOLD_MAX);
        let told = faults.map(|fault| match fault.instance_path().as_str() {
            "" => fault.to_string(),
            path => format!("{path}: {fault}"),
        });
        told.collect()
    }
}

/// Depth, and references: they stay within the schema.
fn walk(schema: &Value, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("is deeper than {DEPTH_MAX}"));
    }
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                let is_reference =
                    matches!(name.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef");
                if let Some(target) = value.as_str().filter(|_| is_reference)
                    && !target.starts_with('#')
                {
                    let told = "is refused: references stay within the schema, and begin with #";
                    return Err(format!("the reference `{target}` {told}"));
                }
                walk(value, depth + 1)?;
            }
            Ok(())
        }
        Value::Array(items) => items.iter().try_for_each(|item| walk(item, depth + 1)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_payload_holds_or_is_told_why_not() {
        let schema = Schema::compile(&json!({
            "type": "object",
            "required": ["total"],
            "properties": {
                "total": {"type": "number", "minimum": 0},
                "sku": {"$ref": "#/$defs/sku"},
            },
            "$defs": {"sku": {"type": "string", "pattern": "^[a-z]+$"}},
        }))
        .unwrap();
        assert!(
            schema
                .faults(&json!({"total": 1.5, "sku": "abc"}))
                .is_empty()
        );
        let faults = schema.faults(&json!({"total": -1, "sku": "ABC"}));
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(
            faults.iter().any(|fault| fault.starts_with("/total: ")),
            "{faults:?}"
        );
        assert_eq!(schema.faults(&json!(7)).len(), 1);
    }

    #[test]
    fn what_reaches_out_or_costs_without_bound_is_refused() {
        let mut deep = json!({});
        for _ in 0..70 {
            deep = json!({ "not": deep });
        }
        let long = json!({ "description": "x".repeat(70_000) });
        for (schema, told) in [
            (json!({"$ref": "https://example.com/s.json"}), "is refused"),
            (json!({"$ref": "file:///etc/passwd"}), "is refused"),
            (
                json!({"properties": {"a": {"$ref": "other.json#/a"}}}),
                "is refused",
            ),
            (deep, "deeper than 64"),
            (long, "at most 65536 bytes"),
            (json!({"type": 7}), "is no JSON Schema"),
            (json!({"pattern": "(?=a)b"}), "is no JSON Schema"),
            (json!({"pattern": "(a)\\1"}), "is no JSON Schema"),
            (json!([1]), "takes a JSON Schema"),
        ] {
            let error = Schema::compile(&schema).unwrap_err();
            assert!(error.contains(told), "{schema}: {error}");
        }
    }

    #[test]
    fn a_pattern_that_is_made_to_backtrack_takes_linear_time() {
        let schema = Schema::compile(&json!({"pattern": "^(a+)+$"})).unwrap();
        let payload = json!(format!("{}b", "a".repeat(50_000)));
        assert_eq!(schema.faults(&payload).len(), 1);
    }
}
