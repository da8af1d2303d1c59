//! From candidates to verdicts: claim, ask the index, append, wait.

use std::sync::Arc;
use std::time::Duration;

use fulmar_event::{Door, MessageDraft, Records, Timestamp, partition_of};
use tokio::time::Instant;

use super::batch::{Candidate, conflict};
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
    /// Whom it is published for, or empty.
    pub(super) consumer: &'a str,
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
            let claimed = |c: &&Candidate<'_>| std::iter::once(c.fingerprint).chain(c.body);
            let fingerprints: Vec<u128> = pending.iter().flat_map(claimed).collect();
            let (mut flight, claims) = self.door.recent.claim(&fingerprints);
            let mut claims = claims.into_iter();
            let mut mine = Vec::with_capacity(pending.len());
            let mut elsewhere = Vec::new();
            for candidate in pending {
                let of_id = claims.next();
                // A body that nobody else has in hand is another one than the id's.
                let is_same = match candidate.body.map(|body| (body, claims.next())) {
                    Some((body, Some(Claim::Mine))) => {
                        if !matches!(of_id, Some(Claim::Mine)) {
                            flight.give_up(body);
                        }
                        false
                    }
                    _ => true,
                };
                match of_id {
                    Some(Claim::Mine) | None => mine.push(candidate),
                    Some(Claim::Durable) if is_same => {
                        verdicts[candidate.index] = duplicate(candidate);
                    }
                    Some(Claim::Durable) => {
                        verdicts[candidate.index] = self.known_or_conflict(candidate).await;
                    }
                    Some(Claim::Elsewhere(other)) => elsewhere.push((candidate, other, is_same)),
                }
            }
            let fresh = self.ask_index(mine, &mut flight, verdicts).await;
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
        flight: &mut Flight,
        verdicts: &mut [Option<Verdict>],
    ) -> Vec<&'c Candidate<'e>> {
        let known = Arc::clone(&self.door.parts.known);
        let asked: Vec<_> = mine.iter().map(|c| (c.fingerprint, c.body)).collect();
        let look = move || -> Vec<Option<bool>> {
            let is_same = |body: Option<u128>| body.is_none_or(|body| known.contains(body));
            let look =
                |(id, body): &(u128, Option<u128>)| known.contains(*id).then(|| is_same(*body));
            asked.iter().map(look).collect()
        };
        let found = if mine.len() <= LOOKUPS_INLINE_MAX {
            look()
        } else {
            // What can't be looked up is not known: the fold decides.
            tokio::task::spawn_blocking(look).await.unwrap_or_default()
        };
        let mut fresh = Vec::with_capacity(mine.len());
        for (place, candidate) in mine.into_iter().enumerate() {
            match found.get(place).copied().flatten() {
                Some(true) => verdicts[candidate.index] = duplicate(candidate),
                Some(false) => {
                    if let Some(body) = candidate.body {
                        flight.give_up(body);
                    }
                    verdicts[candidate.index] = conflicting(candidate);
                }
                None => fresh.push(candidate),
            }
        }
        fresh
    }

    /// Of an id that is durable, whose body is not among the newest: the index may have it.
    async fn known_or_conflict(&self, candidate: &Candidate<'_>) -> Option<Verdict> {
        let known = Arc::clone(&self.door.parts.known);
        let body = candidate.body?;
        let look = tokio::task::spawn_blocking(move || known.contains(body));
        match look.await.unwrap_or(false) {
            true => duplicate(candidate),
            false => conflicting(candidate),
        }
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
                door: match self.consumer {
                    "" => Door::Events,
                    _ => Door::Publish,
                },
                control_offset: self.client.control_offset,
                kind: &event.kind,
                source: &event.source,
                subject: &event.subject,
                consumer: self.consumer,
                data: &event.data,
                data_content_type: &event.data_content_type,
                data_base64: event.data_base64,
                extensions: &event.extensions,
                labels: event.labels.as_bytes(),
                idempotency_key: &event.idempotency_key,
                schema: event.schema,
                expires_ms: event.expires_ms,
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
        let count = u64::from(records.count());
        if records.is_empty() {
            // All that we claimed is in the index.
            flight.land(0, known.position());
            return Ok(());
        }
        let backlog = (!self.consumer.is_empty()).then(|| Arc::clone(&parts.backlog));
        let project = self.client.project.clone();
        if let Some(backlog) = &backlog {
            backlog.publishing(&project, count);
        }
        let done = move |placed: Option<crate::backbone::Placed>| {
            drop(held);
            match placed {
                Some(placed) => flight.land(placed.first_offset + count, known.position()),
                None => {
                    drop(flight);
                    if let Some(backlog) = &backlog {
                        backlog.not_published(&project, count);
                    }
                }
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
        elsewhere: Vec<(&'c Candidate<'e>, Landings, bool)>,
        verdicts: &mut [Option<Verdict>],
    ) -> Result<Vec<&'c Candidate<'e>>, Refusal> {
        let mut lost = Vec::new();
        for (candidate, flight, is_same) in elsewhere {
            match tokio::time::timeout_at(self.deadline, landed(flight)).await {
                Ok(true) if is_same => verdicts[candidate.index] = duplicate(candidate),
                Ok(true) => verdicts[candidate.index] = self.known_or_conflict(candidate).await,
                Ok(false) => lost.push(candidate),
                Err(_) => return Err(Refusal::NotDurable),
            }
        }
        Ok(lost)
    }
}

fn conflicting(candidate: &Candidate<'_>) -> Option<Verdict> {
    let id = candidate.id.clone().into_owned();
    Some(Verdict::Refused(Some(id), conflict()))
}

fn duplicate(candidate: &Candidate<'_>) -> Option<Verdict> {
    Some(Verdict::Duplicate(candidate.id.clone().into_owned()))
}
