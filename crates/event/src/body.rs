//! The payloads that a record may carry, borrowed from its bytes.

mod authentication;
mod message;
mod profile;
mod track;

pub use self::authentication::AuthenticationView;
pub use self::message::MessageView;
pub use self::profile::ProfileView;
pub use self::track::{BotView, ReplayView, TrackView};
use crate::view::{
    CLASS_AUTHENTICATION, CLASS_BOT, CLASS_MESSAGE, CLASS_PROFILE, CLASS_REPLAY, CLASS_TRACK,
};
use crate::wire::{Cursor, Malformed, block_key};

/// A record's payload. Of several, the last one's kind counts, and those of that kind since
/// another stood are merged, as protobuf says of a `oneof`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Body<'a> {
    /// None was there.
    #[default]
    None,
    /// A logon or logoff.
    Authentication(AuthenticationView<'a>),
    /// A product event.
    Track(TrackView<'a>),
    /// A profile change.
    Profile(ProfileView<'a>),
    /// A published message.
    Message(MessageView<'a>),
    /// A request of a known bot.
    Bot(BotView<'a>),
    /// A part of a recorded session.
    Replay(ReplayView<'a>),
}

impl<'a> Body<'a> {
    /// Merges the field of `key` if it is a payload; false, with nothing read, if not.
    pub(crate) fn merge(&mut self, key: u32, cursor: &mut Cursor<'a>) -> Result<bool, Malformed> {
        const AUTHENTICATION: u32 = block_key(16);
        const TRACK: u32 = block_key(110);
        const PROFILE: u32 = block_key(111);
        const MESSAGE: u32 = block_key(112);
        const BOT: u32 = block_key(113);
        const REPLAY: u32 = block_key(114);
        /// Merges into the body if it is of that kind, else into a new one that takes its place.
        macro_rules! merge {
            ($kind:ident, $view:ident) => {{
                let mut view = match self {
                    Self::$kind(view) => *view,
                    _ => $view::default(),
                };
                view.merge(cursor.message()?)?;
                *self = Self::$kind(view);
            }};
        }
        match key {
            AUTHENTICATION => merge!(Authentication, AuthenticationView),
            TRACK => merge!(Track, TrackView),
            PROFILE => merge!(Profile, ProfileView),
            MESSAGE => merge!(Message, MessageView),
            BOT => merge!(Bot, BotView),
            REPLAY => merge!(Replay, ReplayView),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The short name of an event class: empty for 0, none for a number that has none.
pub fn class_name(class: i32) -> Option<&'static str> {
    match class {
        0 => Some(""),
        CLASS_AUTHENTICATION => Some("authentication"),
        CLASS_TRACK => Some("track"),
        CLASS_PROFILE => Some("profile"),
        CLASS_MESSAGE => Some("message"),
        CLASS_BOT => Some("bot"),
        CLASS_REPLAY => Some("replay"),
        _ => None,
    }
}

/// The short name of an activity: empty for 0, none for a number that has none.
pub fn activity_name(activity: i32) -> Option<&'static str> {
    ["", "logon", "logoff"]
        .get(usize::try_from(activity).ok()?)
        .copied()
}

/// The short name of an outcome: empty for 0, none for a number that has none.
pub fn outcome_name(outcome: i32) -> Option<&'static str> {
    ["", "success", "failure"]
        .get(usize::try_from(outcome).ok()?)
        .copied()
}

/// The short name of a transport: empty for 0, none for a number that has none.
pub fn transport_name(transport: i32) -> Option<&'static str> {
    ["", "tcp", "udp"]
        .get(usize::try_from(transport).ok()?)
        .copied()
}
