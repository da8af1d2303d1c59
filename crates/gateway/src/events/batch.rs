//! From a body to judged events: parse, window, days, ids, repeats within.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use fulmar_event::{Timestamp, idempotent_body_id};
use hyper::HeaderMap;

use super::EventsConfig;
use super::cloud_event::{parse_binary, parse_cloud_event};
use super::envelope::{EnvelopeFault, Item, Shape, split};
use super::event::{Event, Refused, parse_event};
use super::ids::IdMint;
use super::publish::{Checked, EventTypes, Publication, check_type};
use super::time::DAY_SECONDS;
use super::verdict::{Fault, Verdict, code};

/// One request's events, judged as far as the request alone allows.
pub(super) struct Batch<'a> {
    /// In the body's order. `None` where a candidate is still to be judged.
    pub(super) verdicts: Vec<Option<Verdict>>,
    /// The events that are to be stored if nobody has them.
    pub(super) candidates: Vec<Candidate<'a>>,
    /// Events whose id stands earlier in the body: repeats of one that will be
    /// durable if the request is answered at all. Their places and ids.
    pub(super) echoes: Vec<(usize, String)>,
    /// What was found of each event's type, where that is asked.
    pub(super) checked: Vec<Checked>,
}

/// An admissible event.
pub(super) struct Candidate<'a> {
    /// Its place in the body.
    pub(super) index: usize,
    /// Its id, as sent or made.
    pub(super) id: Cow<'a, str>,
    pub(super) event: Event<'a>,
    pub(super) time: Timestamp,
    pub(super) fingerprint: u128,
    /// Names its body beside its id, if it has an idempotency key.
    pub(super) body: Option<u128>,
}

/// What the judging of one batch stands on.
pub(super) struct Judge<'a> {
    pub(super) config: &'a EventsConfig,
    pub(super) mint: &'a IdMint,
    pub(super) now: Timestamp,
    /// Of the publish door.
    pub(super) publishing: Option<Publishing<'a>>,
}

/// What the publish door judges by.
#[derive(Clone, Copy)]
pub(super) struct Publishing<'a> {
    pub(super) publication: &'a Publication,
    pub(super) project: &'a str,
    pub(super) types: &'a dyn EventTypes,
}

impl Judge<'_> {
    /// Judges a body. `fingerprint` names an id in the client's scope.
    pub(super) fn judge<'b>(
        &self,
        body: &'b [u8],
        shape: Shape,
        headers: &HeaderMap,
        fingerprint: impl Fn(&str) -> u128,
    ) -> Result<Batch<'b>, EnvelopeFault> {
        let items = split(body, shape, self.config.events_max as usize)?;
        let mut sorter = Sorter::new(items.len().max(1));
        if shape == Shape::CloudEventBinary {
            let event = self.within_bytes(body.len(), || parse_binary(headers, body));
            self.sort(&mut sorter, event, &fingerprint);
            return Ok(sorter.batch);
        }
        for item in items {
            let event = self.parse(item, shape);
            self.sort(&mut sorter, event, &fingerprint);
        }
        Ok(sorter.batch)
    }

    fn parse<'b>(&self, item: Item<'b>, shape: Shape) -> Result<Event<'b>, Refused> {
        let text = item.map_err(|fault| Refused { id: None, fault })?;
        self.within_bytes(text.len(), || match shape {
            _ if let Some(publishing) = &self.publishing => {
                let project = publishing.project;
                publishing.publication.parse(project, text, self.now)
            }
            Shape::CloudEvent | Shape::CloudEvents => parse_cloud_event(text),
            _ => parse_event(text),
        })
    }

    fn within_bytes<'b>(
        &self,
        bytes: usize,
        parse: impl FnOnce() -> Result<Event<'b>, Refused>,
    ) -> Result<Event<'b>, Refused> {
        let bytes_max = self.config.event_bytes_max as usize;
        if bytes > bytes_max {
            let detail = format!("exceeds {bytes_max} bytes");
            return Err(Refused {
                id: None,
                fault: Fault::new(code::EVENT_TOO_LARGE, "", detail),
            });
        }
        parse()
    }

    fn sort<'b>(
        &self,
        sorter: &mut Sorter<'b>,
        event: Result<Event<'b>, Refused>,
        fingerprint: &impl Fn(&str) -> u128,
    ) {
        let mut event = match event {
            Ok(event) => event,
            Err(refused) => return sorter.refuse(refused.id, refused.fault),
        };
        let checked = self
            .publishing
            .map_or(Ok(Checked::default()), |publishing| {
                check_type(publishing.types, publishing.project, &event)
            });
        let checked = match checked {
            Ok(checked) => checked,
            Err(fault) => return sorter.refuse(None, fault),
        };
        event.schema = checked.schema;
        let id = event.id.take();
        let time = event.time.unwrap_or(self.now);
        if let Some(fault) = self.time_fault(time, &mut sorter.days) {
            return sorter.refuse(id.map(Cow::into_owned), fault);
        }
        let id = match id {
            Some(id) => id,
            None => match self.mint.uuid(self.now) {
                Some(id) => Cow::Owned(id),
                None => {
                    let fault = Fault::of_field("id", "none could be made");
                    return sorter.refuse(None, fault);
                }
            },
        };
        let body = (!event.idempotency_key.is_empty())
            .then(|| fingerprint(&idempotent_body_id(&id, &event.kind, &event.data)));
        let candidate = Candidate {
            index: sorter.batch.verdicts.len(),
            fingerprint: fingerprint(&id),
            body,
            id,
            event,
            time,
        };
        sorter.take(candidate, checked);
    }

    /// Within the last 3,660 days and at most five minutes ahead, both ends
    /// included, and on at most 64 distinct days.
    fn time_fault(&self, time: Timestamp, days: &mut Vec<i64>) -> Option<Fault> {
        let oldest = self.now.plus_seconds(-self.config.age_max_seconds);
        let newest = self.now.plus_seconds(self.config.skew_max_seconds);
        if time < oldest || time > newest {
            let (days, ahead) = (
                self.config.age_max_seconds / DAY_SECONDS,
                self.config.skew_max_seconds,
            );
            let detail =
                format!("must be at most {days} days before and {ahead} s after the server's time");
            return Some(Fault::new(code::TIME_OUT_OF_RANGE, "time", detail));
        }
        let day = time.seconds.div_euclid(DAY_SECONDS);
        if days.contains(&day) {
            return None;
        }
        if days.len() >= self.config.days_max {
            let detail = format!("is on a day beyond {} of one request", self.config.days_max);
            return Some(Fault::new(code::TOO_MANY_DAYS, "time", detail));
        }
        days.push(day);
        None
    }
}

