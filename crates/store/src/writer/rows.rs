//! The rows of the block in hand.

use fulmar_event::{Body, Enrichment, EventView, QuarantineReason};
use fulmar_flow::repeats::{IdHash, Repeats};
use fulmar_log::Record;

use crate::tables::{
    BotsBuilder, EventsBuilder, MessagesBuilder, Pairs, Place, ReplayChunksBuilder,
    SecurityEventsBuilder, Table, TableBuilder, Unstorable, flat_properties, project_bot,
    project_message, project_replay_chunk, project_security_event, project_track,
};

/// The rows of the block in hand. Memory is kept from block to block.
#[derive(Default)]
pub(super) struct Rows {
    security_events: SecurityEventsBuilder,
    messages: MessagesBuilder,
    events: EventsBuilder,
    bots: BotsBuilder,
    replay_chunks: ReplayChunksBuilder,
    /// Identity and table of each record, in the order of the log.
    pub(super) identities: Vec<IdHash>,
    tables: Vec<Table>,
    pub(super) is_new: Vec<bool>,
    /// Flat properties of the event in hand.
    properties: Pairs,
}

/// Why a record can't be a row.
pub(super) struct Refusal {
    pub(super) reason: QuarantineReason,
    pub(super) detail: String,
}

impl From<Unstorable> for Refusal {
    fn from(error: Unstorable) -> Refusal {
        Refusal {
            reason: QuarantineReason::Unstorable,
            detail: error.to_string(),
        }
    }
}

impl Rows {
    pub(super) fn clear(&mut self) {
        self.security_events.clear();
        self.messages.clear();
        self.events.clear();
        self.bots.clear();
        self.replay_chunks.clear();
        self.identities.clear();
        self.tables.clear();
        self.is_new.clear();
    }

    pub(super) fn builders(&self) -> [&dyn TableBuilder; 5] {
        [
            &self.security_events,
            &self.messages,
            &self.events,
            &self.bots,
            &self.replay_chunks,
        ]
    }

    /// Takes the record's identity, and appends its row to its table. The row of a product event
    /// waits for [`Rows::add_track`].
    pub(super) fn add(&mut self, record: &Record<'_>, repeats: &Repeats) -> Result<Table, Refusal> {
        let event = read(record)?;
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
            Body::Track(_) => (stamp.project, stamp.source),
            Body::Profile(_) | Body::None => return Err(no_table()),
        };
        let table = Table::of_body(&event.body).ok_or_else(no_table)?;
        let id = event.event_id.as_bytes();
        self.identities
            .push(repeats.hash(project.as_bytes(), source.as_bytes(), id));
        self.tables.push(table);
        Ok(table)
    }

    /// Appends the row of a product event that is new.
    pub(super) fn add_track(&mut self, record: &Record<'_>) -> Result<(), Refusal> {
        let event = read(record)?;
        let Body::Track(track) = &event.body else {
            return Err(no_table());
        };
        let enrichment = Enrichment::parse(event.enrichment).map_err(Unstorable::Enrichment)?;
        flat_properties(track, &enrichment, &mut self.properties)?;
        let place = Place {
            session_id: track.session_id,
            device_id: track.device_id,
            referrer: track.referrer,
            referrer_name: track.referrer_name,
            referrer_type: track.referrer_type,
        };
        let at = (record.partition, record.offset);
        let row = project_track(&event, track, &enrichment, place, &self.properties, at)?;
        self.events.append(&row);
        Ok(())
    }

    /// Takes the rows of repeats out of a table's order. Product events have rows only if they
    /// are new.
    pub(super) fn leave_out_repeats(&self, table: Table, order: &mut Vec<u32>) {
        if table == Table::Events || self.is_new.iter().all(|is_new| *is_new) {
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

fn read<'a>(record: &Record<'a>) -> Result<EventView<'a>, Refusal> {
    let refuse = |reason, detail| Refusal { reason, detail };
    let event = EventView::parse(record.bytes)
        .map_err(|error| refuse(QuarantineReason::Undecodable, error.to_string()))?;
    event
        .check_contract()
        .map_err(|violation| refuse(QuarantineReason::ContractViolation, violation.to_string()))?;
    Ok(event)
}

fn no_table() -> Refusal {
    Refusal {
        reason: QuarantineReason::Unstorable,
        detail: "no table holds this class of event".to_owned(),
    }
}
