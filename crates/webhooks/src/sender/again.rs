//! Deliveries that have ended and that somebody wants once more.
//!
//! A record in `deliveries` takes each up again; from then on it is a delivery like others, with
//! its whole retries and no time to live, and says in a header that it was asked for.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fulmar_event::DeliveryStatus;
use tokio::sync::oneshot;

use super::delivery::{Delivery, DeliveryId, Happening, Standing};
use super::outcomes::{Outcome, Told};
use super::share::{Share, now_ms};
use super::{Command, SenderHandle};

/// How long a caller waits until what it asks for is durable.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// A delivery that has ended, as its newest outcome tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its id.
    pub id: DeliveryId,
    /// Its webhook.
    pub webhook: String,
    /// The event's project.
    pub project: String,
    /// The subscription that matched, or empty.
    pub subscription: String,
    /// The event's id, as sent.
    pub event_id: String,
    /// Its name.
    pub event_name: String,
    /// Its offset in `events`.
    pub event_offset: u64,
    /// When it was matched, ms since the epoch.
    pub created_ms: i64,
    /// Attempts so far.
    pub attempts: u32,
}

/// What somebody asks for, and where the answer goes.
pub(super) struct Again {
    deliveries: Vec<Ended>,
    durable: oneshot::Sender<()>,
}

impl SenderHandle {
    /// Takes deliveries up again that have ended; durable when this returns true. One that is under
    /// way by now goes on as it is. False when the sender has ended, or stands still.
    pub async fn send_again(&self, deliveries: Vec<Ended>) -> bool {
        let (durable, wait) = oneshot::channel();
        let again = Again {
            deliveries,
            durable,
        };
        let asked = self.commands.send(Command::Again(again)).is_ok();
        asked && matches!(tokio::time::timeout(WAIT_MAX, wait).await, Ok(Ok(())))
    }
}

impl Share {
    /// What was asked for, once the checkpoint knows all outcomes of before the start: what a crash
    /// would read again then is of this run alone, and counts once.
    pub fn take_up(&mut self) {
        if self.pending.outcomes_from() < self.recovered_to {
            return;
        }
        while !self.outcomes.is_full()
            && let Some(again) = self.again.pop_front()
        {
            for ended in again.deliveries {
                let is_open = self.open_again.contains(&ended.id);
                if !is_open && !self.memory.contains_key(&ended.id) {
                    self.reopen(ended);
                }
            }
            self.outcomes.asked.push(again.durable);
        }
    }

    fn reopen(&mut self, ended: Ended) {
        let now_ms = now_ms();
        let index = self.lane_of(&ended.webhook, (&ended.project, ""));
        let named = (&*ended.event_id, &*ended.event_name, &*ended.project);
        let subscription = (!ended.subscription.is_empty()).then(|| (&*ended.subscription).into());
        let delivery = Rc::new(Delivery {
            id: ended.id,
            lane: index,
            subscription,
            // It is sent once it comes back from disk, with its event.
            event: Arc::new(Happening::named(ended.event_offset, named)),
            created_ms: ended.created_ms,
            attempts: ended.attempts.into(),
            failures: 0.into(),
            by_hand: true,
            due_ms: now_ms.into(),
            stored_due_ms: None.into(),
            standing: Standing::Asked.into(),
        });
        self.open_again.insert(ended.id);
        self.memory.insert(ended.id, Rc::clone(&delivery));
        self.lanes[index].in_memory += 1;
        let webhook = self.receivers.state().webhooks.get(&ended.webhook);
        let attempts_max = webhook.map_or(0, |one| one.retry.retries_max + 1);
        self.settle(Outcome {
            delivery,
            status: DeliveryStatus::Retrying,
            due_ms: now_ms,
            failures: 0,
            attempts_max,
            sent: None,
            keeps_answer: false,
            reply: None,
            error: Told::plain("somebody asked for it once more"),
        });
    }
}
