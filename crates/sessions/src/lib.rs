//! Sessions of devices, as a pure fold over product events, and what is kept of profiles: no
//! clock, no I/O, no randomness that an output depends on (I4). The caller feeds events in the
//! order of the log, once each, with the log's time, and keeps what [`SessionFold::changes`] hands
//! out. [`LiveView`] is what doors see of it.

mod codec;
mod due;
mod fold;
mod interner;
mod live;
pub mod profiles;
mod session;
#[cfg(test)]
mod tests;

pub use codec::StateFault;
pub use fold::{Feed, Rows, SessionFold, SessionRules};
pub use live::LiveView;
pub use session::{Placed, SessionView, Surroundings};
