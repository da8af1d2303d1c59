use proptest::prelude::*;
use serde::de::IgnoredAny;

use super::*;

fn is_json(text: &str) -> bool {
    let mut scanner = Scanner::new(text);
    scanner.value(DEPTH_MAX).is_ok() && scanner.finish().is_ok()
}

fn nested(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

#[test]
fn values_are_given_as_they_stand() {
    let table = [
        r#"{"a":[1,2,{"b":null}],"c":"d"}"#,
        "9007199254740993",
        "18446744073709551617",
        "1e400",
        "-0",
        "0.1234567890123456789",
        r#""\u0000 \ud800 \u00e9x""#,
        "[ ]",
        "{ }",
        "\"\u{2028}\u{1f3ff}\"",
    ];
    for text in table {
        let padded = format!(" \t\r\n{text} ,rest");
        let mut scanner = Scanner::new(&padded);
        assert_eq!(scanner.value(DEPTH_MAX), Ok(text));
        assert!(scanner.take(b','));
    }
}

#[test]
fn what_is_no_json_is_refused_where_it_breaks() {
    let table = [
        ("", 0),
        ("  ", 2),
        ("[1,]", 3),
        ("[1", 2),
        ("{\"a\"}", 4),
        ("{\"a\":}", 5),
        ("{\"a\":1,}", 7),
        ("{a:1}", 1),
        ("[1}", 2),
        ("01", 1),
        ("-", 1),
        ("1.", 2),
        ("1e", 2),
        ("+1", 0),
        (".5", 0),
        ("nul", 0),
        ("NaN", 0),
        ("'a'", 0),
        ("\"a", 2),
        ("\"\\x\"", 1),
        ("\"\\u12g4\"", 1),
        ("\"a\nb\"", 2),
        ("\"a\u{0}b\"", 2),
        ("\u{feff}1", 0),
    ];
    for (text, at) in table {
        let error = Scanner::new(text).value(DEPTH_MAX).unwrap_err();
        assert_eq!(error.at, at, "{text:?}: {error}");
    }
    let mut two = Scanner::new("{} {}");
    two.value(DEPTH_MAX).unwrap();
    assert_eq!(two.finish().unwrap_err().at, 3);
}

#[test]
fn depth_is_bounded_at_128_and_half_a_million_is_refused_at_once() {
    assert!(is_json(&nested(127)) && is_json(&nested(128)));
    assert!(!is_json(&nested(129)));
    let error = Scanner::new(&"[".repeat(500_000))
        .value(DEPTH_MAX)
        .unwrap_err();
    assert_eq!((error.at, error.reason), (128, "nested too deep"));
    let objects = format!("{}1{}", "{\"a\":".repeat(128), "}".repeat(128));
    assert!(is_json(&objects));
    assert!(!is_json(&format!("[{objects}]")));
    // However much is asked for, the levels have a bound of their own.
    assert!(Scanner::new(&nested(193)).value(usize::MAX).is_err());
}

#[test]
fn texts_are_read_with_their_surrogates() {
    let of = |inner: &'static str| {
        decode_text(RawText {
            inner,
            escaped: true,
        })
    };
    assert_eq!(of(r"\ud83c\udfff").unwrap(), "\u{1f3ff}");
    assert_eq!(of(r"a\u00e9x\n\/\\").unwrap(), "a\u{e9}x\n/\\");
    for alone in [
        r"\ud800",
        r"\udfff",
        r"\ud83c",
        r"\ud83cx",
        r"\ud83c\u0041",
        r"\ud83c\ud83c",
    ] {
        assert_eq!(of(alone), Err(BadText), "{alone}");
    }
}

