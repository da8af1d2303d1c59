//! Profiles and groups, as what is kept of each and how a change changes it.
//!
//! Nothing depends on the order of changes (S4): of a field the last writer wins by (time, event
//! id), increments are sums beside the value that was told, groups unite.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_event::{Enrichment, FlattenError, ProfileChange, ProfileView, flatten_properties};
use serde::{Deserialize, Serialize};

/// Millionths in one: sums are exact to this.
const MICROS: i64 = 1_000_000;

/// A value with who wrote it last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Told {
    #[serde(rename = "v")]
    text: String,
    #[serde(rename = "t")]
    at_ms: i64,
    #[serde(rename = "i")]
    event_id: String,
}

/// Which event tells, for [`Told`].
#[derive(Clone, Copy, Debug)]
pub struct Teller<'a> {
    /// Its time, ms since the epoch.
    pub at_ms: i64,
    /// Its id.
    pub event_id: &'a str,
}

impl Told {
    /// Empty text is nothing told: a value can't be cleared by a producer that leaves it out.
    fn tell(&mut self, text: &str, by: Teller<'_>) {
        let first = self.text.is_empty();
        let later = (by.at_ms, by.event_id) >= (self.at_ms, self.event_id.as_str());
        if !text.is_empty() && (first || later) {
            *self = Self {
                text: text.to_owned(),
                at_ms: by.at_ms,
                event_id: by.event_id.to_owned(),
            };
        }
    }
}

/// The session that a profile is in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Live {
    device: String,
    session: String,
}

/// First and last time that something was told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    first_ms: i64,
    last_ms: i64,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            first_ms: i64::MAX,
            last_ms: i64::MIN,
        }
    }
}

impl Seen {
    fn at(&mut self, ms: i64) {
        self.first_ms = self.first_ms.min(ms);
        self.last_ms = self.last_ms.max(ms);
    }
}

/// What is kept of a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// A producer named it; else it is a device.
    external: bool,
    first_name: Told,
    last_name: Told,
    email: Told,
    avatar: Told,
    properties: BTreeMap<String, Told>,
    /// Sums of increments by property, in millionths.
    added: BTreeMap<String, i64>,
    groups: BTreeSet<String>,
    seen: Seen,
    /// The profile that it is known as from then on.
    alias: Told,
    live: Option<Live>,
}

impl Profile {
    /// Applies a change of this profile. `found` is what the door looked up.
    ///
    /// # Errors
    /// When the properties are no flat object within the limits; nothing has changed then.
    pub fn apply(
        &mut self,
        change: ProfileChange,
        view: &ProfileView<'_>,
        found: &Enrichment<'_>,
        by: Teller<'_>,
    ) -> Result<(), FlattenError> {
        let properties = flat(view.properties)?;
        self.seen.at(by.at_ms);
        self.external |= !view.device_id.is_empty() && view.device_id != view.profile_id;
        match change {
            ProfileChange::Identify => {
                self.external = view.device_id != view.profile_id;
                self.first_name.tell(view.first_name, by);
                self.last_name.tell(view.last_name, by);
                self.email.tell(view.email, by);
                self.avatar.tell(view.avatar, by);
                self.tell_all(&properties, by);
                self.tell_surroundings(found, by);
            }
            ProfileChange::Add => {
                let sum = self.added.entry(view.property.to_owned()).or_default();
                *sum = sum.saturating_add(view.amount_micros);
            }
            ProfileChange::AssignGroups => {
                self.groups.extend(view.groups.iter().map(str::to_owned));
            }
            ProfileChange::Alias => self.alias.tell(view.profile_id, by),
            ProfileChange::SessionStart => {
                self.groups.extend(view.groups.iter().map(str::to_owned));
                self.tell_surroundings(found, by);
                self.live = Some(Live {
                    device: view.device_id.to_owned(),
                    session: view.session_id.to_owned(),
                });
            }
            ProfileChange::SessionEnd => {
                let ended = |live: &Live| live.session == view.session_id;
                if self.live.as_ref().is_some_and(ended) {
                    self.live = None;
                }
            }
            // Of a group, and of what is kept itself.
            ProfileChange::Group | ProfileChange::Forget => {}
        }
        Ok(())
    }

    fn tell_all(&mut self, properties: &[(String, String)], by: Teller<'_>) {
        for (key, value) in properties {
            self.properties
                .entry(key.clone())
                .or_default()
                .tell(value, by);
        }
    }

