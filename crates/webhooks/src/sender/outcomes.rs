//! Outcomes on their way into the log: one append carries all that came while the one before was
//! being synced.

use std::rc::Rc;
use std::time::Duration;

use fulmar_event::{AttemptRecord, DeliveryStatus, Records};
use fulmar_log::LogError;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::checkpoint::answer;
use super::delivery::Delivery;
use super::share::{Note, Share};
use crate::client::{Fault, Reply};

/// Outcomes that wait for the log; beyond, nothing new is sent: with 16 KiB of answer in each they
/// would be 64 MiB.
const OUTCOMES_MAX: usize = 4_096;
/// Bytes of a failed attempt's answer that are kept, unless the webhook asks for all.
const ANSWER_BYTES_KEPT: usize = 1_024;
/// How long outcomes are gathered before an append, and how many are enough: nobody waits for them,
/// and an append is a sync. What is not synced may be sent again after a crash (D1).
const GATHER: Duration = Duration::from_millis(5);
const GATHER_MAX: usize = 256;
/// After an append that failed, until the next try.
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// What went wrong, in the words of tables and answers.
#[derive(Debug, Default)]
pub(super) struct Told {
    category: &'static str,
    phase: &'static str,
    message: String,
}

impl Told {
    pub fn of(fault: &Fault) -> Self {
        Self {
            category: fault.category.as_str(),
            phase: fault.phase.as_str(),
            message: fault.message.clone(),
        }
    }

    pub fn plain(message: &str) -> Self {
        Self {
            message: message.to_owned(),
            ..Self::default()
        }
    }
}

/// What became of a delivery.
pub(super) struct Outcome {
    pub delivery: Rc<Delivery>,
    pub status: DeliveryStatus,
    pub due_ms: i64,
    pub failures: u32,
    pub attempts_max: u32,
    /// When it was sent and how long that took; none where nothing was.
    pub sent: Option<(i64, Duration)>,
    pub keeps_answer: bool,
    pub reply: Option<Reply>,
    pub error: Told,
}

/// What an outcome changes once its record is durable.
struct Settled {
    delivery: Rc<Delivery>,
    status: DeliveryStatus,
    due_ms: i64,
    attempts: u32,
    failures: u32,
    /// It had ended, and is taken up again.
    is_reopened: bool,
}

/// Outcomes that are not durable yet.
#[derive(Default)]
pub(super) struct Outcomes {
    records: Records,
    settled: Vec<Settled>,
    /// When the first of them came.
    since: Option<Instant>,
    appending: Vec<Settled>,
    /// Who waits until what is settled is durable, and until what is being appended is.
    pub asked: Vec<oneshot::Sender<()>>,
    appending_asked: Vec<oneshot::Sender<()>>,
    /// The records of an append that failed, to be tried again.
    again: Option<Records>,
    /// No record of the append under way lies before it.
    pub floor: Option<u64>,
}

impl Outcomes {
    pub fn is_empty(&self) -> bool {
        self.settled.is_empty() && self.appending.is_empty()
    }

    /// When what has come is appended, unless more comes or an append is under way.
    pub fn due(&self) -> Option<Instant> {
        self.since
            .filter(|_| self.floor.is_none())
            .map(|since| since + GATHER)
    }

    pub fn is_full(&self) -> bool {
        self.settled.len() >= OUTCOMES_MAX
    }
}

