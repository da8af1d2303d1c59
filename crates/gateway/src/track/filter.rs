//! Events that a project leaves out, by name or by conditions on what the event is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fulmar_enrich::{PageUrl, split_page};
use fulmar_event::flatten_properties;
use fulmar_registry::{Condition, pattern};
use regex::Regex;

use super::compose::{Composer, overridden};
use super::lookup::{AgentFacts, PlaceFacts};
use super::payload::Track;

/// Patterns that are kept compiled; when they are more, all are compiled anew.
const PATTERNS_MAX: usize = 256;

/// Compiled patterns of filters, by their text.
#[derive(Default)]
pub(super) struct Patterns(Mutex<HashMap<String, Option<Arc<Regex>>>>);

impl Patterns {
    /// Whether a pattern is found in a text; one that is none is found nowhere.
    fn found(&self, wanted: &str, text: &str) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains_key(wanted) {
            if known.len() >= PATTERNS_MAX {
                known.clear();
            }
            let compiled = pattern(wanted).ok().map(Arc::new);
            known.insert(wanted.to_owned(), compiled);
        }
        let compiled = known.get(wanted).cloned().flatten();
        drop(known);
        compiled.is_some_and(|compiled| compiled.is_match(text))
    }
}

/// What conditions are about.
struct Seen<'a> {
    properties: HashMap<String, String>,
    page: PageUrl<'a>,
    agent: AgentFacts<'a>,
    place: PlaceFacts<'a>,
    track: &'a Track<'a>,
}

impl Seen<'_> {
    fn value(&self, condition: &Condition) -> Option<&str> {
        if let Some(path) = condition.property() {
            return self.properties.get(path).map(String::as_str);
        }
        let value = match condition.name.as_str() {
            "name" => &self.track.name,
            "profile_id" => &self.track.profile_id,
            "referrer" => &self.track.reserved.referrer,
            "path" => self.page.path,
            "origin" => &self.page.origin,
            "os" => &self.agent.os,
            "os_version" => &self.agent.os_version,
            "browser" => &self.agent.browser,
            "browser_version" => &self.agent.browser_version,
            "device" => &self.agent.device,
            "brand" => &self.agent.brand,
            "model" => &self.agent.model,
            "country" => &self.place.country,
            "region" => &self.place.region,
            "city" => &self.place.city,
            _ => "",
        };
        (!value.is_empty()).then_some(value)
    }
}

impl Composer<'_> {
    /// Whether the project leaves the event out.
    pub(super) fn leaves_out(&self, track: &Track<'_>) -> bool {
        let Some(settings) = self.admitted.settings() else {
            return false;
        };
        let mut seen = None;
        let mut about = settings.event_filters.iter();
        about.any(|filter| {
            filter.is_about(&track.name)
                && filter.conditions().iter().all(|condition| {
                    // Read only for a project that asks for it.
                    let seen = seen.get_or_insert_with(|| self.seen(track));
                    let found = |wanted: &str, text: &str| self.patterns.found(wanted, text);
                    condition.holds(seen.value(condition), found)
                })
        })
    }

    fn seen<'s>(&'s self, track: &'s Track<'_>) -> Seen<'s> {
        let mut properties = HashMap::new();
        let reserved = &track.reserved;
        if !track.properties.is_empty() {
            // What can't be flattened is refused later, with its reason.
            let _ = flatten_properties(track.properties, |key, value| {
                properties.insert(key.to_owned(), value.to_owned());
            });
        }
        Seen {
            properties,
            page: split_page(&reserved.path),
            agent: overridden(&self.agent, &reserved.overrides),
            place: self
                .lookup
                .place(reserved.address.unwrap_or(self.caller.address)),
            track,
        }
    }
}
