//! A request up to the end of its body: who may send one at all, and how large it may be.

use hyper::Request;
use hyper::body::Incoming;

use fulmar_event::Timestamp;

use super::caller::Caller;
use super::form;
use super::refuse::Refusal;
use super::{DOOR, TrackDoor};
use crate::body::{declared_length, encoding_of, first_reservation, read_body};
use crate::capacity::Reservation;
use crate::http::Peer;
use crate::pool::PooledBuffer;

/// A request whose body is read.
pub(super) struct Received {
    pub(super) now: Timestamp,
    pub(super) caller: Caller,
    /// The client of the headers has paid for the request already.
    pub(super) paid: bool,
    /// Why the request looks like a bot's.
    pub(super) bot_reasons: String,
    pub(super) body: PooledBuffer,
}

impl TrackDoor {
    /// Reads a request. A client that its headers name is looked up first: who is not known gets
    /// no body read. One that only the body names is held by its address until then.
    pub(super) async fn receive(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
        body_read: &mut bool,
    ) -> Result<(Received, Reservation), Refusal> {
        let parts = &self.parts;
        let now = parts.clock.now();
        let now_ns = parts.clock.monotonic_ns();
        let (head, incoming) = request.into_parts();
        let headers = head.headers;
        let caller = Caller::of(&headers, peer.remote.ip(), &self.config.trusted_proxies);
        let (owner, project) = match caller.client_id.as_deref() {
            None => (format!("address {}", caller.address), None),
            Some(id) => {
                let snapshot = self.gate().known(Some(id))?;
                let project = snapshot.clients[id].project.clone();
                (format!("{project}/{id}"), Some(project))
            }
        };
        parts.budgets.spend_request(&owner, now_ns)?;
        if let Some(project) = &project {
            parts.projects.spend_request(project, now_ns)?;
        }
        let media = form::media_of(&headers)?;
        let encoding = encoding_of(&headers).map_err(|_| Refusal::ContentEncoding)?;
        let declared = declared_length(&headers);
        if declared.is_some_and(|bytes| bytes > self.config.body.bytes_max) {
            return Err(Refusal::BodyTooLarge);
        }
        let mut reservation =
            parts
                .capacity
                .reserve_shared(DOOR, &owner, first_reservation(declared, encoding))?;
        if let Some(bytes) = declared {
            parts.budgets.affords_bytes(&owner, bytes, now_ns)?;
        }
        let bot_reasons = match caller.client_secret {
            Some(_) => String::new(),
            None => parts
                .lookup
                .bot_reasons(&headers, &caller.user_agent, caller.address),
        };
        // They stand in the connection's read buffer.
        drop(headers);
        let mut body = parts.pool.take();
        let bounds = &self.config.body;
        read_body(incoming, encoding, bounds, &mut reservation, &mut body).await?;
        *body_read = true;
        form::unwrap(media, &mut body)?;
        let received = Received {
            now,
            caller,
            paid: project.is_some(),
            bot_reasons,
            body,
        };
        Ok((received, reservation))
    }
}
