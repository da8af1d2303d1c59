//! What moves from a parser to a door: an event in the door's own bytes.

/// One event, ready to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The event's id, as it will stand in receipts; empty where only the door
    /// can read it (NDJSON with an id that is no plain string).
    pub id: String,
    /// Event time in ms since the epoch; `None` where the event has none.
    pub time_ms: Option<i64>,
    /// Agents door: an `Event` message. Events door: one JSON object.
    pub bytes: Vec<u8>,
}
