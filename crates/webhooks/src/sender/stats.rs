//! What the sender counts.

use std::collections::BTreeMap;

use fulmar_event::DeliveryStatus;
use serde::{Deserialize, Serialize};

use crate::client::{Phase, PhaseTimes};

/// Committed counts of deliveries (I8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Matches of an event with a webhook.
    pub matched: u64,
    /// Taken by the receiver.
    pub delivered: u64,
    /// Given up.
    pub failed: u64,
    /// Of no use any more before they were sent.
    pub expired: u64,
    /// Their webhook is gone, or somebody took them back.
    pub cancelled: u64,
    /// Deliveries that had ended and were taken up again.
    #[serde(default)]
    pub reopened: u64,
    /// Records of events that were matched already.
    pub repeats: u64,
}

impl Counts {
    /// Counts an end.
    pub(super) fn end(&mut self, status: DeliveryStatus) {
        match status {
            DeliveryStatus::Delivered => self.delivered += 1,
            DeliveryStatus::Failed => self.failed += 1,
            DeliveryStatus::Expired => self.expired += 1,
            DeliveryStatus::Cancelled => self.cancelled += 1,
            DeliveryStatus::Retrying => {}
        }
    }

    /// Deliveries that have not ended: pending or held.
    #[must_use]
    pub fn undecided(&self) -> u64 {
        self.matched + self.reopened - self.delivered - self.failed - self.expired - self.cancelled
    }
}

/// Figures of a running sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Committed.
    pub counts: Counts,
    /// Committed position in `events`.
    pub position: u64,
    /// Committed position in `deliveries`.
    pub outcomes_from: u64,
    /// Undecided deliveries on disk at the last checkpoint.
    pub parked: u64,
    /// Deliveries in memory.
    pub in_memory: u64,
    /// Exchanges under way.
    pub in_flight: u64,
    /// Connections opened so far.
    pub connections_opened: u64,
    /// Attempts since the start, by category; a success is `success`.
    pub attempts: BTreeMap<&'static str, u64>,
    /// Receivers that are left alone, and until when, ms since the epoch; 0 while one is asked.
    pub left_alone: BTreeMap<String, i64>,
    /// How long exchanges were in each phase since the start, in the order of [`Phase::ALL`].
    pub phases: [PhaseTimes; Phase::ALL.len()],
    /// Why it does not go on, if so.
    pub trouble: Option<String>,
}
