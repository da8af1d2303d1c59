//! Who may send: a client by its origin or its secret, and whom its project refuses.

use std::sync::Arc;

use fulmar_event::Timestamp;
use fulmar_registry::{Client, ClientKind, ProjectSettings, Registry, Snapshot, client_id_ok};

use super::caller::Caller;
use super::origin::origin_allowed;
use super::secrets::{Proof, SecretChecks};

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Denied {
    #[error("the client id is missing: send the header openpanel-client-id")]
    NoId,
    #[error("the client id is not a UUID in lower-case hexadecimal")]
    BadId,
    #[error("the client is not known")]
    Unknown,
    #[error("the origin is not allowed and no valid secret was sent")]
    NotAllowed,
    #[error("the address is refused by the project")]
    Address,
    #[error("the profile is refused by the project")]
    Profile,
    #[error("revenue needs the client's secret, or the project's leave")]
    Revenue,
    #[error("the client may not import: it takes one of kind read or root, and its secret")]
    Kind,
    /// 429: too many costly hashes are being checked (G4).
    #[error("too many secrets are being checked")]
    Busy,
}

/// A client that was let in.
#[derive(Debug, Clone)]
pub(super) struct Admitted {
    snapshot: Arc<Snapshot>,
    pub(super) client: String,
    pub(super) project: String,
    /// A secret was sent and it is the client's.
    pub(super) secret_verified: bool,
}

impl Admitted {
    /// The registry version that let it in (R2).
    pub(super) fn control_offset(&self) -> u64 {
        self.snapshot.revision
    }

    pub(super) fn settings(&self) -> Option<&ProjectSettings> {
        let project = self.snapshot.projects.get(&self.project)?;
        Some(&project.settings)
    }

    /// Names the client in budgets.
    pub(super) fn owner(&self) -> String {
        format!("{}/{}", self.project, self.client)
    }

    /// Refuses a profile that the project refuses.
    pub(super) fn check_profile(&self, profile: &str) -> Result<(), Denied> {
        let refused = self.settings().is_some_and(|settings| {
            !profile.is_empty() && settings.profile_filters.iter().any(|p| p == profile)
        });
        if refused {
            Err(Denied::Profile)
        } else {
            Ok(())
        }
    }

    /// Refuses revenue that nobody vouches for.
    pub(super) fn check_revenue(&self) -> Result<(), Denied> {
        let free = self.settings().is_some_and(|s| s.allow_unsafe_revenue);
        if free || self.secret_verified {
            return Ok(());
        }
        Err(Denied::Revenue)
    }
}

/// What a request shows: from its headers, else from its body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) id: Option<&'a str>,
    pub(super) secret: Option<&'a str>,
}

/// Asks the registry.
#[derive(Clone, Copy)]
pub(super) struct Gate<'a> {
    pub(super) registry: &'a Registry,
    pub(super) secrets: &'a SecretChecks,
}

impl Gate<'_> {
    /// The client of an id, if it may send at all: a look into memory.
    pub(super) fn known(&self, id: Option<&str>) -> Result<Arc<Snapshot>, Denied> {
        let id = id.ok_or(Denied::NoId)?;
        if !client_id_ok(id) {
            return Err(Denied::BadId);
        }
        let snapshot = self.registry.current();
        match snapshot
            .clients
            .get(id)
            .is_some_and(|client| !client.revoked)
        {
            true => Ok(snapshot),
            false => Err(Denied::Unknown),
        }
    }

    /// Lets a request in, or says why not. Whoever shows a secret has it checked, since only
    /// one that verifies counts.
    pub(super) async fn admit(
        &self,
        shown: Shown<'_>,
        caller: &Caller,
        now: Timestamp,
    ) -> Result<Admitted, Denied> {
        let (mut admitted, proof) = self.identify(shown, now).await?;
        let client = &admitted.snapshot.clients[&admitted.client];
        let settings = admitted.settings();
        let refused = settings.is_some_and(|settings| {
            let is_caller = |entry: &String| entry.parse() == Ok(caller.address);
            settings.ip_filters.iter().any(is_caller)
        });
        if refused {
            return Err(Denied::Address);
        }
        let by_origin = || {
            let origin = caller.origin.as_deref();
            let cors = settings.map(|settings| &settings.cors);
            cors.zip(origin)
                .is_some_and(|(cors, origin)| origin_allowed(cors, origin))
        };
        let valid = proof == Proof::Valid;
        if !valid && !client.ignore_cors_and_secret && !by_origin() {
            return Err(match proof {
                Proof::Busy => Denied::Busy,
                _ => Denied::NotAllowed,
            });
        }
        admitted.secret_verified = valid;
        Ok(admitted)
    }

    /// Lets an import in: with the secret of a client that may do more than write.
    pub(super) async fn admit_import(
        &self,
        shown: Shown<'_>,
        now: Timestamp,
    ) -> Result<Admitted, Denied> {
        let (mut admitted, proof) = self.identify(shown, now).await?;
        let client = &admitted.snapshot.clients[&admitted.client];
        match proof {
            Proof::Valid if client.kind != ClientKind::Write => {}
            Proof::Busy => return Err(Denied::Busy),
            _ => return Err(Denied::Kind),
        }
        admitted.secret_verified = true;
        Ok(admitted)
    }

    async fn identify(
        &self,
        shown: Shown<'_>,
        now: Timestamp,
    ) -> Result<(Admitted, Proof), Denied> {
        let snapshot = self.known(shown.id)?;
        let id = shown.id.unwrap_or_default();
        let client: &Client = &snapshot.clients[id];
        let proof = match shown.secret {
            None => Proof::Wrong,
            Some(secret) => {
                self.secrets
                    .check(id, client, secret, now.as_millis())
                    .await
            }
        };
        let admitted = Admitted {
            client: id.to_owned(),
            project: client.project.clone(),
            secret_verified: false,
            snapshot,
        };
        Ok((admitted, proof))
    }
}
