//! The gateway half: a batch's bytes to records, ours beside the control and the limit.

use std::hint::black_box;

use fulmar_event::{Records, admit_batch, walk_batch};
use prost::Message as _;

use super::control::Control;
use super::control::contract::Event;
use super::measure::{Cost, Stopwatch};
use super::sample;

/// One size of batch, ready to be measured.
pub struct Gateway {
    events: usize,
    body: Vec<u8>,
    records: Records,
}

impl Gateway {
    /// With a batch of `events` events.
    pub fn new(events: usize) -> Self {
        Self {
            events,
            body: sample::batch(events),
            records: Records::new(),
        }
    }

    /// Bytes read and written per event: of the batch, and of the records made of it.
    pub fn bytes_per_event(&mut self) -> (f64, f64) {
        self.records.clear();
        let admitted = admit_batch(&self.body, &sample::rules(), &mut self.records).is_ok();
        let written = if admitted {
            self.records.bytes().len()
        } else {
            0
        };
        let per_event = |bytes: usize| bytes as f64 / self.events as f64;
        (per_event(self.body.len()), per_event(written))
    }

    /// Measures every stage of every side once, one after the other, so that a slow moment of
    /// the machine meets all of them.
    pub fn measure(&mut self, stopwatch: &Stopwatch, control: &Control, costs: &mut Vec<Cost>) {
        let rules = sample::rules();
        let (body, records, events) = (&self.body[..], &mut self.records, self.events);
        costs.push(stopwatch.cost("ours", "walk", events, || {
            black_box(walk_batch(black_box(body), &rules).is_some());
        }));
        costs.push(stopwatch.cost("ours", "gateway", events, || {
            records.clear();
            black_box(admit_batch(black_box(body), &rules, records).is_ok());
        }));
        costs.push(stopwatch.cost("control", "gateway", events, || {
            records.clear();
            black_box(
                control
                    .admit_batch(black_box(body), &rules, records)
                    .is_ok(),
            );
        }));
        costs.push(stopwatch.cost("control", "decode", events, || {
            black_box(control.decode(black_box(body)).is_ok());
        }));
        let mut batch = control.decode(body).unwrap_or_default();
        costs.push(stopwatch.cost("control", "admit", events, || {
            black_box(control.admit(black_box(&mut batch), &rules).is_ok());
        }));
        costs.push(stopwatch.cost("control", "encode", events, || {
            records.clear();
            black_box(control.encode(black_box(&batch), &rules, records).is_ok());
        }));
        self.measure_limit(stopwatch, costs);
    }

    /// The limit: as many bytes read and written as ours, in one copy an event.
    fn measure_limit(&mut self, stopwatch: &Stopwatch, costs: &mut Vec<Cost>) {
        let mut written = Records::new();
        let rules = sample::rules();
        if admit_batch(&self.body, &rules, &mut written).is_err() {
            return;
        }
        let read_bytes = self.body.len() / self.events;
        let lengths: Vec<(usize, usize)> = written
            .iter()
            .flatten()
            .map(|record| (read_bytes, record.bytes.len().saturating_sub(read_bytes)))
            .collect();
        let stamp = [7u8; 1_024];
        let (body, records) = (&self.body[..], &mut self.records);
        costs.push(stopwatch.cost("limit", "gateway", self.events, || {
            records.clear();
            let mut rest = black_box(body);
            for (read_bytes, stamp_bytes) in &lengths {
                let (event, behind) = rest.split_at(*read_bytes);
                rest = behind;
                let mark = records.begin(rules.partition);
                records.buffer().extend_from_slice(event);
                records.buffer().extend_from_slice(&stamp[..*stamp_bytes]);
                records.end(mark);
            }
            black_box(records.bytes().len());
        }));
    }
}

/// Checks that both sides make the same of one batch: records that decode to the same events.
///
/// # Errors
/// What differs, in words.
pub fn check_agreement(control: &Control) -> Result<(), String> {
    const EVENTS: usize = 500;
    let (body, rules) = (sample::batch(EVENTS), sample::rules());
    let (mut ours, mut theirs) = (Records::new(), Records::new());
    admit_batch(&body, &rules, &mut ours).map_err(|rejection| format!("ours: {rejection}"))?;
    control
        .admit_batch(&body, &rules, &mut theirs)
        .map_err(|refused| format!("the control: {refused:?}"))?;
    let decoded = |records: &Records| -> Result<Vec<Event>, String> {
        let bytes = records
            .iter()
            .map(|record| record.map_err(|error| error.to_string()));
        bytes
            .map(|r| Event::decode(r?.bytes).map_err(|error| error.to_string()))
            .collect()
    };
    let (ours, theirs) = (decoded(&ours)?, decoded(&theirs)?);
    if ours.len() != EVENTS {
        return Err(format!("{} of {EVENTS} events came out", ours.len()));
    }
    match ours
        .iter()
        .zip(&theirs)
        .position(|(ours, theirs)| ours != theirs)
    {
        Some(index) => Err(format!("event {index} differs")),
        None => Ok(()),
    }
}
