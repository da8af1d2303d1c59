//! One session: what is kept of it, how an event changes it, and how it is shown.

use std::collections::BTreeSet;

use fulmar_event::{Enrichment, EventView, SessionId, Texts, TrackView, campaign, encode_texts};

use crate::interner::{Interner, Symbol};

/// The event that counts as a view of a page.
const SCREEN_VIEW: &str = "screen_view";

/// A place that is unknown.
const NO_PLACE: (i32, i32) = (i32::MIN, i32::MIN);

/// Place and program of a session, from its first event.
pub type Surroundings<'a> = Enrichment<'a>;

/// What is kept of a session.
#[derive(Debug)]
pub(crate) struct Session {
    pub id: SessionId,
    /// Which of the sessions that had this place in memory it is.
    pub life: u32,
    pub project: Symbol,
    /// The device, and behind it the profile where one was identified.
    pub names: Box<str>,
    pub device_bytes: u32,
    /// Time of the event that identified it.
    pub profile_ms: i64,
    pub created_ms: i64,
    pub ended_ms: i64,
    /// The log's time when an event last touched it.
    pub touched_ms: i64,
    /// `session_end` is written.
    pub closed: bool,
    /// It changed in the block in hand.
    pub changed: bool,
    pub screen_views: u32,
    pub events: u32,
    pub revenue: u64,
    pub entry: Page,
    pub exit: Page,
    /// Groups of all its events, as [`Texts`].
    pub groups: Symbol,
    /// Country, region, city, then the program, as [`Texts`].
    pub surroundings: Symbol,
    /// Latitude and longitude in millionths of a degree; `i32::MIN` where unknown.
    pub place_micros: (i32, i32),
    /// Medium, source, campaign, content, term, as [`Texts`].
    pub campaign: Symbol,
    /// Referrer, its name, its kind, as [`Texts`].
    pub referrer: Symbol,
    /// The last record that touched it.
    pub partition: u16,
    pub offset: u64,
    /// The device's session before this one in memory, or none.
    pub earlier: Option<u32>,
}

/// A page of a session: its first or its last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Page {
    pub origin: Symbol,
    pub path: Symbol,
    /// Time of the event that was on it.
    pub at_ms: i64,
}

impl Page {
    fn key<'a>(&self, texts: &'a Interner) -> (i64, &'a [u8], &'a [u8]) {
        (self.at_ms, texts.get(self.path), texts.get(self.origin))
    }

    fn is_none(&self) -> bool {
        (self.path, self.origin) == (Symbol::default(), Symbol::default())
    }

    fn set(&mut self, (at_ms, path, origin): (i64, &[u8], &[u8]), texts: &mut Interner) {
        texts.replace(&mut self.path, path);
        texts.replace(&mut self.origin, origin);
        self.at_ms = at_ms;
    }
}

/// An event's place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub partition: u16,
    pub offset: u64,
    /// The log's time.
    pub log_ms: i64,
}

/// The session, device and referrer of an event's row. Outside of a session it has the event's
/// own referrer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Placed<'a> {
    /// Empty outside of any session.
    pub session_id: &'a str,
    /// Empty for a server's event without one.
    pub device_id: &'a str,
    /// Where the visitor came from.
    pub referrer: &'a str,
    /// Its name.
    pub referrer_name: &'a str,
    /// Its kind.
    pub referrer_type: &'a str,
}

/// A session as a row shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SessionView<'a> {
    /// The session.
    pub id: &'a str,
    /// The project.
    pub project: &'a str,
    /// The device.
    pub device_id: &'a str,
    /// The profile identified last; the device where none was.
    pub profile_id: &'a str,
    /// Groups of all its events.
    pub groups: Texts<'a>,
    /// Its first event, ms since the epoch.
    pub created_ms: i64,
    /// Its last event, ms since the epoch.
    pub ended_ms: i64,
    /// First page.
    pub entry_origin: &'a str,
    /// First page.
    pub entry_path: &'a str,
    /// Last page.
    pub exit_origin: &'a str,
    /// Last page.
    pub exit_path: &'a str,
    /// Views of pages.
    pub screen_views: u32,
    /// Other events.
    pub events: u32,
    /// Minor currency units.
    pub revenue: u64,
    /// Place and program of its first event.
    pub surroundings: Surroundings<'a>,
    /// Medium, source, campaign, content and term of its first event.
    pub campaign: [&'a str; 5],
    /// Referrer, its name and kind, of its first event.
    pub referrer: [&'a str; 3],
    /// Count of folded events (S2).
    pub version: u64,
    /// The last record that touched it.
    pub partition: u16,
    /// The last record that touched it.
    pub offset: u64,
}

impl SessionView<'_> {
    /// At most one view of a page: other events cure no bounce.
    pub fn is_bounce(&self) -> bool {
        self.screen_views <= 1
    }

    /// Milliseconds from its first to its last event.
    pub fn duration_ms(&self) -> u64 {
        u64::try_from(self.ended_ms.saturating_sub(self.created_ms)).unwrap_or(0)
    }
}

