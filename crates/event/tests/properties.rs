//! The streaming flattener against the contract's rules and a tree-based reference.

use fulmar_event::{FLAT_BYTES_MAX, FlattenError, JsonFault, PAIRS_MAX, flatten_properties};
use proptest::prelude::*;
use serde_json::{Map, Value};

fn flat(json: &str) -> Result<Vec<(String, String)>, FlattenError> {
    let mut pairs = Vec::new();
    flatten_properties(json, |key, value| {
        pairs.push((key.to_owned(), value.to_owned()))
    })?;
    Ok(pairs)
}

fn check(json: &str, expected: &[(&str, &str)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    assert_eq!(flat(json), Ok(expected), "{json}");
}

#[test]
fn nested_keys_are_dotted_and_elements_numbered() {
    let sent = r#" {"app_version":"1.2.3","nested":{"a":1,"b":[1,[true]]},"e":{},"f":[]} "#;
    check(
        sent,
        &[
            ("app_version", "1.2.3"),
            ("nested.a", "1"),
            ("nested.b.0", "1"),
            ("nested.b.1.0", "true"),
        ],
    );
}

#[test]
fn nothing_is_dropped_but_null_and_empty() {
    check(
        r#"{"a":null,"b":"","c":"  ","d":" x ","e":false,"f":0}"#,
        &[("d", "x"), ("e", "false"), ("f", "0")],
    );
}

#[test]
fn members_with_columns_are_left_out_at_the_top_only() {
    let sent = r#"{"__path":{"x":1},"__referrer":"r","__timestamp":1,"__revenue":2,"__title":"t",
        "a":{"__path":"/p"}}"#;
    check(sent, &[("__title", "t"), ("a.__path", "/p")]);
}

#[test]
fn strings_that_hold_json_are_flattened() {
    check(
        r#"{"a":" {\"b\":[1,\"[2]\"]} ","c":"[x]","d":"{","e":"[1] x","f":"{\"a\":1}}"}"#,
        &[("a.b.0", "1"), ("a.b.1.0", "2"), ("d", "{"), ("e", "[1] x")],
    );
}

#[test]
fn lone_surrogates_are_left_out() {
    check(
        r#"{"a":"x\ud83dy","b":"\udc00","c":"\ud83d\ude00",
            "d":"\ud83d\u0041","e\ud800":1,"f":"\u0041\u0042"}"#,
        &[
            ("a", "xy"),
            ("c", "😀"),
            ("d", "A"),
            ("e", "1"),
            ("f", "AB"),
        ],
    );
}

