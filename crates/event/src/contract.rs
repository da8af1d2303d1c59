//! The rules of the contract, without a clock: so that a replay does not apply the admission
//! window again.

use std::fmt;

use crate::address::address_ok;
use crate::body::{AuthenticationView, Body, MessageView, ProfileView};
use crate::draft::ProfileChange;
use crate::identifier::{agent_id_ok, identifier_ok};
use crate::limits;
use crate::view::{
    CLASS_AUTHENTICATION, CLASS_BOT, CLASS_MESSAGE, CLASS_PROFILE, CLASS_REPLAY, CLASS_TRACK,
    EventView,
};

/// The first rule that a record breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} {reason}")]
pub struct Violation {
    /// Dotted path of the field.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: Reason,
}

/// What is wrong with a field, in words by [`fmt::Display`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is one sentence in its Display")]
pub enum Reason {
    Required,
    NotIdentifier,
    NotAgentId,
    TooShort(usize),
    TooLong(usize),
    NotAddress,
    NotPort,
    NotVersion,
    NotTime,
    NotAuthentication,
    NotAClass,
    NotAChange,
    Unspecified,
    ForeignBody,
    ControlCharacter,
    TooOld,
    TooNew,
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Required => out.write_str("is required"),
            Self::NotIdentifier => out.write_str(
                "must start with a letter or digit and hold only letters, digits, . _ : -, \
                 at most 64",
            ),
            Self::NotAgentId => out.write_str(
                "must start with a letter or digit and hold only letters, digits, . _ -, at most 64",
            ),
            Self::TooShort(bytes) => write!(out, "is under {bytes} bytes"),
            Self::TooLong(bytes) => write!(out, "is over {bytes} bytes"),
            Self::NotAddress => out.write_str("is not an IP address"),
            Self::NotPort => write!(out, "is over {}", limits::PORT_MAX),
            Self::NotVersion => write!(out, "must be {}", limits::SCHEMA_VERSION),
            Self::NotTime => out.write_str("is not in the years 1 to 9999"),
            Self::NotAuthentication => out.write_str("must be AUTHENTICATION"),
            Self::NotAClass => out.write_str("is not a known class"),
            Self::NotAChange => out.write_str("is not a known change"),
            Self::Unspecified => out.write_str("must not be unspecified"),
            Self::ForeignBody => out.write_str("is not accepted at this door"),
            Self::ControlCharacter => out.write_str("holds a control character"),
            Self::TooOld => out.write_str("is older than the admission window"),
            Self::TooNew => out.write_str("is ahead of the admission window"),
        }
    }
}

type Verdict = Result<(), Violation>;

fn ensure(holds: bool, field: &'static str, reason: Reason) -> Verdict {
    if holds {
        Ok(())
    } else {
        Err(Violation { field, reason })
    }
}

fn at_most(text: &str, bytes: usize, field: &'static str) -> Verdict {
    ensure(text.len() <= bytes, field, Reason::TooLong(bytes))
}

fn required(text: &str, bytes: usize, field: &'static str) -> Verdict {
    ensure(!text.is_empty(), field, Reason::Required)?;
    at_most(text, bytes, field)
}

fn address(text: &str, field: &'static str) -> Verdict {
    if text.is_empty() {
        return Ok(());
    }
    at_most(text, limits::ADDRESS_BYTES_MAX, field)?;
    ensure(address_ok(text.as_bytes()), field, Reason::NotAddress)
}

fn port(number: u32, field: &'static str) -> Verdict {
    ensure(number <= limits::PORT_MAX, field, Reason::NotPort)
}

