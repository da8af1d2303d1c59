//! Many items a request, each with a verdict of its own.

use std::collections::HashMap;

use hyper::StatusCode;
use tokio::time::Instant;

use fulmar_enrich::event_time;
use fulmar_event::Timestamp;

use super::answers::{self, Visited};
use super::compose::{Composer, Identity, Outgoing};
use super::credentials::{Admitted, Denied};
use super::payload::Envelope;
use super::receive::Received;
use super::refuse::Refusal;
use super::single::Taken;
use super::{DOOR, TrackDoor};
use crate::capacity::Reservation;
use crate::events::envelope::{Item, Shape, split, split_sound};
use crate::events::time::DAY_SECONDS;
use crate::events::{Fault, code};
use crate::http::{Answer, with_identity};

/// Distinct days of events in one request: each becomes a file of the lake.
const DAYS_MAX: usize = 64;

/// What became of an item.
#[derive(Debug)]
pub(super) enum Verdict {
    Accepted(Visited),
    /// Its id stands earlier in the same request.
    Duplicate,
    /// Left out, and why.
    Dropped(&'static str),
    /// Not durable: to be sent again.
    Retry,
    Refused(Fault),
}

/// An item's verdict, its id if it has one, and the topics that its verdict waits for.
pub(super) struct Judged {
    id: Option<String>,
    verdict: Verdict,
    events: bool,
    profiles: bool,
}

/// Where the items of one request go.
pub(super) struct Sorting<'s> {
    out: Outgoing,
    judged: Vec<Judged>,
    ids: HashMap<String, usize>,
    days: Vec<i64>,
    pub(super) composer: &'s Composer<'s>,
}

impl TrackDoor {
    /// `POST /track/batch`: an array or a line for each item, and the client in the headers, or
    /// in the first item.
    pub(super) async fn batch(
        &self,
        received: &Received,
        reservation: Reservation,
    ) -> Result<Answer, Refusal> {
        let items = split(
            &received.body,
            Shape::Sniffed,
            self.config.events_max as usize,
        )?;
        let first = items.first().and_then(|item| item.as_ref().ok());
        let first = first.map(|item| Envelope::read(item)).transpose();
        let first = first.ok().flatten().unwrap_or_default();
        // An object alone may be the envelope of a batch.
        if first.kind == "batch" && items.len() == 1 {
            return self.envelope(received, &first, reservation).await;
        }
        let admitted = self.admit(received, &first).await?;
        let judge =
            |item: Item<'_>, sorting: &mut Sorting<'_>| self.judge(item, sorting, sorting.composer);
        self.sort(received, &admitted, items, reservation, judge)
            .await
    }

    /// `{"type": "batch", "payload": […]}`.
    pub(super) async fn envelope(
        &self,
        received: &Received,
        envelope: &Envelope<'_>,
        reservation: Reservation,
    ) -> Result<Answer, Refusal> {
        let admitted = self.admit(received, envelope).await?;
        let payload = envelope.payload;
        if !payload.starts_with('[') {
            return Err(Fault::of_field("payload", "must be an array").into());
        }
        let items_max = self.config.events_max as usize;
        let items = split_sound(payload, items_max)?;
        let judge =
            |item: Item<'_>, sorting: &mut Sorting<'_>| self.judge(item, sorting, sorting.composer);
        self.sort(received, &admitted, items, reservation, judge)
            .await
    }

