//! The rows of the block in hand.

use std::time::{Duration, Instant};

use fulmar_event::{
    Body, Door, Enrichment, Head, ProfileView, Timestamp, idempotent_body_id, partition_of,
};
use fulmar_flow::repeats::{IdHash, Repeats};
use fulmar_log::{Record, Records};
use fulmar_sessions::{Feed, SessionFold};

use super::session_sink::SessionSink;
use super::share::of_session_fold;
use crate::refusal::{Refusal, read_record};
use crate::tables::{
    BotsBuilder, EventsBuilder, MessagesBuilder, Pairs, ReplayChunksBuilder, SecurityEventsBuilder,
    SessionsBuilder, Table, TableBuilder, Track, project_bot, project_message,
    project_replay_chunk, project_security_event,
};

/// One event of so many is timed: a clock for each would cost a fiftieth of its time.
const SAMPLE: u64 = 32;

/// Times of some events of the block in hand.
#[derive(Default)]
pub(super) struct Sampled {
    events: u64,
    projection: Duration,
    fold: Duration,
}

impl Sampled {
    /// Share of an event's time that its projection takes; the rest is its session's.
    pub(super) fn share_of_projection(&self) -> f64 {
        let both = (self.projection + self.fold).as_secs_f64();
        if both > 0.0 {
            self.projection.as_secs_f64() / both
        } else {
            0.0
        }
    }
}

/// What a record of the block asks to forget.
#[derive(Clone)]
pub(super) struct Forget {
    /// The record's number in the block.
    pub(super) number: u32,
    /// Place of its identity.
    place: usize,
    pub(super) event_id: String,
    pub(super) project: String,
    /// None: all of the project.
    pub(super) profile: Option<String>,
    pub(super) offset: u64,
    pub(super) asked_ms: i64,
}

/// The rows of the block in hand. Memory is kept from block to block.
#[derive(Default)]
pub(super) struct Rows {
    security_events: SecurityEventsBuilder,
    messages: MessagesBuilder,
    events: EventsBuilder,
    sessions: SessionsBuilder,
    bots: BotsBuilder,
    replay_chunks: ReplayChunksBuilder,
    /// Identity, number in the block and table of each record that has a table, in the order of
    /// the log; then whether it is new.
    pub(super) identities: Vec<IdHash>,
    pub(super) numbers: Vec<u32>,
    /// What was published under idempotency keys: doors tell repeats of a key by it (R4).
    pub(super) bodies: Vec<IdHash>,
    tables: Vec<Table>,
    pub(super) is_new: Vec<bool>,
    /// Which of them are product events.
    pub(super) tracks: Vec<u32>,
    pub(super) ticks: u64,
    forgets: Vec<Forget>,
    /// Flat properties of the event in hand.
    properties: Pairs,
    /// What goes on to the topic `profiles`.
    pub(super) onward: Records,
    partitions: u16,
    pub(super) sampled: Sampled,
}

impl Rows {
    /// No rows yet; `partitions` are those of the topic `profiles`.
    pub(super) fn new(partitions: u16) -> Rows {
        Rows {
            partitions,
            ..Rows::default()
        }
    }

    pub(super) fn clear(&mut self) {
        self.security_events.clear();
        self.messages.clear();
        self.events.clear();
        self.sessions.clear();
        self.bots.clear();
        self.replay_chunks.clear();
        self.identities.clear();
        self.numbers.clear();
        self.bodies.clear();
        self.tables.clear();
        self.is_new.clear();
        self.tracks.clear();
        self.ticks = 0;
        self.forgets.clear();
        self.onward.clear();
    }

    pub(super) fn builders(&self) -> [&dyn TableBuilder; 6] {
        [
            &self.security_events,
            &self.messages,
            &self.events,
            &self.sessions,
            &self.bots,
            &self.replay_chunks,
        ]
    }

