//! The registry of one process: a fold of the control topic and its single writer (R1).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, RwLock};

use tokio::sync::watch;

use crate::change::{AgentState, Change, Entry, FORMAT};
use crate::control::ControlLog;
use crate::error::RegistryError;
use crate::folded::Folded;
use crate::key::{ApiKey, Scope, Scopes};
use crate::state::{Grant, Snapshot};

/// The project that a first start makes, and the tenant of agents without a roster.
pub const DEFAULT_PROJECT: &str = "default";
/// How long a rotated key stays valid beside its successor: a day, for all senders to follow.
pub const ROTATION_OVERLAP_MS_DEFAULT: i64 = 24 * 3_600 * 1_000;

/// A key that was just made: the only time that it is known in clear.
#[derive(Debug)]
pub struct Minted {
    /// The key.
    pub key: ApiKey,
    /// Its project.
    pub project: String,
    /// The client that owns it.
    pub client: String,
    /// Registry revision that holds it.
    pub revision: u64,
}

/// Projects, keys and agents, current in memory and durable in the control topic.
pub struct Registry {
    log: Box<dyn ControlLog>,
    current: RwLock<Arc<Snapshot>>,
    /// Held from the check to the applied state, so that each change is checked against the
    /// state that it will really follow.
    writing: Mutex<()>,
    revision: watch::Sender<u64>,
    /// When each key last opened something: a hint for operators, which whoever runs the registry
    /// keeps now and then. A durable write per use would be a hot row.
    last_used_ms: Mutex<BTreeMap<String, i64>>,
}

impl Registry {
    /// Folds the control topic from its first record.
    ///
    /// # Errors
    /// A record that is newer than this build or unreadable, a log that cannot be read, or
    /// records that are lost and that nobody gave up.
    pub fn open(log: impl ControlLog + 'static) -> Result<Self, RegistryError> {
        let folded = Folded::of(&log, None)?;
        folded.need_whole()?;
        Ok(Self::of(log, folded.state))
    }

    /// The registry of a folded control topic, which the caller has judged.
    #[must_use]
    pub fn of(log: impl ControlLog + 'static, state: Snapshot) -> Self {
        let (revision, _) = watch::channel(state.revision);
        Self {
            log: Box::new(log),
            current: RwLock::new(Arc::new(state)),
            writing: Mutex::new(()),
            revision,
            last_used_ms: Mutex::default(),
        }
    }

    /// The state as of now. It never changes under the caller.
    #[must_use]
    pub fn current(&self) -> Arc<Snapshot> {
        Arc::clone(
            &self
                .current
                .read()
                .expect("no writer panics while it holds the lock"),
        )
    }

