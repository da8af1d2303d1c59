//! CloudEvents 1.0: structured, batched (the same objects in an array) and
//! binary (attributes in headers).
//!
//! The source and the id name a CloudEvent only together, so the event's id is
//! a hash of both (X1); the id as sent stays among the extensions, with
//! `specversion`, `dataschema` and the extension attributes.

use std::borrow::Cow;

use fulmar_event::limits::{
    MESSAGE_ID_BYTES_MAX, MESSAGE_SOURCE_BYTES_MAX, MESSAGE_TYPE_BYTES_MAX,
};
use hyper::HeaderMap;
use hyper::header::CONTENT_TYPE;

use super::event::{Event, Members, Refused, each_member, plain_text, text_member, time_member};
use super::ids::cloud_event_id;
use super::time::parse_rfc3339;
use super::verdict::{Fault, push_json_string};
use crate::json::{DEPTH_MAX, Scanner};

/// Bytes of an extension attribute's name and of its text.
const NAME_BYTES_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 4_096;

/// Bytes of a content type or a schema's address.
const CONTENT_TYPE_BYTES_MAX: usize = 256;

/// Attributes of one event.
const ATTRIBUTES_MAX: usize = 64;

/// What has been read of a CloudEvent.
#[derive(Default)]
struct Draft<'a> {
    event: Event<'a>,
    specversion: Option<Cow<'a, str>>,
    /// Members of the extensions object, each after a comma.
    extensions: Vec<u8>,
}

/// Reads a structured CloudEvent, from text that is grammatical JSON.
pub(super) fn parse_cloud_event(text: &str) -> Result<Event<'_>, Refused> {
    let mut draft = Draft::default();
    let result = draft.read(text);
    draft.finish(result)
}

/// Reads a CloudEvent in binary mode.
pub(super) fn parse_binary<'a>(headers: &HeaderMap, body: &'a [u8]) -> Result<Event<'a>, Refused> {
    let mut draft = Draft::default();
    let result = draft
        .read_headers(headers)
        .and_then(|()| draft.read_body(headers, body));
    draft.finish(result)
}

impl<'a> Draft<'a> {
    fn read(&mut self, text: &'a str) -> Result<(), Fault> {
        const KNOWN: [&str; 9] = [
            "specversion",
            "id",
            "source",
            "type",
            "subject",
            "time",
            "datacontenttype",
            "data",
            "data_base64",
        ];
        let mut seen = Members::default();
        let mut names: Vec<Cow<'a, str>> = Vec::new();
        let mut scanner = Scanner::new(text);
        each_member(&mut scanner, |name, value| {
            match KNOWN.iter().position(|known| *known == name) {
                Some(place) => seen.once(place, &name)?,
                None if names.contains(&name) => {
                    let code = super::verdict::code::REPEATED_MEMBER;
                    return Err(Fault::new(code, name.into_owned(), "stands twice"));
                }
                None => names.push(name.clone()),
            }
            if names.len() > ATTRIBUTES_MAX {
                return Err(Fault::of_field(
                    "",
                    format!("has over {ATTRIBUTES_MAX} attributes"),
                ));
            }
            self.read_member(&name, value)
        })?;
        if seen.has(7) && seen.has(8) {
            return Err(Fault::of_field("data_base64", "stands beside data"));
        }
        Ok(())
    }

    fn read_member(&mut self, name: &str, value: &'a str) -> Result<(), Fault> {
        if value == "null" && name != "data" {
            return Ok(());
        }
        let text = |bytes_min, bytes_max| text_member(name, value, bytes_min, bytes_max);
        let event = &mut self.event;
        match name {
            "specversion" => self.specversion = Some(plain_text(name, value)?),
            "id" => event.id = Some(text(1, MESSAGE_ID_BYTES_MAX)?),
            "source" => event.source = text(1, MESSAGE_SOURCE_BYTES_MAX)?,
            "type" => event.kind = text(1, MESSAGE_TYPE_BYTES_MAX)?,
            "subject" => event.subject = text(1, MESSAGE_SOURCE_BYTES_MAX)?,
            "time" => event.time = Some(time_member(name, value)?),
            "datacontenttype" => event.data_content_type = text(1, CONTENT_TYPE_BYTES_MAX)?,
            "data" => event.data = Cow::Borrowed(value.as_bytes()),
            "data_base64" => {
                let text = plain_text(name, value)?;
                if !is_base64(text.as_bytes()) {
                    return Err(Fault::of_field(name, "must be base64"));
                }
                event.data = match text {
                    Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                    Cow::Owned(text) => Cow::Owned(text.into_bytes()),
                };
                event.data_base64 = true;
            }
            _ => self.read_extension(name, value)?,
        }
        Ok(())
    }

    fn read_extension(&mut self, name: &str, value: &'a str) -> Result<(), Fault> {
        check_name(name)?;
        match value.as_bytes().first() {
            Some(b'"') => {
                let bytes_max = if name == "dataschema" {
                    CONTENT_TYPE_BYTES_MAX
                } else {
                    TEXT_BYTES_MAX
                };
                let text = text_member(name, value, 0, bytes_max)?;
                if name == "partitionkey" && !text.is_empty() && text.len() <= MESSAGE_ID_BYTES_MAX
                {
                    self.event.key = Some(text);
                }
            }
            Some(b'{' | b'[') => {
                return Err(Fault::of_field(
                    name,
                    "must be a string, a number or a boolean",
                ));
            }
            _ => {}
        }
        self.push_extension(name, |out| out.extend_from_slice(value.as_bytes()));
        Ok(())
    }

    fn push_extension(&mut self, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
        self.extensions.push(b',');
        push_json_string(name, &mut self.extensions);
        self.extensions.push(b':');
        value(&mut self.extensions);
    }

