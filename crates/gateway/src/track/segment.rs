//! Segment's HTTP API, as its SDKs and RudderStack's call it: a message becomes one or two of the
//! items that the SDK door takes.
//!
//! Source: Segment's public specification of its HTTP tracking API and of the common fields of
//! messages. A write key is `CLIENT_ID:SECRET`, or the client's id alone for a browser.

mod message;
mod write_key;

use std::borrow::Cow;
use std::net::IpAddr;

use hyper::StatusCode;

use super::batch::{Counts, Judged};
use super::caller::Caller;
use super::compose::Composer;
use super::lookup::AgentFacts;
use super::members::{elements, members, string};
use super::payload::Envelope;
use super::receive::Received;
use super::refuse::Refusal;
use super::reserved::claimed_ms;
use super::single::utf8;
use super::{TrackDoor, answers};
use crate::capacity::Reservation;
use crate::events::envelope::Item;
use crate::events::{Fault, code};
use crate::http::{Answer, with_identity};
use crate::json::Scanner;
use message::{Context, Message};
pub(super) use write_key::{WriteKey, of_basic};

/// What a request holds.
#[derive(Default)]
struct Request<'a> {
    /// The messages, as they stand.
    messages: Vec<&'a str>,
    sent_ms: Option<i64>,
    context: Context<'a>,
    write_key: Option<Cow<'a, str>>,
}

/// A message on its way: the items that it becomes, and who was seen where it was made.
struct Made<'a> {
    items: Result<Vec<String>, Fault>,
    context: Context<'a>,
}

impl TrackDoor {
    /// One message of the path's type, or a batch of any.
    pub(super) async fn segment(
        &self,
        received: &Received,
        reservation: Reservation,
        kind: &'static str,
    ) -> Result<Answer, Refusal> {
        let text = utf8(&received.body)?;
        let body = Scanner::new(text)
            .whole_value(usize::MAX)
            .map_err(|error| Refusal::Malformed(error.to_string()))?;
        let request = Request::read(body, kind, self.config.events_max as usize)?;
        let key = request.write_key.as_deref().map(WriteKey::of);
        let envelope = Envelope {
            client_id: key.as_ref().map(|key| Cow::Owned(key.client.clone())),
            client_secret: key.and_then(|key| key.secret).map(Cow::Owned),
            ..Envelope::default()
        };
        let admitted = self.admit(received, &envelope).await?;
        let now_ms = received.now.as_millis();
        let messages = request.messages.iter().copied();
        let made: Vec<Made<'_>> = messages
            .map(|message| self.make(message, kind, &request, now_ms))
            .collect();
        let mut contexts = Vec::new();
        let mut items: Vec<Item<'_>> = Vec::new();
        for made in &made {
            match &made.items {
                Ok(texts) => items.extend(texts.iter().map(|text| Ok(text.as_str()))),
                Err(fault) => items.push(Err(fault.clone())),
            }
            contexts.resize(items.len(), &made.context);
        }
        let verified = admitted.secret_verified;
        let judged = self.judge_all(received, &admitted, items, reservation, |item, sorting| {
            let composer = sorting.composer;
            let context = contexts[sorting.next_index()];
            let caller = caller_of(composer.caller, context, verified);
            let composer = Composer {
                agent: self.agent_of(composer, context, &caller),
                caller: &caller,
                ..*composer
            };
            self.judge(item, sorting, &composer)
        });
        let judged = judged.await?;
        let answer = answer(&self.tally(&judged), &judged);
        Ok(with_identity(answer, &admitted.project, &admitted.client))
    }

    fn make<'a>(
        &self,
        message: &'a str,
        kind: &str,
        request: &Request<'a>,
        now_ms: i64,
    ) -> Made<'a> {
        let bytes_max = self.config.event_bytes_max as usize;
        let read = match message.len() > bytes_max {
            true => {
                let detail = format!("exceeds {bytes_max} bytes");
                Err(Fault::new(code::EVENT_TOO_LARGE, "", detail))
            }
            false => Message::read(message, kind, &request.context),
        };
        match read {
            Err(fault) => Made {
                items: Err(fault),
                context: Context::default(),
            },
            Ok(message) => Made {
                items: message.items(message.time_ms(request.sent_ms, now_ms)),
                context: message.context,
            },
        }
    }

    /// The program that a message names; where it names none, the one that sends it.
    fn agent_of<'c>(
        &'c self,
        composer: &'c Composer<'_>,
        context: &'c Context<'_>,
        caller: &'c Caller,
    ) -> AgentFacts<'c> {
        let told = match context.user_agent.is_empty() {
            true => composer.agent.clone(),
            false => self.parts.lookup.agent(&caller.user_agent),
        };
        if !told.is_server || context.os.is_empty() && context.device.is_empty() {
            return told;
        }
        // A library of an app tells the system and the device instead.
        AgentFacts {
            is_server: false,
            os: Cow::Borrowed(&context.os),
            os_version: Cow::Borrowed(&context.os_version),
            device: Cow::Borrowed(context.kind_of_device()),
            brand: Cow::Borrowed(&context.brand),
            model: Cow::Borrowed(&context.model),
            ..AgentFacts::default()
        }
    }
}

/// Who was seen: a server's word on its visitor's address counts if its secret did.
fn caller_of(sender: &Caller, context: &Context<'_>, verified: bool) -> Caller {
    let mut caller = sender.clone();
    if verified && let Ok(address) = context.ip.trim().parse::<IpAddr>() {
        caller.address = address;
    }
    if !context.user_agent.is_empty() {
        caller.user_agent = context.user_agent.clone().into_owned();
    }
    if !context.library.is_empty() {
        caller.sdk_name = context.library.clone().into_owned();
        caller.sdk_version = context.library_version.clone().into_owned();
    }
    caller
}

impl<'a> Request<'a> {
    fn read(body: &'a str, kind: &str, messages_max: usize) -> Result<Self, Refusal> {
        let mut found = Self::default();
        let mut batch = None;
        members(body, "", |name, value| {
            match name {
                "batch" => batch = Some(value),
                "sentAt" => found.sent_ms = claimed_ms(value, name)?,
                "writeKey" => found.write_key = string(value, name)?,
                "context" if kind == "batch" => found.context = Context::read(value)?,
                _ => {}
            }
            Ok(())
        })?;
        if kind != "batch" {
            found.messages.push(body);
            return Ok(found);
        }
        let batch = batch.ok_or_else(|| super::members::missing("batch"))?;
        elements(batch, "batch", |message| {
            found.messages.push(message);
            Ok(())
        })?;
        match found.messages.len() {
            0 => Err(Fault::of_field("batch", "is empty").into()),
            count if count > messages_max => Err(Refusal::TooMany),
            _ => Ok(found),
        }
    }
}

/// What Segment's SDKs take for success, with our verdicts beside it. A batch of which something
/// was not durable is to be sent again whole: what was stored is stored once.
fn answer(counts: &Counts, judged: &[Judged]) -> Answer {
    let (status, success) = match () {
        () if counts.retry > 0 => (StatusCode::SERVICE_UNAVAILABLE, false),
        () if counts.refused == counts.all => (StatusCode::BAD_REQUEST, false),
        () => (StatusCode::OK, true),
    };
    let mut head = format!("{{\"success\":{success},");
    if !success {
        // Members that the SDKs show to people.
        head.push_str("\"code\":\"not_stored\",\"message\":\"see events for the reasons\",");
    }
    head.push_str(&counts.members());
    answers::batch(status, head, judged, counts.retry > 0)
}
