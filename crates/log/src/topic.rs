//! The topics of the embedded log.

use std::fmt;
use std::str::FromStr;

/// A topic; in the embedded log it is one journal, shared by its partitions.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Topic {
    /// What doors admitted, keyed by device, agent or consumer.
    Events,
    /// Profile changes, keyed by profile.
    Profiles,
    /// Records that can't be stored, with their original bytes.
    Quarantine,
    /// Projects, keys, agents: append-only, kept for ever (R1).
    Control,
    /// What became of deliveries: a record an attempt.
    Deliveries,
}

impl Topic {
    /// Every topic, in the order of their numbers on disk.
    pub const ALL: [Topic; 5] = [
        Topic::Events,
        Topic::Profiles,
        Topic::Quarantine,
        Topic::Control,
        Topic::Deliveries,
    ];

    /// The name that users type and metrics carry; also the folder's name.
    pub fn name(self) -> &'static str {
        match self {
            Topic::Events => "events",
            Topic::Profiles => "profiles",
            Topic::Quarantine => "quarantine",
            Topic::Control => "control",
            Topic::Deliveries => "deliveries",
        }
    }

    /// The number in segment headers. Never changes.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The text is no topic's name.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no topic is called `{0}`: it is events, profiles, quarantine, control or deliveries")]
pub struct UnknownTopic(String);

impl FromStr for Topic {
    type Err = UnknownTopic;

    fn from_str(text: &str) -> Result<Topic, UnknownTopic> {
        Topic::ALL
            .into_iter()
            .find(|topic| topic.name() == text)
            .ok_or_else(|| UnknownTopic(text.to_owned()))
    }
}
