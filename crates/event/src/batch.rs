//! A batch for the agents door, built event by event in one buffer.

use crate::authentication::{AuthenticationDraft, encode_event};
use crate::encode;
use crate::limits::PROTOCOL_VERSION;

/// Builds an `EventBatch`. Use it again for the next batch with [`BatchBuilder::restart`].
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    buffer: Vec<u8>,
    events: u32,
}

/// Field number of `EventBatch.events`.
const EVENTS: u32 = 3;

impl BatchBuilder {
    /// An empty batch named `batch_id`, of the current protocol version.
    pub fn new(batch_id: &str) -> Self {
        let mut builder = Self {
            buffer: Vec::new(),
            events: 0,
        };
        builder.restart(batch_id);
        builder
    }

    /// Begins another batch in the same memory.
    pub fn restart(&mut self, batch_id: &str) {
        self.buffer.clear();
        self.events = 0;
        encode::text(1, batch_id, &mut self.buffer);
        encode::number(2, u64::from(PROTOCOL_VERSION), &mut self.buffer);
    }

    /// Adds an event.
    pub fn push(&mut self, draft: &AuthenticationDraft<'_>) {
        encode::message(EVENTS, &mut self.buffer, |out| encode_event(draft, out));
        self.events += 1;
    }

    /// Adds an event that is encoded already.
    pub fn push_encoded(&mut self, event: &[u8]) {
        encode::block(EVENTS, event, &mut self.buffer);
        self.events += 1;
    }

    /// Number of events so far.
    pub fn events(&self) -> u32 {
        self.events
    }

    /// The request body so far.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// The request body, owned.
    pub fn into_bytes(self) -> Vec<u8> {
        self.buffer
    }
}
