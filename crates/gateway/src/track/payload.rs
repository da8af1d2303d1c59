//! What one item of the SDK protocol says: `{type, payload}`, read where it stands.

use std::borrow::Cow;

use fulmar_enrich::{RuleFault, check_name, revenue, split_page};
use fulmar_event::Timestamp;
use fulmar_event::limits::MESSAGE_ID_BYTES_MAX;

use super::members::{
    ID_BYTES_MAX, TEXT_BYTES_MAX, count, elements, flag, id, members, missing, object, string, text,
};
use super::reserved::{Reserved, claimed_ms, reserved, time_of};
use crate::events::Fault;

/// What follows an event's id in the id of the identify that it carries.
pub(super) const IDENTIFY_SUFFIX: &str = ":identify";
/// Bytes of an item's id: room is left for that.
pub(super) const ITEM_ID_BYTES_MAX: usize = MESSAGE_ID_BYTES_MAX - IDENTIFY_SUFFIX.len();
/// Groups of one item: each is a relation of its profile.
const GROUPS_MAX: usize = 100;
/// Characters of a replay chunk: the SDK splits above 1 MiB.
const REPLAY_CHARS_MAX: usize = 2 * 1024 * 1024;
/// Characters of a session id that a producer names.
const SESSION_CHARS_MAX: usize = 64;
/// The largest amount that a profile's property grows by: its millionths fit into 63 bits.
const AMOUNT_MAX: f64 = 9e12;

/// An item before its payload is read.
#[derive(Debug, Default)]
pub(super) struct Envelope<'a> {
    pub(super) kind: Cow<'a, str>,
    pub(super) payload: &'a str,
    /// The event's id: stored once within the window of repeats.
    pub(super) id: Option<Cow<'a, str>>,
    /// The event's time, where its properties say none.
    pub(super) claimed_ms: Option<i64>,
    pub(super) client_id: Option<Cow<'a, str>>,
    pub(super) client_secret: Option<Cow<'a, str>>,
}

/// What an item says.
#[derive(Debug)]
pub(super) enum Payload<'a> {
    Track(Box<Track<'a>>),
    Identify(Identify<'a>),
    Add(Add<'a>),
    Group(Group<'a>),
    AssignGroup(AssignGroup<'a>),
    Replay(Replay<'a>),
    Alias(Alias<'a>),
}

#[derive(Debug, Default)]
pub(super) struct Track<'a> {
    pub(super) name: Cow<'a, str>,
    /// One JSON object, or empty.
    pub(super) properties: &'a str,
    pub(super) profile_id: Cow<'a, str>,
    pub(super) groups: Vec<Cow<'a, str>>,
    pub(super) reserved: Reserved<'a>,
    pub(super) revenue: u64,
    /// What `__identify` says, if that is more than an id.
    pub(super) identify: Option<Identify<'a>>,
}

#[derive(Debug, Default)]
pub(super) struct Identify<'a> {
    pub(super) profile_id: Cow<'a, str>,
    pub(super) first_name: Cow<'a, str>,
    pub(super) last_name: Cow<'a, str>,
    pub(super) email: Cow<'a, str>,
    pub(super) avatar: Cow<'a, str>,
    pub(super) properties: &'a str,
}

#[derive(Debug)]
pub(super) struct Add<'a> {
    pub(super) profile_id: Cow<'a, str>,
    pub(super) property: Cow<'a, str>,
    /// Negative for a decrement.
    pub(super) amount_micros: i64,
}

#[derive(Debug, Default)]
pub(super) struct Group<'a> {
    pub(super) id: Cow<'a, str>,
    pub(super) kind: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) properties: &'a str,
}

#[derive(Debug, Default)]
pub(super) struct AssignGroup<'a> {
    pub(super) groups: Vec<Cow<'a, str>>,
    pub(super) profile_id: Cow<'a, str>,
}

#[derive(Debug, Default)]
pub(super) struct Replay<'a> {
    pub(super) chunk_index: u32,
    pub(super) events_count: u32,
    pub(super) is_full_snapshot: bool,
    pub(super) started_at: Timestamp,
    pub(super) ended_at: Timestamp,
    pub(super) payload: Cow<'a, str>,
    pub(super) session_id: Cow<'a, str>,
}

#[derive(Debug, Default)]
pub(super) struct Alias<'a> {
    pub(super) profile_id: Cow<'a, str>,
    pub(super) alias: Cow<'a, str>,
}

