//! `GET /track/device-id`: the device of the caller, and its session if one is live.

use hyper::StatusCode;

use fulmar_enrich::DeviceCandidates;

use super::TrackDoor;
use super::answers;
use super::caller::Caller;
use super::refuse::Refusal;
use super::sessions::Visits;
use crate::http::Answer;

impl TrackDoor {
    pub(super) fn device_id(&self, caller: &Caller) -> Result<Answer, Refusal> {
        let parts = &self.parts;
        let now_ms = parts.clock.now().as_millis();
        let id = caller.client_id.as_deref();
        let snapshot = self.gate().known(id)?;
        let client = &snapshot.clients[id.unwrap_or_default()];
        let owner = format!("{}/{}", client.project, id.unwrap_or_default());
        let now_ns = parts.clock.monotonic_ns();
        parts.budgets.spend_request(&owner, now_ns)?;
        parts.projects.spend_request(&client.project, now_ns)?;
        if caller.user_agent.is_empty() {
            return Err(Refusal::NoAgent);
        }
        let salts = parts.salts.at(now_ms).ok_or(Refusal::NoSalt)?;
        let ids = DeviceCandidates::new(
            &caller.user_agent,
            &caller.address.to_string(),
            &client.project,
            salts.current(),
            salts.previous(),
        );
        let visits = Visits {
            sessions: &*parts.sessions,
            project: &client.project,
            timeout_ms: self.config.session_timeout_ms,
        };
        let visit = visits.of_candidates(&ids, now_ms);
        let (session, message) = match visit.live {
            true => (visit.session, "session is live"),
            false => (String::new(), "no session is live"),
        };
        let mut out = b"{\"deviceId\":".to_vec();
        crate::events::verdict::push_json_string(&visit.device, &mut out);
        answers::member("sessionId", &session, &mut out);
        answers::member("message", message, &mut out);
        out.push(b'}');
        Ok(answers::json(StatusCode::OK, out))
    }
}
