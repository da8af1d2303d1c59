//! From an item to the records that it becomes.

use std::borrow::Cow;
use std::net::IpAddr;

use fulmar_enrich::{DeviceCandidates, event_time, split_page};
use fulmar_event::{
    BotView, Door, Enrichment, Head, ProfileChange, ProfileView, Records, ReplayView, Texts,
    Timestamp, TrackView, encode_texts, partition_of,
};

use super::caller::Caller;
use super::credentials::Admitted;
use super::filter::Patterns;
use super::lookup::{AgentFacts, BotFacts, Lookup, PlaceFacts};
use super::payload::{
    Add, Alias, AssignGroup, Group, IDENTIFY_SUFFIX, Identify, Payload, Replay, Track,
};
use super::reserved::{Overrides, without_forged};
use super::salts::SaltPair;
use super::sessions::{Visit, Visits};

/// Records on their way into the two topics.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) events: Records,
    pub(super) profiles: Records,
}

impl Outgoing {
    /// Records in each topic.
    pub(super) fn counts(&self) -> (u32, u32) {
        (self.events.count(), self.profiles.count())
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.events.bytes().len() + self.profiles.bytes().len()) as u64
    }
}

/// What all items of one request share.
pub(super) struct Composer<'a> {
    pub(super) gateway: &'a str,
    pub(super) partitions: u16,
    pub(super) request_id: &'a str,
    pub(super) now: Timestamp,
    pub(super) caller: &'a Caller,
    pub(super) admitted: &'a Admitted,
    pub(super) lookup: &'a dyn Lookup,
    pub(super) visits: Visits<'a>,
    pub(super) salts: &'a SaltPair,
    pub(super) agent: AgentFacts<'a>,
    pub(super) bot_reasons: &'a str,
    pub(super) patterns: &'a Patterns,
}

/// An item's id and time, as sent or made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity<'a> {
    pub(super) id: &'a str,
    pub(super) claimed_ms: Option<i64>,
}

