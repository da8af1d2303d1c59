//! From a body to the texts of its events.

use hyper::HeaderMap;
use hyper::header::CONTENT_TYPE;

use super::verdict::{Fault, code};
use crate::json::{JsonError, Scanner};

/// Depth in which items are told apart: the scanner's own bound. An event that
/// is too deep is refused by itself later, and costs no neighbour.
const ITEM_DEPTH_MAX: usize = usize::MAX;

/// How a body carries events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One JSON event or an array of them, as the first byte says.
    Json,
    /// The same, or NDJSON if more documents follow the first: for types that
    /// beacons and tools send without meaning them.
    Sniffed,
    /// A JSON event a line.
    Lines,
    /// One CloudEvent.
    CloudEvent,
    /// An array of CloudEvents.
    CloudEvents,
    /// A CloudEvent whose attributes are headers and whose data is the body.
    CloudEventBinary,
}

impl Shape {
    pub(super) fn is_cloud_event(self) -> bool {
        matches!(
            self,
            Self::CloudEvent | Self::CloudEvents | Self::CloudEventBinary
        )
    }
}

/// What is wrong with the whole body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EnvelopeFault {
    /// 415.
    MediaType,
    /// 400: not UTF-8, not JSON, or neither an object nor an array.
    Malformed(String),
    /// 422: no event at all.
    Empty,
    /// 413: over the bound.
    TooMany,
}

/// One event's text, or why it is none.
pub(crate) type Item<'a> = Result<&'a str, Fault>;

/// The shape that the headers tell.
pub(super) fn shape_of(headers: &HeaderMap) -> Result<Shape, EnvelopeFault> {
    let value = match headers.get(CONTENT_TYPE) {
        None => "",
        Some(value) => value.to_str().map_err(|_| EnvelopeFault::MediaType)?,
    };
    let mut parts = value.split(';').map(str::trim);
    let essence = parts.next().unwrap_or("").to_ascii_lowercase();
    for parameter in parts {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = value.trim().trim_matches('"');
        let utf8 = ["utf-8", "utf8", "us-ascii"]
            .iter()
            .any(|n| value.eq_ignore_ascii_case(n));
        if name.trim().eq_ignore_ascii_case("charset") && !utf8 {
            return Err(EnvelopeFault::MediaType);
        }
    }
    match essence.as_str() {
        "application/cloudevents+json" => Ok(Shape::CloudEvent),
        "application/cloudevents-batch+json" => Ok(Shape::CloudEvents),
        _ if headers.contains_key("ce-specversion") => Ok(Shape::CloudEventBinary),
        "application/json" => Ok(Shape::Json),
        "application/x-ndjson"
        | "application/ndjson"
        | "application/jsonl"
        | "application/x-jsonlines" => Ok(Shape::Lines),
        "" | "text/plain" | "application/octet-stream" | "application/x-www-form-urlencoded" => {
            Ok(Shape::Sniffed)
        }
        _ => Err(EnvelopeFault::MediaType),
    }
}

/// The events of a body, at most `events_max`.
pub(crate) fn split<'a>(
    body: &'a [u8],
    shape: Shape,
    events_max: usize,
) -> Result<Vec<Item<'a>>, EnvelopeFault> {
    let items = match shape {
        Shape::Lines => lines(body, events_max)?,
        Shape::CloudEventBinary => Vec::new(),
        Shape::Sniffed => match document(body, shape, events_max) {
            Err(EnvelopeFault::Malformed(_)) if has_more_lines(body) => lines(body, events_max)?,
            document => document?,
        },
        _ => document(body, shape, events_max)?,
    };
    if items.is_empty() && shape != Shape::CloudEventBinary {
        return Err(EnvelopeFault::Empty);
    }
    Ok(items)
}

