//! One item a request: what every SDK sends.

use hyper::StatusCode;
use tokio::time::Instant;

use super::answers::{self, Visited};
use super::compose::{Composer, Identity, Outgoing};
use super::credentials::{Admitted, Shown};
use super::duplicates::{Claim, First, ended};
use super::payload::{Envelope, Payload};
use super::receive::Received;
use super::refuse::Refusal;
use super::salts::SaltPair;
use super::sessions::Visits;
use super::{DOOR, TrackDoor};
use crate::capacity::Reservation;
use crate::events::verdict::push_json_string;
use crate::http::{Answer, with_identity};
use crate::json::Scanner;

/// What a repeat is called, in its answer and where it is counted.
const DUPLICATE: &str = "duplicate";

/// What is answered about an item that was taken.
pub(super) enum Taken {
    /// It is durable.
    Stored(Visited),
    /// It is left out, as the SDK's contract has it, and the answer says why.
    LeftOut(Visited, &'static str),
    /// A bot sent it.
    Bot(String, String),
}

impl TrackDoor {
    pub(super) async fn single(
        &self,
        received: &Received,
        reservation: Reservation,
        legacy: Option<&'static str>,
    ) -> Result<Answer, Refusal> {
        let text = utf8(&received.body)?;
        let item = Scanner::new(text)
            .whole_value(usize::MAX)
            .map_err(|error| Refusal::Malformed(error.to_string()))?;
        let envelope = match legacy {
            None => Envelope::read(item)?,
            Some(kind) => Envelope::of_payload(kind, item),
        };
        if envelope.kind == "batch" {
            return Box::pin(self.envelope(received, &envelope, reservation)).await;
        }
        let admitted = self.admit(received, &envelope).await?;
        self.spend(&admitted, 1, item.len() as u64)?;
        let payload = self.open(&admitted, &envelope, item.len())?;
        let claim = match self.first_of_its_kind(received, &envelope).await {
            Ok(claim) => claim,
            Err(visited) => {
                let answer = self.answer_single(&Taken::LeftOut(visited, DUPLICATE));
                return Ok(with_identity(answer, &admitted.project, &admitted.client));
            }
        };
        let taken = self
            .take(received, &admitted, &envelope, &payload, reservation)
            .await?;
        if let (Some(claim), Taken::Stored(visited)) = (claim, &taken) {
            claim.durable(visited.clone());
        }
        let mut answer = self.answer_single(&taken);
        if legacy.is_some() && !matches!(taken, Taken::Bot(..)) {
            answer = legacy_answer(payload.profile_of_change());
        }
        Ok(with_identity(answer, &admitted.project, &admitted.client))
    }

    /// A browser's request may be the second of its kind within a moment: then, when the first
    /// is durable, what that was answered. A recording has none of that.
    async fn first_of_its_kind(
        &self,
        received: &Received,
        envelope: &Envelope<'_>,
    ) -> Result<Option<Claim>, Visited> {
        let caller = &received.caller;
        let (Some(origin), Some(client)) = (&caller.origin, &caller.client_id) else {
            return Ok(None);
        };
        if envelope.kind == "replay" {
            return Ok(None);
        }
        let address = caller.address.to_string();
        let body: &[u8] = &received.body;
        let agent = caller.user_agent.as_bytes();
        let hash = self.duplicates.hash(&[
            body,
            origin.as_bytes(),
            client.as_bytes(),
            address.as_bytes(),
            agent,
        ]);
        loop {
            let now_ns = self.parts.clock.monotonic_ns();
            match self.duplicates.claim(hash, now_ns) {
                First::Ours(claim) => return Ok(Some(claim)),
                First::Theirs(theirs) => {
                    if let Some(visited) = ended(theirs).await {
                        return Err(visited);
                    }
                    // It failed: this one is tried for itself.
                }
            }
        }
    }

    fn answer_single(&self, taken: &Taken) -> Answer {
        let metrics = &self.parts.metrics;
        metrics.batch(DOOR, "accepted");
        let (outcome, status, body) = match taken {
            Taken::Stored(visited) => {
                let body = answers::visited(visited, None);
                metrics.accepted_events(1);
                ("accepted", StatusCode::OK, body)
            }
            Taken::LeftOut(visited, why) => {
                let body = answers::visited(visited, Some(why));
                let outcome = if *why == DUPLICATE { why } else { "dropped" };
                (outcome, StatusCode::OK, body)
            }
            Taken::Bot(name, kind) => ("dropped", StatusCode::ACCEPTED, answers::bot(name, kind)),
        };
        metrics.events(DOOR, outcome, 1);
        answers::json(status, body)
    }

    /// Lets the client in that the headers name, else the body, and lets it pay.
    pub(super) async fn admit(
        &self,
        received: &Received,
        envelope: &Envelope<'_>,
    ) -> Result<Admitted, Refusal> {
        let caller = &received.caller;
        let shown = Shown {
            id: caller
                .client_id
                .as_deref()
                .or(envelope.client_id.as_deref()),
            secret: caller
                .client_secret
                .as_deref()
                .or(envelope.client_secret.as_deref()),
        };
        let admitted = self.gate().admit(shown, caller, received.now).await?;
        if !received.paid {
            let now_ns = self.parts.clock.monotonic_ns();
            let owner = admitted.owner();
            self.parts.budgets.spend_request(&owner, now_ns)?;
            self.parts
                .projects
                .spend_request(&admitted.project, now_ns)?;
        }
        Ok(admitted)
    }

