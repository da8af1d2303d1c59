//! From candidates to verdicts: claim, ask the index, append, wait.

use std::sync::Arc;
use std::time::Duration;

use fulmar_event::{Door, MessageDraft, Records, SchemaCheck, Timestamp, partition_of};
use tokio::time::Instant;

use super::batch::Candidate;
use super::recent::{Claim, Flight, Landings, landed};
use super::refuse::Refusal;
use super::verdict::Verdict;
use super::{Client, EventsDoor};
use crate::capacity::Reservation;
use crate::publishing::publish;

/// Index look-ups made on the task itself; more go to a thread that may block,
/// as each may read a page from disk.
const LOOKUPS_INLINE_MAX: usize = 16;

/// One request on its way into the log.
pub(super) struct Storing<'a> {
    pub(super) door: &'a EventsDoor,
    pub(super) client: &'a Client,
    pub(super) now: Timestamp,
    pub(super) request_id: &'a str,
    pub(super) deadline: Instant,
}

impl Storing<'_> {
    /// Gives every candidate its verdict. Errors when the log did not take the
    /// request's records in time; none of its verdicts is then told.
    ///
    /// Ids that another request has in flight are waited for only after our
    /// own have landed: nobody waits while others wait for him. When such a
    /// flight fails, its ids are ours to try.
    pub(super) async fn store(
        &self,
        candidates: &[Candidate<'_>],
        body_bytes: u64,
        reservation: Reservation,
        verdicts: &mut [Option<Verdict>],
    ) -> Result<(), Refusal> {
        let mut first = Some(reservation);
        let mut held: Option<Arc<Reservation>> = None;
        let mut pending: Vec<&Candidate<'_>> = candidates.iter().collect();
        while !pending.is_empty() {
            let fingerprints: Vec<u128> = pending.iter().map(|c| c.fingerprint).collect();
            let (flight, claims) = self.door.recent.claim(&fingerprints);
            let mut mine = Vec::with_capacity(pending.len());
            let mut elsewhere = Vec::new();
            for (candidate, claim) in pending.into_iter().zip(claims) {
                match claim {
                    Claim::Mine => mine.push(candidate),
                    Claim::Durable => verdicts[candidate.index] = duplicate(candidate),
                    Claim::Elsewhere(other) => elsewhere.push((candidate, other)),
                }
            }
            let fresh = self.ask_index(mine, verdicts).await;
            let records = self.records(&fresh);
            if let Some(mut reservation) = first.take() {
                // The body stays until the answer; the records come beside it.
                reservation.resize(body_bytes + records.bytes().len() as u64)?;
                held = Some(Arc::new(reservation));
            }
            self.append(records, flight, held.clone()).await?;
            for candidate in fresh {
                let id = candidate.id.clone().into_owned();
                verdicts[candidate.index] = Some(Verdict::Accepted(id));
            }
            pending = self.await_others(elsewhere, verdicts).await?;
        }
        Ok(())
    }

    /// Those of our candidates that the index does not have.
    async fn ask_index<'c, 'e>(
        &self,
        mine: Vec<&'c Candidate<'e>>,
        verdicts: &mut [Option<Verdict>],
    ) -> Vec<&'c Candidate<'e>> {
        let known = Arc::clone(&self.door.parts.known);
        let fingerprints: Vec<u128> = mine.iter().map(|c| c.fingerprint).collect();
        let look = move || -> Vec<bool> {
            fingerprints
                .iter()
                .map(|fingerprint| known.contains(*fingerprint))
                .collect()
        };
        let found = if mine.len() <= LOOKUPS_INLINE_MAX {
            look()
        } else {
            // What can't be looked up is not known: the fold decides.
            tokio::task::spawn_blocking(look).await.unwrap_or_default()
        };
        let mut fresh = Vec::with_capacity(mine.len());
        for (place, candidate) in mine.into_iter().enumerate() {
            if found.get(place).copied().unwrap_or(false) {
                verdicts[candidate.index] = duplicate(candidate);
            } else {
                fresh.push(candidate);
            }
        }
        fresh
    }

    fn records(&self, fresh: &[&Candidate<'_>]) -> Records {
        let door = self.door;
        let mut records = door.parts.backbone.buffer(0);
        for candidate in fresh {
            let event = &candidate.event;
            let key = event.key.as_deref().unwrap_or(&candidate.id);
            let draft = MessageDraft {
                event_id: &candidate.id,
                time: Some(candidate.time),
                ingest_time: self.now,
                gateway: &door.config.gateway,
                batch_id: self.request_id,
                project: &self.client.project,
                client: &self.client.id,
                key,
                door: Door::Events,
                control_offset: self.client.control_offset,
                kind: &event.kind,
                source: &event.source,
                subject: &event.subject,
                consumer: "",
                data: &event.data,
                data_content_type: &event.data_content_type,
                data_base64: event.data_base64,
                extensions: &event.extensions,
                labels: event.labels.as_bytes(),
                idempotency_key: "",
                schema: SchemaCheck::None,
                expires_ms: 0,
            };
            draft.append_to(
                partition_of(key.as_bytes(), door.config.partitions),
                &mut records,
            );
        }
        records
    }

    /// Appends and waits. The claimed ids land or are given up when the log
    /// says so, even if this request is gone by then.
    async fn append(
        &self,
        records: Records,
        flight: Flight,
        held: Option<Arc<Reservation>>,
    ) -> Result<(), Refusal> {
        let parts = &self.door.parts;
        let known = Arc::clone(&parts.known);
        if records.is_empty() {
            // All that we claimed is in the index.
            flight.land(0, known.position());
            return Ok(());
        }
        let count = u64::from(records.count());
        let done = move |placed: Option<crate::backbone::Placed>| {
            drop(held);
            match placed {
                Some(placed) => flight.land(placed.first_offset + count, known.position()),
                None => drop(flight),
            }
        };
        let started_ns = parts.clock.monotonic_ns();
        let time_max = self.deadline.saturating_duration_since(Instant::now());
        let placed = publish(&*parts.backbone, records, done, time_max).await;
        placed.map_err(|_| Refusal::NotDurable)?;
        let took_ns = parts.clock.monotonic_ns().saturating_sub(started_ns);
        parts.metrics.published_in(Duration::from_nanos(took_ns));
        Ok(())
    }

    /// Waits for flights of other requests, and gives back what they lost.
    async fn await_others<'c, 'e>(
        &self,
        elsewhere: Vec<(&'c Candidate<'e>, Landings)>,
        verdicts: &mut [Option<Verdict>],
    ) -> Result<Vec<&'c Candidate<'e>>, Refusal> {
        let mut lost = Vec::new();
        for (candidate, flight) in elsewhere {
            match tokio::time::timeout_at(self.deadline, landed(flight)).await {
                Ok(true) => verdicts[candidate.index] = duplicate(candidate),
                Ok(false) => lost.push(candidate),
                Err(_) => return Err(Refusal::NotDurable),
            }
        }
        Ok(lost)
    }
}

fn duplicate(candidate: &Candidate<'_>) -> Option<Verdict> {
    Some(Verdict::Duplicate(candidate.id.clone().into_owned()))
}
