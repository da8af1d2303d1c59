//! One batch through a door until each of its events has its answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::backoff::Backoff;
use crate::door::agents::AgentsDoor;
use crate::door::events::EventsDoor;
use crate::door::{Seen, Single, Verdict};
use crate::error::SendError;
use crate::item::Item;
use crate::options::Summary;
use crate::progress::Progress;
use crate::receipts::Receipts;
use crate::window::Window;

/// Either door.
pub enum AnyDoor {
    /// All or nothing.
    Agents(AgentsDoor),
    /// A verdict per event.
    Events(EventsDoor),
}

/// That the caller wants no more, and a wake-up for who waits.
#[derive(Clone, Default)]
pub struct Stop {
    /// Read by the reading threads.
    pub flag: Arc<AtomicBool>,
    wake: Arc<Notify>,
}

impl Stop {
    /// Asks everything to end.
    pub fn set(&self) {
        self.flag.store(true, Ordering::Relaxed);
        self.wake.notify_waiters();
        self.wake.notify_one();
    }

    /// Whether it was asked.
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

/// Sends batches, one after the other.
pub struct Deliverer {
    door: AnyDoor,
    receipts: Option<Receipts>,
    /// Stands in receipts where the server does not say whom it saw.
    fallback: Seen,
    backoff: Backoff,
    window: Window,
    stop: Stop,
    progress: Progress,
    /// What came of it so far.
    pub summary: Summary,
}

impl Deliverer {
    /// A deliverer that writes receipts where it is given a file.
    pub fn new(
        door: AnyDoor,
        receipts: Option<Receipts>,
        fallback: Seen,
        stop: Stop,
        backoff: Backoff,
        progress: Progress,
    ) -> Deliverer {
        Deliverer {
            door,
            receipts,
            fallback,
            backoff,
            window: Window::default(),
            stop,
            progress,
            summary: Summary::default(),
        }
    }

    /// Sends `items` in order until all have an answer: true then, false when
    /// the caller stopped it before. Receipts are written as answers come, so
    /// that nothing is freed without its receipt.
    pub async fn deliver(&mut self, items: Vec<Item>) -> Result<bool, SendError> {
        let mut parts = VecDeque::from([items]);
        while let Some(mut part) = parts.pop_front() {
            for item in self.window.take_outside(&mut part) {
                self.refuse(&item, "its time lies outside the admission window", true);
            }
            if let Some(probe) = self.window.take_probe(&mut part) {
                parts.push_front(part);
                part = vec![probe];
            }
            if part.is_empty() {
                continue;
            }
            let verdict = match &mut self.door {
                AnyDoor::Agents(door) => door.send(&part).await,
                AnyDoor::Events(door) => door.send(&part).await,
            };
            if !matches!(verdict, Verdict::Later { .. }) {
                self.backoff.reset();
            }
            match verdict {
                Verdict::Durable(seen) => {
                    self.window.accepted(&part);
                    self.accept(&seen, part.iter().map(|item| item.id.as_str()))?;
                }
                Verdict::Each(seen, singles) => {
                    let again = self.settle(&seen, part, singles)?;
                    if !again.is_empty() {
                        parts.push_front(again);
                    }
                }
                Verdict::Invalid { index, why, window } => {
                    let item = part.remove(index);
                    if window {
                        self.window.refused(&item);
                    }
                    self.refuse(&item, &why, window);
                    parts.push_front(part);
                }
                Verdict::TooLarge(why) => self.halve(part, &why, &mut parts),
                Verdict::Later { after, why } => {
                    parts.push_front(part);
                    if !self.wait(after, &why).await {
                        return Ok(false);
                    }
                }
            }
            self.progress.show(&self.summary);
        }
        Ok(true)
    }

    /// The two halves go next; an event that is too large alone is refused.
    fn halve(&mut self, mut part: Vec<Item>, why: &str, parts: &mut VecDeque<Vec<Item>>) {
        if part.len() == 1 {
            self.refuse(&part[0], why, false);
            return;
        }
        let second = part.split_off(part.len() / 2);
        parts.push_front(second);
        parts.push_front(part);
    }

    /// Files single verdicts and returns the events that have none yet.
    fn settle(
        &mut self,
        seen: &Seen,
        part: Vec<Item>,
        singles: Vec<Single>,
    ) -> Result<Vec<Item>, SendError> {
        let mut again = Vec::new();
        let mut ids = Vec::new();
        let mut duplicates = 0;
        for (item, single) in part.into_iter().zip(singles) {
            match single {
                Single::Accepted { id } => ids.push(id),
                Single::Duplicate { id } => {
                    duplicates += 1;
                    ids.push(id);
                }
                Single::Refused { why, window } => self.refuse(&item, &why, window),
                Single::Again => again.push(item),
            }
        }
        self.accept(seen, ids.iter().map(String::as_str))?;
        // A duplicate is acknowledged too, but counted by its own name.
        self.summary.accepted -= duplicates;
        self.summary.duplicates += duplicates;
        Ok(again)
    }

    fn accept<'a>(
        &mut self,
        seen: &Seen,
        ids: impl ExactSizeIterator<Item = &'a str>,
    ) -> Result<(), SendError> {
        self.summary.events += ids.len() as u64;
        self.summary.accepted += ids.len() as u64;
        if let Some(receipts) = &mut self.receipts {
            let name = |seen: &Option<String>, fallback: &Option<String>| {
                seen.clone()
                    .or_else(|| fallback.clone())
                    .unwrap_or_else(|| "default".to_owned())
            };
            let project = name(&seen.project, &self.fallback.project);
            let source = name(&seen.source, &self.fallback.source);
            receipts.append(&project, &source, ids)?;
        }
        Ok(())
    }

    fn refuse(&mut self, item: &Item, why: &str, window: bool) {
        self.summary.events += 1;
        self.summary.refused += 1;
        if self.summary.first_refusal.is_none() {
            let text = format!("event {}: {why}", item.id);
            self.progress.say(&format!("refused: {text}"));
            self.summary.first_refusal = Some(text);
        }
        if window && !self.summary.window_refused {
            self.summary.window_refused = true;
            self.progress.say(
                "its time lies outside what the door admits; --rebase moves an old file's \
                 times so that its newest line is now",
            );
        }
    }

    /// Waits before the next try; false when the caller stopped it.
    async fn wait(&mut self, after: Option<std::time::Duration>, why: &str) -> bool {
        let wait = self.backoff.next(after);
        self.progress.trouble(why);
        if self.stop.is_set() {
            return false;
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = self.stop.wake.notified() => {}
        }
        !self.stop.is_set()
    }
}