    /// Place and program. A server's own say nothing of a person.
    fn tell_surroundings(&mut self, found: &Enrichment<'_>, by: Teller<'_>) {
        if found.device == "server" {
            return;
        }
        let told = [
            ("country", found.country),
            ("region", found.region),
            ("city", found.city),
            ("os", found.os),
            ("os_version", found.os_version),
            ("browser", found.browser),
            ("browser_version", found.browser_version),
            ("device", found.device),
            ("brand", found.brand),
            ("model", found.model),
        ];
        for (key, value) in told.into_iter().filter(|(_, value)| !value.is_empty()) {
            self.properties
                .entry(key.to_owned())
                .or_default()
                .tell(value, by);
        }
    }

    /// The profile that changes of this one go to, if it is known as another.
    pub fn known_as(&self) -> Option<&str> {
        (!self.alias.text.is_empty()).then_some(&self.alias.text)
    }

    /// The device whose session the profile is in.
    pub fn live_device(&self) -> Option<&str> {
        self.live.as_ref().map(|live| live.device.as_str())
    }

    /// First name, last name, address, picture.
    pub fn names(&self) -> [&str; 4] {
        [&self.first_name, &self.last_name, &self.email, &self.avatar].map(|told| &*told.text)
    }

    /// Whether a producer named it.
    pub fn is_external(&self) -> bool {
        self.external
    }

    /// Ids of its groups.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(String::as_str)
    }

    /// First and last seen, ms since the epoch.
    pub fn seen_ms(&self) -> (i64, i64) {
        (self.seen.first_ms, self.seen.last_ms)
    }

    /// Its properties, with increments added to what was told.
    pub fn each_property(&self, mut each: impl FnMut(&str, &str)) {
        for (key, told) in &self.properties {
            match self.added.get(key) {
                None => each(key, &told.text),
                Some(added) => each(key, &decimal(micros(&told.text).saturating_add(*added))),
            }
        }
        let only_added = self.added.iter();
        for (key, added) in only_added.filter(|(key, _)| !self.properties.contains_key(*key)) {
            each(key, &decimal(*added));
        }
    }
}

/// What is kept of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Group {
    kind: Told,
    name: Told,
    properties: BTreeMap<String, Told>,
    seen: Seen,
}

impl Group {
    /// Applies a change of this group.
    ///
    /// # Errors
    /// As [`Profile::apply`].
    pub fn apply(&mut self, view: &ProfileView<'_>, by: Teller<'_>) -> Result<(), FlattenError> {
        let properties = flat(view.properties)?;
        self.seen.at(by.at_ms);
        self.kind.tell(view.group_type, by);
        self.name.tell(view.group_name, by);
        for (key, value) in properties {
            self.properties.entry(key).or_default().tell(&value, by);
        }
        Ok(())
    }

    /// Its type and name.
    pub fn names(&self) -> [&str; 2] {
        [&self.kind.text, &self.name.text]
    }

    /// First and last told of, ms since the epoch.
    pub fn seen_ms(&self) -> (i64, i64) {
        (self.seen.first_ms, self.seen.last_ms)
    }

    /// Its properties.
    pub fn each_property(&self, mut each: impl FnMut(&str, &str)) {
        for (key, told) in &self.properties {
            each(key, &told.text);
        }
    }
}

fn flat(json: &[u8]) -> Result<Vec<(String, String)>, FlattenError> {
    let mut pairs = Vec::new();
    if !json.is_empty() {
        let json = std::str::from_utf8(json).unwrap_or("");
        flatten_properties(json, |key, value| {
            pairs.push((key.to_owned(), value.to_owned()));
        })?;
    }
    Ok(pairs)
}

/// A told number in millionths; what is none counts as 0, as whoever adds to it expects.
fn micros(text: &str) -> i64 {
    let number = text.parse::<f64>().unwrap_or(0.0) * MICROS as f64;
    // A float's cast ends at the bounds, and of no number is 0.
    number.round() as i64
}