    /// Judges every item, stores what is to be stored, and answers.
    pub(super) async fn sort<'i>(
        &self,
        received: &Received,
        admitted: &Admitted,
        items: Vec<Item<'i>>,
        reservation: Reservation,
        judge: impl Fn(Item<'i>, &mut Sorting<'_>) -> Result<Judged, Refusal>,
    ) -> Result<Answer, Refusal> {
        let judged = self.judge_all(received, admitted, items, reservation, judge);
        let answer = self.answer_batch(&judged.await?);
        Ok(with_identity(answer, &admitted.project, &admitted.client))
    }

    /// Judges every item and stores what is to be stored.
    pub(super) async fn judge_all<'i>(
        &self,
        received: &Received,
        admitted: &Admitted,
        items: Vec<Item<'i>>,
        mut reservation: Reservation,
        judge: impl Fn(Item<'i>, &mut Sorting<'_>) -> Result<Judged, Refusal>,
    ) -> Result<Vec<Judged>, Refusal> {
        let bytes = received.body.len() as u64;
        self.spend(admitted, items.len() as u64, bytes)?;
        let salts = self.parts.salts.at(received.now.as_millis());
        let salts = salts.ok_or(Refusal::NoSalt)?;
        let minted = self.mint.random_uuid().ok_or(Refusal::NotDurable)?;
        let request_id = received.caller.request_id.as_deref().unwrap_or(&minted);
        let composer = self.composer(received, admitted, &salts, request_id);
        let mut sorting = Sorting {
            out: self.outgoing(),
            judged: Vec::with_capacity(items.len()),
            ids: HashMap::new(),
            days: Vec::new(),
            composer: &composer,
        };
        for item in items {
            let judged = judge(item, &mut sorting)?;
            sorting.judged.push(judged);
        }
        let Sorting {
            out, mut judged, ..
        } = sorting;
        reservation.resize(bytes + out.bytes())?;
        let deadline = Instant::now() + self.config.publish_time_max;
        let durable = self.append(out, reservation, deadline).await;
        for item in &mut judged {
            let lost = item.events && !durable.events || item.profiles && !durable.profiles;
            if lost {
                item.verdict = Verdict::Retry;
            }
        }
        Ok(judged)
    }

    /// Judges one item and writes its records. Errors when the whole request can't go on.
    pub(super) fn judge(
        &self,
        item: Item<'_>,
        sorting: &mut Sorting<'_>,
        composer: &Composer<'_>,
    ) -> Result<Judged, Refusal> {
        let envelope = match item.and_then(Envelope::read) {
            Ok(envelope) => envelope,
            Err(fault) => return Ok(Judged::new(None).refused(fault)),
        };
        if let Some(repeat) = sorting.repeat_of(envelope.id.as_deref()) {
            return Ok(repeat);
        }
        let sent = envelope.id.as_deref().map(str::to_owned);
        let bytes = envelope.payload.len();
        let payload = match self.open(composer.admitted, &envelope, bytes) {
            Ok(payload) => payload,
            Err(refusal) => return Ok(Judged::new(sent).refused(fault_of(refusal))),
        };
        let claimed_ms = payload.claimed_ms().or(envelope.claimed_ms);
        if let Some(fault) = sorting.beyond_days(claimed_ms, "timestamp") {
            return Ok(Judged::new(sent).refused(fault));
        }
        let was_sent = sent.is_some();
        let minted = || self.mint.random_uuid().ok_or(Refusal::NotDurable);
        let id = sent.map_or_else(minted, Ok)?;
        Ok(sorting.write(was_sent, id, |id, out| {
            let claimed_ms = envelope.claimed_ms;
            let identity = Identity { id, claimed_ms };
            match self.write(composer, &payload, identity, out) {
                Taken::Stored(visited) => Verdict::Accepted(visited),
                Taken::LeftOut(_, why) => Verdict::Dropped(why),
                Taken::Bot(..) => Verdict::Dropped("bot"),
            }
        }))
    }

    /// Counts verdicts, for the answer and for metrics.
    pub(super) fn tally(&self, judged: &[Judged]) -> Counts {
        let mut counts = Counts {
            all: judged.len() as u64,
            ..Counts::default()
        };
        let metrics = &self.parts.metrics;
        for item in judged {
            match &item.verdict {
                Verdict::Accepted(_) => counts.accepted += 1,
                Verdict::Duplicate => counts.duplicates += 1,
                Verdict::Dropped(_) => counts.dropped += 1,
                Verdict::Retry => counts.retry += 1,
                Verdict::Refused(fault) => {
                    counts.refused += 1;
                    metrics.refused(DOOR, fault.code);
                }
            }
        }
        for (outcome, count) in [
            ("accepted", counts.accepted),
            ("duplicate", counts.duplicates),
            ("dropped", counts.dropped),
            ("unavailable", counts.retry),
            ("rejected", counts.refused),
        ] {
            metrics.events(DOOR, outcome, count);
        }
        metrics.accepted_events(u32::try_from(counts.accepted).unwrap_or(u32::MAX));
        metrics.batch(DOOR, counts.outcome().1);
        counts
    }

    fn answer_batch(&self, judged: &[Judged]) -> Answer {
        let counts = self.tally(judged);
        let head = format!("{{{}", counts.members());
        answers::batch(counts.outcome().0, head, judged, counts.retry > 0)
    }
}

/// Verdicts of a request.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    pub(super) all: u64,
    pub(super) accepted: u64,
    pub(super) duplicates: u64,
    pub(super) dropped: u64,
    pub(super) retry: u64,
    pub(super) refused: u64,
}

