//! Agents that were read lately: a few hundred texts make up nearly all requests of a site.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use crate::agent::{Agent, agent};

/// Parts with a lock each, so that many threads seldom meet.
const PARTS: usize = 16;

/// Texts that a part remembers; 16 times 512 are about 4 MiB. A part that is full begins anew.
const TEXTS_MAX: usize = 512;

/// Longest text that is remembered, in bytes; browsers' have some 150.
const TEXT_BYTES_MAX: usize = 512;

/// Reads agents' texts, and remembers what it has read.
#[derive(Default)]
pub struct Agents {
    hasher: RandomState,
    parts: [Mutex<HashMap<Box<str>, Arc<Agent<'static>>>>; PARTS],
}

impl Agents {
    /// As [`agent`].
    pub fn agent(&self, text: &str) -> Arc<Agent<'static>> {
        let read = || Arc::new(agent(text).into_owned());
        if text.len() > TEXT_BYTES_MAX {
            return read();
        }
        let part = &self.parts[self.hasher.hash_one(text) as usize % PARTS];
        let known = |part: &HashMap<_, _>| part.get(text).map(Arc::clone);
        if let Some(found) = known(&part.lock().unwrap_or_else(PoisonError::into_inner)) {
            return found;
        }
        // Read without the lock: nobody waits for it.
        let found = read();
        let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
        if part.len() >= TEXTS_MAX {
            part.clear();
        }
        part.insert(text.into(), Arc::clone(&found));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_what_was_read_and_its_memory_is_bounded() {
        let agents = Agents::default();
        let text = |number| {
            format!("Mozilla/5.0 (X11; Linux x86_64; rv:{number}.0) Gecko Firefox/{number}.0")
        };
        for number in (0..20_000).chain(0..100) {
            let text = text(number);
            assert_eq!(*agents.agent(&text), agent(&text).into_owned());
        }
        let again = agents.agent(&text(7));
        assert!(Arc::ptr_eq(&again, &agents.agent(&text(7))), "read once");
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        agents.agent(&long);
        for part in &agents.parts {
            let part = part.lock().unwrap();
            assert!(part.len() <= TEXTS_MAX && !part.contains_key(&*long));
        }
    }
}