impl<'a> Envelope<'a> {
    /// Reads an item whose text is grammatical JSON.
    pub(super) fn read(item: &'a str) -> Result<Self, Fault> {
        let mut found = Self::default();
        members(item, "", |name, value| {
            match name {
                "type" => found.kind = text(value, "type", ID_BYTES_MAX)?,
                "payload" => found.payload = value,
                "id" => {
                    let sent = text(value, "id", ITEM_ID_BYTES_MAX)?;
                    if sent.is_empty() {
                        return Err(Fault::of_field("id", "is empty"));
                    }
                    found.id = Some(sent);
                }
                "timestamp" => found.claimed_ms = claimed_ms(value, "timestamp")?,
                "clientId" => found.client_id = string(value, "clientId")?,
                "clientSecret" => found.client_secret = string(value, "clientSecret")?,
                _ => {}
            }
            Ok(())
        })?;
        match found.kind.is_empty() {
            true => Err(missing("type")),
            false => Ok(found),
        }
    }

    /// An item whose whole text is its payload: what the paths of older SDKs carry.
    pub(super) fn of_payload(kind: &'static str, payload: &'a str) -> Self {
        Self {
            kind: Cow::Borrowed(kind),
            payload,
            ..Self::default()
        }
    }

    /// Reads the payload as the type says.
    pub(super) fn open(&self) -> Result<Payload<'a>, Fault> {
        let payload = self.payload;
        if payload.is_empty() {
            return Err(missing("payload"));
        }
        match &*self.kind {
            "track" => track(payload).map(|track| Payload::Track(Box::new(track))),
            "identify" => identify(payload, "payload").map(Payload::Identify),
            "increment" => add(payload, 1).map(Payload::Add),
            "decrement" => add(payload, -1).map(Payload::Add),
            "group" => group(payload).map(Payload::Group),
            "assign_group" => assign_group(payload).map(Payload::AssignGroup),
            "replay" => replay(payload).map(Payload::Replay),
            "alias" => alias(payload).map(Payload::Alias),
            _ => Err(Fault::of_field(
                "type",
                "must be track, identify, increment, decrement, group, assign_group, replay or \
                 alias",
            )),
        }
    }
}

fn track(payload: &str) -> Result<Track<'_>, Fault> {
    let mut track = Track::default();
    members(payload, "payload", |name, value| {
        match name {
            // What is too long for any name is told by its rule, not by this bound.
            "name" => track.name = text(value, "payload.name", TEXT_BYTES_MAX)?,
            "properties" => track.properties = object(value, "payload.properties")?,
            "profileId" => track.profile_id = id(value, "payload.profileId")?,
            "groups" => track.groups = ids(value, "payload.groups")?,
            _ => {}
        }
        Ok(())
    })?;
    check_name(&track.name).map_err(of_rule)?;
    if track.properties.is_empty() {
        return Ok(track);
    }
    track.reserved = reserved(track.properties, "payload.properties")?;
    if track.name == "revenue"
        && let Some(token) = track.reserved.revenue
    {
        track.revenue = revenue(token).map_err(of_rule)?;
    }
    if let Some(object) = track.reserved.identify {
        track.identify = identify_beside(object)?;
    }
    Ok(track)
}

/// What `__identify` says: an identify of its own if it names more than the profile.
fn identify_beside(object: &str) -> Result<Option<Identify<'_>>, Fault> {
    let mut keys = 0_u32;
    let field = "payload.properties.__identify";
    members(object, field, |_, _| {
        keys += 1;
        Ok(())
    })?;
    match keys > 1 {
        true => identify(object, field).map(Some),
        false => Ok(None),
    }
}

fn identify<'a>(payload: &'a str, field: &str) -> Result<Identify<'a>, Fault> {
    let mut found = Identify::default();
    members(payload, field, |name, value| {
        let member = || format!("{field}.{name}");
        match name {
            "profileId" => found.profile_id = id(value, &member())?,
            "firstName" => found.first_name = text(value, &member(), TEXT_BYTES_MAX)?,
            "lastName" => found.last_name = text(value, &member(), TEXT_BYTES_MAX)?,
            "email" => found.email = email(value, &member())?,
            "avatar" => found.avatar = url(value, &member())?,
            "properties" => found.properties = object(value, &member())?,
            _ => {}
        }
        Ok(())
    })?;
    match found.profile_id.is_empty() {
        true => Err(missing(&format!("{field}.profileId"))),
        false => Ok(found),
    }
}

