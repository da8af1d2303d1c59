//! The registry's event types, as the publish door asks them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use fulmar_gateway::events::{EventTypes, TypeVerdict};
use fulmar_registry::{Change, EventType, Registry, RegistryError, TypeVersion};
use fulmar_webhooks::schema::Schema;

use crate::admin::now_ms;

/// Compiled schemas kept: a type beyond compiles its own each time.
const SCHEMAS_MAX: usize = 10_000;

/// A compiled schema, with the type that it was compiled of.
type Compiled = (Arc<EventType>, Option<Arc<Schema>>);

/// Event types with their compiled schemas.
pub struct Types {
    registry: Arc<Registry>,
    registers: bool,
    /// By project and name.
    schemas: Mutex<HashMap<(String, String), Compiled>>,
    /// Types that are being registered.
    registering: Arc<Mutex<HashSet<(String, String)>>>,
}

impl Types {
    /// Of a registry; `registers` those that nobody registered.
    pub fn new(registry: Arc<Registry>, registers: bool) -> Self {
        Self {
            registry,
            registers,
            schemas: Mutex::default(),
            registering: Arc::default(),
        }
    }

    fn schema_of(&self, event_type: &Arc<EventType>) -> Option<Arc<Schema>> {
        let schema = event_type.schema()?;
        let key = (event_type.project.clone(), event_type.name.clone());
        let mut known = self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, compiled)) = known.get(&key)
            && Arc::ptr_eq(of, event_type)
        {
            return compiled.clone();
        }
        let compiled = match Schema::compile(schema) {
            Ok(compiled) => Some(Arc::new(compiled)),
            // It was checked when it was registered.
            Err(error) => {
                tracing::error!(name = event_type.name, error, "a schema cannot be compiled");
                None
            }
        };
        if known.len() < SCHEMAS_MAX || known.contains_key(&key) {
            known.insert(key, (Arc::clone(event_type), compiled.clone()));
        }
        compiled
    }

    /// Registers a type beside the request: its events are taken in any case.
    fn register(&self, project: &str, name: &str) {
        let key = (project.to_owned(), name.to_owned());
        let mut registering = self
            .registering
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !registering.insert(key.clone()) {
            return;
        }
        let (registry, under_way) = (Arc::clone(&self.registry), Arc::clone(&self.registering));
        tokio::task::spawn_blocking(move || {
            let now_ms = now_ms();
            let event_type = EventType {
                project: key.0.clone(),
                name: key.1.clone(),
                description: String::new(),
                versions: vec![TypeVersion {
                    schema: None,
                    created_ms: now_ms,
                }],
                deactivated: false,
                created_ms: now_ms,
                updated_ms: now_ms,
            };
            let registered = registry.change_from(now_ms, |state| {
                if state
                    .event_type(&event_type.project, &event_type.name)
                    .is_some()
                {
                    let (kind, id) = ("event type", event_type.name.clone());
                    return Err(RegistryError::Exists { kind, id });
                }
                Ok(Change::EventTypeSet {
                    event_type: Box::new(event_type),
                })
            });
            if let Err(error) = registered {
                tracing::warn!(%error, "an event type is not registered");
            }
            under_way
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&key);
        });
    }
}

impl EventTypes for Types {
    fn judge(&self, project: &str, name: &str, payload: &[u8]) -> TypeVerdict {
        let state = self.registry.current();
        let Some(event_type) = state.event_type(project, name) else {
            if self.registers {
                self.register(project, name);
                return TypeVerdict::Unchecked;
            }
            return TypeVerdict::Unknown;
        };
        if event_type.deactivated {
            return TypeVerdict::Deactivated;
        }
        let Some(schema) = self.schema_of(event_type) else {
            return TypeVerdict::Unchecked;
        };
        let payload = serde_json::from_slice(payload).unwrap_or_default();
        match schema.faults(&payload) {
            faults if faults.is_empty() => TypeVerdict::Valid,
            faults => TypeVerdict::Invalid(faults),
        }
    }
}