/// The events of an array that stands in text whose grammar was checked.
pub(crate) fn split_sound(
    array_of: &str,
    events_max: usize,
) -> Result<Vec<Item<'_>>, EnvelopeFault> {
    let items = array(Scanner::of_sound(array_of), events_max)?;
    match items.is_empty() {
        true => Err(EnvelopeFault::Empty),
        false => Ok(items),
    }
}

/// The first line is a document of its own and begins an object.
fn has_more_lines(body: &[u8]) -> bool {
    let mut lines = body
        .split(|byte| *byte == b'\n')
        .filter(|line| !is_blank(line));
    let (Some(first), Some(_)) = (lines.next(), lines.next()) else {
        return false;
    };
    first.trim_ascii_start().first() == Some(&b'{')
        && std::str::from_utf8(first).is_ok_and(|line| line_document(line).is_ok())
}

fn document(body: &[u8], shape: Shape, events_max: usize) -> Result<Vec<Item<'_>>, EnvelopeFault> {
    let text = std::str::from_utf8(body).map_err(|error| {
        EnvelopeFault::Malformed(format!("not UTF-8 at byte {}", error.valid_up_to()))
    })?;
    let mut scanner = Scanner::new(text);
    let single = shape == Shape::CloudEvent;
    let array_only = shape == Shape::CloudEvents;
    match scanner.peek() {
        Some(b'[') if !single => array(scanner, events_max),
        Some(b'{') if !array_only => {
            let event = scanner.value(ITEM_DEPTH_MAX).map_err(malformed)?;
            scanner.finish().map_err(malformed)?;
            Ok(vec![Ok(event)])
        }
        _ => {
            let wanted = match shape {
                Shape::CloudEvent => "an object",
                Shape::CloudEvents => "an array",
                _ => "an object or an array",
            };
            Err(EnvelopeFault::Malformed(format!(
                "the body must be {wanted} of JSON"
            )))
        }
    }
}

fn array(mut scanner: Scanner<'_>, events_max: usize) -> Result<Vec<Item<'_>>, EnvelopeFault> {
    let mut items = Vec::new();
    scanner
        .expect(b'[', "a bracket is missing")
        .map_err(malformed)?;
    if !scanner.take(b']') {
        loop {
            let item = scanner.value(ITEM_DEPTH_MAX).map_err(malformed)?;
            if items.len() == events_max {
                return Err(EnvelopeFault::TooMany);
            }
            items.push(Ok(item));
            if !scanner.take(b',') {
                break;
            }
        }
        scanner
            .expect(b']', "a comma or the end of the array is missing")
            .map_err(malformed)?;
    }
    scanner.finish().map_err(malformed)?;
    Ok(items)
}

fn malformed(error: JsonError) -> EnvelopeFault {
    EnvelopeFault::Malformed(error.to_string())
}

/// A line that is no JSON costs only itself.
fn lines(body: &[u8], events_max: usize) -> Result<Vec<Item<'_>>, EnvelopeFault> {
    let mut items = Vec::new();
    for (number, line) in (1..).zip(body.split(|byte| *byte == b'\n')) {
        if is_blank(line) {
            continue;
        }
        if items.len() == events_max {
            return Err(EnvelopeFault::TooMany);
        }
        let item = match std::str::from_utf8(line) {
            Ok(text) => line_document(text).map_err(|error| error.to_string()),
            Err(_) => Err("not UTF-8".to_owned()),
        };
        items.push(item.map_err(|what| {
            Fault::new(code::MALFORMED_JSON, "", format!("line {number}: {what}"))
        }));
    }
    Ok(items)
}