/// An address of electronic mail, as far as a server can tell without writing to it.
fn email<'a>(value: &'a str, field: &str) -> Result<Cow<'a, str>, Fault> {
    let text = text(value, field, TEXT_BYTES_MAX)?;
    let ok = text.rsplit_once('@').is_some_and(|(local, host)| {
        !local.is_empty() && host.contains('.') && !host.starts_with('.') && !host.ends_with('.')
    });
    let plain = !text.contains(|c: char| c.is_whitespace() || c.is_control());
    match text.is_empty() || ok && plain {
        true => Ok(text),
        false => Err(Fault::of_field(field, "must be an email address")),
    }
}

fn url<'a>(value: &'a str, field: &str) -> Result<Cow<'a, str>, Fault> {
    let text = text(value, field, TEXT_BYTES_MAX)?;
    match text.is_empty() || !split_page(&text).origin.is_empty() {
        true => Ok(text),
        false => Err(Fault::of_field(field, "must be a URL")),
    }
}

fn add(payload: &str, sign: i64) -> Result<Add<'_>, Fault> {
    let mut found = Add {
        profile_id: Cow::Borrowed(""),
        property: Cow::Borrowed(""),
        amount_micros: sign * 1_000_000,
    };
    members(payload, "payload", |name, value| {
        match name {
            "profileId" => found.profile_id = id(value, "payload.profileId")?,
            "property" => found.property = text(value, "payload.property", ID_BYTES_MAX)?,
            "value" => found.amount_micros = sign * micros(value)?,
            _ => {}
        }
        Ok(())
    })?;
    if found.profile_id.is_empty() {
        return Err(missing("payload.profileId"));
    }
    match found.property.is_empty() {
        true => Err(missing("payload.property")),
        false => Ok(found),
    }
}

fn micros(value: &str) -> Result<i64, Fault> {
    let amount: Option<f64> = match value.starts_with('"') {
        true => None,
        false => value.parse().ok(),
    };
    let micros = amount
        .filter(|amount| *amount > 0.0 && *amount <= AMOUNT_MAX)
        .map(|amount| (amount * 1e6).round() as i64)
        .filter(|micros| *micros > 0);
    micros.ok_or_else(|| {
        let rule = format!("must be a number over 0 and up to {AMOUNT_MAX}");
        Fault::of_field("payload.value", rule)
    })
}

fn group(payload: &str) -> Result<Group<'_>, Fault> {
    let mut found = Group::default();
    members(payload, "payload", |name, value| {
        match name {
            "id" => found.id = id(value, "payload.id")?,
            "type" => found.kind = text(value, "payload.type", TEXT_BYTES_MAX)?,
            "name" => found.name = text(value, "payload.name", TEXT_BYTES_MAX)?,
            "properties" => found.properties = object(value, "payload.properties")?,
            _ => {}
        }
        Ok(())
    })?;
    for (value, field) in [
        (&found.id, "payload.id"),
        (&found.kind, "payload.type"),
        (&found.name, "payload.name"),
    ] {
        if value.is_empty() {
            return Err(missing(field));
        }
    }
    Ok(found)
}

fn assign_group(payload: &str) -> Result<AssignGroup<'_>, Fault> {
    let mut found = AssignGroup::default();
    members(payload, "payload", |name, value| {
        match name {
            "groupIds" => found.groups = ids(value, "payload.groupIds")?,
            "profileId" => found.profile_id = id(value, "payload.profileId")?,
            _ => {}
        }
        Ok(())
    })?;
    match found.groups.is_empty() {
        true => Err(missing("payload.groupIds")),
        false => Ok(found),
    }
}

