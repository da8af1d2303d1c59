//! What the session fold gives out, as rows of the block in hand.

use fulmar_sessions::{Placed, Rows, SessionView};

use crate::tables::{
    EventsBuilder, Pairs, SessionsBuilder, Track, session_end, session_row, session_start,
};

/// Takes rows for one record of the log.
pub(super) struct SessionSink<'a> {
    pub(super) events: &'a mut EventsBuilder,
    pub(super) sessions: &'a mut SessionsBuilder,
    /// The product event in hand with its properties; none while only time goes on.
    pub(super) track: Option<(Track<'a>, &'a Pairs)>,
    /// Partition and offset of the record.
    pub(super) at: (u16, u64),
    /// The event in hand starts a session: its start follows when it is placed.
    pub(super) starts: bool,
}

impl Rows for SessionSink<'_> {
    fn ended(&mut self, session: &SessionView<'_>) {
        let id = format!("{}-end", session.id);
        let mut properties = Pairs::default();
        let bounce = if session.is_bounce() { "true" } else { "false" };
        properties.set("__bounce", bounce);
        self.events
            .append(&session_end(session, &id, &properties, self.at));
    }

    fn started(&mut self, _session: &SessionView<'_>) {
        self.starts = true;
    }

    fn placed(&mut self, placed: &Placed<'_>) {
        let Some((track, properties)) = &self.track else {
            return;
        };
        let starts = std::mem::take(&mut self.starts);
        let id = starts.then(|| format!("{}-start", placed.session_id));
        let row = track.row(placed, properties, self.at);
        if let Some(id) = &id {
            self.events.append(&session_start(&row, id));
        }
        self.events.append(&row);
    }

    fn session(&mut self, session: &SessionView<'_>) {
        self.sessions.append(&session_row(session));
    }
}