/// Millionths as a plain decimal.
fn decimal(micros: i64) -> String {
    let (sign, micros) = (if micros < 0 { "-" } else { "" }, micros.unsigned_abs());
    let (whole, rest) = (micros / MICROS as u64, micros % MICROS as u64);
    if rest == 0 {
        return format!("{sign}{whole}");
    }
    let text = format!("{sign}{whole}.{rest:06}");
    text.trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A change, its time and its id.
    type Change = (u8, i64, u8);

    fn apply(profile: &mut Profile, (what, at_ms, id): Change) {
        let id = format!("event-{id}");
        let by = Teller {
            at_ms,
            event_id: &id,
        };
        let (name, number) = (format!("n{id}{at_ms}"), i64::from(what) * MICROS / 4);
        let json = format!("{{\"visits\":{what},\"p{}\":{at_ms}}}", what % 3);
        let groups = fulmar_event::encode_texts([format!("g{what}").as_str()]);
        let view = ProfileView {
            profile_id: "u1",
            device_id: "device-1",
            first_name: &name,
            properties: json.as_bytes(),
            property: "visits",
            amount_micros: number,
            groups: fulmar_event::Texts::new(&groups),
            ..ProfileView::default()
        };
        let changes = [
            ProfileChange::Identify,
            ProfileChange::Add,
            ProfileChange::AssignGroups,
        ];
        let change = changes[usize::from(what % 3)];
        profile
            .apply(change, &view, &Enrichment::default(), by)
            .unwrap();
    }

    fn shown(profile: &Profile) -> Vec<String> {
        let mut shown = Vec::new();
        profile.each_property(|key, value| shown.push(format!("{key}={value}")));
        shown
    }

    proptest! {
        /// Distinct events in any order give one profile (S4).
        #[test]
        fn the_order_of_changes_changes_nothing(
            changes in proptest::collection::vec((any::<u8>(), 0_i64..5, any::<u8>()), 1..12)
                .prop_map(|mut changes| {
                    // One event has one content.
                    changes.sort();
                    changes.dedup_by_key(|(_, at, id)| (*at, *id));
                    changes
                })
                .prop_flat_map(|changes| (Just(changes.clone()), Just(changes).prop_shuffle())),
        ) {
            let (mut first, mut second) = (Profile::default(), Profile::default());
            // Two contents of one (time, id) cannot be: ids of events are one event's.
            let mut seen = BTreeSet::new();
            let only = |c: &&Change| seen.insert((c.1, c.2));
            let kept: Vec<Change> = changes.0.iter().filter(only).copied().collect();
            changes.0.iter().filter(|c| kept.contains(c)).for_each(|c| apply(&mut first, *c));
            changes.1.iter().filter(|c| kept.contains(c)).for_each(|c| apply(&mut second, *c));
            prop_assert_eq!(&first, &second);
            let bytes = serde_json::to_vec(&first).unwrap();
            prop_assert_eq!(serde_json::from_slice::<Profile>(&bytes).unwrap(), second);
        }
    }

    #[test]
    fn increments_add_to_what_is_told_and_need_nothing_before_them() {
        let by = |at_ms, event_id| Teller { at_ms, event_id };
        let found = Enrichment::default();
        let mut profile = Profile::default();
        let add = ProfileView {
            property: "visits",
            amount_micros: 1_500_000,
            ..ProfileView::default()
        };
        profile
            .apply(ProfileChange::Add, &add, &found, by(1, "a"))
            .unwrap();
        assert_eq!(shown(&profile), ["visits=1.5"]);
        let identify = ProfileView {
            properties: br#"{"visits":10,"plan":"pro","nested":{"a":1}}"#,
            ..ProfileView::default()
        };
        profile
            .apply(ProfileChange::Identify, &identify, &found, by(2, "b"))
            .unwrap();
        assert_eq!(shown(&profile), ["nested.a=1", "plan=pro", "visits=11.5"]);
        let less = ProfileView {
            amount_micros: -12_000_000,
            ..add
        };
        profile
            .apply(ProfileChange::Add, &less, &found, by(3, "c"))
            .unwrap();
        assert_eq!(shown(&profile)[2], "visits=-0.5");
    }

    #[test]
    fn a_session_is_live_until_the_same_one_ends() {
        let by = Teller {
            at_ms: 1,
            event_id: "a",
        };
        let found = Enrichment::default();
        let of = |session_id| ProfileView {
            profile_id: "u1",
            device_id: "device-1",
            session_id,
            ..ProfileView::default()
        };
        let mut profile = Profile::default();
        let mut change = |change, session| {
            profile.apply(change, &of(session), &found, by).unwrap();
            profile.live_device().map(str::to_owned)
        };
        let live = Some("device-1".to_owned());
        assert_eq!(change(ProfileChange::SessionStart, "s1"), live);
        assert_eq!(change(ProfileChange::SessionStart, "s2"), live);
        assert_eq!(change(ProfileChange::SessionEnd, "s1"), live);
        assert_eq!(change(ProfileChange::SessionEnd, "s2"), None);
    }
}
