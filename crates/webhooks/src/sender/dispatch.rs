//! Which delivery goes next, and what came of it.

use std::rc::Rc;
use std::time::Duration;

use fulmar_event::DeliveryStatus;
use tokio::time::Instant;

use super::breaker::Sign;
use super::delivery::{Delivery, Standing};
use super::lane::LaneState;
use super::outcomes::{Outcome, Told};
use super::receiver::{Labels, Ready};
use super::share::{Note, Share, now_ms};
use super::verdict::{after, last_start_ms};
use crate::client::{Category, Fault, Reply};
use crate::disabling::disable;
use crate::outcome::judged;

/// An exchange that ended.
pub(super) struct Ended {
    delivery: Rc<Delivery>,
    receiver: Ready,
    result: Result<Reply, Fault>,
    started_ms: i64,
    took: Duration,
}

impl Share {
    /// Puts a lane into the ring if it has something to send.
    pub fn enqueue(&mut self, index: usize) {
        let (lane, now_ms) = (&mut self.lanes[index], now_ms());
        if lane.is_queued || lane.ready() == 0 {
            return;
        }
        if lane.can_send(now_ms) {
            lane.is_queued = true;
            self.ring.push(&lane.project, index);
        } else if lane.waits_until_ms() > now_ms {
            let at_ms = lane.waits_until_ms();
            self.set_timer(at_ms, index);
        }
    }

    /// A lane's time has come, or its webhook has changed.
    pub fn look_at(&mut self, index: usize) {
        self.enqueue(index);
        self.load_if_due(index);
    }

    /// Takes what is ready out of a lane that is held: it stays, or goes, on disk.
    pub fn hold(&mut self, index: usize) {
        for delivery in self.lanes[index].take_ready() {
            match delivery.stored_due_ms.get() {
                Some(due_ms) => {
                    self.memory.remove(&delivery.id);
                    let lane = &mut self.lanes[index];
                    lane.in_memory -= 1;
                    lane.next_due_ms = lane.next_due_ms.min(due_ms);
                }
                None => self.pending.wait(&delivery, now_ms()),
            }
        }
    }

    /// Sends in turns until nothing may go any more.
    pub fn dispatch(&mut self, now_ms: i64) {
        let most = self.parts.config.in_flight_max;
        let window = self.window.size(self.in_flight, most);
        while self.in_flight < window && !self.outcomes.is_full() {
            let Some(index) = self.ring.pop() else {
                return;
            };
            self.dispatch_from(index, now_ms);
        }
    }

    fn dispatch_from(&mut self, index: usize, now_ms: i64) {
        let now_ns = self.began.elapsed().as_nanos() as u64;
        let lane = &mut self.lanes[index];
        lane.is_queued = false;
        if !lane.can_send(now_ms) {
            return self.enqueue(index);
        }
        if let Err(wait_ns) = lane.spend(now_ns) {
            let wait_ms = wait_ns.div_ceil(1_000_000) as i64;
            self.set_timer(now_ms + wait_ms, index);
            return;
        }
        if let Some(delivery) = lane.pop() {
            self.start(delivery, now_ms);
        }
        self.look_at(index);
    }

    /// Begins an attempt, or ends a delivery that needs none any more.
    fn start(&mut self, delivery: Rc<Delivery>, now_ms: i64) {
        delivery.standing.set(Standing::Under);
        let expires_ms = delivery.event.expires_ms;
        let lane = &self.lanes[delivery.lane];
        if lane.state == LaneState::Gone {
            return self.end_unsent(delivery, DeliveryStatus::Cancelled, "the webhook is gone");
        }
        if delivery.event.is_lost() {
            let told = "its event is not in the log any more: retention has removed it";
            return self.end_unsent(delivery, DeliveryStatus::Expired, told);
        }
        if expires_ms != 0 && now_ms >= expires_ms && !delivery.by_hand {
            let told = "its time to live was over before it was sent";
            return self.end_unsent(delivery, DeliveryStatus::Expired, told);
        }
        let webhook = Rc::clone(&lane.webhook);
        let ready = self.receivers.get(&webhook, delivery.subscription.as_ref());
        let Some(ready) = ready else {
            return self.end_unsent(delivery, DeliveryStatus::Cancelled, "the webhook is gone");
        };
        if self.is_too_late(&delivery, now_ms) {
            let told = "its deadline was over before it could be sent";
            return self.end_unsent(delivery, DeliveryStatus::Failed, told);
        }
        self.in_flight += 1;
        let lane = &mut self.lanes[delivery.lane];
        lane.in_flight += 1;
        lane.breaker.sent();
        self.exchange(delivery, ready, now_ms);
    }

    /// Whether the last moment that an attempt may start is over.
    fn is_too_late(&self, delivery: &Delivery, now_ms: i64) -> bool {
        let webhook = &self.lanes[delivery.lane].webhook;
        let known = self.receivers.state().webhooks.get(&**webhook);
        known.is_some_and(|webhook| now_ms > last_start_ms(webhook, delivery.before(), false))
    }

