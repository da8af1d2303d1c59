//! The doors, as a sender sees them: a batch out, a verdict for it back.

pub mod address;
pub mod agents;
pub mod events;
pub mod http;
pub mod tls;

use std::time::Duration;

/// What a door said to a run of events.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of them are durable (agents door).
    Durable(Seen),
    /// One verdict each, by index (events door).
    Each(Seen, Vec<Single>),
    /// One event is at fault and none was taken; the others may go again
    /// without it.
    Invalid {
        /// Its index among those sent.
        index: usize,
        /// Code, field and detail in words.
        why: String,
        /// Its event time lies outside the admission window.
        window: bool,
    },
    /// Too many bytes or events at once.
    TooLarge(String),
    /// Not now; the same bytes may go again.
    Later {
        /// The server's wish, from `Retry-After`.
        after: Option<Duration>,
        /// In words, for people.
        why: String,
    },
}

/// Whom the server saw, for receipts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The project, from the header `Fulmar-Project`.
    pub project: Option<String>,
    /// The agent or client, from the header `Fulmar-Source`.
    pub source: Option<String>,
}

/// The events door's verdict on one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Single {
    /// Durable; the id is the door's word for it.
    Accepted {
        /// The event's id.
        id: String,
    },
    /// Durable since before.
    Duplicate {
        /// The event's id.
        id: String,
    },
    /// Never to be taken.
    Refused {
        /// Code, field and detail in words.
        why: String,
        /// Its time lies outside what the door takes.
        window: bool,
    },
    /// No verdict yet: it goes again.
    Again,
}
