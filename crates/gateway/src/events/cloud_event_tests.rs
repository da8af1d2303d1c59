use super::*;
use hyper::header::{HeaderName, HeaderValue};

#[test]
fn a_structured_event_keeps_its_parts() {
    let text = r#"{"specversion":"1.0","id":"A-1","source":"/shop","type":"order.paid",
        "time":"2026-11-30T21:56:06Z","subject":"o","datacontenttype":"application/json",
        "data":{"n": 1.0},"partitionkey":"c-7","sampled":true,"rank":3,
        "dataschema":"https://s/1"}"#;
    let event = parse_cloud_event(text).unwrap();
    assert_eq!(event.id.as_deref(), Some(&*cloud_event_id("/shop", "A-1")));
    assert_eq!(
        (&*event.source, &*event.kind, &*event.subject),
        ("/shop", "order.paid", "o")
    );
    assert_eq!(
        (&*event.data, event.data_base64),
        (&br#"{"n": 1.0}"#[..], false)
    );
    assert_eq!(event.key.as_deref(), Some("c-7"));
    let extensions = std::str::from_utf8(&event.extensions).unwrap();
    let expected = concat!(
        r#"{"specversion":"1.0","id":"A-1","partitionkey":"c-7","sampled":true,"rank":3,"#,
        r#""dataschema":"https://s/1"}"#
    );
    assert_eq!(extensions, expected);
}

#[test]
fn one_id_of_two_sources_is_two_events() {
    let of = |source: &str| {
        let text = format!(r#"{{"specversion":"1.0","id":"1","source":"{source}","type":"t"}}"#);
        parse_cloud_event(&text).unwrap().id.unwrap().into_owned()
    };
    assert_ne!(of("/a"), of("/b"));
    assert_eq!(of("/a"), of("/a"));
}

#[test]
fn what_a_cloud_event_must_have_and_must_not() {
    let table = [
        (r#"{"id":"1","source":"/s","type":"t"}"#, "specversion"),
        (
            r#"{"specversion":"0.3","id":"1","source":"/s","type":"t"}"#,
            "specversion",
        ),
        (r#"{"specversion":"1.0","source":"/s","type":"t"}"#, "id"),
        (r#"{"specversion":"1.0","id":"1","type":"t"}"#, "source"),
        (r#"{"specversion":"1.0","id":"1","source":"/s"}"#, "type"),
        (
            r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","Bad_Name":1}"#,
            "Bad_Name",
        ),
        (
            r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","ext":{}}"#,
            "ext",
        ),
        (
            r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","ext":1,"ext":1}"#,
            "ext",
        ),
        (
            r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","time":"x"}"#,
            "time",
        ),
        (
            r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"?"}"#,
            "data_base64",
        ),
        (
            r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"data_base64":""}"#,
            "data_base64",
        ),
    ];
    for (text, field) in table {
        let refused = parse_cloud_event(text).unwrap_err();
        assert_eq!(refused.fault.field, field, "{text}");
    }
}

#[test]
fn base64_stays_base64() {
    let text =
        r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"AAEC/w=="}"#;
    let event = parse_cloud_event(text).unwrap();
    assert_eq!((&*event.data, event.data_base64), (&b"AAEC/w=="[..], true));
    assert_eq!(base64(&[0, 1, 2, 255]), b"AAEC/w==");
    assert_eq!(
        (base64(b""), base64(b"a"), base64(b"ab")),
        (vec![], b"YQ==".into(), b"YWI=".into())
    );
    assert_eq!(base64(b"abc"), b"YWJj");
}

fn binary<'a>(headers: &[(&str, &str)], body: &'a [u8]) -> Result<Event<'a>, Refused> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        map.append(name, HeaderValue::from_str(value).unwrap());
    }
    parse_binary(&map, body)
}

const NEEDED: [(&str, &str); 4] = [
    ("ce-specversion", "1.0"),
    ("ce-id", "1"),
    ("ce-source", "/s"),
    ("ce-type", "t"),
];

#[test]
fn binary_mode_reads_headers_and_keeps_the_body() {
    let with = |more: &[(&'static str, &'static str)]| [&NEEDED[..], more].concat();
    let headers = with(&[
        ("content-type", "application/json"),
        ("ce-trace", "caf%C3%A9%20x"),
    ]);
    let event = binary(&headers, b" {\"n\":1} ").unwrap();
    assert_eq!(
        (&*event.data, event.data_base64),
        (&b"{\"n\":1}"[..], false)
    );
    let extensions = std::str::from_utf8(&event.extensions).unwrap();
    assert_eq!(
        extensions,
        "{\"specversion\":\"1.0\",\"id\":\"1\",\"trace\":\"caf\u{e9} x\"}"
    );
    assert_eq!(event.id.as_deref(), Some(&*cloud_event_id("/s", "1")));
    let event = binary(&with(&[("content-type", "image/png")]), &[0, 1, 2, 255]).unwrap();
    assert_eq!((&*event.data, event.data_base64), (&b"AAEC/w=="[..], true));
    assert_eq!(event.data_content_type, "image/png");
    let refused = binary(&with(&[("content-type", "application/json")]), b"{").unwrap_err();
    assert_eq!(refused.fault.field, "data");
    let refused = binary(&with(&[("ce-ext", "%zz")]), b"").unwrap_err();
    assert_eq!(refused.fault.field, "ext");
    assert!(binary(&NEEDED[1..], b"").is_err());
}
