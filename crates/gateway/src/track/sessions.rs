//! The session that the door answers: the live one, else the one that every door derives (S3).

use fulmar_enrich::DeviceCandidates;
use fulmar_event::session_id;

/// Sessions that are live now, as far as this process knows them (S3).
pub trait LiveSessions: Send + Sync + 'static {
    /// The id of the device's session that an event at `at_ms` extends.
    fn live(&self, project: &str, device: &str, at_ms: i64) -> Option<String>;
}

/// Nobody knows any: the formula alone answers.
#[derive(Debug, Clone, Copy, Default)]
pub struct FormulaAlone;

impl LiveSessions for FormulaAlone {
    fn live(&self, _project: &str, _device: &str, _at_ms: i64) -> Option<String> {
        None
    }
}

/// A device and its session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Visit {
    pub(super) device: String,
    pub(super) session: String,
    /// The session is live, not derived.
    pub(super) live: bool,
}

/// Answers whose visit an event belongs to.
#[derive(Clone, Copy)]
pub(super) struct Visits<'a> {
    pub(super) sessions: &'a dyn LiveSessions,
    pub(super) project: &'a str,
    pub(super) timeout_ms: u64,
}

impl Visits<'_> {
    /// The visit of a device that is known by its id.
    pub(super) fn of_device(&self, device: &str, at_ms: i64) -> Visit {
        let live = self.sessions.live(self.project, device, at_ms);
        let formula = || {
            session_id(self.project, device, at_ms, self.timeout_ms)
                .as_str()
                .to_owned()
        };
        Visit {
            device: device.to_owned(),
            live: live.is_some(),
            session: live.unwrap_or_else(formula),
        }
    }

    /// The visit of a device that may have the id of today or of yesterday: a live session
    /// under yesterday's carries the visit over midnight.
    pub(super) fn of_candidates(&self, ids: &DeviceCandidates, at_ms: i64) -> Visit {
        let current = self.of_device(ids.current.as_str(), at_ms);
        let Some(previous) = ids.previous.filter(|_| !current.live) else {
            return current;
        };
        let device = previous.as_str();
        match self.sessions.live(self.project, device, at_ms) {
            None => current,
            Some(session) => Visit {
                device: device.to_owned(),
                session,
                live: true,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Yesterdays(String);

    impl LiveSessions for Yesterdays {
        fn live(&self, _project: &str, device: &str, _at_ms: i64) -> Option<String> {
            (device == self.0).then(|| "live".to_owned())
        }
    }

    #[test]
    fn a_live_session_under_yesterdays_salt_carries_the_visit_over_midnight() {
        let ids = DeviceCandidates::new("a", "b", "p", "today", Some("yesterday"));
        let yesterday = ids.previous.unwrap().as_str().to_owned();
        let visits = |sessions: &dyn LiveSessions| {
            let visits = Visits {
                sessions,
                project: "p",
                timeout_ms: 1_800_000,
            };
            visits.of_candidates(&ids, 1_000_000_000_000)
        };
        let carried = visits(&Yesterdays(yesterday.clone()));
        assert_eq!((carried.device, &*carried.session), (yesterday, "live"));
        let fresh = visits(&FormulaAlone);
        assert_eq!(fresh.device, ids.current.as_str());
        let formula = session_id("p", &fresh.device, 1_000_000_000_000, 1_800_000);
        assert_eq!(fresh.session, formula.as_str());
    }
}
