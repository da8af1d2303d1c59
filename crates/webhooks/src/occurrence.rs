//! An event as webhooks see it: its name and class, whose it is, and the JSON that is sent of it.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use fulmar_event::{
    AuthenticationView, Body, EventView, MessageView, Timestamp, TrackView, activity_name,
    outcome_name,
};
use fulmar_registry::BodyShape;
use serde_json::{Map, Value, json};

/// Classes of events, as subscriptions name them: [`fulmar_registry::CLASSES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A published message.
    Message,
    /// A product event.
    Track,
    /// A logon or logoff.
    Authentication,
}

impl Class {
    /// The class of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Message, Self::Track, Self::Authentication]
            .into_iter()
            .find(|class| class.name() == name)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Track => "track",
            Self::Authentication => "authentication",
        }
    }
}

/// An event that may be delivered, borrowed from its record.
#[derive(Clone, Debug)]
pub struct Occurrence<'a> {
    /// Its class.
    pub class: Class,
    /// What subscriptions match: the type of a message, the name of a product event,
    /// `authentication.logon` or `authentication.logoff`.
    pub name: Cow<'a, str>,
    /// Its id, as sent.
    pub id: &'a str,
    /// The authenticated agent or client.
    pub source: &'a str,
    /// Its project.
    pub project: &'a str,
    /// Whom it was published for, or empty.
    pub consumer: &'a str,
    /// The registry version that its door had applied.
    pub revision: u64,
    /// When it happened.
    pub time: Timestamp,
    /// When a delivery is of no use any more, ms since the epoch; 0 is never.
    pub expires_ms: i64,
    /// A JSON object of strings, or empty.
    pub labels: &'a [u8],
    body: Body<'a>,
}

impl<'a> Occurrence<'a> {
    /// The event of a record; none where it is no event that can be delivered.
    #[must_use]
    pub fn of(event: &EventView<'a>) -> Option<Self> {
        let (class, name) = match &event.body {
            Body::Message(message) => (Class::Message, Cow::Borrowed(message.kind)),
            Body::Track(track) => (Class::Track, Cow::Borrowed(track.name)),
            Body::Authentication(one) => {
                let activity = activity_name(one.activity).unwrap_or_default();
                let name = format!("authentication.{activity}");
                (Class::Authentication, Cow::Owned(name))
            }
            _ => return None,
        };
        let message = match event.body {
            Body::Message(message) => message,
            _ => MessageView::default(),
        };
        Some(Self {
            class,
            name,
            id: event.event_id,
            source: event.stamp.source,
            project: event.stamp.project,
            consumer: message.consumer,
            revision: event.stamp.control_offset,
            time: event.event_time.or(event.ingest_time).unwrap_or_default(),
            expires_ms: message.expires_ms,
            labels: message.labels,
            body: event.body,
        })
    }

    /// A message that nobody has published.
    #[must_use]
    pub fn sample(
        (project, consumer): (&'a str, &'a str),
        (id, name): (&'a str, &'a str),
        payload: &'a [u8],
        time: Timestamp,
    ) -> Self {
        Self {
            class: Class::Message,
            name: Cow::Borrowed(name),
            id,
            source: "",
            project,
            consumer,
            revision: 0,
            time,
            expires_ms: 0,
            labels: &[],
            body: Body::Message(MessageView {
                kind: name,
                consumer,
                data: payload,
                ..MessageView::default()
            }),
        }
    }

    /// What is sent of it.
    #[must_use]
    pub fn body(&self, shape: BodyShape) -> Bytes {
        match shape {
            BodyShape::Envelope => self.envelope(),
            BodyShape::Payload => Bytes::from(self.payload().into_owned()),
        }
    }

