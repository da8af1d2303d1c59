//! What a door derives from a request: device ids, address, page, agent, place, referrer, bots.
//!
//! All but the databases of places is pure: text in, text out, no clock and no I/O. Only doors call
//! it and the results travel in the record, so that a replay needs no table of today (F3).

mod address;
mod agent;
mod agents;
mod bots;
mod device;
mod geo;
mod network;
mod page;
mod referrer;
mod rules;
mod signs;

pub use address::{FORWARDING_HEADERS, client_address};
pub use agent::{Agent, agent};
pub use agents::Agents;
pub use bots::{Bot, bot};
pub use device::{DeviceCandidates, DeviceId, UNKNOWN_AGENT, claimed_device_id, device_id};
pub use geo::{Geo, GeoError, GeoPlace};
pub use network::{Network, NetworkError, is_public};
pub use page::{PageUrl, split_page};
pub use referrer::{Referrer, referrer};
pub use rules::{
    EVENT_AHEAD_MS_MAX, EventTime, LATE_AFTER_MS, NAME_CHARS_MAX, REVENUE_MAX, RuleFault,
    check_name, event_time, revenue,
};
pub use signs::{BrowserHeaders, bot_signs};
