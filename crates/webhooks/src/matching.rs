//! Which webhooks an event goes to: an index over all subscriptions of one registry revision.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use fulmar_registry::{Comparison, PayloadFilter, Snapshot};
use serde_json::Value;

use crate::occurrence::{Class, Occurrence};

/// Why an event goes to a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The webhook's id.
    pub webhook: Arc<str>,
    /// The subscription's id; none where the webhook itself names the event.
    pub subscription: Option<Arc<str>>,
}

/// One subscription, or one name in a webhook's own list.
#[derive(Debug)]
struct Interest {
    of: Match,
    classes: Vec<Class>,
    labels: Vec<(String, String)>,
    filters: Vec<PayloadFilter>,
}

/// Interests by what they name.
#[derive(Debug, Default)]
struct ByName {
    exact: HashMap<String, Vec<Interest>>,
    /// By `prefix.`, dot included.
    prefixes: HashMap<String, Vec<Interest>>,
    every: Vec<Interest>,
}

/// The index of one revision.
#[derive(Debug, Default)]
pub struct Index {
    /// Published messages, by project and consumer.
    published: HashMap<String, HashMap<String, ByName>>,
    /// Subscriptions that name classes, by project: they take events of every door.
    classed: HashMap<String, ByName>,
}

impl Index {
    /// The index of a registry's state.
    #[must_use]
    pub fn of(state: &Snapshot) -> Self {
        let mut index = Self::default();
        // Those with a resource of their own first: they say how it is sent.
        for (id, one) in &state.subscriptions {
            if one.paused {
                continue;
            }
            let classes: Vec<Class> = one
                .classes
                .iter()
                .filter_map(|name| Class::from_name(name))
                .collect();
            let labels = one.labels.iter().map(|(n, v)| (n.clone(), v.clone()));
            let interest = Interest {
                of: Match {
                    webhook: Arc::from(one.webhook.as_str()),
                    subscription: Some(Arc::from(id.as_str())),
                },
                labels: labels.collect(),
                filters: one.filters.clone(),
                classes,
            };
            index.add(&one.project, &one.consumer, &one.event, interest);
        }
        for (id, webhook) in &state.webhooks {
            for name in &webhook.events {
                let interest = Interest {
                    of: Match {
                        webhook: Arc::from(id.as_str()),
                        subscription: None,
                    },
                    classes: Vec::new(),
                    labels: Vec::new(),
                    filters: Vec::new(),
                };
                index.add(&webhook.project, &webhook.consumer, name, interest);
            }
        }
        index
    }

    /// Whether nothing can match.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.published.is_empty() && self.classed.is_empty()
    }

    fn add(&mut self, project: &str, consumer: &str, name: &str, interest: Interest) {
        let names = match interest.classes.is_empty() {
            true => self
                .published
                .entry(project.to_owned())
                .or_default()
                .entry(consumer.to_owned())
                .or_default(),
            false => self.classed.entry(project.to_owned()).or_default(),
        };
        let place = match name.strip_suffix('*') {
            Some("") => &mut names.every,
            Some(prefix) => names.prefixes.entry(prefix.to_owned()).or_default(),
            None => names.exact.entry(name.to_owned()).or_default(),
        };
        place.push(interest);
    }

    /// The webhooks that an event goes to, each once: several subscriptions of one webhook make
    /// one delivery, of which the first decides how it is sent.
    pub fn matches(&self, event: &Occurrence<'_>, found: &mut Vec<Match>) {
        found.clear();
        let mut payload = None;
        let own = self.published.get(event.project);
        if event.class == Class::Message
            && let Some(names) = own.and_then(|consumers| consumers.get(event.consumer))
        {
            names.matches(event, &mut payload, found);
        }
        if let Some(names) = self.classed.get(event.project) {
            names.matches(event, &mut payload, found);
        }
    }
}

impl ByName {
    fn matches(&self, event: &Occurrence<'_>, payload: &mut Option<Value>, found: &mut Vec<Match>) {
        let name: &str = &event.name;
        let exact = self.exact.get(name).into_iter().flatten();
        let dots = name.match_indices('.').map(|(dot, _)| &name[..=dot]);
        let prefixed = dots
            .filter_map(|prefix| self.prefixes.get(prefix))
            .flatten();
        for interest in exact.chain(prefixed).chain(&self.every) {
            let known = |one: &Match| one.webhook == interest.of.webhook;
            if interest.takes(event, payload) && !found.iter().any(known) {
                found.push(interest.of.clone());
            }
        }
    }
}

