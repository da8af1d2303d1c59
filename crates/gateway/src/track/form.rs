//! Bodies that browsers send without asking first: JSON under another name, and forms.

use hyper::HeaderMap;
use hyper::header::CONTENT_TYPE;

use fulmar_event::query_pairs;

use super::refuse::Refusal;
use crate::events::verdict::push_json_string;

/// How a body stands in its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    /// JSON, whatever it is called.
    Json,
    /// `application/x-www-form-urlencoded`.
    Form,
}

/// The media that the headers tell; JSON without a word.
pub(super) fn media_of(headers: &HeaderMap) -> Result<Media, Refusal> {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return Ok(Media::Json);
    };
    let value = value.to_str().map_err(|_| Refusal::MediaType)?;
    let essence = value.split(';').next().unwrap_or_default().trim();
    match essence.to_ascii_lowercase().as_str() {
        "" | "application/json" | "text/plain" | "application/x-ndjson" => Ok(Media::Json),
        "application/x-www-form-urlencoded" => Ok(Media::Form),
        name if name.ends_with("+json") => Ok(Media::Json),
        _ => Err(Refusal::MediaType),
    }
}

/// Turns a form into the JSON that it stands for, in place: its field `data` is the whole
/// envelope; else `payload` is JSON and every other field is text. A body that is JSON under a
/// form's name stays as it is.
pub(super) fn unwrap(media: Media, body: &mut Vec<u8>) -> Result<(), Refusal> {
    let is_json = body.trim_ascii_start().first();
    if media == Media::Json || matches!(is_json, Some(b'{' | b'[')) {
        return Ok(());
    }
    let text = std::str::from_utf8(body)
        .map_err(|_| Refusal::Malformed("the form is not UTF-8".to_owned()))?;
    let mut whole = Vec::with_capacity(text.len());
    for (name, value) in query_pairs(text) {
        if name == "data" {
            whole = value.into_owned().into_bytes();
            whole.insert(0, b' ');
            break;
        }
        whole.push(if whole.is_empty() { b'{' } else { b',' });
        push_json_string(&name, &mut whole);
        whole.push(b':');
        match &*name {
            "payload" => whole.extend_from_slice(value.as_bytes()),
            _ => push_json_string(&value, &mut whole),
        }
    }
    if whole.first() == Some(&b'{') {
        whole.push(b'}');
    }
    *body = whole;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unwrapped(text: &str) -> String {
        let mut body = text.as_bytes().to_vec();
        unwrap(Media::Form, &mut body).unwrap();
        String::from_utf8(body).unwrap()
    }

    #[test]
    fn a_form_becomes_the_envelope_that_it_stands_for() {
        assert_eq!(
            unwrapped("type=track&payload=%7B%22name%22%3A%22a%22%7D&clientId=x%22"),
            r#"{"type":"track","payload":{"name":"a"},"clientId":"x\""}"#
        );
        assert_eq!(unwrapped("data=%7B%22type%22%3A1%7D&x=y"), r#" {"type":1}"#);
        assert_eq!(unwrapped(r#"{"type":"track"}"#), r#"{"type":"track"}"#);
        assert_eq!(unwrapped(""), "");
    }
}