// node -e 'for (const n of [1.0, 1e3, -0, 0.1, 1E-7, 1.5e21, 1e20, 0.000001])
//   console.log(String(n))'
#[test]
fn numbers_are_written_as_ecmascript_writes_them() {
    for (sent, expected) in [
        ("1.0", "1"),
        ("1e3", "1000"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("0.1", "0.1"),
        ("1E-7", "1e-7"),
        ("1.5e21", "1.5e+21"),
        ("1e20", "100000000000000000000"),
        ("0.000001", "0.000001"),
        // Beyond doubles: whole numbers keep their digits, the rest stays as written.
        ("9007199254740993", "9007199254740993"),
        ("1e999", "1e999"),
    ] {
        check(&format!("{{\"n\":{sent}}}"), &[("n", expected)]);
    }
}

#[test]
fn what_is_not_one_object_is_refused_with_its_place() {
    for (json, at) in [
        ("", 0),
        ("[]", 0),
        ("1", 0),
        (r#"{"a":1"#, 6),
        (r#"{"a" 1}"#, 5),
        (r#"{"a":1}x"#, 7),
        (r#"{"a":01}"#, 6),
        (r#"{"a":1.}"#, 7),
        (r#"{"a":-}"#, 6),
        (r#"{"a":tru}"#, 5),
        (r#"{"a":1,}"#, 7),
        ("{\"a\":\"\n\"}", 6),
        (r#"{"a":"\x"}"#, 7),
        (r#"{"a":"\u+123"}"#, 7),
        (r#"{"__path":[1,}"#, 13),
    ] {
        assert_eq!(
            flat(json),
            Err(JsonFault::Malformed { at }.into()),
            "{json}"
        );
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    assert_eq!(flat(&nested(128)).unwrap().len(), 1);
    assert_eq!(flat(&nested(129)), Err(JsonFault::TooDeep.into()));
    let skipped = format!("{{\"__path\":{}}}", nested(128));
    assert_eq!(flat(&skipped), Err(JsonFault::TooDeep.into()));
    // Levels inside a string count with those around it; too deep, it is no JSON of ours.
    let inside = |levels: usize| {
        format!(
            "{{\"s\":\"{}1{}\"}}",
            "[".repeat(levels),
            "]".repeat(levels)
        )
    };
    assert_eq!(flat(&inside(127)).unwrap().len(), 1);
    assert_eq!(flat(&inside(128)).unwrap().len(), 0);
}

#[test]
fn count_and_size_are_bounded() {
    let ones = |count: usize| format!("{{\"a\":[{}]}}", vec!["1"; count].join(","));
    assert_eq!(flat(&ones(PAIRS_MAX)).unwrap().len(), PAIRS_MAX);
    assert_eq!(flat(&ones(PAIRS_MAX + 1)), Err(FlattenError::TooManyPairs));
    let text = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes));
    assert_eq!(flat(&text(FLAT_BYTES_MAX - 1)).unwrap().len(), 1);
    assert_eq!(flat(&text(FLAT_BYTES_MAX)), Err(FlattenError::TooLarge));
    let repeated = format!(
        "{{\"{}\":[{}]}}",
        "k".repeat(30_000),
        vec!["1"; 20].join(",")
    );
    assert_eq!(flat(&repeated), Err(FlattenError::TooLarge));
}

/// The same rules over a tree.
fn reference(key: &str, value: &Value, pairs: &mut Vec<(String, String)>) {
    let below = |part: &str| {
        if key.is_empty() {
            part.to_owned()
        } else {
            format!("{key}.{part}")
        }
    };
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) => pairs.push((key.to_owned(), value.to_string())),
        Value::String(text) => {
            let text = text.trim();
            let framed = |open, close| text.starts_with(open) && text.ends_with(close);
            if framed('{', '}') || framed('[', ']') {
                if let Ok(inside) = serde_json::from_str::<Value>(text) {
                    reference(key, &inside, pairs);
                }
            } else if !text.is_empty() {
                pairs.push((key.to_owned(), text.to_owned()));
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                reference(&below(&index.to_string()), element, pairs);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                reference(&below(name), member, pairs);
            }
        }
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        r#"[\[{]["a:1, \]}\[{]{0,8}[\]}]"#.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-z\"\\\\é]{1,4}", inner.clone(), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
            inner.prop_map(|value| Value::from(value.to_string())),
        ]
    })
}

proptest! {
    #[test]
    fn agrees_with_a_tree(
        members in prop::collection::btree_map("[a-z]{1,4}", any_value(), 0..6),
    ) {
        let tree = Value::Object(members.into_iter().collect::<Map<_, _>>());
        let mut expected = Vec::new();
        reference("", &tree, &mut expected);
        let found = flat(&tree.to_string()).unwrap();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(
            flat(&serde_json::to_string_pretty(&tree).unwrap()), flat(&tree.to_string())
        );
    }

    #[test]
    fn accepts_exactly_what_a_full_parser_accepts(text in r#"\{["\\a:1e.,0\-\[\]{}tu ]{0,14}\}"#) {
        let parsed = serde_json::from_str::<Map<String, Value>>(&text);
        if parsed.is_ok() {
            prop_assert!(flat(&text).is_ok());
        }
        if flat(&text).is_ok() {
            // What only the tree refuses: halves of surrogate pairs, numbers beyond a double.
            let refused = parsed.err().map(|error| error.to_string()).unwrap_or_default();
            prop_assert!(
                refused.is_empty() || refused.contains("surrogate")
                    || refused.contains("number out of range") || refused.contains("hex escape"),
                "{refused}"
            );
        }
    }
}
