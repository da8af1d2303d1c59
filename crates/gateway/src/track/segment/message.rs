//! A message of Segment's: its fields, and the items that it becomes.

use std::borrow::Cow;

use crate::events::Fault;
use crate::events::verdict::push_json_string;
use crate::track::members::{TEXT_BYTES_MAX, id, members, missing, object, string, text};
use crate::track::payload::ITEM_ID_BYTES_MAX;
use crate::track::reserved::claimed_ms;

/// Behind the id of a message that becomes two items.
const SECOND_SUFFIX: &str = "-assign";

/// What a message says.
#[derive(Default)]
pub(super) struct Message<'a> {
    kind: Cow<'a, str>,
    id: Cow<'a, str>,
    user_id: Cow<'a, str>,
    anonymous_id: Cow<'a, str>,
    previous_id: Cow<'a, str>,
    group_id: Cow<'a, str>,
    event: Cow<'a, str>,
    name: Cow<'a, str>,
    category: Cow<'a, str>,
    /// Objects as they stand; empty if there are none.
    properties: &'a str,
    traits: &'a str,
    claimed_ms: Option<i64>,
    sent_ms: Option<i64>,
    pub(super) context: Context<'a>,
}

/// Where a message was made.
#[derive(Clone, Default)]
pub(super) struct Context<'a> {
    pub(super) ip: Cow<'a, str>,
    pub(super) user_agent: Cow<'a, str>,
    pub(super) library: Cow<'a, str>,
    pub(super) library_version: Cow<'a, str>,
    pub(super) os: Cow<'a, str>,
    pub(super) os_version: Cow<'a, str>,
    pub(super) device: Cow<'a, str>,
    pub(super) brand: Cow<'a, str>,
    pub(super) model: Cow<'a, str>,
    url: Cow<'a, str>,
    referrer: Cow<'a, str>,
    title: Cow<'a, str>,
    campaign: Vec<(&'static str, Cow<'a, str>)>,
}

impl<'a> Message<'a> {
    /// Reads a message of a path's type, or of its own in a batch; what it does not say of its
    /// context, `context` does.
    pub(super) fn read(message: &'a str, kind: &str, context: &Context<'a>) -> Result<Self, Fault> {
        let mut found = Self {
            context: context.clone(),
            ..Self::default()
        };
        members(message, "", |name, value| {
            match name {
                "type" => found.kind = text(value, name, TEXT_BYTES_MAX)?,
                "messageId" => found.id = text(value, name, ITEM_ID_BYTES_MAX)?,
                "userId" if value != "\"\"" => found.user_id = id(value, name)?,
                "anonymousId" if value != "\"\"" => found.anonymous_id = id(value, name)?,
                "previousId" => found.previous_id = id(value, name)?,
                "groupId" => found.group_id = id(value, name)?,
                "event" => found.event = text(value, name, TEXT_BYTES_MAX)?,
                "name" => found.name = string(value, name)?.unwrap_or_default(),
                "category" => found.category = string(value, name)?.unwrap_or_default(),
                "properties" => found.properties = object(value, name)?,
                "traits" => found.traits = object(value, name)?,
                "timestamp" | "originalTimestamp" => found.claimed_ms = claimed_ms(value, name)?,
                "sentAt" => found.sent_ms = claimed_ms(value, name)?,
                "context" => found.context.add(value)?,
                _ => {}
            }
            Ok(())
        })?;
        if kind != "batch" {
            found.kind = Cow::Owned(kind.to_owned());
        }
        Ok(found)
    }

    /// Its time by our clock: the producer's may be wrong, by as much at the send as at the event.
    pub(super) fn time_ms(&self, sent_ms: Option<i64>, now_ms: i64) -> Option<i64> {
        let claimed_ms = self.claimed_ms?;
        match self.sent_ms.or(sent_ms) {
            None => Some(claimed_ms),
            Some(sent_ms) => Some(now_ms.saturating_sub(sent_ms.saturating_sub(claimed_ms))),
        }
    }

    /// The items that it becomes, as the SDK door takes them.
    pub(super) fn items(&self, time_ms: Option<i64>) -> Result<Vec<String>, Fault> {
        let item = |kind: &str, suffix: &str, payload: Object| {
            let mut item = Object::default();
            item.text("type", kind);
            if !self.id.is_empty() {
                item.text("id", &format!("{}{suffix}", self.id));
            }
            if let Some(time_ms) = time_ms {
                item.raw("timestamp", &time_ms.to_string());
            }
            item.raw("payload", &payload.end());
            item.end()
        };
        match &*self.kind {
            "track" => Ok(vec![item("track", "", self.track(&self.event, "event")?)]),
            "page" | "screen" => Ok(vec![item("track", "", self.track("screen_view", "name")?)]),
            "identify" => Ok(vec![item("identify", "", self.identify()?)]),
            "group" => {
                let (group, assign) = self.group()?;
                Ok(vec![
                    item("group", "", group),
                    item("assign_group", SECOND_SUFFIX, assign),
                ])
            }
            "alias" => Ok(vec![item("alias", "", self.alias()?)]),
            _ => Err(Fault::of_field(
                "type",
                "must be track, identify, page, screen, group or alias",
            )),
        }
    }

