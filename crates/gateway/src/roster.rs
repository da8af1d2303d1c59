//! Which agents are admitted, and to which project.

use std::sync::Arc;

/// What the roster says of an authenticated agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RosterVerdict {
    /// Registered and active: its project.
    Project(Arc<str>),
    /// Nobody registered it: 403 `agent_not_registered`.
    NotRegistered,
    /// Registered, and disabled or revoked: 403 `agent_not_admitted`.
    NotAdmitted,
    /// No roster is kept: any certificate of the authorities is admitted to
    /// the default project.
    Open,
}

/// The project of agents without a roster.
pub const DEFAULT_PROJECT: &str = "default";

/// Asked at every request, so that a revocation holds from the next one on.
pub trait Roster: Send + Sync + 'static {
    /// The verdict on an agent. A look into memory.
    fn admit(&self, agent_id: &str) -> RosterVerdict;

    /// The control offset that this roster has applied, stamped into records
    /// (R2). Taken before the verdict.
    fn control_offset(&self) -> u64 {
        0
    }
}

/// No roster.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenRoster;

impl Roster for OpenRoster {
    fn admit(&self, _agent_id: &str) -> RosterVerdict {
        RosterVerdict::Open
    }
}