/// Why an event is refused whose idempotency key was used for another one.
pub(super) fn conflict() -> Fault {
    let detail = "was used for another event: the same key takes the same type and payload alone";
    Fault::new(code::IDEMPOTENCY_CONFLICT, "idempotency_key", detail)
}

/// Sorts events into refused, repeated and to be stored.
struct Sorter<'a> {
    batch: Batch<'a>,
    /// Ids that stood earlier, with their bodies.
    seen: HashMap<u128, Option<u128>>,
    days: Vec<i64>,
}

impl<'a> Sorter<'a> {
    fn new(events: usize) -> Self {
        let batch = Batch {
            verdicts: Vec::with_capacity(events),
            candidates: Vec::with_capacity(events),
            echoes: Vec::new(),
            checked: Vec::new(),
        };
        Self {
            batch,
            seen: HashMap::with_capacity(events),
            days: Vec::new(),
        }
    }

    fn refuse(&mut self, id: Option<String>, fault: Fault) {
        self.batch.verdicts.push(Some(Verdict::Refused(id, fault)));
        self.batch.checked.push(Checked::default());
    }

    fn take(&mut self, candidate: Candidate<'a>, checked: Checked) {
        let batch = &mut self.batch;
        match self.seen.entry(candidate.fingerprint) {
            Entry::Occupied(first) if *first.get() != candidate.body => {
                return self.refuse(Some(candidate.id.into_owned()), conflict());
            }
            Entry::Occupied(_) => batch
                .echoes
                .push((candidate.index, candidate.id.into_owned())),
            Entry::Vacant(place) => {
                place.insert(candidate.body);
                batch.candidates.push(candidate);
            }
        }
        batch.verdicts.push(None);
        batch.checked.push(checked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHAPES: [Shape; 6] = [
        Shape::Json,
        Shape::Sniffed,
        Shape::Lines,
        Shape::CloudEvent,
        Shape::CloudEvents,
        Shape::CloudEventBinary,
    ];

    /// Bodies near enough to events that every branch is met.
    fn body() -> impl Strategy<Value = Vec<u8>> {
        let words = prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\n",
            " ",
            "null",
            "1",
            "-0.5e3",
            "\"\"",
            "\"type\"",
            "\"id\"",
            "\"time\"",
            "\"2026-11-30T21:56:06Z\"",
            "\"key\"",
            "\"data\"",
            "\"a\"",
            "\"labels\"",
            "\"source\"",
            "\"specversion\"",
            "\"1.0\"",
            "\"data_base64\"",
            "\"AA==\"",
            "\"\\ud800\"",
            "\"type\":\"t\"",
            "{\"type\":\"t\",\"id\":\"i\"}",
        ]);
        prop_oneof![
            prop::collection::vec(words, 0..24).prop_map(|words| words.concat().into_bytes()),
            prop::collection::vec(any::<u8>(), 0..64),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Any body ends in a fault of the whole or in one place per event, and
        /// every place is refused, a repeat, or to be stored.
        #[test]
        fn every_event_has_one_place(body in body(), shape in prop::sample::select(&SHAPES[..])) {
            let config = EventsConfig { events_max: 8, ..EventsConfig::default() };
            let mint = IdMint::new();
            let now = Timestamp { seconds: 1_796_075_766, nanos: 0 };
            let judge = Judge { config: &config, mint: &mint, now, publishing: None };
            let next = |f: u128, byte: u8| f * 131 % (1 << 100) + u128::from(byte);
            let fingerprint = |id: &str| id.bytes().fold(7, next);
            let Ok(batch) = judge.judge(&body, shape, &HeaderMap::new(), fingerprint) else {
                return Ok(());
            };
            prop_assert!((1..=8).contains(&batch.verdicts.len()));
            let refused = batch.verdicts.iter().flatten().count();
            let placed = refused + batch.candidates.len() + batch.echoes.len();
            prop_assert_eq!(placed, batch.verdicts.len());
            for candidate in &batch.candidates {
                prop_assert!(batch.verdicts[candidate.index].is_none());
                prop_assert!(!candidate.id.is_empty() && !candidate.event.kind.is_empty());
            }
        }
    }
}
