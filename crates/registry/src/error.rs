//! What can go wrong between an admin's wish and a control record.

use thiserror::Error;

/// Errors of the registry.
#[derive(Debug, Error)]
pub enum RegistryError {
    /// The named thing does not exist.
    #[error("{kind} `{id}` does not exist")]
    Unknown {
        /// What was looked for, such as `project`.
        kind: &'static str,
        /// The id that was given.
        id: String,
    },
    /// The named thing exists already.
    #[error("{kind} `{id}` exists already")]
    Exists {
        /// What was to be made, such as `agent`.
        kind: &'static str,
        /// The id that was given.
        id: String,
    },
    /// An id breaks its rule.
    #[error(
        "{kind} id `{id}` must start with a letter or digit and hold at most 64 of \
             letters, digits, `.`, `_` and `-`"
    )]
    BadId {
        /// Whose id it is.
        kind: &'static str,
        /// The id that was given.
        id: String,
    },
    /// The change is not allowed from the present state.
    #[error("{0}")]
    Refused(String),
    /// A field of what was to be kept breaks its rule.
    #[error("{field}: {rule}")]
    Invalid {
        /// The field, as the API has it.
        field: &'static str,
        /// What it takes.
        rule: String,
    },
    /// A named limit is reached (I7).
    #[error("at most {limit} {what}")]
    Full {
        /// What is full.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A control record was written by a newer version of the program.
    #[error("control record {offset} has format {found}; this version reads up to {known}")]
    NewerFormat {
        /// Offset of the record.
        offset: u64,
        /// The format that the record names.
        found: u32,
        /// The newest format that is known here.
        known: u32,
    },
    /// A control record cannot be read or does not follow from those before it.
    #[error("control record {offset} is unreadable: {reason}")]
    Unreadable {
        /// Offset of the record.
        offset: u64,
        /// Why.
        reason: String,
    },
    /// Control records are lost, and nobody gave them up (L1).
    #[error(
        "{place}; the projects, keys and agents of these records are lost, and what they took \
         away (a key revoked, an agent disabled) would be let in again: restore the folder from a \
         backup, or give them up with `fulmar log accept-loss control {from}-{to}`"
    )]
    Damaged {
        /// The first place.
        place: String,
        /// First offset.
        from: u64,
        /// Last offset, inclusive.
        to: u64,
    },
    /// The log refused or failed.
    #[error("the control topic failed: {0}")]
    Log(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The system gave no random bytes.
    #[error("the system gave no random bytes: {0}")]
    Random(String),
}