impl Composer<'_> {
    /// Writes the records of an item, and answers the visit that it belongs to.
    pub(super) fn write(
        &self,
        item: &Payload<'_>,
        identity: Identity<'_>,
        out: &mut Outgoing,
    ) -> Visit {
        match item {
            Payload::Track(track) => self.track(track, identity, out),
            Payload::Replay(replay) => self.replay(replay, identity, out),
            other => {
                let time_ms = self.time_ms(identity.claimed_ms);
                let visit = self.visit(self.caller.address, time_ms);
                self.change(other, identity.id, time_ms, &visit, out);
                visit
            }
        }
    }

    /// Writes a bot's request for a page.
    pub(super) fn bot(&self, bot: &BotFacts<'_>, path: &str, id: &str, out: &mut Outgoing) {
        let time_ms = self.now.as_millis();
        let visit = self.visit(self.caller.address, time_ms);
        let place = self.lookup.place(self.caller.address);
        let enrichment = self.enrichment(&self.agent, &place);
        let view = BotView {
            name: &bot.name,
            kind: &bot.kind,
            path,
        };
        let head = self.head(id, time_ms, &visit.device, enrichment);
        head.append_to(&view, self.partition(&visit.device), &mut out.events);
    }

    /// The visit of the caller, seen from an address.
    pub(super) fn visit(&self, address: IpAddr, time_ms: i64) -> Visit {
        let ids = DeviceCandidates::new(
            &self.caller.user_agent,
            &address.to_string(),
            &self.admitted.project,
            self.salts.current(),
            self.salts.previous(),
        );
        self.visits.of_candidates(&ids, time_ms)
    }

    /// A time that runs ahead is the server's.
    fn time_ms(&self, claimed_ms: Option<i64>) -> i64 {
        event_time(claimed_ms, self.now.as_millis()).ms
    }

    fn track(&self, track: &Track<'_>, identity: Identity<'_>, out: &mut Outgoing) -> Visit {
        let reserved = &track.reserved;
        let time_ms = self.time_ms(reserved.claimed_ms.or(identity.claimed_ms));
        let address = reserved.address.unwrap_or(self.caller.address);
        let visit = match reserved.device_id.as_deref() {
            Some(device) => self.visits.of_device(device, time_ms),
            None => self.visit(address, time_ms),
        };
        // A server's own address makes no device: what it sends belongs to the profile that it
        // names, or to nobody.
        let nobody = self.agent.is_server && reserved.device_id.is_none();
        let shown = if nobody { &Visit::default() } else { &visit };
        let page = split_page(&reserved.path);
        let own = split_page(&reserved.referrer);
        let same_host = !own.host().is_empty() && own.host() == page.host();
        let referrer = if same_host { "" } else { &*reserved.referrer };
        let facts = self.lookup.referrer(referrer, &page);
        let groups = encode_texts(track.groups.iter().map(|group| &**group));
        let view = TrackView {
            name: &track.name,
            properties: &properties(track),
            profile_id: &track.profile_id,
            groups: Texts::new(&groups),
            device_id: &shown.device,
            session_id: &shown.session,
            path: page.path,
            origin: &page.origin,
            query: page.query,
            fragment: page.hash.strip_prefix('#').unwrap_or_default(),
            referrer: referrer.strip_suffix('/').unwrap_or(referrer),
            referrer_name: &facts.name,
            referrer_type: &facts.kind,
            revenue: track.revenue,
            sdk_name: &self.caller.sdk_name,
            sdk_version: &self.caller.sdk_version,
            is_server: self.agent.is_server,
            is_imported: false,
        };
        let agent = overridden(&self.agent, &reserved.overrides);
        let place = self.lookup.place(address);
        let enrichment = self.enrichment(&agent, &place);
        let (key, topic) = match (nobody, &*track.profile_id) {
            (false, _) => (&*visit.device, &mut out.events),
            (true, "") => (identity.id, &mut out.events),
            (true, profile) => (profile, &mut out.profiles),
        };
        let head = self.head(identity.id, time_ms, key, enrichment);
        head.append_to(&view, self.partition(key), topic);
        if let Some(identify) = &track.identify {
            // Of the event's id, so that its repeat is one too.
            let id = format!("{}{IDENTIFY_SUFFIX}", identity.id);
            let change = self.identify(identify, &visit);
            let key = change.profile_id;
            let head = self.head(&id, time_ms, key, enrichment);
            head.append_to(&change, self.partition(key), &mut out.profiles);
        }
        visit
    }

    fn replay(&self, replay: &Replay<'_>, identity: Identity<'_>, out: &mut Outgoing) -> Visit {
        let claimed_ms = replay.started_at.as_millis();
        let time_ms = self.time_ms(Some(claimed_ms));
        let mut visit = self.visit(self.caller.address, time_ms);
        if !replay.session_id.is_empty() {
            visit.session = replay.session_id.to_string();
        }
        let view = ReplayView {
            session_id: &visit.session,
            device_id: &visit.device,
            chunk_index: replay.chunk_index,
            events_count: replay.events_count,
            is_full_snapshot: replay.is_full_snapshot,
            started_at: Some(replay.started_at),
            ended_at: Some(replay.ended_at),
            payload: replay.payload.as_bytes(),
        };
        let head = self.head(identity.id, time_ms, &visit.device, Enrichment::default());
        head.append_to(&view, self.partition(&visit.device), &mut out.events);
        visit
    }

    /// Writes a change of a profile or of a group.
    fn change(
        &self,
        item: &Payload<'_>,
        id: &str,
        time_ms: i64,
        visit: &Visit,
        out: &mut Outgoing,
    ) {
        let groups;
        let view = match item {
            Payload::Identify(identify) => self.identify(identify, visit),
            Payload::Add(add) => add_view(add),
            Payload::Group(group) => group_view(group),
            Payload::Alias(alias) => alias_view(alias),
            Payload::AssignGroup(assign) => {
                groups = encode_texts(assign.groups.iter().map(|group| &**group));
                assign_view(assign, &groups, visit)
            }
            // They are no changes of a profile.
            Payload::Track(_) | Payload::Replay(_) => return,
        };
        let place = match item {
            Payload::Identify(_) => self.lookup.place(self.caller.address),
            _ => PlaceFacts::default(),
        };
        let enrichment = match item {
            Payload::Identify(_) => self.enrichment(&self.agent, &place),
            _ => Enrichment::default(),
        };
        let key = match view.profile_id {
            "" => view.group_id,
            profile => profile,
        };
        let head = self.head(id, time_ms, key, enrichment);
        head.append_to(&view, self.partition(key), &mut out.profiles);
    }

    fn identify<'v>(&self, identify: &'v Identify<'_>, visit: &'v Visit) -> ProfileView<'v> {
        // A server's address is not the profile's device.
        let device_id = if self.agent.is_server {
            ""
        } else {
            &visit.device
        };
        ProfileView {
            profile_id: &identify.profile_id,
            properties: identify.properties.as_bytes(),
            change: ProfileChange::Identify as i32,
            first_name: &identify.first_name,
            last_name: &identify.last_name,
            email: &identify.email,
            avatar: &identify.avatar,
            device_id,
            ..ProfileView::default()
        }
    }

    pub(super) fn head<'h>(
        &'h self,
        event_id: &'h str,
        time_ms: i64,
        key: &'h str,
        enrichment: Enrichment<'h>,
    ) -> Head<'h> {
        Head {
            event_id,
            time: Timestamp::from_millis(time_ms),
            ingest_time: self.now,
            gateway: self.gateway,
            batch_id: self.request_id,
            project: &self.admitted.project,
            client: &self.admitted.client,
            key,
            door: Door::Track,
            control_offset: self.admitted.control_offset(),
            enrichment,
        }
    }

    pub(super) fn partition(&self, key: &str) -> u16 {
        partition_of(key.as_bytes(), self.partitions)
    }

    fn enrichment<'e>(
        &'e self,
        agent: &'e AgentFacts<'_>,
        place: &'e PlaceFacts<'_>,
    ) -> Enrichment<'e> {
        let shown = Enrichment {
            country: &place.country,
            region: &place.region,
            city: &place.city,
            place_micros: place.place_micros,
            bot_reasons: self.bot_reasons,
            ..Enrichment::default()
        };
        if agent.is_server {
            return Enrichment {
                device: "server",
                ..shown
            };
        }
        Enrichment {
            os: &agent.os,
            os_version: &agent.os_version,
            browser: &agent.browser,
            browser_version: &agent.browser_version,
            device: &agent.device,
            brand: &agent.brand,
            model: &agent.model,
            ..shown
        }
    }
}