    fn track(&self, name: &str, field: &str) -> Result<Object, Fault> {
        if name.is_empty() {
            return Err(missing(field));
        }
        let context = &self.context;
        let mut properties = Object::default();
        properties.text_unless_empty("__deviceId", &self.anonymous_id);
        let own_page = match &*self.kind {
            "screen" if context.url.is_empty() => format!("/{}", self.name),
            _ => context.page(),
        };
        properties.text_unless_empty("__path", &own_page);
        properties.text_unless_empty("__referrer", &context.referrer);
        properties.text_unless_empty("__title", &context.title);
        properties.text_unless_empty("name", &self.name);
        properties.text_unless_empty("category", &self.category);
        properties.members_of(self.properties);
        let mut payload = Object::default();
        payload.text("name", name);
        payload.text_unless_empty("profileId", &self.user_id);
        payload.raw("properties", &properties.end());
        Ok(payload)
    }

    /// Whom a change is of.
    fn profile(&self) -> Result<&str, Fault> {
        match (&*self.user_id, &*self.anonymous_id) {
            ("", "") => Err(missing("userId")),
            ("", anonymous) => Ok(anonymous),
            (user, _) => Ok(user),
        }
    }

    fn identify(&self) -> Result<Object, Fault> {
        let mut payload = Object::default();
        payload.text("profileId", self.profile()?);
        if !self.traits.is_empty() {
            let mut names = [Cow::Borrowed(""), Cow::Borrowed(""), Cow::Borrowed("")];
            members(self.traits, "traits", |name, value| {
                let told = || string(value, name).map(Option::unwrap_or_default);
                match name {
                    "firstName" | "first_name" => names[0] = told()?,
                    "lastName" | "last_name" => names[1] = told()?,
                    "name" => names[2] = told()?,
                    "email" => {
                        let email = told()?;
                        let is_one = email.rsplit_once('@').is_some_and(|(local, host)| {
                            !local.is_empty() && host.contains('.') && !host.starts_with('.')
                        });
                        let plain = !email.contains(char::is_whitespace) && !email.ends_with('.');
                        payload.text_if(is_one && plain, "email", &email);
                    }
                    "avatar" => {
                        let avatar = told()?;
                        payload.text_if(avatar.starts_with("http"), "avatar", &avatar);
                    }
                    _ => {}
                }
                Ok(())
            })?;
            let [first, last, whole] = &names;
            let neither = first.is_empty() && last.is_empty();
            payload.text_unless_empty("firstName", if neither { whole } else { first });
            payload.text_unless_empty("lastName", last);
            payload.raw("properties", self.traits);
        }
        Ok(payload)
    }

    fn group(&self) -> Result<(Object, Object), Fault> {
        if self.group_id.is_empty() {
            return Err(missing("groupId"));
        }
        let (mut kind, mut name) = (Cow::Borrowed("group"), self.group_id.clone());
        if !self.traits.is_empty() {
            members(self.traits, "traits", |member, value| {
                let told = string(value, member)?.filter(|told| !told.is_empty());
                match (member, told) {
                    ("type", Some(told)) => kind = told,
                    ("name", Some(told)) => name = told,
                    _ => {}
                }
                Ok(())
            })?;
        }
        let mut group = Object::default();
        group.text("id", &self.group_id);
        group.text("type", &kind);
        group.text("name", &name);
        if !self.traits.is_empty() {
            group.raw("properties", self.traits);
        }
        let mut assign = Object::default();
        let mut groups = Vec::new();
        push_json_string(&self.group_id, &mut groups);
        assign.raw(
            "groupIds",
            &format!("[{}]", String::from_utf8_lossy(&groups)),
        );
        assign.text("profileId", self.profile()?);
        Ok((group, assign))
    }

    fn alias(&self) -> Result<Object, Fault> {
        for (id, field) in [(&self.previous_id, "previousId"), (&self.user_id, "userId")] {
            if id.is_empty() {
                return Err(missing(field));
            }
        }
        let mut payload = Object::default();
        payload.text("profileId", &self.user_id);
        payload.text("alias", &self.previous_id);
        Ok(payload)
    }
}

impl<'a> Context<'a> {
    /// Reads an object; one of another kind says nothing.
    pub(super) fn read(value: &'a str) -> Result<Self, Fault> {
        let mut context = Self::default();
        context.add(value)?;
        Ok(context)
    }