impl Session {
    /// A session without any event yet; [`Session::take`] follows.
    pub fn start(
        (event, track): (&EventView<'_>, &TrackView<'_>),
        time_ms: i64,
        id: SessionId,
        at: At,
        texts: &mut Interner,
    ) -> Self {
        Self {
            id,
            life: 0,
            project: texts.hold(event.stamp.project.as_bytes()),
            names: track.device_id.into(),
            device_bytes: track.device_id.len() as u32,
            profile_ms: i64::MIN,
            created_ms: i64::MAX,
            ended_ms: time_ms,
            touched_ms: at.log_ms,
            closed: false,
            changed: false,
            screen_views: 0,
            events: 0,
            revenue: 0,
            entry: Page::default(),
            exit: Page::default(),
            groups: Symbol::default(),
            surroundings: Symbol::default(),
            place_micros: NO_PLACE,
            campaign: Symbol::default(),
            referrer: Symbol::default(),
            partition: at.partition,
            offset: at.offset,
            earlier: None,
        }
    }

    /// Takes an event that belongs to it. What comes of many does not depend on their order:
    /// where the first or last event decides, equal times are told apart by what they say. True
    /// when the event identified another profile.
    pub fn take(
        &mut self,
        (event, track): (&EventView<'_>, &TrackView<'_>),
        time_ms: i64,
        at: At,
        texts: &mut Interner,
    ) -> bool {
        self.take_page(track, time_ms, texts);
        if time_ms <= self.created_ms {
            self.take_origin((event, track), time_ms, texts);
        }
        self.created_ms = self.created_ms.min(time_ms);
        self.ended_ms = self.ended_ms.max(time_ms);
        if track.name == SCREEN_VIEW && !track.path.is_empty() {
            self.screen_views = self.screen_views.saturating_add(1);
        } else {
            self.events = self.events.saturating_add(1);
        }
        self.revenue = self.revenue.saturating_add(track.revenue);
        self.touched_ms = self.touched_ms.max(at.log_ms);
        (self.partition, self.offset) = (at.partition, at.offset);
        let profile = track.profile_id;
        if !track.groups.is_empty() {
            self.unite_groups(track.groups, texts);
        }
        let identified = !profile.is_empty() && profile != self.device();
        if !identified || (time_ms, profile) <= (self.profile_ms, self.identified()) {
            return false;
        }
        self.profile_ms = time_ms;
        let another = profile != self.identified();
        if another {
            self.names = [self.device(), profile].concat().into();
        }
        another
    }

    /// The first and the last page that any event names.
    fn take_page(&mut self, track: &TrackView<'_>, time_ms: i64, texts: &mut Interner) {
        let page = (time_ms, track.path.as_bytes(), track.origin.as_bytes());
        if page.1.is_empty() && page.2.is_empty() {
            return;
        }
        if self.entry.is_none() || page < self.entry.key(texts) {
            self.entry.set(page, texts);
        }
        if self.exit.is_none() || page > self.exit.key(texts) {
            self.exit.set(page, texts);
        }
    }