fn line_document(line: &str) -> Result<&str, JsonError> {
    let mut scanner = Scanner::new(line);
    let value = scanner.value(ITEM_DEPTH_MAX)?;
    scanner.finish()?;
    Ok(value)
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn shape(content_type: &str) -> Option<Shape> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_str(content_type).unwrap());
        shape_of(&headers).ok()
    }

    #[test]
    fn the_content_type_tells_the_shape() {
        assert_eq!(shape("application/json"), Some(Shape::Json));
        assert_eq!(
            shape("Application/JSON; charset=\"UTF-8\""),
            Some(Shape::Json)
        );
        assert_eq!(shape("application/x-ndjson"), Some(Shape::Lines));
        assert_eq!(shape("text/plain;charset=UTF-8"), Some(Shape::Sniffed));
        assert_eq!(
            shape("application/cloudevents+json"),
            Some(Shape::CloudEvent)
        );
        assert_eq!(
            shape("application/cloudevents-batch+json"),
            Some(Shape::CloudEvents)
        );
        assert_eq!(shape("application/json; charset=latin1"), None);
        assert_eq!(shape("application/x-protobuf"), None);
        assert_eq!(shape_of(&HeaderMap::new()), Ok(Shape::Sniffed));
        let mut headers = HeaderMap::new();
        headers.insert("ce-specversion", HeaderValue::from_static("1.0"));
        assert_eq!(shape_of(&headers), Ok(Shape::CloudEventBinary));
    }

    fn texts(body: &str, shape: Shape) -> Result<Vec<Option<&str>>, EnvelopeFault> {
        Ok(split(body.as_bytes(), shape, 3)?
            .into_iter()
            .map(|item| item.ok())
            .collect())
    }

    #[test]
    fn one_event_an_array_and_lines() {
        assert_eq!(
            texts(" {\"a\":1} ", Shape::Json),
            Ok(vec![Some("{\"a\":1}")])
        );
        let array = texts("[{} , 7,\"x\"]", Shape::Json);
        assert_eq!(array, Ok(vec![Some("{}"), Some("7"), Some("\"x\"")]));
        let lines = "{\"a\":1}\r\n\n  \n{broken\n{}";
        let expected = Ok(vec![Some("{\"a\":1}"), None, Some("{}")]);
        assert_eq!(texts(lines, Shape::Lines), expected);
        assert_eq!(texts(lines, Shape::Sniffed), expected);
        assert_eq!(
            texts("{\n\"a\":1}\n", Shape::Sniffed),
            Ok(vec![Some("{\n\"a\":1}")])
        );
    }

    #[test]
    fn faults_of_the_whole_body() {
        let malformed =
            |body: &str, shape| matches!(texts(body, shape), Err(EnvelopeFault::Malformed(_)));
        for body in [
            "", " ", "{", "[{}", "[{},]", "{} {}", "null", "7", "\"a\"", "{}\n{}",
        ] {
            assert!(malformed(body, Shape::Json), "{body}");
        }
        assert!(
            malformed("\u{feff}{}", Shape::Json),
            "a byte order mark is no JSON"
        );
        assert!(malformed("[]", Shape::CloudEvent));
        assert!(malformed("{}", Shape::CloudEvents));
        assert_eq!(texts("[]", Shape::Json), Err(EnvelopeFault::Empty));
        assert_eq!(texts("\n \n", Shape::Lines), Err(EnvelopeFault::Empty));
        assert_eq!(texts("[1,2,3,4]", Shape::Json), Err(EnvelopeFault::TooMany));
        assert_eq!(
            texts("1\n2\n3\n4", Shape::Lines),
            Err(EnvelopeFault::TooMany)
        );
        assert!(matches!(
            split(b"{\"\xff\":1}", Shape::Json, 3),
            Err(EnvelopeFault::Malformed(_))
        ));
        let bad_line = split(b"{}\n\xff\n{}", Shape::Lines, 3).unwrap();
        assert!(bad_line[0].is_ok() && bad_line[2].is_ok());
        assert_eq!(
            bad_line[1].as_ref().unwrap_err().detail,
            "line 2: not UTF-8"
        );
        // Blank lines count, as an editor counts them.
        let later = split(b"\n{}\n\n{\n", Shape::Lines, 3).unwrap();
        let detail = &later[1].as_ref().unwrap_err().detail;
        assert!(detail.starts_with("line 4: "), "{detail}");
    }
}
