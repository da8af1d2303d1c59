//! The gateway half: a batch's bytes to records, ours beside the control and the limit.

use std::hint::black_box;

use fulmar_event::{Records, admit_batch, walk_batch};
use prost::Message as _;

use super::control::Control;
use super::control::contract::Event;
use super::measure::{Cost, Stopwatch};
use super::sample;

/// Events that a pass goes over, whatever the size of the batches that they are cut into, so
/// that sizes differ in nothing but the cuts: the same bytes are read out of the same cache,
/// and as many are written.
const PASS_EVENTS: usize = 10_000;

/// One size of batch, ready to be measured.
pub struct Gateway {
    batch_events: usize,
    bodies: Vec<Vec<u8>>,
    records: Records,
}

impl Gateway {
    /// With batches of `batch_events` events.
    pub fn new(batch_events: usize) -> Self {
        let batches = (PASS_EVENTS / batch_events.max(1)).max(1);
        let body = |batch: usize| sample::batch_from(batch * batch_events, batch_events);
        let bodies = (0..batches).map(body).collect();
        Self {
            batch_events,
            bodies,
            records: Records::new(),
        }
    }

    /// Bytes read and written per event: of the batches, and of the records made of them.
    pub fn bytes_per_event(&mut self) -> (f64, f64) {
        self.records.clear();
        let admit = |body: &Vec<u8>| admit_batch(body, &sample::rules(), &mut self.records).is_ok();
        let admitted = self.bodies.iter().all(admit);
        let written = if admitted {
            self.records.bytes().len()
        } else {
            0
        };
        let read = self.bodies.iter().map(Vec::len).sum();
        let events = (self.bodies.len() * self.batch_events) as f64;
        let per_event = |bytes: usize| bytes as f64 / events;
        (per_event(read), per_event(written))
    }

    /// Measures every stage of every side once, one after the other, so that a slow moment of
    /// the machine meets all of them.
    pub fn measure(&mut self, stopwatch: &Stopwatch, control: &Control, costs: &mut Vec<Cost>) {
        let rules = sample::rules();
        let (bodies, records) = (&self.bodies[..], &mut self.records);
        let stage = Stage {
            stopwatch,
            batch_events: self.batch_events,
            batches: bodies.len(),
        };
        costs.push(stage.cost("ours", "walk", || {
            for body in black_box(bodies) {
                black_box(walk_batch(body, &rules).is_some());
            }
        }));
        costs.push(stage.cost("ours", "gateway", || {
            records.clear();
            for body in black_box(bodies) {
                black_box(admit_batch(body, &rules, records).is_ok());
            }
        }));
        costs.push(stage.cost("control", "gateway", || {
            records.clear();
            for body in black_box(bodies) {
                black_box(control.admit_batch(body, &rules, records).is_ok());
            }
        }));
        costs.push(stage.cost("control", "decode", || {
            for body in black_box(bodies) {
                black_box(control.decode(body).is_ok());
            }
        }));
        self.measure_control_stages(stopwatch, control, costs);
        self.measure_limit(stopwatch, costs);
    }

    /// The control's later stages, over one batch that is decoded: as between the stages of
    /// one request, it is still in the cache.
    fn measure_control_stages(
        &mut self,
        stopwatch: &Stopwatch,
        control: &Control,
        costs: &mut Vec<Cost>,
    ) {
        let rules = sample::rules();
        let records = &mut self.records;
        let stage = Stage {
            stopwatch,
            batch_events: self.batch_events,
            batches: 1,
        };
        let mut batch = control.decode(&self.bodies[0]).unwrap_or_default();
        costs.push(stage.cost("control", "admit", || {
            black_box(control.admit(black_box(&mut batch), &rules).is_ok());
        }));
        costs.push(stage.cost("control", "encode", || {
            records.clear();
            black_box(control.encode(black_box(&batch), &rules, records).is_ok());
        }));
    }

    /// The limit: as many bytes read and written as ours, in two copies an event.
    fn measure_limit(&mut self, stopwatch: &Stopwatch, costs: &mut Vec<Cost>) {
        let (read, written) = self.bytes_per_event();
        let (read_bytes, stamp_bytes) = (read as usize, (written - read) as usize);
        let stamp = vec![7u8; stamp_bytes];
        let (bodies, records) = (&self.bodies[..], &mut self.records);
        let stage = Stage {
            stopwatch,
            batch_events: self.batch_events,
            batches: self.bodies.len(),
        };
        costs.push(stage.cost("limit", "gateway", || {
            records.clear();
            for event in black_box(bodies)
                .iter()
                .flat_map(|body| body.chunks(read_bytes))
            {
                let mark = records.begin(0);
                records.buffer().extend_from_slice(event);
                records.buffer().extend_from_slice(&stamp);
                records.end(mark);
            }
            black_box(records.bytes().len());
        }));
    }
}

/// How the costs of a stage are to be counted.
struct Stage<'a> {
    stopwatch: &'a Stopwatch,
    batch_events: usize,
    /// Batches of `batch_events` events that a call handles.
    batches: usize,
}

impl Stage<'_> {
    fn cost(&self, side: &'static str, stage: &'static str, work: impl FnMut()) -> Cost {
        let events = self.batches * self.batch_events;
        let cost = self.stopwatch.cost(side, stage, events, work);
        Cost {
            batch_events: self.batch_events,
            ..cost
        }
    }
}

/// Checks that both sides make the same of one batch: records that decode to the same events.
///
/// # Errors
/// What differs, in words.
pub fn check_agreement(control: &Control) -> Result<(), String> {
    const EVENTS: usize = 500;
    let (body, rules) = (sample::batch_from(0, EVENTS), sample::rules());
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
