//! What each project has published that its webhooks have not got: the publish door's bound.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// Of all projects, since the start.
#[derive(Debug, Default)]
pub struct Backlogs {
    projects: RwLock<HashMap<Box<str>, Arc<Backlog>>>,
}

/// Of one project.
#[derive(Debug, Default)]
pub struct Backlog {
    /// Deliveries that have not ended. The sender's thread alone changes it.
    undecided: AtomicU64,
    /// Events published by this process that the sender has not read. What both sides count may
    /// drift apart, downwards: it is nothing whenever the sender has read all there is.
    unread: AtomicU64,
}

impl Backlogs {
    /// That of a project.
    #[must_use]
    pub fn of(&self, project: &str) -> Arc<Backlog> {
        if let Some(known) = self.projects.read().expect("no holder panics").get(project) {
            return Arc::clone(known);
        }
        let mut projects = self.projects.write().expect("no holder panics");
        Arc::clone(projects.entry(project.into()).or_default())
    }

    /// All that is durable has been read.
    pub(crate) fn all_read(&self) {
        for backlog in self.projects.read().expect("no holder panics").values() {
            backlog.unread.store(0, Ordering::Relaxed);
        }
    }
}

impl Backlog {
    /// Deliveries and events that wait.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.undecided.load(Ordering::Relaxed) + self.unread.load(Ordering::Relaxed)
    }

    /// Events are about to be appended.
    pub fn publishing(&self, events: u64) {
        self.unread.fetch_add(events, Ordering::Relaxed);
    }

    /// Some of them were read, or not appended.
    pub fn read(&self, events: u64) {
        less(&self.unread, events);
    }

    /// Deliveries are to be made.
    pub(crate) fn begun(&self, deliveries: u64) {
        self.undecided.fetch_add(deliveries, Ordering::Relaxed);
    }

    /// One has ended.
    pub(crate) fn ended(&self) {
        less(&self.undecided, 1);
    }
}

fn less(count: &AtomicU64, by: u64) {
    let lower = |known: u64| Some(known.saturating_sub(by));
    let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
}
