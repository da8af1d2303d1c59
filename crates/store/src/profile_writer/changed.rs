//! What a block changes of the profiles and groups that the state keeps.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_event::Records;
use fulmar_flow::{State, StateBatch};
use fulmar_sessions::profiles::{Group, Profile};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Result, StoreError};
use crate::lake::Forgotten;

/// Keyspace of what is kept of profiles and groups.
const KEYSPACE: &str = "profiles";

/// What the block in hand has changed.
#[derive(Default)]
pub(super) struct Changed {
    profiles: BTreeMap<Vec<u8>, Touched<Profile>>,
    groups: BTreeMap<Vec<u8>, Touched<Group>>,
    /// Events that go on to `events`.
    pub(super) onward: Records,
    /// What the block asks to forget.
    pub(super) forgotten: Vec<Forgotten>,
    /// Projects of which nothing in the state counts any more.
    cleared: BTreeSet<String>,
}

/// A profile or group, with the last record that changed it.
pub(super) struct Touched<T> {
    pub(super) value: T,
    pub(super) project: String,
    pub(super) id: String,
    pub(super) at: (u16, u64),
    pub(super) changed: bool,
    /// What the state holds is to go.
    forgotten: bool,
}

impl Changed {
    /// The profile of an id, whatever else it is known as.
    pub(super) fn profile(
        &mut self,
        state: &State,
        of: (&str, &str),
        at: (u16, u64),
    ) -> Result<&mut Touched<Profile>> {
        let state = (!self.cleared.contains(of.0)).then_some(state);
        taken_up(state, 'p', of, at, &mut self.profiles)
    }

    /// The group of an id.
    pub(super) fn group(
        &mut self,
        state: &State,
        of: (&str, &str),
        at: (u16, u64),
    ) -> Result<&mut Touched<Group>> {
        let state = (!self.cleared.contains(of.0)).then_some(state);
        taken_up(state, 'g', of, at, &mut self.groups)
    }

    /// Profiles that are to have a row.
    pub(super) fn profiles(&self) -> impl Iterator<Item = &Touched<Profile>> {
        self.profiles.values().filter(|one| one.changed)
    }

    /// Groups that are to have a row.
    pub(super) fn groups(&self) -> impl Iterator<Item = &Touched<Group>> {
        self.groups.values().filter(|one| one.changed)
    }

    /// Forgets what is known of a profile by now, or without an id of the whole project.
    pub(super) fn forget(
        &mut self,
        state: &State,
        (project, id): (&str, Option<&str>),
        at: (u16, u64),
    ) -> Result<()> {
        if let Some(id) = id {
            let profile = self.profile(state, (project, id), at)?;
            profile.value = Profile::default();
            (profile.changed, profile.forgotten) = (false, true);
        } else {
            self.profiles.retain(|_, one| one.project != project);
            self.groups.retain(|_, one| one.project != project);
            self.cleared.insert(project.to_owned());
        }
        Ok(())
    }

    /// Puts the changes into the block's batch.
    pub(super) fn stage(&self, state: &State, batch: &mut StateBatch) -> Result<()> {
        stage(&self.profiles, batch);
        stage(&self.groups, batch);
        for project in &self.cleared {
            for kind in ['p', 'g'] {
                for key in state.keys(KEYSPACE, &key(kind, (project, "")))? {
                    let profile = self.profiles.get(&key).is_some_and(|one| one.changed);
                    let group = self.groups.get(&key).is_some_and(|one| one.changed);
                    if !profile && !group {
                        batch.delete(KEYSPACE, key);
                    }
                }
            }
        }
        Ok(())
    }
}

fn key(kind: char, (project, id): (&str, &str)) -> Vec<u8> {
    format!("{kind}\0{project}\0{id}").into_bytes()
}

/// What is kept under a key, from the block's changes or from the state, where that counts;
/// nothing yet, if new.
fn taken_up<'c, T: Default + DeserializeOwned>(
    state: Option<&State>,
    kind: char,
    (project, id): (&str, &str),
    at: (u16, u64),
    changed: &'c mut BTreeMap<Vec<u8>, Touched<T>>,
) -> Result<&'c mut Touched<T>> {
    let key = key(kind, (project, id));
    if !changed.contains_key(&key) {
        let known = state.map(|state| state.get(KEYSPACE, &key)).transpose()?;
        let value = match known.flatten() {
            None => T::default(),
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| StoreError::Entry {
                key: format!("{project}/{id}"),
                reason: error.to_string(),
            })?,
        };
        let touched = Touched {
            value,
            project: project.to_owned(),
            id: id.to_owned(),
            at,
            changed: false,
            forgotten: false,
        };
        changed.insert(key.clone(), touched);
    }
    Ok(changed.get_mut(&key).expect("it was just put there"))
}

fn stage<T: Serialize>(changed: &BTreeMap<Vec<u8>, Touched<T>>, batch: &mut StateBatch) {
    for (key, one) in changed {
        if one.changed {
            let value = serde_json::to_vec(&one.value).expect("texts and numbers always encode");
            batch.put(KEYSPACE, key.clone(), value);
        } else if one.forgotten {
            batch.delete(KEYSPACE, key.clone());
        }
    }
}