    /// What the first event decides: place and program, campaign and referrer.
    fn take_origin(
        &mut self,
        (event, track): (&EventView<'_>, &TrackView<'_>),
        time_ms: i64,
        texts: &mut Interner,
    ) {
        let found = Enrichment::parse(event.enrichment).unwrap_or_default();
        let utm = campaign(track.query);
        let surroundings = list(&[
            found.country,
            found.region,
            found.city,
            found.os,
            found.os_version,
            found.browser,
            found.browser_version,
            found.device,
            found.brand,
            found.model,
        ]);
        let campaign = list(&[
            &utm.medium,
            &utm.source,
            &utm.campaign,
            &utm.content,
            &utm.term,
        ]);
        let referrer = list(&[track.referrer, track.referrer_name, track.referrer_type]);
        let place = found.place_micros.unwrap_or(NO_PLACE);
        let known = (
            texts.get(self.surroundings),
            self.place_micros,
            texts.get(self.campaign),
            texts.get(self.referrer),
        );
        let new = (&surroundings[..], place, &campaign[..], &referrer[..]);
        if time_ms < self.created_ms || new > known {
            texts.replace(&mut self.surroundings, &surroundings);
            texts.replace(&mut self.campaign, &campaign);
            texts.replace(&mut self.referrer, &referrer);
            self.place_micros = place;
        }
    }

    fn unite_groups(&mut self, more: Texts<'_>, texts: &mut Interner) {
        let known = Texts::new(texts.get(self.groups));
        let all: BTreeSet<&str> = known.iter().chain(more.iter()).collect();
        if all.len() > known.iter().count() {
            let all = encode_texts(all);
            texts.replace(&mut self.groups, &all);
        }
    }

    pub fn device(&self) -> &str {
        &self.names[..self.device_bytes as usize]
    }

    /// The profile that was identified last, or nothing.
    fn identified(&self) -> &str {
        &self.names[self.device_bytes as usize..]
    }

    /// The profile that was identified last; the device where none was.
    pub fn profile_id(&self) -> &str {
        match self.identified() {
            "" => self.device(),
            profile => profile,
        }
    }

    /// Every symbol that it holds.
    pub fn symbols(&self) -> [Symbol; 9] {
        [
            self.project,
            self.entry.origin,
            self.entry.path,
            self.exit.origin,
            self.exit.path,
            self.groups,
            self.surroundings,
            self.campaign,
            self.referrer,
        ]
    }

    pub fn view<'a>(&'a self, texts: &'a Interner) -> SessionView<'a> {
        let [
            country,
            region,
            city,
            os,
            os_version,
            browser,
            browser_version,
            device,
            brand,
            model,
        ] = parts(texts.get(self.surroundings));
        SessionView {
            id: self.id.as_str(),
            project: texts.text(self.project),
            device_id: self.device(),
            profile_id: self.profile_id(),
            groups: Texts::new(texts.get(self.groups)),
            created_ms: self.created_ms,
            ended_ms: self.ended_ms,
            entry_origin: texts.text(self.entry.origin),
            entry_path: texts.text(self.entry.path),
            exit_origin: texts.text(self.exit.origin),
            exit_path: texts.text(self.exit.path),
            screen_views: self.screen_views,
            events: self.events,
            revenue: self.revenue,
            surroundings: Enrichment {
                country,
                region,
                city,
                place_micros: (self.place_micros != NO_PLACE).then_some(self.place_micros),
                os,
                os_version,
                browser,
                browser_version,
                device,
                brand,
                model,
                bot_reasons: "",
            },
            campaign: parts(texts.get(self.campaign)),
            referrer: parts(texts.get(self.referrer)),
            version: u64::from(self.screen_views) + u64::from(self.events),
            partition: self.partition,
            offset: self.offset,
        }
    }

    /// The place of an event of this session.
    pub fn placed<'a>(&'a self, track: &TrackView<'a>, texts: &'a Interner) -> Placed<'a> {
        let own = [track.referrer, track.referrer_name, track.referrer_type];
        let of_session = parts(texts.get(self.referrer));
        let [referrer, referrer_name, referrer_type] = match of_session {
            ["", "", ""] => own,
            of_session => of_session,
        };
        Placed {
            session_id: self.id.as_str(),
            device_id: self.device(),
            referrer,
            referrer_name,
            referrer_type,
        }
    }
}

/// The bytes of a list of texts; none where all are empty.
fn list(of: &[&str]) -> Vec<u8> {
    match of.iter().all(|text| text.is_empty()) {
        true => Vec::new(),
        false => encode_texts(of.iter().copied()),
    }
}

/// The texts of a list, empty where it has fewer.
fn parts<const N: usize>(list: &[u8]) -> [&str; N] {
    let mut texts = Texts::new(list).iter();
    std::array::from_fn(|_| texts.next().unwrap_or_default())
}