impl EventView<'_> {
    /// Checks a stamped record in the contract's order: id, schema, time, origin, collection,
    /// class and body. Which rules hold follows from the class.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub fn check_contract(&self) -> Verdict {
        match self.event_class {
            CLASS_MESSAGE | CLASS_TRACK | CLASS_PROFILE | CLASS_BOT | CLASS_REPLAY => {
                self.check_published()
            }
            _ => {
                self.check_head()?;
                self.check_identity()?;
                self.check_host()?;
                self.check_collection()?;
                let known = self.event_class == CLASS_AUTHENTICATION;
                ensure(known, "event_class", Reason::NotAClass)?;
                self.check_authentication()
            }
        }
    }

    /// Id, schema version and time of an agent's event.
    pub(crate) fn check_head(&self) -> Verdict {
        const ID: &str = "event_id";
        ensure(!self.event_id.is_empty(), ID, Reason::Required)?;
        ensure(
            identifier_ok(self.event_id.as_bytes()),
            ID,
            Reason::NotIdentifier,
        )?;
        let long = self.event_id.len() >= limits::EVENT_ID_BYTES_MIN;
        ensure(long, ID, Reason::TooShort(limits::EVENT_ID_BYTES_MIN))?;
        self.check_version()?;
        ensure(self.has_time, "time", Reason::Required)?;
        let observed_time = self.observed_time;
        for (time, field) in [
            (self.event_time, "time.event_time"),
            (observed_time, "time.observed_time"),
        ] {
            let time = time.ok_or(Violation {
                field,
                reason: Reason::Required,
            })?;
            ensure(time.is_valid(), field, Reason::NotTime)?;
        }
        Ok(())
    }

    fn check_version(&self) -> Verdict {
        let supported = self.schema_version == limits::SCHEMA_VERSION;
        ensure(supported, "schema_version", Reason::NotVersion)
    }

    fn check_identity(&self) -> Verdict {
        let agent_id = self.agent_id.as_bytes();
        ensure(agent_id_ok(agent_id), "origin.agent_id", Reason::NotAgentId)?;
        required(
            self.tenant_id,
            limits::IDENTIFIER_BYTES_MAX,
            "origin.tenant_id",
        )
    }

    /// The host of an agent's event, which may be absent.
    pub(crate) fn check_host(&self) -> Verdict {
        at_most(
            self.host_hostname,
            limits::HOSTNAME_BYTES_MAX,
            "origin.host.hostname",
        )?;
        address(self.host_ip, "origin.host.ip")?;
        at_most(self.host_os, limits::OS_BYTES_MAX, "origin.host.os")?;
        let architecture = self.host_architecture;
        at_most(
            architecture,
            limits::ARCHITECTURE_BYTES_MAX,
            "origin.host.architecture",
        )
    }

    /// Where an agent's event was read.
    pub(crate) fn check_collection(&self) -> Verdict {
        ensure(self.has_collection, "collection", Reason::Required)?;
        required(
            self.collector,
            limits::COLLECTOR_BYTES_MAX,
            "collection.collector",
        )?;
        at_most(
            self.collection_source,
            limits::SOURCE_BYTES_MAX,
            "collection.source",
        )
    }

    /// The payload of an authentication event.
    pub(crate) fn check_authentication(&self) -> Verdict {
        let Body::Authentication(body) = &self.body else {
            return Err(Violation {
                field: "authentication",
                reason: Reason::Required,
            });
        };
        body.check()
    }

    /// What the JSON doors write: an id, an event time, a project, and the class's body.
    fn check_published(&self) -> Verdict {
        required(self.event_id, limits::MESSAGE_ID_BYTES_MAX, "event_id")?;
        self.check_version()?;
        let field = "time.event_time";
        let time = self.event_time.ok_or(Violation {
            field,
            reason: Reason::Required,
        })?;
        ensure(time.is_valid(), field, Reason::NotTime)?;
        required(
            self.stamp.project,
            limits::IDENTIFIER_BYTES_MAX,
            "stamp.project",
        )?;
        match (self.event_class, &self.body) {
            (CLASS_MESSAGE, Body::Message(message)) => message.check(),
            (CLASS_TRACK, Body::Track(track)) => {
                ensure(!track.name.is_empty(), "track.name", Reason::Required)
            }
            (CLASS_PROFILE, Body::Profile(profile)) => profile.check(),
            (CLASS_BOT, Body::Bot(bot)) => {
                ensure(!bot.name.is_empty(), "bot.name", Reason::Required)
            }
            (CLASS_REPLAY, Body::Replay(chunk)) => ensure(
                !chunk.payload.is_empty(),
                "replay.payload",
                Reason::Required,
            ),
            (CLASS_MESSAGE, _) => ensure(false, "message", Reason::Required),
            (CLASS_TRACK, _) => ensure(false, "track", Reason::Required),
            (CLASS_BOT, _) => ensure(false, "bot", Reason::Required),
            (CLASS_REPLAY, _) => ensure(false, "replay", Reason::Required),
            _ => ensure(false, "profile", Reason::Required),
        }
    }
}

impl AuthenticationView<'_> {
    fn check(&self) -> Verdict {
        ensure(
            self.activity != 0,
            "authentication.activity",
            Reason::Unspecified,
        )?;
        ensure(
            self.outcome != 0,
            "authentication.outcome",
            Reason::Unspecified,
        )?;
        for (text, bytes, field) in [
            (
                self.outcome_reason,
                limits::OUTCOME_REASON_BYTES_MAX,
                "authentication.outcome_reason",
            ),
            (
                self.method,
                limits::METHOD_BYTES_MAX,
                "authentication.method",
            ),
            (
                self.user_name,
                limits::USER_NAME_BYTES_MAX,
                "authentication.user.name",
            ),
            (
                self.user_domain,
                limits::USER_DOMAIN_BYTES_MAX,
                "authentication.user.domain",
            ),
            (
                self.user_uid,
                limits::USER_UID_BYTES_MAX,
                "authentication.user.uid",
            ),
            (
                self.service_name,
                limits::SERVICE_NAME_BYTES_MAX,
                "authentication.service.name",
            ),
            (
                self.service_protocol,
                limits::SERVICE_PROTOCOL_BYTES_MAX,
                "authentication.service.protocol",
            ),
        ] {
            at_most(text, bytes, field)?;
        }
        address(self.source_ip, "authentication.network.source.ip")?;
        port(self.source_port, "authentication.network.source.port")?;
        address(self.destination_ip, "authentication.network.destination.ip")?;
        port(
            self.destination_port,
            "authentication.network.destination.port",
        )?;
        at_most(
            self.raw_record,
            limits::RAW_RECORD_BYTES_MAX,
            "authentication.raw_record",
        )
    }
}

impl ProfileView<'_> {
    fn check(&self) -> Verdict {
        let change = ProfileChange::from_number(self.change);
        ensure(change.is_some(), "profile.change", Reason::NotAChange)?;
        let (id, field) = match change {
            Some(ProfileChange::Group) => (self.group_id, "profile.group_id"),
            // Without a profile the whole project is meant.
            Some(ProfileChange::Forget) => return Ok(()),
            _ => (self.profile_id, "profile.profile_id"),
        };
        ensure(!id.is_empty(), field, Reason::Required)
    }
}

impl MessageView<'_> {
    fn check(&self) -> Verdict {
        required(self.kind, limits::MESSAGE_TYPE_BYTES_MAX, "message.type")?;
        let plain = !self.kind.chars().any(char::is_control);
        ensure(plain, "message.type", Reason::ControlCharacter)?;
        at_most(
            self.source,
            limits::MESSAGE_SOURCE_BYTES_MAX,
            "message.source",
        )
    }
}