fn replay(payload: &str) -> Result<Replay<'_>, Fault> {
    let mut found = Replay::default();
    let (mut index, mut snapshot, mut started, mut ended) = (None, None, None, None);
    members(payload, "payload", |name, value| {
        match name {
            "chunk_index" => index = Some(count(value, "payload.chunk_index", 0, 65_535)?),
            "events_count" => {
                found.events_count = count(value, "payload.events_count", 1, u32::MAX)?;
            }
            "is_full_snapshot" => snapshot = Some(flag(value, "payload.is_full_snapshot")?),
            "started_at" => started = Some(utc(value, "payload.started_at")?),
            "ended_at" => ended = Some(utc(value, "payload.ended_at")?),
            "payload" => found.payload = recording(value)?,
            "sessionId" => found.session_id = session(value)?,
            _ => {}
        }
        Ok(())
    })?;
    found.chunk_index = index.ok_or_else(|| missing("payload.chunk_index"))?;
    found.is_full_snapshot = snapshot.ok_or_else(|| missing("payload.is_full_snapshot"))?;
    found.started_at = started.ok_or_else(|| missing("payload.started_at"))?;
    found.ended_at = ended.ok_or_else(|| missing("payload.ended_at"))?;
    if found.events_count == 0 {
        return Err(missing("payload.events_count"));
    }
    match found.payload.is_empty() {
        true => Err(missing("payload.payload")),
        false => Ok(found),
    }
}

fn recording(value: &str) -> Result<Cow<'_, str>, Fault> {
    let field = "payload.payload";
    let text = text(value, field, 4 * REPLAY_CHARS_MAX)?;
    // JavaScript counts UTF-16 units; only a text that may be too long is counted.
    match text.len() > REPLAY_CHARS_MAX && text.encode_utf16().count() > REPLAY_CHARS_MAX {
        true => Err(Fault::of_field(
            field,
            format!("has more than {REPLAY_CHARS_MAX} characters"),
        )),
        false => Ok(text),
    }
}

fn session(value: &str) -> Result<Cow<'_, str>, Fault> {
    let field = "payload.sessionId";
    let text = text(value, field, 4 * SESSION_CHARS_MAX)?;
    match text.chars().nth(SESSION_CHARS_MAX) {
        Some(_) => {
            let rule = format!("has more than {SESSION_CHARS_MAX} characters");
            Err(Fault::of_field(field, rule))
        }
        None => Ok(text),
    }
}

/// RFC 3339 in UTC, which ends with `Z`.
fn utc(value: &str, field: &str) -> Result<Timestamp, Fault> {
    let text = text(value, field, 64)?;
    let time = time_of(&text).filter(|_| text.ends_with('Z'));
    time.ok_or_else(|| Fault::of_field(field, "must be an RFC 3339 time that ends with Z"))
}

fn alias(payload: &str) -> Result<Alias<'_>, Fault> {
    let mut found = Alias::default();
    members(payload, "payload", |name, value| {
        match name {
            "profileId" => found.profile_id = id(value, "payload.profileId")?,
            "alias" => found.alias = id(value, "payload.alias")?,
            _ => {}
        }
        Ok(())
    })?;
    if found.profile_id.is_empty() {
        return Err(missing("payload.profileId"));
    }
    match found.alias.is_empty() {
        true => Err(missing("payload.alias")),
        false => Ok(found),
    }
}

pub(super) fn ids<'a>(value: &'a str, field: &str) -> Result<Vec<Cow<'a, str>>, Fault> {
    let mut found = Vec::new();
    elements(value, field, |element| {
        if found.len() == GROUPS_MAX {
            let rule = format!("has more than {GROUPS_MAX} elements");
            return Err(Fault::of_field(field, rule));
        }
        found.push(id(element, field)?);
        Ok(())
    })?;
    Ok(found)
}

pub(super) fn of_rule(fault: RuleFault) -> Fault {
    let field = format!("payload.{}", fault.field());
    Fault::new(fault.code(), field, fault.to_string())
}

impl Payload<'_> {
    /// The time that the payload itself says.
    pub(super) fn claimed_ms(&self) -> Option<i64> {
        match self {
            Self::Track(track) => track.reserved.claimed_ms,
            Self::Replay(replay) => Some(replay.started_at.as_millis()),
            _ => None,
        }
    }

    /// The profile that the item changes.
    pub(super) fn profile_of_change(&self) -> Option<&str> {
        match self {
            Self::Track(_) | Self::Group(_) | Self::Replay(_) => None,
            change => Some(change.profile_id()),
        }
    }

    /// The profile that the producer names, or empty.
    pub(super) fn profile_id(&self) -> &str {
        match self {
            Self::Track(track) => &track.profile_id,
            Self::Identify(identify) => &identify.profile_id,
            Self::Add(add) => &add.profile_id,
            Self::AssignGroup(assign) => &assign.profile_id,
            Self::Alias(alias) => &alias.profile_id,
            Self::Group(_) | Self::Replay(_) => "",
        }
    }
}