    /// Spends events and bytes of a client and its project.
    pub(super) fn spend(
        &self,
        admitted: &Admitted,
        events: u64,
        bytes: u64,
    ) -> Result<(), Refusal> {
        let now_ns = self.parts.clock.monotonic_ns();
        let (budgets, projects) = (&self.parts.budgets, &self.parts.projects);
        budgets.spend_batch(&admitted.owner(), events, bytes, now_ns)?;
        projects.spend_batch(&admitted.project, events, bytes, now_ns)?;
        Ok(())
    }

    async fn take(
        &self,
        received: &Received,
        admitted: &Admitted,
        envelope: &Envelope<'_>,
        payload: &Payload<'_>,
        mut reservation: Reservation,
    ) -> Result<Taken, Refusal> {
        let now_ms = received.now.as_millis();
        let salts = self.parts.salts.at(now_ms).ok_or(Refusal::NoSalt)?;
        let minted = self.mint.random_uuid().ok_or(Refusal::NotDurable)?;
        let request_id = received.caller.request_id.as_deref().unwrap_or(&minted);
        let composer = self.composer(received, admitted, &salts, request_id);
        let id = envelope.id.as_deref().unwrap_or(&minted);
        let identity = Identity {
            id,
            claimed_ms: envelope.claimed_ms,
        };
        let mut out = self.outgoing();
        let taken = self.write(&composer, payload, identity, &mut out);
        if out.counts() == (0, 0) {
            return Ok(taken);
        }
        // The body stays until the answer; the records come beside it.
        reservation.resize(received.body.len() as u64 + out.bytes())?;
        let deadline = Instant::now() + self.config.publish_time_max;
        let durable = self.append(out, reservation, deadline).await;
        if durable.all() {
            Ok(taken)
        } else {
            Err(Refusal::NotDurable)
        }
    }

    /// Reads a payload and asks the project's rules about it.
    pub(super) fn open<'i>(
        &self,
        admitted: &Admitted,
        envelope: &Envelope<'i>,
        bytes: usize,
    ) -> Result<Payload<'i>, Refusal> {
        let bytes_max = self.config.event_bytes_max;
        // A recording is bounded by itself.
        if bytes > bytes_max as usize && envelope.kind != "replay" {
            return Err(Refusal::ItemTooLarge(bytes_max));
        }
        let payload = envelope.open()?;
        admitted.check_profile(payload.profile_id())?;
        if let Payload::Track(track) = &payload
            && track.reserved.revenue.is_some()
        {
            admitted.check_revenue()?;
        }
        Ok(payload)
    }

    /// Writes the records of an item, or leaves it out.
    pub(super) fn write(
        &self,
        composer: &Composer<'_>,
        payload: &Payload<'_>,
        identity: Identity<'_>,
        out: &mut Outgoing,
    ) -> Taken {
        let bot = match composer.admitted.secret_verified {
            true => None,
            false => self.parts.lookup.bot(&composer.caller.user_agent),
        };
        if let Some(bot) = bot {
            if let Payload::Track(track) = payload
                && !track.reserved.path.is_empty()
            {
                composer.bot(&bot, &track.reserved.path, identity.id, out);
            }
            return Taken::Bot(bot.name.into_owned(), bot.kind.into_owned());
        }
        if let Payload::Track(track) = payload
            && composer.leaves_out(track)
        {
            let visit = composer.visit(composer.caller.address, composer.now.as_millis());
            return Taken::LeftOut(visit.into(), "filter");
        }
        Taken::Stored(composer.write(payload, identity, out).into())
    }

    pub(super) fn composer<'c>(
        &'c self,
        received: &'c Received,
        admitted: &'c Admitted,
        salts: &'c SaltPair,
        request_id: &'c str,
    ) -> Composer<'c> {
        let verified = admitted.secret_verified;
        Composer {
            gateway: &self.config.gateway,
            partitions: self.config.partitions,
            request_id,
            now: received.now,
            caller: &received.caller,
            admitted,
            lookup: &*self.parts.lookup,
            visits: Visits {
                sessions: &*self.parts.sessions,
                project: &admitted.project,
                timeout_ms: self.config.session_timeout_ms,
            },
            salts,
            agent: self.parts.lookup.agent(&received.caller.user_agent),
            bot_reasons: if verified { "" } else { &received.bot_reasons },
            patterns: &self.patterns,
        }
    }

    pub(super) fn outgoing(&self) -> Outgoing {
        Outgoing {
            events: self.parts.events.buffer(0),
            profiles: fulmar_event::Records::new(),
        }
    }
}

/// The text of a body.
pub(super) fn utf8(body: &[u8]) -> Result<&str, Refusal> {
    let text = std::str::from_utf8(body);
    text.map_err(|error| Refusal::Malformed(format!("the body is not UTF-8: {error}")))
}

/// What older SDKs take for success: the profile that changes, or a word.
fn legacy_answer(profile: Option<&str>) -> Answer {
    let mut out = Vec::new();
    push_json_string(profile.unwrap_or("ok"), &mut out);
    answers::json(StatusCode::ACCEPTED, out)
}
