//! What the session fold gives out, as rows of the block in hand.

use fulmar_event::{Door, Head, ProfileChange, ProfileView, Records, Timestamp, partition_of};
use fulmar_sessions::{Placed, Rows, SessionView};

use crate::tables::{
    EventsBuilder, Pairs, SessionsBuilder, Track, session_end, session_row, session_start,
};

/// Takes rows for one record of the log.
pub(super) struct SessionSink<'a> {
    pub(super) events: &'a mut EventsBuilder,
    pub(super) sessions: &'a mut SessionsBuilder,
    /// What the profile fold is told of sessions, and over how many partitions (F1).
    pub(super) onward: &'a mut Records,
    pub(super) partitions: u16,
    /// The product event in hand with its properties; none while only time goes on.
    pub(super) track: Option<(Track<'a>, &'a Pairs)>,
    /// Partition and offset of the record.
    pub(super) at: (u16, u64),
    /// The event in hand starts a session: its start follows when it is placed.
    pub(super) starts: bool,
}

impl SessionSink<'_> {
    /// Tells the profile fold that a session of the profile began or ended. The id makes it the
    /// same record whenever a block is tried again.
    fn tell(&mut self, change: ProfileChange, session: &SessionView<'_>, id: &str, time_ms: i64) {
        let head = Head {
            event_id: id,
            time: Timestamp::from_millis(time_ms),
            ingest_time: Timestamp::from_millis(time_ms),
            gateway: "",
            batch_id: "",
            project: session.project,
            client: "",
            key: session.profile_id,
            door: Door::Track,
            control_offset: 0,
            enrichment: session.surroundings,
        };
        let view = ProfileView {
            profile_id: session.profile_id,
            change: change as i32,
            groups: session.groups,
            device_id: session.device_id,
            session_id: session.id,
            ..ProfileView::default()
        };
        let partition = partition_of(session.profile_id.as_bytes(), self.partitions);
        head.append_to(&view, partition, self.onward);
    }
}

impl Rows for SessionSink<'_> {
    fn ended(&mut self, session: &SessionView<'_>) {
        let id = format!("{}-end", session.id);
        self.tell(ProfileChange::SessionEnd, session, &id, session.ended_ms);
        let mut properties = Pairs::default();
        let bounce = if session.is_bounce() { "true" } else { "false" };
        properties.set("__bounce", bounce);
        self.events
            .append(&session_end(session, &id, &properties, self.at));
    }

    fn started(&mut self, session: &SessionView<'_>) {
        self.starts = true;
        let id = format!("{}-start", session.id);
        self.tell(
            ProfileChange::SessionStart,
            session,
            &id,
            session.created_ms,
        );
    }

    fn identified(&mut self, session: &SessionView<'_>) {
        let id = format!("{}-{}", session.id, self.at.1);
        self.tell(ProfileChange::SessionStart, session, &id, session.ended_ms);
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