impl Interest {
    fn takes(&self, event: &Occurrence<'_>, payload: &mut Option<Value>) -> bool {
        if !self.classes.is_empty() && !self.classes.contains(&event.class) {
            return false;
        }
        if !event.labels_hold(&self.labels) {
            return false;
        }
        self.filters.is_empty() || {
            let payload = payload.get_or_insert_with(|| event.payload_value());
            self.filters.iter().all(|filter| holds(filter, payload))
        }
    }
}

/// Whether a condition holds for a payload.
#[must_use]
pub fn holds(filter: &PayloadFilter, payload: &Value) -> bool {
    let found = filter
        .path
        .split('.')
        .try_fold(payload, |value, name| match value {
            Value::Array(items) => items.get(name.parse::<usize>().ok()?),
            value => value.get(name),
        });
    let number = |value: &Value| value.as_f64();
    match filter.is {
        Comparison::Equals => found == Some(&filter.value),
        Comparison::NotEquals => found != Some(&filter.value),
        Comparison::Prefix => {
            let pair = found.and_then(Value::as_str).zip(filter.value.as_str());
            pair.is_some_and(|(text, prefix)| text.starts_with(prefix))
        }
        Comparison::GreaterThan | Comparison::LessThan => {
            let pair = found.and_then(number).zip(number(&filter.value));
            pair.is_some_and(|(found, bound)| match filter.is {
                Comparison::GreaterThan => found > bound,
                _ => found < bound,
            })
        }
    }
}

/// Indexes of the revisions that records were stamped with, the newest last.
pub struct Indexes {
    history: fulmar_registry::History,
    known: BTreeMap<u64, Arc<Index>>,
}

/// Indexes kept: stamps of one time differ by the changes of that moment.
const INDEXES_MAX: usize = 64;

impl Indexes {
    /// Of the control topic.
    #[must_use]
    pub fn new(history: fulmar_registry::History) -> Self {
        Self {
            history,
            known: BTreeMap::new(),
        }
    }

