//! From records to durable ones: two topics, and an answer for each.

use std::sync::Arc;
use std::time::Duration;

use fulmar_event::Records;
use tokio::time::Instant;

use super::TrackDoor;
use super::compose::Outgoing;
use crate::backbone::Backbone;
use crate::capacity::Reservation;
use crate::publishing::publish;

/// Which topics took their records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Durable {
    pub(super) events: bool,
    pub(super) profiles: bool,
}

impl Durable {
    pub(super) fn all(self) -> bool {
        self.events && self.profiles
    }
}

impl TrackDoor {
    /// Appends to both topics at once and waits for both (I1). The reservation is held until the
    /// log has let the records go, even if this request is gone by then.
    pub(super) async fn append(
        &self,
        out: Outgoing,
        reservation: Reservation,
        deadline: Instant,
    ) -> Durable {
        let parts = &self.parts;
        let started_ns = parts.clock.monotonic_ns();
        let held = Arc::new(reservation);
        let append = |backbone: &Arc<dyn Backbone>, records: Records| {
            let (held, backbone) = (Arc::clone(&held), Arc::clone(backbone));
            async move {
                if records.is_empty() {
                    return true;
                }
                let time_max = deadline.saturating_duration_since(Instant::now());
                let done = move |_| drop(held);
                publish(&*backbone, records, done, time_max).await.is_ok()
            }
        };
        let events = append(&parts.events, out.events);
        let profiles = append(&parts.profiles, out.profiles);
        let (events, profiles) = tokio::join!(events, profiles);
        let took_ns = parts.clock.monotonic_ns().saturating_sub(started_ns);
        parts.metrics.published_in(Duration::from_nanos(took_ns));
        Durable { events, profiles }
    }
}
