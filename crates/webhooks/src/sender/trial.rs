//! One exchange on trial: what a receiver says to an event that never happened. It is no delivery:
//! nothing of it is counted, retried or written down.

use std::rc::Rc;
use std::time::Duration;

use fulmar_registry::Webhook;
use hyper::{HeaderMap, Method};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::delivery::DeliveryId;
use super::receiver::Labels;
use super::share::{Share, now_ms};
use super::{Command, SenderHandle};
use crate::client::{Fault, Reply};
use crate::occurrence::Occurrence;
use crate::outcome::judged;

/// Trials at once: each is a connection beside those of deliveries.
const TRIALS_MAX: usize = 32;

/// What is tried.
pub(super) struct Trial {
    webhook: String,
    delivery: DeliveryId,
    event_id: String,
    body: bytes::Bytes,
    tried: oneshot::Sender<Result<Tried, Untried>>,
}

/// What came of a trial.
#[derive(Debug)]
pub struct Tried {
    /// How it was sent; none where the webhook can't be sent to.
    pub sent: Option<(Method, HeaderMap)>,
    /// What the receiver answered.
    pub reply: Option<Reply>,
    /// Why it counts as none that was taken.
    pub fault: Option<Fault>,
    /// How long the exchange took.
    pub took: Duration,
}

/// Why nothing was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untried {
    /// The webhook is not known.
    Unknown,
    /// Too many trials are under way.
    Busy,
    /// The sender has ended.
    Ended,
}

impl SenderHandle {
    /// Sends an event to a webhook once, as its delivery would be sent, and tells what came of it.
    ///
    /// # Errors
    /// [`Untried`].
    pub async fn try_out(
        &self,
        (id, webhook): (&str, &Webhook),
        event: &Occurrence<'_>,
    ) -> Result<Tried, Untried> {
        let (tried, wait) = oneshot::channel();
        let trial = Trial {
            delivery: DeliveryId::of(event, id),
            event_id: event.id.to_owned(),
            body: event.body(webhook.body),
            tried,
            webhook: id.to_owned(),
        };
        let asked = self.commands.send(Command::Try(Box::new(trial)));
        asked.map_err(|_| Untried::Ended)?;
        wait.await.map_err(|_| Untried::Ended)?
    }
}

impl Share {
    pub fn try_out(&mut self, trial: Trial) {
        if Rc::strong_count(&self.trials) > TRIALS_MAX {
            let _ = trial.tried.send(Err(Untried::Busy));
            return;
        }
        let Some(receiver) = self.receivers.get(&trial.webhook.as_str().into(), None) else {
            let _ = trial.tried.send(Err(Untried::Unknown));
            return;
        };
        let (client, under_way) = (Rc::clone(&self.client), Rc::clone(&self.trials));
        tokio::task::spawn_local(async move {
            let began = Instant::now();
            let (sent, (fault, reply)) = match &*receiver {
                Err(fault) => (None, (Some(fault.clone()), None)),
                Ok(receiver) => {
                    let labels = Labels {
                        delivery: &trial.delivery.to_string(),
                        event: &trial.event_id,
                        attempt: 1,
                        now_ms: now_ms(),
                        by_hand: false,
                    };
                    let outgoing = receiver.outgoing(labels, trial.body);
                    let sent = (outgoing.method.clone(), outgoing.headers.clone());
                    let ended = client.exchange(receiver.target(), outgoing).await;
                    (
                        Some(sent),
                        judged(ended, &receiver.webhook.expected_statuses),
                    )
                }
            };
            let took = began.elapsed();
            // Who asked may be gone by now.
            let _ = trial.tried.send(Ok(Tried {
                sent,
                reply,
                fault,
                took,
            }));
            drop(under_way);
        });
    }
}