    fn read_headers(&mut self, headers: &HeaderMap) -> Result<(), Fault> {
        let mut count = 0;
        for (header, value) in headers {
            let Some(name) = header.as_str().strip_prefix("ce-") else {
                continue;
            };
            count += 1;
            if count > ATTRIBUTES_MAX || headers.get_all(header).iter().count() > 1 {
                return Err(Fault::of_field(name, "stands twice, or among too many"));
            }
            let text = percent_decoded(value.as_bytes())
                .ok_or_else(|| Fault::of_field(name, "must be percent-encoded UTF-8"))?;
            self.read_header(name, text)?;
        }
        Ok(())
    }

    fn read_header(&mut self, name: &str, text: String) -> Result<(), Fault> {
        let bounds = match name {
            "id" => (1, MESSAGE_ID_BYTES_MAX),
            "source" | "subject" => (1, MESSAGE_SOURCE_BYTES_MAX),
            "type" => (1, MESSAGE_TYPE_BYTES_MAX),
            _ => (0, TEXT_BYTES_MAX),
        };
        if text.len() < bounds.0 || text.len() > bounds.1 || text.chars().any(char::is_control) {
            let detail = format!("must have {} to {} bytes of plain text", bounds.0, bounds.1);
            return Err(Fault::of_field(name, detail));
        }
        let event = &mut self.event;
        match name {
            "specversion" => self.specversion = Some(Cow::Owned(text)),
            "id" => event.id = Some(Cow::Owned(text)),
            "source" => event.source = Cow::Owned(text),
            "type" => event.kind = Cow::Owned(text),
            "subject" => event.subject = Cow::Owned(text),
            "time" => {
                let time = parse_rfc3339(&text);
                event.time =
                    Some(time.ok_or_else(|| Fault::of_field(name, "must be an RFC 3339 time"))?);
            }
            _ => {
                check_name(name)?;
                if name == "partitionkey" && (1..=MESSAGE_ID_BYTES_MAX).contains(&text.len()) {
                    event.key = Some(Cow::Owned(text.clone()));
                }
                self.push_extension(name, |out| push_json_string(&text, out));
            }
        }
        Ok(())
    }

    /// The body as it stands if it is JSON, else as base64.
    fn read_body(&mut self, headers: &HeaderMap, body: &'a [u8]) -> Result<(), Fault> {
        let content_type = headers.get(CONTENT_TYPE).map(|value| value.to_str());
        let content_type = match content_type {
            None => "",
            Some(Ok(text)) if text.len() <= CONTENT_TYPE_BYTES_MAX => text,
            Some(_) => return Err(Fault::of_field("datacontenttype", "must be short ASCII")),
        };
        self.event.data_content_type = Cow::Owned(content_type.to_owned());
        if body.is_empty() {
            return Ok(());
        }
        let essence = content_type
            .split(';')
            .next()
            .unwrap_or("")
            .trim()
            .to_ascii_lowercase();
        let json = essence.is_empty() || essence.ends_with("/json") || essence.ends_with("+json");
        let text = std::str::from_utf8(body).ok();
        match text.and_then(|text| Scanner::new(text).whole_value(DEPTH_MAX).ok()) {
            Some(value) if json => self.event.data = Cow::Borrowed(value.as_bytes()),
            _ if json && !essence.is_empty() => {
                return Err(Fault::of_field(
                    "data",
                    "must be JSON as its content type says",
                ));
            }
            _ => {
                self.event.data = Cow::Owned(base64(body));
                self.event.data_base64 = true;
            }
        }
        Ok(())
    }

    fn finish(mut self, result: Result<(), Fault>) -> Result<Event<'a>, Refused> {
        let sent_id = self.event.id.as_deref().unwrap_or("").to_owned();
        if let Err(fault) = result.and_then(|()| self.required()) {
            let id = (!sent_id.is_empty() && !self.event.source.is_empty())
                .then(|| cloud_event_id(&self.event.source, &sent_id));
            return Err(Refused { id, fault });
        }
        if self.event.data_content_type.is_empty() && !self.event.data.is_empty() {
            self.event.data_content_type = Cow::Borrowed("application/json");
        }
        let mut extensions = br#"{"specversion":"1.0","id":"#.to_vec();
        push_json_string(&sent_id, &mut extensions);
        extensions.append(&mut self.extensions);
        extensions.push(b'}');
        self.event.extensions = extensions;
        self.event.id = Some(Cow::Owned(cloud_event_id(&self.event.source, &sent_id)));
        Ok(self.event)
    }

    fn required(&self) -> Result<(), Fault> {
        if self.specversion.as_deref() != Some("1.0") {
            return Err(Fault::of_field("specversion", "must be 1.0"));
        }
        if self.event.id.is_none() {
            return Err(Fault::of_field("id", "is missing"));
        }
        if self.event.source.is_empty() {
            return Err(Fault::of_field("source", "is missing"));
        }
        if self.event.kind.is_empty() {
            return Err(Fault::of_field("type", "is missing"));
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), Fault> {
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if plain && !name.is_empty() && name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    let mut fault = super::event::unknown(name);
    fault.detail = "an attribute's name has lower-case letters and digits only".into();
    Err(fault)
}

fn is_base64(text: &[u8]) -> bool {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let symbols = &text[..text.len() - padding];
    let known = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    text.len().is_multiple_of(4) && padding <= 2 && symbols.iter().all(known)
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    const SYMBOLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let symbol = SYMBOLS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= group.len() { symbol } else { b'=' });
        }
    }
    out
}

fn percent_decoded(bytes: &[u8]) -> Option<String> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        out.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
#[path = "cloud_event_tests.rs"]
mod tests;