    fn exchange(&self, delivery: Rc<Delivery>, receiver: Ready, now_ms: i64) {
        let (client, notes) = (Rc::clone(&self.client), self.notes.clone());
        tokio::task::spawn_local(async move {
            let began = Instant::now();
            let result = match &*receiver {
                Err(fault) => Err(fault.clone()),
                Ok(receiver) => {
                    let labels = Labels {
                        delivery: &delivery.id.to_string(),
                        event: &delivery.event.id,
                        attempt: delivery.attempts.get() + 1,
                        now_ms,
                        by_hand: delivery.by_hand,
                    };
                    let body = delivery.event.body(receiver.shape());
                    let outgoing = receiver.outgoing(labels, body);
                    client.exchange(receiver.target(), outgoing).await
                }
            };
            let took = began.elapsed();
            let _ = notes.send(Note::Ended(Ended {
                delivery,
                receiver,
                result,
                started_ms: now_ms,
                took,
            }));
        });
    }

    /// Judges an exchange and writes its outcome down.
    pub fn ended(&mut self, ended: Ended) {
        let Ended {
            delivery,
            receiver,
            result,
            started_ms,
            took,
        } = ended;
        let index = delivery.lane;
        self.in_flight -= 1;
        self.lanes[index].in_flight -= 1;
        let now_ms = now_ms();
        self.rate.add(now_ms);
        self.lanes[index].rate.add(now_ms);
        let webhook = match &*receiver {
            Ok(receiver) => Some(&receiver.webhook),
            Err(_) => self
                .receivers
                .state()
                .webhooks
                .get(&*self.lanes[index].webhook),
        };
        let Some(webhook) = webhook.cloned() else {
            // Its webhook was never fit to send to, and is gone now.
            return self.end_unsent(delivery, DeliveryStatus::Cancelled, "the webhook is gone");
        };
        let (fault, reply) = judged(result, &webhook.expected_statuses);
        let word = fault
            .as_ref()
            .map_or("success", |fault| fault.category.as_str());
        *self.attempts.entry(word).or_default() += 1;
        let dice = dice(&delivery);
        let came = (fault.as_ref(), reply.as_ref());
        let after = after(&webhook, delivery.before(), came, (now_ms, dice));
        let lane = &mut self.lanes[index];
        lane.hold_until_ms = lane.hold_until_ms.max(after.hold_until_ms);
        let pause_ms = self.parts.config.breaker_pause.as_millis() as u64;
        let sign = fault.as_ref().map_or(Sign::Answers, sign_of);
        if lane.breaker.ended(sign, now_ms, (pause_ms, dice)) {
            tracing::warn!(
                webhook = &*lane.webhook,
                "a receiver fails and is left alone"
            );
        }
        if let Some(why) = after.gone {
            self.disable(index, why);
        }
        self.settle(Outcome {
            delivery,
            status: after.status,
            due_ms: after.due_ms,
            failures: after.failures,
            attempts_max: webhook.retry.retries_max + 1,
            sent: Some((started_ms, took)),
            keeps_answer: webhook.capture_response,
            reply,
            error: fault.as_ref().map_or_else(Told::default, Told::of),
        });
        self.enqueue(index);
    }

    fn end_unsent(&mut self, delivery: Rc<Delivery>, status: DeliveryStatus, told: &str) {
        let webhook = &self.lanes[delivery.lane].webhook;
        let known = self.receivers.state().webhooks.get(&**webhook);
        let attempts_max = known.map_or(0, |webhook| webhook.retry.retries_max + 1);
        self.settle(Outcome {
            failures: delivery.failures.get(),
            delivery,
            status,
            due_ms: 0,
            attempts_max,
            sent: None,
            keeps_answer: false,
            reply: None,
            error: Told::plain(told),
        });
    }

    /// A receiver has said that it is gone for ever: nothing more is sent to it.
    fn disable(&mut self, index: usize, why: &'static str) {
        self.lanes[index].state = LaneState::Held;
        self.hold(index);
        let webhook = Rc::clone(&self.lanes[index].webhook);
        let id = webhook.to_string();
        let registry = std::sync::Arc::clone(&self.parts.registry);
        let noted = tokio::task::spawn_blocking(move || disable(&registry, &id, why));
        let notes = self.notes.clone();
        tokio::task::spawn_local(async move {
            if !matches!(noted.await, Ok(Ok(()))) {
                tracing::error!(%webhook, "a receiver wants nothing any more, and that could not be noted");
                let _ = notes.send(Note::NotDisabled(index));
            }
        });
    }
}

/// What a fault says to the breaker: a refusal is an answer, and what was not sent says nothing.
fn sign_of(fault: &Fault) -> Sign {
    match fault.category {
        Category::ServerError
        | Category::Timeout
        | Category::ConnectionRefused
        | Category::NetworkError
        | Category::DnsError
        | Category::TlsError => Sign::Fails,
        Category::RateLimited | Category::Unsendable | Category::BlockedAddress => Sign::Waits,
        Category::ClientError | Category::UnexpectedStatus | Category::Gone => Sign::Answers,
    }
}

/// A number in 0 to 1 that is a delivery's own at each attempt: retries of one outage spread, and a
/// replay rolls the same.
fn dice(delivery: &Delivery) -> f64 {
    let mut half = [0; 8];
    half.copy_from_slice(&delivery.id.bytes()[..8]);
    let turned = u64::from(delivery.attempts.get()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (u64::from_be_bytes(half) ^ turned).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}