    /// Takes the record's identity, and appends its row to its table. The row of a product event
    /// waits for [`Rows::add_track`].
    pub(super) fn add(
        &mut self,
        number: u32,
        record: &Record<'_>,
        repeats: &Repeats,
    ) -> Result<(), Refusal> {
        let event = read_record(record)?;
        let place = (record.partition, record.offset);
        let stamp = &event.stamp;
        let (project, source) = match &event.body {
            Body::Authentication(body) => {
                let row = project_security_event(&event, body, place.0, place.1)?;
                self.security_events.append(&row);
                (row.tenant_id, row.agent_id)
            }
            Body::Message(body) => {
                let row = project_message(&event, body, place.0, place.1)?;
                self.messages.append(&row);
                if !body.idempotency_key.is_empty() {
                    let name = idempotent_body_id(event.event_id, body.kind, body.data);
                    let of = (row.project_id.as_bytes(), row.client_id.as_bytes());
                    self.bodies.push(repeats.hash(of.0, of.1, name.as_bytes()));
                }
                (row.project_id, row.client_id)
            }
            Body::Bot(body) => {
                self.bots.append(&project_bot(&event, body, place)?);
                (stamp.project, stamp.source)
            }
            Body::Replay(body) => {
                let row = project_replay_chunk(&event, body, place)?;
                self.replay_chunks.append(&row);
                (stamp.project, stamp.source)
            }
            Body::Track(_) => {
                self.tracks.push(self.identities.len() as u32);
                (stamp.project, stamp.source)
            }
            Body::Profile(view) => {
                let profile = view.forgets().ok_or_else(Refusal::no_table)?;
                self.forgets.push(Forget {
                    number,
                    place: self.identities.len(),
                    event_id: event.event_id.to_owned(),
                    project: stamp.project.to_owned(),
                    profile: profile.map(str::to_owned),
                    offset: record.offset,
                    asked_ms: record.append_time_ms,
                });
                (stamp.project, stamp.source)
            }
            Body::None => return Err(Refusal::no_table()),
        };
        // What asks to forget has no row, as events that the session fold leaves out.
        let table = Table::of_body(&event.body).unwrap_or(Table::Events);
        let id = event.event_id.as_bytes();
        self.identities
            .push(repeats.hash(project.as_bytes(), source.as_bytes(), id));
        self.numbers.push(number);
        self.tables.push(table);
        Ok(())
    }

    /// Gives a product event that is new to the session fold, and appends the rows that come of
    /// it, its own among them.
    pub(super) fn add_track(
        &mut self,
        record: &Record<'_>,
        sessions: &mut SessionFold,
    ) -> Result<(), Refusal> {
        let event = read_record(record)?;
        let Body::Track(track) = &event.body else {
            return Err(Refusal::no_table());
        };
        self.sampled.events += 1;
        let began = (self.sampled.events % SAMPLE == 1).then(Instant::now);
        let checked = Track::check(&event, track, &mut self.properties)?;
        let projected = began.map(|began| (began.elapsed(), Instant::now()));
        let feed = Feed {
            event: &event,
            track,
            time_ms: checked.time_ms,
            partition: record.partition,
            offset: record.offset,
            log_ms: record.append_time_ms,
        };
        let mut sink = SessionSink {
            events: &mut self.events,
            sessions: &mut self.sessions,
            onward: &mut self.onward,
            partitions: self.partitions,
            track: Some((checked, &self.properties)),
            at: (record.partition, record.offset),
            starts: false,
        };
        sessions.event(&feed, &mut sink);
        if let Some((projection, folding)) = projected {
            self.sampled.projection += projection;
            self.sampled.fold += folding.elapsed();
        }
        Ok(())
    }

    /// What the records ask to forget, once it is known which are new.
    pub(super) fn forgets(&self) -> impl Iterator<Item = &Forget> {
        let is_new = |forget: &&Forget| self.is_new[forget.place];
        self.forgets.iter().filter(is_new)
    }

    /// Lets the session fold's time go on to the record's.
    pub(super) fn pass_time(&mut self, record: &Record<'_>, sessions: &mut SessionFold) {
        let mut sink = self.sink((record.partition, record.offset));
        sessions.advance(record.append_time_ms, &mut sink);
    }

    /// Appends the rows of the sessions that the block changed.
    pub(super) fn add_sessions(&mut self, sessions: &mut SessionFold) {
        sessions.finish_block(&mut self.sink((0, 0)));
    }

    /// Tells the profile fold, after all that sessions told it before (F1).
    pub(super) fn pass_on(&mut self, forget: &Forget) {
        let view = ProfileView::forget(forget.profile.as_deref());
        let head = Head {
            event_id: &forget.event_id,
            time: Timestamp::from_millis(forget.asked_ms),
            ingest_time: Timestamp::from_millis(forget.asked_ms),
            gateway: "",
            batch_id: "",
            project: &forget.project,
            client: "",
            key: view.profile_id,
            door: Door::Track,
            control_offset: 0,
            enrichment: Enrichment::default(),
        };
        let partition = partition_of(head.key.as_bytes(), self.partitions);
        head.append_to(&view, partition, &mut self.onward);
    }

    fn sink(&mut self, at: (u16, u64)) -> SessionSink<'_> {
        SessionSink {
            events: &mut self.events,
            sessions: &mut self.sessions,
            onward: &mut self.onward,
            partitions: self.partitions,
            track: None,
            at,
            starts: false,
        }
    }

    /// Takes the rows of repeats out of a table's order.
    pub(super) fn leave_out_repeats(&self, table: Table, order: &mut Vec<u32>) {
        if of_session_fold(table) || self.is_new.iter().all(|is_new| *is_new) {
            return;
        }
        let of_all = self.tables.iter().zip(&self.is_new);
        let of_table: Vec<bool> = of_all
            .filter(|(of, _)| **of == table)
            .map(|(_, is_new)| *is_new)
            .collect();
        order.retain(|&row| of_table[row as usize]);
    }
}
