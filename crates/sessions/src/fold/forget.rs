//! What an operator had forgotten: sessions in memory go, as if they had never been.

use fulmar_event::SessionId;

use super::{HERE, SessionFold};
use crate::session::Session;

impl SessionFold {
    /// Forgets the sessions in memory of a profile, or of a whole project, with no row. Gives their
    /// ids.
    pub fn forget_all_of(&mut self, project: &str, profile: Option<&str>) -> Vec<SessionId> {
        let texts = &self.texts;
        let is_meant = |session: &Session| {
            texts.text(session.project) == project
                && profile.is_none_or(|profile| session.profile_id() == profile)
        };
        let sessions = (0..).zip(&self.sessions);
        let meant = sessions.filter(|(_, session)| session.as_ref().is_some_and(is_meant));
        let places: Vec<u32> = meant.map(|(place, _)| place).collect();
        let mut ids = Vec::with_capacity(places.len());
        for place in places {
            let session = self.sessions[place as usize].as_ref().expect(HERE);
            ids.push(session.id);
            let device = self.hash(self.texts.text(session.project), session.device());
            self.touch_device(device, place);
            self.remove(device, place);
        }
        ids
    }
}