    /// The index of a revision (R2).
    ///
    /// # Errors
    /// When the control topic cannot be read.
    pub fn at(&mut self, revision: u64) -> Result<Arc<Index>, fulmar_registry::RegistryError> {
        if let Some(index) = self.known.get(&revision) {
            return Ok(Arc::clone(index));
        }
        let index = Arc::new(Index::of(self.history.at(revision)?));
        if self.known.len() >= INDEXES_MAX {
            self.known.pop_first();
        }
        self.known.insert(revision, Arc::clone(&index));
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use fulmar_registry::{Subscription, Webhook};
    use serde_json::json;

    use super::*;

    fn state(subscriptions: Vec<(&str, Subscription)>, webhooks: Vec<(&str, Webhook)>) -> Snapshot {
        let mut state = Snapshot::default();
        for (id, one) in subscriptions {
            state.subscriptions.insert(id.to_owned(), Arc::new(one));
        }
        for (id, one) in webhooks {
            state.webhooks.insert(id.to_owned(), Arc::new(one));
        }
        state
    }

    fn subscription(webhook: &str, event: &str) -> Subscription {
        Subscription {
            project: "p".to_owned(),
            consumer: "acme".to_owned(),
            webhook: webhook.to_owned(),
            event: event.to_owned(),
            ..Subscription::default()
        }
    }

    fn webhook(events: &[&str]) -> Webhook {
        Webhook {
            project: "p".to_owned(),
            consumer: "acme".to_owned(),
            events: events.iter().map(|name| (*name).to_owned()).collect(),
            ..Webhook::default()
        }
    }

    /// The webhooks that a message goes to.
    fn found(index: &Index, project: &str, consumer: &str, name: &str, data: &str) -> Vec<String> {
        let mut record = Vec::new();
        let labels = br#"{"tier":"gold","zone":"eu"}"#;
        fulmar_event::MessageDraft {
            event_id: "e",
            time: None,
            ingest_time: fulmar_event::Timestamp::default(),
            gateway: "",
            batch_id: "",
            project,
            client: "c",
            key: consumer,
            door: fulmar_event::Door::Publish,
            control_offset: 0,
            kind: name,
            source: "",
            subject: "",
            consumer,
            data: data.as_bytes(),
            data_content_type: "application/json",
            data_base64: false,
            extensions: b"",
            labels,
            idempotency_key: "",
            schema: fulmar_event::SchemaCheck::None,
            expires_ms: 0,
        }
        .encode(&mut record);
        let event = fulmar_event::EventView::parse(&record).unwrap();
        let mut matches = Vec::new();
        index.matches(&Occurrence::of(&event).unwrap(), &mut matches);
        let mut ids: Vec<_> = matches.iter().map(|one| one.webhook.to_string()).collect();
        ids.sort();
        ids
    }

    #[test]
    fn names_prefixes_and_the_star_match_what_they_say() {
        let index = Index::of(&state(
            vec![
                ("s1", subscription("w1", "order.paid")),
                ("s2", subscription("w2", "order.*")),
            ],
            vec![
                ("w3", webhook(&["*"])),
                ("w4", webhook(&["order.paid", "user.*"])),
            ],
        ));
        let of = |name: &str| found(&index, "p", "acme", name, "{}");
        assert_eq!(of("order.paid"), ["w1", "w2", "w3", "w4"]);
        assert_eq!(of("order.paid.late"), ["w2", "w3"]);
        assert_eq!(of("order"), ["w3"]);
        assert_eq!(of("orders.paid"), ["w3"]);
        assert_eq!(of("user.seen"), ["w3", "w4"]);
    }

    #[test]
    fn another_project_or_consumer_matches_nothing() {
        let index = Index::of(&state(vec![], vec![("w", webhook(&["*"]))]));
        assert_eq!(found(&index, "p", "acme", "x", "{}"), ["w"]);
        assert!(found(&index, "q", "acme", "x", "{}").is_empty());
        assert!(found(&index, "p", "other", "x", "{}").is_empty());
        assert!(found(&index, "p", "", "x", "{}").is_empty());
    }

    #[test]
    fn a_webhook_gets_an_event_once_and_its_subscription_decides() {
        let index = Index::of(&state(
            vec![("s1", subscription("w", "*"))],
            vec![("w", webhook(&["a", "*"]))],
        ));
        assert_eq!(found(&index, "p", "acme", "b", "{}"), ["w"]);
    }

    #[test]
    fn labels_and_conditions_hold_all_or_not_at_all() {
        let with = |labels: &[(&str, &str)], filters: Vec<PayloadFilter>| Subscription {
            labels: labels
                .iter()
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
                .collect(),
            filters,
            ..subscription("w", "*")
        };
        let takes = |one: Subscription, data: &str| {
            let index = Index::of(&state(vec![("s", one)], vec![]));
            !found(&index, "p", "acme", "x", data).is_empty()
        };
        assert!(takes(
            with(&[("tier", "gold"), ("zone", "eu")], vec![]),
            "{}"
        ));
        assert!(!takes(
            with(&[("tier", "gold"), ("zone", "us")], vec![]),
            "{}"
        ));
        assert!(!takes(with(&[("absent", "")], vec![]), "{}"));
        let filter = |path: &str, is, value| PayloadFilter {
            path: path.to_owned(),
            is,
            value,
        };
        let data = r#"{"order":{"total":120.5,"id":"eu-7","lines":[{"sku":"a"}]}}"#;
        let table = [
            ("order.total", Comparison::GreaterThan, json!(100), true),
            ("order.total", Comparison::LessThan, json!(100), false),
            ("order.id", Comparison::Prefix, json!("eu-"), true),
            ("order.id", Comparison::Equals, json!("eu-7"), true),
            ("order.id", Comparison::NotEquals, json!("eu-7"), false),
            ("order.none", Comparison::NotEquals, json!("x"), true),
            ("order.none", Comparison::Equals, json!(null), false),
            ("order.lines.0.sku", Comparison::Equals, json!("a"), true),
            ("order.id", Comparison::GreaterThan, json!(1), false),
        ];
        for (path, is, value, expected) in table {
            let one = with(&[], vec![filter(path, is, value.clone())]);
            assert_eq!(takes(one, data), expected, "{path} {is:?} {value}");
        }
        assert!(!takes(
            with(&[], vec![filter("a", Comparison::Equals, json!(1))]),
            "not json"
        ));
    }

    #[test]
    fn a_paused_subscription_matches_nothing() {
        let paused = Subscription {
            paused: true,
            ..subscription("w", "*")
        };
        let index = Index::of(&state(vec![("s", paused)], vec![]));
        assert!(index.is_empty());
    }

    #[test]
    fn classes_take_events_of_every_door_and_the_others_do_not() {
        let classed = Subscription {
            classes: vec!["track".to_owned(), "message".to_owned()],
            ..subscription("w", "*")
        };
        let index = Index::of(&state(vec![("s", classed)], vec![("v", webhook(&["*"]))]));
        assert_eq!(found(&index, "p", "", "x", "{}"), ["w"]);
        assert_eq!(found(&index, "p", "acme", "x", "{}"), ["v", "w"]);
        let only = Subscription {
            classes: vec!["track".to_owned()],
            ..subscription("w", "*")
        };
        let index = Index::of(&state(vec![("s", only)], vec![]));
        assert!(found(&index, "p", "", "x", "{}").is_empty());
    }
}