    /// A channel that tells each new revision, for requests that wait for theirs (R2).
    #[must_use]
    pub fn watch_revision(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Checks a change, makes it durable and applies it. Returns the new revision.
    ///
    /// # Errors
    /// Why the change may not be made, or that the log failed; then nothing changed here.
    pub fn change(&self, change: Change, now_ms: i64) -> Result<u64, RegistryError> {
        self.change_from(now_ms, |_| Ok(change))
    }

    /// As [`Registry::change`], with a change that is made from the state that it will follow:
    /// nobody else changes anything in between.
    ///
    /// # Errors
    /// What `make` returns, or as [`Registry::change`].
    pub fn change_from<E: From<RegistryError>>(
        &self,
        now_ms: i64,
        make: impl FnOnce(&Snapshot) -> Result<Change, E>,
    ) -> Result<u64, E> {
        let _writing = self.writing.lock().expect("no holder panics");
        let mut next = (*self.current()).clone();
        let change = make(&next)?;
        next.check(&change, now_ms)?;
        let entry = Entry {
            format: FORMAT,
            at_ms: now_ms,
            change,
        };
        let offset = self.log.append(&entry.encode())?;
        next.apply(offset, entry);
        let revision = next.revision;
        *self
            .current
            .write()
            .expect("no reader panics while it holds the lock") = Arc::new(next);
        self.revision.send_replace(revision);
        Ok(revision)
    }

    /// Makes the default project on a first start; does nothing later.
    ///
    /// # Errors
    /// As [`Registry::change`].
    pub fn ensure_default_project(&self, now_ms: i64) -> Result<(), RegistryError> {
        if self.current().projects.contains_key(DEFAULT_PROJECT) {
            return Ok(());
        }
        self.change(
            Change::ProjectCreated {
                project: DEFAULT_PROJECT.to_owned(),
            },
            now_ms,
        )?;
        Ok(())
    }

    /// Makes a key for a client, new or known.
    ///
    /// # Errors
    /// As [`Registry::change`], or no randomness.
    pub fn mint(
        &self,
        project: &str,
        client: &str,
        scopes: Vec<Scope>,
        now_ms: i64,
    ) -> Result<Minted, RegistryError> {
        self.admit_key(ApiKey::generate()?, project, client, scopes, now_ms)
    }

    /// Takes a key that an operator chose into the registry.
    ///
    /// # Errors
    /// As [`Registry::change`].
    pub fn admit_key(
        &self,
        key: ApiKey,
        project: &str,
        client: &str,
        scopes: Vec<Scope>,
        now_ms: i64,
    ) -> Result<Minted, RegistryError> {
        let change = Change::KeyCreated {
            project: project.to_owned(),
            client: client.to_owned(),
            prefix: key.prefix().to_owned(),
            hash: key.hash(),
            scopes: Scopes::new(scopes),
        };
        let revision = self.change(change, now_ms)?;
        Ok(Minted {
            key,
            project: project.to_owned(),
            client: client.to_owned(),
            revision,
        })
    }

    /// Makes a successor for a client's key and lets the old one expire after the overlap.
    ///
    /// The client stays the source, so that its events stay the same events to dedup.
    ///
    /// # Errors
    /// `Unknown` when the client has no live key, `Full` when a rotation is still under way.
    pub fn rotate(
        &self,
        project: &str,
        client: &str,
        overlap_ms: i64,
        now_ms: i64,
    ) -> Result<Minted, RegistryError> {
        let state = self.current();
        let live = state.live_keys(project, client, now_ms);
        let Some((old, record)) = live.last() else {
            return Err(RegistryError::Unknown {
                kind: "client",
                id: client.to_owned(),
            });
        };
        let minted = self.mint(project, client, record.scopes.as_slice().to_vec(), now_ms)?;
        let expires = Change::KeyExpires {
            prefix: (*old).to_owned(),
            at_ms: now_ms.saturating_add(overlap_ms.max(0)),
        };
        let revision = self.change(expires, now_ms)?;
        Ok(Minted { revision, ..minted })
    }

    /// Lets a key open nothing from now on.
    ///
    /// # Errors
    /// `Unknown`, or as [`Registry::change`].
    pub fn revoke_key(&self, prefix: &str, now_ms: i64) -> Result<u64, RegistryError> {
        self.change(
            Change::KeyExpires {
                prefix: prefix.to_owned(),
                at_ms: now_ms,
            },
            now_ms,
        )
    }

    /// Registers an agent, active.
    ///
    /// # Errors
    /// As [`Registry::change`].
    pub fn register_agent(
        &self,
        agent: &str,
        project: &str,
        now_ms: i64,
    ) -> Result<u64, RegistryError> {
        let change = Change::AgentRegistered {
            agent: agent.to_owned(),
            project: project.to_owned(),
        };
        self.change(change, now_ms)
    }

    /// Enables, disables or revokes an agent.
    ///
    /// # Errors
    /// As [`Registry::change`].
    pub fn set_agent(
        &self,
        agent: &str,
        state: AgentState,
        now_ms: i64,
    ) -> Result<u64, RegistryError> {
        self.change(
            Change::AgentStateSet {
                agent: agent.to_owned(),
                state,
            },
            now_ms,
        )
    }

    /// What a presented key opens, and a note that it was used.
    #[must_use]
    pub fn grant(&self, text: &str, now_ms: i64) -> Option<Grant> {
        let grant = self.current().grant(text, now_ms)?;
        let mut used = self.last_used_ms.lock().expect("no holder panics");
        // Bounded by the number of keys: only a key that opened something gets here.
        match used.get_mut(&grant.prefix) {
            Some(at_ms) => *at_ms = now_ms,
            None => {
                used.insert(grant.prefix.clone(), now_ms);
            }
        }
        Some(grant)
    }

    /// When each key last opened something, by its prefix.
    #[must_use]
    pub fn all_last_used_ms(&self) -> BTreeMap<String, i64> {
        self.last_used_ms.lock().expect("no holder panics").clone()
    }

    /// Takes what an earlier process knew; a later use counts.
    pub fn recall_last_used_ms(&self, known: BTreeMap<String, i64>) {
        let mut used = self.last_used_ms.lock().expect("no holder panics");
        for (prefix, at_ms) in known {
            let latest = used.entry(prefix).or_insert(at_ms);
            *latest = at_ms.max(*latest);
        }
    }

    /// When the key last opened something, in milliseconds since the epoch.
    #[must_use]
    pub fn last_used_ms(&self, prefix: &str) -> Option<i64> {
        self.last_used_ms
            .lock()
            .expect("no holder panics")
            .get(prefix)
            .copied()
    }
}