    /// The payload's bytes: a message's as published, the JSON form of the others.
    #[must_use]
    pub fn payload(&self) -> Cow<'a, [u8]> {
        match &self.body {
            Body::Message(message) => Cow::Borrowed(message.data),
            _ => Cow::Owned(self.json_form().to_string().into_bytes()),
        }
    }

    /// The payload as JSON, for conditions; null where it is none.
    #[must_use]
    pub fn payload_value(&self) -> Value {
        match &self.body {
            Body::Message(message) if message.data_base64 => Value::Null,
            Body::Message(message) => serde_json::from_slice(message.data).unwrap_or_default(),
            _ => self.json_form(),
        }
    }

    /// The value of a label.
    #[must_use]
    pub fn labels_hold(&self, wanted: &[(String, String)]) -> bool {
        if wanted.is_empty() {
            return true;
        }
        let labels: Map<String, Value> = serde_json::from_slice(self.labels).unwrap_or_default();
        wanted
            .iter()
            .all(|(name, value)| labels.get(name).and_then(Value::as_str) == Some(value.as_str()))
    }

    /// Sparrow's envelope around the payload. The attempt in it is always 1, so that the body is
    /// the same on every retry; the true one is in a header.
    fn envelope(&self) -> Bytes {
        let payload = self.payload();
        let mut out = Vec::with_capacity(payload.len() + self.name.len() + self.id.len() + 128);
        out.extend_from_slice(b"{\"version\":\"1\",\"event_id\":");
        push_text(self.id, &mut out);
        out.extend_from_slice(b",\"event_name\":");
        push_text(&self.name, &mut out);
        out.extend_from_slice(b",\"timestamp\":\"");
        out.extend_from_slice(rfc3339(self.time.as_millis()).as_bytes());
        out.extend_from_slice(b"\",\"attempt\":1,\"payload\":");
        match &self.body {
            Body::Message(message) if message.data_base64 => {
                out.push(b'"');
                out.extend_from_slice(STANDARD.encode(message.data).as_bytes());
                out.push(b'"');
            }
            _ if payload.is_empty() => out.extend_from_slice(b"null"),
            _ => out.extend_from_slice(&payload),
        }
        out.push(b'}');
        Bytes::from(out)
    }

    fn json_form(&self) -> Value {
        match &self.body {
            Body::Track(track) => track_form(track),
            Body::Authentication(one) => authentication_form(one),
            _ => Value::Null,
        }
    }
}

fn track_form(track: &TrackView<'_>) -> Value {
    let mut form = Map::new();
    form.insert("name".to_owned(), track.name.into());
    let properties = serde_json::from_slice(track.properties).unwrap_or_else(|_| json!({}));
    form.insert("properties".to_owned(), properties);
    for (name, text) in [
        ("profile_id", track.profile_id),
        ("device_id", track.device_id),
        ("session_id", track.session_id),
        ("path", track.path),
        ("origin", track.origin),
        ("referrer", track.referrer),
    ] {
        if !text.is_empty() {
            form.insert(name.to_owned(), text.into());
        }
    }
    if track.revenue > 0 {
        form.insert("revenue".to_owned(), track.revenue.into());
    }
    Value::Object(form)
}

fn authentication_form(one: &AuthenticationView<'_>) -> Value {
    let mut form = Map::new();
    for (name, text) in [
        ("activity", activity_name(one.activity).unwrap_or_default()),
        ("outcome", outcome_name(one.outcome).unwrap_or_default()),
        ("outcome_reason", one.outcome_reason),
        ("method", one.method),
        ("user_name", one.user_name),
        ("user_domain", one.user_domain),
        ("user_uid", one.user_uid),
        ("service_name", one.service_name),
        ("service_protocol", one.service_protocol),
        ("source_ip", one.source_ip),
        ("destination_ip", one.destination_ip),
        ("raw_record", one.raw_record),
    ] {
        if !text.is_empty() {
            form.insert(name.to_owned(), text.into());
        }
    }
    for (name, port) in [
        ("source_port", one.source_port),
        ("destination_port", one.destination_port),
    ] {
        if port > 0 {
            form.insert(name.to_owned(), port.into());
        }
    }
    Value::Object(form)
}

fn push_text(text: &str, out: &mut Vec<u8>) {
    // Ids and names hold no control characters; others may still need an escape.
    serde_json::to_writer(out, text).expect("a vector takes every write");
}

/// A time in ms since the epoch, as payloads tell it.
pub(crate) fn rfc3339(ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
    format!("{at:.3}")
}