impl Counts {
    /// The status of the whole, and its name in metrics.
    fn outcome(&self) -> (StatusCode, &'static str) {
        match () {
            () if self.retry == self.all => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            () if self.refused == self.all => (StatusCode::UNPROCESSABLE_ENTITY, "rejected"),
            () => (StatusCode::OK, "accepted"),
        }
    }

    /// The members of an answer, up to the start of its verdicts.
    pub(super) fn members(&self) -> String {
        let Counts {
            accepted,
            duplicates,
            dropped,
            retry,
            refused,
            ..
        } = self;
        format!(
            r#""accepted":{accepted},"duplicates":{duplicates},"dropped":{dropped},"retry":{retry},"refused":{refused},"events":["#
        )
    }
}

impl Judged {
    pub(super) fn new(id: Option<String>) -> Self {
        Self {
            id,
            verdict: Verdict::Duplicate,
            events: false,
            profiles: false,
        }
    }

    pub(super) fn refused(self, fault: Fault) -> Self {
        let verdict = Verdict::Refused(fault);
        Self { verdict, ..self }
    }

    /// Appends the item's verdict as JSON.
    pub(super) fn push(&self, index: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"index\":");
        out.extend_from_slice(index.to_string().as_bytes());
        if let Some(id) = &self.id {
            answers::member("id", id, out);
        }
        let status = match &self.verdict {
            Verdict::Accepted(_) => "accepted",
            Verdict::Duplicate => "duplicate",
            Verdict::Dropped(_) => "dropped",
            Verdict::Retry => "retry",
            Verdict::Refused(_) => "refused",
        };
        answers::member("status", status, out);
        match &self.verdict {
            Verdict::Accepted(visited) => {
                answers::member("deviceId", &visited.device, out);
                answers::member("sessionId", &visited.session, out);
            }
            Verdict::Dropped(why) => answers::member("dropped", why, out),
            Verdict::Refused(fault) => {
                answers::member("code", fault.code, out);
                answers::member("field", &fault.field, out);
                answers::member("detail", &fault.detail, out);
            }
            Verdict::Duplicate | Verdict::Retry => {}
        }
        out.push(b'}');
    }
}

impl Sorting<'_> {
    /// The place of the item in hand among all.
    pub(super) fn next_index(&self) -> usize {
        self.judged.len()
    }

    /// The verdict of an item whose id stands earlier in the request: a repeat of one that will
    /// be durable if the request is answered so.
    pub(super) fn repeat_of(&self, id: Option<&str>) -> Option<Judged> {
        let id = id?;
        let first = &self.judged[*self.ids.get(id)?];
        Some(Judged {
            events: first.events,
            profiles: first.profiles,
            ..Judged::new(Some(id.to_owned()))
        })
    }

    /// Writes an item's records and notes which topics its verdict waits for.
    pub(super) fn write(
        &mut self,
        was_sent: bool,
        id: String,
        write: impl FnOnce(&str, &mut Outgoing) -> Verdict,
    ) -> Judged {
        let (events, profiles) = self.out.counts();
        let verdict = write(&id, &mut self.out);
        let now = self.out.counts();
        if was_sent {
            self.ids.insert(id.clone(), self.judged.len());
        }
        Judged {
            verdict,
            events: now.0 > events,
            profiles: now.1 > profiles,
            id: Some(id),
        }
    }

    /// Whether an item's time lies on a day more than one request may have.
    pub(super) fn beyond_days(
        &mut self,
        claimed_ms: Option<i64>,
        field: &'static str,
    ) -> Option<Fault> {
        let now_ms = self.composer.now.as_millis();
        let time = Timestamp::from_millis(event_time(claimed_ms, now_ms).ms);
        let day = time.seconds.div_euclid(DAY_SECONDS);
        if self.days.contains(&day) {
            return None;
        }
        if self.days.len() >= DAYS_MAX {
            let detail = format!("is on a day beyond {DAYS_MAX} of one request");
            return Some(Fault::new(code::TOO_MANY_DAYS, field, detail));
        }
        self.days.push(day);
        None
    }
}

/// An item's refusal, in the words of a verdict.
fn fault_of(refusal: Refusal) -> Fault {
    match refusal {
        Refusal::Fault(fault) => fault,
        Refusal::Denied(denied @ Denied::Revenue) => {
            let field = "payload.properties.__revenue";
            Fault::new("revenue_needs_secret", field, denied.to_string())
        }
        Refusal::Denied(denied) => Fault::new("filtered", "payload.profileId", denied.to_string()),
        other => Fault::new(other.code(), "", other.message()),
    }
}
