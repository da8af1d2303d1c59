//! From records to durable records.

use fulmar_event::{Code, Records, Rejection};

use super::{AgentsDoor, refusal};
use crate::capacity::Reservation;
use crate::publishing::{NotDurable, publish};

impl AgentsDoor {
    /// Appends and waits, at most for the publish time. The reservation stays
    /// until the log has let the records go.
    pub(super) async fn publish(
        &self,
        records: Records,
        reservation: Reservation,
    ) -> Result<(), Rejection> {
        let parts = &self.parts;
        let started_ns = parts.clock.monotonic_ns();
        let time_max = self.config.publish_time_max;
        match publish(
            &*parts.backbone,
            records,
            move |_| drop(reservation),
            time_max,
        )
        .await
        {
            Ok(_) => {
                let took_ns = parts.clock.monotonic_ns().saturating_sub(started_ns);
                parts
                    .metrics
                    .published_in(std::time::Duration::from_nanos(took_ns));
                Ok(())
            }
            Err(NotDurable) => Err(refusal(
                Code::BackboneUnavailable,
                "the events could not be made durable in time",
            )),
        }
    }
}