/// The producer's own bytes, but for what only the server writes.
fn properties<'a>(track: &Track<'a>) -> Cow<'a, [u8]> {
    if track.reserved.forged
        && let Ok(kept) = without_forged(track.properties)
    {
        return Cow::Owned(kept.into_bytes());
    }
    Cow::Borrowed(track.properties.as_bytes())
}

/// What the app itself says of its device counts before what the agent tells.
pub(super) fn overridden<'a>(
    agent: &'a AgentFacts<'_>,
    overrides: &'a Overrides<'_>,
) -> AgentFacts<'a> {
    fn pick<'a>(own: &'a str, told: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(if own.is_empty() { told } else { own })
    }
    AgentFacts {
        is_server: agent.is_server,
        os: pick(&overrides.os, &agent.os),
        os_version: pick(&overrides.os_version, &agent.os_version),
        browser: pick(&overrides.browser, &agent.browser),
        browser_version: pick(&overrides.browser_version, &agent.browser_version),
        device: pick(&overrides.device, &agent.device),
        brand: pick(&overrides.brand, &agent.brand),
        model: pick(&overrides.model, &agent.model),
    }
}

fn add_view<'v>(add: &'v Add<'_>) -> ProfileView<'v> {
    ProfileView {
        profile_id: &add.profile_id,
        change: ProfileChange::Add as i32,
        property: &add.property,
        amount_micros: add.amount_micros,
        ..ProfileView::default()
    }
}

fn group_view<'v>(group: &'v Group<'_>) -> ProfileView<'v> {
    ProfileView {
        change: ProfileChange::Group as i32,
        group_id: &group.id,
        group_type: &group.kind,
        group_name: &group.name,
        properties: group.properties.as_bytes(),
        ..ProfileView::default()
    }
}

fn alias_view<'v>(alias: &'v Alias<'_>) -> ProfileView<'v> {
    ProfileView {
        profile_id: &alias.profile_id,
        change: ProfileChange::Alias as i32,
        alias: &alias.alias,
        ..ProfileView::default()
    }
}

/// Of the device, where no profile is named.
fn assign_view<'v>(
    assign: &'v AssignGroup<'_>,
    groups: &'v [u8],
    visit: &'v Visit,
) -> ProfileView<'v> {
    let profile_id = match &*assign.profile_id {
        "" => &visit.device,
        profile => profile,
    };
    ProfileView {
        profile_id,
        change: ProfileChange::AssignGroups as i32,
        groups: Texts::new(groups),
        ..ProfileView::default()
    }
}
