//! The control: what a gateway does that decodes. `prost` into owned structs, a regex for
//! identifiers, the same rules in the same order, identity and reception overwritten, and each
//! record encoded into the same kind of buffer. Frozen: a change here is a commit of its own.
//!
//! It makes every check that ours makes and no other, and writes into the same buffer, so that
//! the ratio is that of the ways of working. It keeps no unknown fields, which ours does.

pub mod contract;
pub mod rows;
mod rules;

use fulmar_event::{BatchRules, Records};
use prost::Message as _;
use regex::Regex;

use contract::{Event, EventBatch, Origin, Reception, Stamp, Timestamp};
use rules::first_fault;

/// A gateway that decodes.
pub struct Control {
    identifier: Regex,
}

/// Why the control refuses a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It does not decode.
    Malformed,
    /// The batch is at fault: its name, version or count.
    Batch,
    /// The event of this index is at fault.
    Event(usize),
}

impl Default for Control {
    fn default() -> Self {
        let pattern = "^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$";
        Self {
            identifier: Regex::new(pattern).expect("the pattern is a constant and valid"),
        }
    }
}

impl Control {
    /// The identifier rule, by the regex.
    #[inline]
    pub fn identifier_ok(&self, text: &str) -> bool {
        self.identifier.is_match(text)
    }

    /// First stage: the body into owned structs.
    ///
    /// # Errors
    /// [`Refused::Malformed`].
    pub fn decode(&self, body: &[u8]) -> Result<EventBatch, Refused> {
        EventBatch::decode(body).map_err(|_| Refused::Malformed)
    }

    /// Second stage: the checks, and the door's fields overwritten in each event.
    ///
    /// # Errors
    /// What is at fault.
    pub fn admit(&self, batch: &mut EventBatch, rules: &BatchRules<'_>) -> Result<(), Refused> {
        let EventBatch {
            batch_id,
            protocol_version,
            events,
        } = batch;
        let count_ok = !events.is_empty() && events.len() <= rules.events_max as usize;
        if !count_ok || *protocol_version != 1 || !self.identifier_ok(batch_id) {
            return Err(Refused::Batch);
        }
        for (index, event) in events.iter_mut().enumerate() {
            if first_fault(event, &self.identifier, rules).is_some() {
                return Err(Refused::Event(index));
            }
            stamp(event, batch_id, rules);
        }
        Ok(())
    }

    /// Third stage: each event encoded as one record.
    ///
    /// # Errors
    /// [`Refused::Event`] for one over the ceiling of bytes.
    pub fn encode(
        &self,
        batch: &EventBatch,
        rules: &BatchRules<'_>,
        out: &mut Records,
    ) -> Result<(), Refused> {
        for (index, event) in batch.events.iter().enumerate() {
            let mark = out.begin(rules.partition);
            let buffer = out.buffer();
            let start = buffer.len();
            event
                .encode(buffer)
                .expect("a vector takes any number of bytes");
            if buffer.len() - start > fulmar_event::limits::RECORD_BYTES_MAX as usize {
                return Err(Refused::Event(index));
            }
            out.end(mark);
        }
        Ok(())
    }

    /// All three stages.
    ///
    /// # Errors
    /// What is at fault.
    pub fn admit_batch(
        &self,
        body: &[u8],
        rules: &BatchRules<'_>,
        out: &mut Records,
    ) -> Result<u32, Refused> {
        let mut batch = self.decode(body)?;
        self.admit(&mut batch, rules)?;
        self.encode(&batch, rules, out)?;
        Ok(batch.events.len() as u32)
    }
}

/// Overwrites what the door owns.
fn stamp(event: &mut Event, batch_id: &str, rules: &BatchRules<'_>) {
    let origin = event.origin.get_or_insert_with(Origin::default);
    rules.project.clone_into(&mut origin.tenant_id);
    rules.agent_id.clone_into(&mut origin.agent_id);
    event.reception = Some(Reception {
        ingest_time: Some(Timestamp {
            seconds: rules.now.seconds,
            nanos: rules.now.nanos as i32,
        }),
        gateway: rules.gateway.to_owned(),
        batch_id: batch_id.to_owned(),
    });
    event.stamp = Some(Stamp {
        project: rules.project.to_owned(),
        source: rules.agent_id.to_owned(),
        door: 1,
        control_offset: rules.control_offset,
        key: rules.agent_id.to_owned(),
    });
    event.enrichment = None;
}