    fn add(&mut self, value: &'a str) -> Result<(), Fault> {
        each(value, |name, value| {
            match name {
                "ip" => set(&mut self.ip, value)?,
                "userAgent" => set(&mut self.user_agent, value)?,
                "library" => each(value, |name, value| match name {
                    "name" => set(&mut self.library, value),
                    "version" => set(&mut self.library_version, value),
                    _ => Ok(()),
                })?,
                "os" => each(value, |name, value| match name {
                    "name" => set(&mut self.os, value),
                    "version" => set(&mut self.os_version, value),
                    _ => Ok(()),
                })?,
                "device" => each(value, |name, value| match name {
                    "type" => set(&mut self.device, value),
                    "manufacturer" => set(&mut self.brand, value),
                    "model" => set(&mut self.model, value),
                    _ => Ok(()),
                })?,
                "page" => each(value, |name, value| match name {
                    "url" => set(&mut self.url, value),
                    "referrer" => set(&mut self.referrer, value),
                    "title" => set(&mut self.title, value),
                    _ => Ok(()),
                })?,
                "campaign" => self.add_campaign(value)?,
                _ => {}
            }
            Ok(())
        })
    }

    fn add_campaign(&mut self, value: &'a str) -> Result<(), Fault> {
        each(value, |name, value| {
            let name = match name {
                "name" => "utm_campaign",
                "source" => "utm_source",
                "medium" => "utm_medium",
                "term" => "utm_term",
                "content" => "utm_content",
                _ => return Ok(()),
            };
            let told = string(value, name)?.unwrap_or_default();
            self.campaign.push((name, told));
            Ok(())
        })
    }

    /// The page with its campaign in the query, where our own SDKs have it.
    fn page(&self) -> String {
        let mut page = self.url.clone().into_owned();
        if page.is_empty() || page.contains("utm_") {
            return page;
        }
        let fragment = page
            .find('#')
            .map(|at| page.split_off(at))
            .unwrap_or_default();
        for (name, value) in self.campaign.iter().filter(|(_, value)| !value.is_empty()) {
            page.push(if page.contains('?') { '&' } else { '?' });
            page.push_str(name);
            page.push('=');
            for byte in value.bytes() {
                match byte {
                    b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                        page.push(char::from(byte));
                    }
                    _ => page.push_str(&format!("%{byte:02X}")),
                }
            }
        }
        page + &fragment
    }

    /// The kind of device by our names; `mobile` where an app tells only that it runs on one.
    pub(super) fn kind_of_device(&self) -> &'static str {
        match self.device.to_ascii_lowercase().as_str() {
            "tablet" | "ipad" => "tablet",
            "desktop" | "macos" | "windows" | "linux" => "desktop",
            "tv" | "smarttv" | "tvos" => "smarttv",
            _ => "mobile",
        }
    }
}

/// Members of an object; nothing of another kind of value.
fn each<'a>(
    value: &'a str,
    visit: impl FnMut(&str, &'a str) -> Result<(), Fault>,
) -> Result<(), Fault> {
    match value.starts_with('{') {
        true => members(value, "context", visit),
        false => Ok(()),
    }
}

/// Sets a text; another kind of value says nothing, and what is too long for any is left out.
fn set<'a>(place: &mut Cow<'a, str>, value: &'a str) -> Result<(), Fault> {
    let told = string(value, "context")?.unwrap_or_default();
    if told.len() <= 8 * TEXT_BYTES_MAX {
        *place = told;
    }
    Ok(())
}

/// An object of JSON on its way.
#[derive(Default)]
struct Object(Vec<u8>);

impl Object {
    fn text(&mut self, name: &str, value: &str) {
        let mut quoted = Vec::new();
        push_json_string(value, &mut quoted);
        self.raw(name, &String::from_utf8_lossy(&quoted));
    }

    fn text_unless_empty(&mut self, name: &str, value: &str) {
        self.text_if(!value.is_empty(), name, value);
    }

    fn text_if(&mut self, is: bool, name: &str, value: &str) {
        if is {
            self.text(name, value);
        }
    }

    /// A member whose value is JSON already.
    fn raw(&mut self, name: &str, value: &str) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        push_json_string(name, &mut self.0);
        self.0.push(b':');
        self.0.extend_from_slice(value.as_bytes());
    }

    /// The members of another object, which count before ours of the same name.
    fn members_of(&mut self, object: &str) {
        let inner = object
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'));
        let inner = inner.map(str::trim).unwrap_or_default();
        if !inner.is_empty() {
            self.0.push(if self.0.is_empty() { b'{' } else { b',' });
            self.0.extend_from_slice(inner.as_bytes());
        }
    }

    fn end(mut self) -> String {
        if self.0.is_empty() {
            self.0.push(b'{');
        }
        self.0.push(b'}');
        // It was put together of texts.
        String::from_utf8_lossy(&self.0).into_owned()
    }
}
