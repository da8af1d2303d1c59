//! How every receiver does, folded from the outcomes of deliveries, and what is told of it.

mod fold;
mod label;
mod minute;
mod notice;
mod report;
mod standing;
mod states;

pub use fold::{HEALTH, HealthFold, HealthLimits};
pub use label::Health;
pub use minute::{Attempts, Failure};
pub use notice::Teller;
pub use report::{Report, report, told};
pub use standing::Standing;
pub use states::{StatesFold, WEBHOOK_STATES};