/// JSON text with faults: values written by serde_json, then bytes changed,
/// cut out or doubled.
fn mutated_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|b| b.to_string()),
        any::<f64>()
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(|f| f.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<String>().prop_map(|s| serde_json::to_string(&s).unwrap()),
        "[-+0-9.eE]{1,8}",
        "\"[\\\\u0-9a-fD-]{0,14}\"",
    ];
    let tree = leaf.prop_recursive(6, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|v| format!("[{}]", v.join(" ,"))),
            prop::collection::vec((any::<String>(), inner), 0..6).prop_map(|members| {
                let member = |(name, value): (String, String)| {
                    format!("{}: {value}", serde_json::to_string(&name).unwrap())
                };
                let members: Vec<_> = members.into_iter().map(member).collect();
                format!("{{{}}}", members.join(",\n"))
            }),
        ]
    });
    (
        tree,
        any::<prop::sample::Index>(),
        0_usize..8,
        any::<char>(),
    )
        .prop_map(|(text, place, kind, character)| {
            let characters: Vec<char> = text.chars().collect();
            let place = place.index(characters.len().max(1)).min(characters.len());
            let (front, back) = characters.split_at(place);
            let mut changed: String = front.iter().collect();
            let rest: String = back.iter().skip(1).collect();
            match kind {
                0 => changed.push_str(&rest),
                1 => changed.extend([character].into_iter().chain(rest.chars())),
                2 => changed.extend(['"'].into_iter().chain(back.iter().copied())),
                3 => {}
                _ => return text,
            }
            changed
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn agrees_with_serde_json_on_what_is_json(text in mutated_json()) {
        let theirs = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        prop_assert_eq!(is_json(&text), theirs, "{}", text);
    }

    #[test]
    fn agrees_with_serde_json_on_any_text(text in ".{0,40}") {
        let theirs = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        prop_assert_eq!(is_json(&text), theirs);
    }

    #[test]
    fn agrees_with_serde_json_on_what_a_string_means(
        inner in prop::collection::vec(
            prop_oneof![
                "[ -!#-\\[\\]-~\u{e9}\u{1f3ff}]",
                "\\\\[\"\\\\/bfnrtu]",
                "\\\\u[dD][89a-f][0-9a-f]{2}",
                "\\\\u[0-9a-f]{4}",
            ],
            0..8,
        ),
    ) {
        let text = format!("\"{}\"", inner.concat());
        let theirs = serde_json::from_str::<String>(&text);
        let ours = Scanner::new(&text).string().map(decode_text);
        match (ours, theirs) {
            (Ok(Ok(ours)), Ok(theirs)) => prop_assert_eq!(ours, theirs),
            (Ok(Err(_)) | Err(_), Err(_)) => {}
            (ours, theirs) => prop_assert!(false, "{:?} {:?} {}", ours, theirs, text),
        }
    }
}

/// Sound JSON with white space, escapes and text of every length around eight bytes.
fn sound_json() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        "[a-zé{}\\[\\]:, ]{0,20}",
        Just(r#"a\"b\\"#.to_owned()),
        Just(r"\u0022\n\\\\".to_owned()),
    ];
    let leaf = prop_oneof![
        text.clone().prop_map(|text| format!("\"{text}\"")),
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        Just("-1.5e+10".to_owned()),
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        let member = (text.clone(), inner.clone(), "[ \n\t]{0,2}")
            .prop_map(|(name, value, space)| format!("{space}\"{name}\"{space}:{space}{value}"));
        prop_oneof![
            proptest::collection::vec(inner, 0..6).prop_map(|all| format!("[{}]", all.join(" , "))),
            proptest::collection::vec(member, 0..6)
                .prop_map(|all| format!("{{{}}}", all.join(","))),
        ]
    })
}

proptest! {
    /// What is skipped unread ends where what is checked ends, and is as deep.
    #[test]
    fn sound_values_are_skipped_as_they_are_checked(
        value in sound_json(),
        depth_max in 0_usize..8,
    ) {
        prop_assert!(is_json(&value), "{value}");
        let text = format!(" {value} ,1");
        let (mut checked, mut skipped) = (Scanner::new(&text), Scanner::of_sound(&text));
        let first = checked.value(depth_max).map_err(|error| error.reason);
        let second = skipped.value(depth_max).map_err(|error| error.reason);
        prop_assert_eq!(&second, &first);
        if first.is_ok() {
            prop_assert_eq!(skipped.position(), checked.position());
        }
    }

    /// Over what is no JSON nothing is promised, but that it ends.
    #[test]
    fn skipping_ends_on_any_text(text in "[\\[\\]{}\",:\\\\a1 é]{0,40}") {
        let mut scanner = Scanner::of_sound(&text);
        for _ in 0..100 {
            if scanner.value(3).is_err() {
                break;
            }
            scanner.take(b',');
        }
    }
}
