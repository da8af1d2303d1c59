//! A delivery that waits for its next attempt, and is wanted now. It is sent as it would have been
//! later; a crash before that leaves it due at its time.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::checkpoint::PARKED;
use super::delivery::Happening;
use super::delivery::{DeliveryId, Parked, Standing, key_from};
use super::lane::LaneState;
use super::loading::{LoadError, event_at};
use super::share::{Note, Share, now_ms};
use super::{Command, SenderHandle};

/// What somebody asks for, and where the answer goes.
pub(super) struct Sooner {
    webhook: String,
    id: DeliveryId,
    /// When its next attempt is due, as its newest outcome says.
    due_ms: i64,
    taken: oneshot::Sender<bool>,
}

/// One that came back from disk before it was due.
pub(super) type Fetched = Result<Option<(Parked, Arc<Happening>)>, LoadError>;

impl SenderHandle {
    /// Sends a delivery now that waits until a time. False when it does not wait so, or not any
    /// more, or the sender has ended.
    pub async fn send_sooner(&self, webhook: &str, id: DeliveryId, due_ms: i64) -> bool {
        let (taken, wait) = oneshot::channel();
        let webhook = webhook.to_owned();
        let sooner = Sooner {
            webhook,
            id,
            due_ms,
            taken,
        };
        self.commands.send(Command::Sooner(sooner)).is_ok() && wait.await.unwrap_or(false)
    }
}

impl Share {
    /// What was asked for, between two checkpoints: what one is about to move can't be found.
    pub fn send_sooner(&mut self) {
        if self.pending.is_committing() {
            return;
        }
        for sooner in std::mem::take(&mut self.sooner) {
            let known = self.memory.get(&sooner.id);
            match known.map(|known| known.standing.get()) {
                Some(Standing::Waiting) => {
                    // The next checkpoint puts it on disk as due by then.
                    self.memory[&sooner.id].due_ms.set(now_ms());
                    let _ = sooner.taken.send(true);
                }
                // It is on its way.
                Some(_) => {
                    let _ = sooner.taken.send(true);
                }
                None => self.fetch(sooner),
            }
        }
    }

    fn fetch(&mut self, sooner: Sooner) {
        let Some(&lane) = self.by_webhook.get(sooner.webhook.as_str()) else {
            let _ = sooner.taken.send(false);
            return;
        };
        let mut key = key_from(&sooner.webhook, sooner.due_ms);
        key.extend_from_slice(sooner.id.bytes());
        let (state, events) = (
            Arc::clone(&self.parts.state),
            Arc::clone(&self.parts.events),
        );
        let (held, notes) = (Arc::clone(&self.held_bytes), self.notes.clone());
        self.loading += 1;
        let task = tokio::task::spawn_blocking(move || -> Fetched {
            let Some(value) = state.get(PARKED, &key)? else {
                return Ok(None);
            };
            let Some((_, parked)) = Parked::read(&key, &value) else {
                return Ok(None);
            };
            let event = event_at(&events, parked.offset, &mut None, &held)?;
            Ok(Some((parked, Arc::new(event))))
        });
        tokio::task::spawn_local(async move {
            let fetched = task.await.unwrap_or(Ok(None));
            let _ = notes.send(Note::Fetched(lane, fetched, sooner.taken));
        });
    }

    /// Puts one into its lane that was fetched, unless it came by itself meanwhile.
    pub fn fetched(&mut self, lane: usize, fetched: Fetched, taken: oneshot::Sender<bool>) {
        self.loading -= 1;
        let found = match fetched {
            Ok(found) => found,
            Err(error) => {
                tracing::error!(%error, "a parked delivery cannot be read");
                None
            }
        };
        let is_found = found.is_some();
        if let Some((parked, event)) = found
            && !self.memory.contains_key(&parked.id)
            && !self.pending.has_decided(&parked.id)
        {
            self.make_ready(lane, &parked, event, Some(parked.due_ms));
            if self.lanes[lane].state == LaneState::Held {
                self.hold(lane);
            }
        }
        let _ = taken.send(is_found);
    }
}
