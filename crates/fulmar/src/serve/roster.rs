//! Who is let in at the agents door, out of the registry.

use std::sync::Arc;

use fulmar_gateway::roster::{Roster, RosterVerdict};
use fulmar_registry::{AgentState, Registry};

/// The registry as the agents door asks it.
pub struct RegistryRoster {
    registry: Arc<Registry>,
    /// With `agents.admission = roster`, an agent that nobody registered is refused; else any
    /// certificate of the authority is let in. A registered agent is judged by its state, and
    /// belongs to its project, in both.
    registered_only: bool,
}

impl RegistryRoster {
    /// The roster; `admission` is `certificate` or `roster`.
    pub fn new(registry: Arc<Registry>, admission: &str) -> Self {
        Self {
            registry,
            registered_only: admission == "roster",
        }
    }
}

impl Roster for RegistryRoster {
    fn admit(&self, agent_id: &str) -> RosterVerdict {
        match self.registry.current().agents.get(agent_id) {
            Some(agent) if agent.state == AgentState::Active => {
                RosterVerdict::Project(agent.project.as_str().into())
            }
            Some(_) => RosterVerdict::NotAdmitted,
            None if self.registered_only => RosterVerdict::NotRegistered,
            None => RosterVerdict::Open,
        }
    }

    fn control_offset(&self) -> u64 {
        self.registry.current().revision
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_registry::MemoryLog;

    #[test]
    fn registering_never_switches_the_admission() {
        let registry = Registry::open(MemoryLog::default()).unwrap();
        registry.ensure_default_project(1).unwrap();
        registry.register_agent("web-1", "default", 1).unwrap();
        registry.register_agent("web-2", "default", 1).unwrap();
        registry.set_agent("web-2", AgentState::Revoked, 1).unwrap();
        let registry = Arc::new(registry);
        let open = RegistryRoster::new(Arc::clone(&registry), "certificate");
        let closed = RegistryRoster::new(registry, "roster");
        for roster in [&open, &closed] {
            assert_eq!(
                roster.admit("web-1"),
                RosterVerdict::Project("default".into())
            );
            assert_eq!(roster.admit("web-2"), RosterVerdict::NotAdmitted);
            assert_eq!(roster.control_offset(), 4);
        }
        assert_eq!(open.admit("db-1"), RosterVerdict::Open);
        assert_eq!(closed.admit("db-1"), RosterVerdict::NotRegistered);
    }
}