impl Share {
    /// Writes an outcome down; it counts when [`Share::appended`] says so.
    pub fn settle(&mut self, outcome: Outcome) {
        let delivery = &outcome.delivery;
        let lane = &self.lanes[delivery.lane];
        let attempts = delivery.attempts.get() + u32::from(outcome.sent.is_some());
        let reply = outcome.reply.as_ref();
        let is_failure = outcome.status != DeliveryStatus::Delivered;
        let kept = match reply {
            Some(reply) if outcome.keeps_answer => &reply.body[..],
            Some(reply) if is_failure => &reply.body[..reply.body.len().min(ANSWER_BYTES_KEPT)],
            _ => &[],
        };
        let (started_ms, took) = outcome
            .sent
            .unwrap_or((super::share::now_ms(), Duration::ZERO));
        let project = match &*delivery.event.project {
            "" => &*lane.project,
            project => project,
        };
        let record = AttemptRecord {
            delivery_id: &delivery.id.to_string(),
            project,
            consumer: &lane.consumer,
            webhook_id: &lane.webhook,
            subscription_id: delivery.subscription.as_deref().unwrap_or_default(),
            event_id: &delivery.event.id,
            event_name: &delivery.event.name,
            event_offset: delivery.event.offset,
            created_ms: delivery.created_ms,
            status: outcome.status as i32,
            attempt: attempts,
            attempts_max: outcome.attempts_max,
            attempted: outcome.sent.is_some(),
            started_ms,
            duration_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            due_ms: outcome.due_ms,
            response_code: reply.map_or(0, |reply| u32::from(reply.status)),
            response_body: kept,
            error_category: outcome.error.category,
            phase: outcome.error.phase,
            error_message: &outcome.error.message,
            failures: outcome.failures,
            by_hand: delivery.by_hand,
        };
        let is_reopened = record.reopens();
        let mark = self.outcomes.records.begin(0);
        record.encode(self.outcomes.records.buffer());
        self.outcomes.records.end(mark);
        self.outcomes.since.get_or_insert_with(Instant::now);
        self.outcomes.settled.push(Settled {
            status: outcome.status,
            due_ms: outcome.due_ms,
            attempts,
            failures: outcome.failures,
            is_reopened,
            delivery: outcome.delivery,
        });
    }

    /// Appends what has come, once it is worth it, unless an append is under way.
    pub fn append_outcomes(&mut self) {
        let hurries = self.stopping || !self.asked.is_empty();
        let outcomes = &mut self.outcomes;
        if outcomes.floor.is_some() {
            return;
        }
        if outcomes.settled.is_empty() {
            // All there was is durable.
            answer(&mut outcomes.asked);
            return;
        }
        let hurries = hurries || !outcomes.asked.is_empty();
        let is_enough = outcomes.settled.len() >= GATHER_MAX;
        let is_due = outcomes.due().is_some_and(|due| due <= Instant::now());
        if !(hurries || is_enough || is_due) {
            return;
        }
        outcomes.since = None;
        let empty = self.parts.deliveries.buffer();
        let records = std::mem::replace(&mut outcomes.records, empty);
        outcomes.appending = std::mem::take(&mut outcomes.settled);
        outcomes.appending_asked = std::mem::take(&mut outcomes.asked);
        self.append(records, Duration::ZERO);
    }

    /// The records are kept beside the log's copy until it has said that it has them.
    fn append(&mut self, records: Records, wait: Duration) {
        self.outcomes.floor = Some(self.parts.deliveries.end());
        self.outcomes.again = Some(records.clone());
        let (journal, notes) = (
            std::sync::Arc::clone(&self.parts.deliveries),
            self.notes.clone(),
        );
        tokio::task::spawn_local(async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            let appended = journal.append(records).await;
            let _ = notes.send(Note::Appended(appended.map(|_| ())));
        });
    }

    /// The outcomes of an append count, or are tried again: a record that is there twice counts
    /// once.
    pub fn appended(&mut self, appended: Result<(), LogError>) {
        let again = self.outcomes.again.take();
        if let Err(error) = appended {
            let told = format!("outcomes cannot be written: {error}");
            if self.trouble.as_ref() != Some(&told) {
                tracing::error!(%error, "outcomes of deliveries cannot be written");
            }
            self.trouble = Some(told);
            if let Some(records) = again {
                self.append(records, TRY_AGAIN);
            }
            return;
        }
        self.trouble = None;
        self.outcomes.floor = None;
        for settled in std::mem::take(&mut self.outcomes.appending) {
            self.apply(&settled);
        }
        answer(&mut self.outcomes.appending_asked);
    }

    fn apply(&mut self, settled: &Settled) {
        let delivery = &settled.delivery;
        delivery.attempts.set(settled.attempts);
        delivery.failures.set(settled.failures);
        if settled.is_reopened {
            self.counts.reopened += 1;
            self.lanes[delivery.lane].backlog.begun(1);
        }
        if settled.status.is_final() {
            self.counts.end(settled.status);
            self.memory.remove(&delivery.id);
            self.open_again.remove(&delivery.id);
            let lane = &mut self.lanes[delivery.lane];
            lane.in_memory -= 1;
            lane.backlog.ended();
            self.pending.decide(&lane.webhook, delivery);
        } else {
            self.pending.wait(delivery, settled.due_ms);
        }
    }
}
