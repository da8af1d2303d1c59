//! The registry against its rules: R1, R2, G4 and the roster's states.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use fulmar_registry::{
    AgentState, ApiKey, Change, ClientKind, DEFAULT_PROJECT, MemoryLog, Registry, RegistryError,
    Scope, SettingsChange,
};

const NOW: i64 = 1_700_000_000_000;
const DAY: i64 = 86_400_000;

fn fresh() -> (Arc<MemoryLog>, Registry) {
    let log = Arc::new(MemoryLog::default());
    let registry = Registry::open(Arc::clone(&log)).unwrap();
    registry.ensure_default_project(NOW).unwrap();
    (log, registry)
}

#[test]
fn a_restart_folds_to_the_same_state_and_revision() {
    let (log, registry) = fresh();
    let minted = registry
        .mint(DEFAULT_PROJECT, "shop", vec![Scope::Ingest], NOW)
        .unwrap();
    registry
        .register_agent("web-1", DEFAULT_PROJECT, NOW)
        .unwrap();
    registry
        .set_agent("web-1", AgentState::Disabled, NOW)
        .unwrap();
    let loss = Change::LossAccepted {
        topic: "events".into(),
        from: 10,
        to: 19,
    };
    assert_eq!(registry.change(loss, NOW).unwrap(), 5);

    let again = Registry::open(log).unwrap();
    assert_eq!(again.current().revision, 5);
    assert_eq!(again.current().agents["web-1"].state, AgentState::Disabled);
    assert_eq!(
        again.grant(minted.key.reveal(), NOW).unwrap().client,
        "shop"
    );
    assert!(again.current().loss_accepted("events", 10));
    assert!(again.current().loss_accepted("events", 19));
    assert!(!again.current().loss_accepted("events", 20));
    assert!(!again.current().loss_accepted("profiles", 10));
    again.ensure_default_project(NOW).unwrap();
    assert_eq!(again.current().revision, 5, "a second start writes nothing");
}

#[test]
fn a_refused_change_writes_nothing() {
    let (_, registry) = fresh();
    let before = registry.current().revision;
    let refused = [
        registry.change(
            Change::ProjectCreated {
                project: DEFAULT_PROJECT.into(),
            },
            NOW,
        ),
        registry.change(
            Change::ProjectCreated {
                project: "a:b".into(),
            },
            NOW,
        ),
        registry.register_agent("web-1", "nowhere", NOW),
        registry.register_agent("", DEFAULT_PROJECT, NOW),
        registry.register_agent(&"a".repeat(65), DEFAULT_PROJECT, NOW),
        registry.set_agent("web-1", AgentState::Active, NOW),
        registry.revoke_key("fulmar_000000000000", NOW),
        registry
            .mint(DEFAULT_PROJECT, "shop", vec![], NOW)
            .map(|m| m.revision),
    ];
    assert!(refused.iter().all(Result::is_err), "{refused:?}");
    assert_eq!(registry.current().revision, before);
}

#[test]
fn a_key_opens_its_own_project_until_it_is_revoked() {
    let (_, registry) = fresh();
    let minted = registry
        .mint(DEFAULT_PROJECT, "shop", vec![Scope::Ingest], NOW)
        .unwrap();
    let grant = registry.grant(minted.key.reveal(), NOW).unwrap();
    assert_eq!(
        (grant.project.as_str(), grant.client.as_str()),
        (DEFAULT_PROJECT, "shop")
    );
    assert!(grant.scopes.allow(Scope::Ingest) && !grant.scopes.allow(Scope::Admin));
    assert_eq!(registry.last_used_ms(minted.key.prefix()), Some(NOW));

    let forged = ApiKey::generate().unwrap();
    let forged = format!("{}{}", minted.key.prefix(), &forged.reveal()[19..]);
    assert!(
        registry.grant(&forged, NOW).is_none(),
        "the prefix alone opens nothing"
    );
    registry.revoke_key(minted.key.prefix(), NOW).unwrap();
    assert!(registry.grant(minted.key.reveal(), NOW).is_none());
}

#[test]
fn rotation_overlaps_and_keeps_the_client() {
    let (_, registry) = fresh();
    let old = registry
        .mint(DEFAULT_PROJECT, "shop", vec![Scope::Ingest], NOW)
        .unwrap();
    let new = registry.rotate(DEFAULT_PROJECT, "shop", DAY, NOW).unwrap();
    let opens = |key: &ApiKey, at| registry.grant(key.reveal(), at).map(|g| g.client);
    assert_eq!(opens(&old.key, NOW + DAY - 1), Some("shop".to_owned()));
    assert_eq!(opens(&new.key, NOW), Some("shop".to_owned()));
    assert_eq!(
        opens(&old.key, NOW + DAY),
        None,
        "the overlap ends on the millisecond"
    );

    let third = registry.rotate(DEFAULT_PROJECT, "shop", DAY, NOW + 1);
    assert!(
        matches!(third, Err(RegistryError::Full { limit: 2, .. })),
        "{third:?}"
    );
    registry
        .rotate(DEFAULT_PROJECT, "shop", DAY, NOW + DAY)
        .unwrap();
}

#[test]
fn a_later_expiry_never_brings_a_key_back() {
    let (_, registry) = fresh();
    let minted = registry
        .mint(DEFAULT_PROJECT, "shop", vec![Scope::Ingest], NOW)
        .unwrap();
    registry.revoke_key(minted.key.prefix(), NOW).unwrap();
    let later = Change::KeyExpires {
        prefix: minted.key.prefix().into(),
        at_ms: NOW + DAY,
    };
    registry.change(later, NOW).unwrap();
    assert!(registry.grant(minted.key.reveal(), NOW).is_none());
}

#[test]
fn revoked_is_final_and_disabled_is_not() {
    let (_, registry) = fresh();
    registry
        .register_agent("web-1", DEFAULT_PROJECT, NOW)
        .unwrap();
    registry
        .set_agent("web-1", AgentState::Disabled, NOW)
        .unwrap();
    registry
        .set_agent("web-1", AgentState::Active, NOW)
        .unwrap();
    registry
        .set_agent("web-1", AgentState::Revoked, NOW)
        .unwrap();
    assert!(
        registry
            .set_agent("web-1", AgentState::Active, NOW)
            .is_err()
    );
    assert!(
        registry
            .register_agent("web-1", DEFAULT_PROJECT, NOW)
            .is_err()
    );
    assert_eq!(
        registry.current().agents["web-1"].state,
        AgentState::Revoked
    );
}

#[test]
fn an_agent_and_a_client_of_one_project_never_share_a_source() {
    let (_, registry) = fresh();
    registry
        .mint(DEFAULT_PROJECT, "web", vec![Scope::Ingest], NOW)
        .unwrap();
    assert!(
        registry
            .register_agent("web", DEFAULT_PROJECT, NOW)
            .is_err()
    );
    registry.register_agent("db", DEFAULT_PROJECT, NOW).unwrap();
    assert!(
        registry
            .mint(DEFAULT_PROJECT, "db", vec![Scope::Ingest], NOW)
            .is_err()
    );
}

#[test]
fn whoever_waits_for_a_revision_is_told() {
    let (_, registry) = fresh();
    let watching = registry.watch_revision();
    let revision = registry
        .register_agent("web-1", DEFAULT_PROJECT, NOW)
        .unwrap();
    assert_eq!(*watching.borrow(), revision);
}

#[test]
fn a_client_survives_its_record_and_takes_no_others_name() {
    let (log, registry) = fresh();
    let id = "11111111-2222-4333-8444-555555555555".to_owned();
    let create = |client: &str, name: &str| Change::ClientCreated {
        client: client.to_owned(),
        project: "default".to_owned(),
        name: name.to_owned(),
        access: ClientKind::Write,
        secret: None,
        ignore_cors_and_secret: true,
    };
    for (client, name) in [
        ("shop", "n"),
        (&id, ""),
        (&id, "a\nb"),
        (&id, &"x".repeat(129)),
    ] {
        assert!(
            registry.change(create(client, name), NOW).is_err(),
            "{name}"
        );
    }
    registry.change(create(&id, "shop"), NOW).unwrap();
    assert!(registry.change(create(&id, "shop"), NOW).is_err(), "twice");
    // The source names an event: no key and no agent may share it.
    assert!(
        registry
            .mint("default", &id, vec![Scope::Ingest], NOW)
            .is_err()
    );
    assert!(registry.register_agent(&id, "default", NOW).is_err());
    let settings = SettingsChange {
        cors: Some(vec!["shop.example".to_owned()]),
        ..SettingsChange::default()
    };
    let project = "default".to_owned();
    registry
        .change(Change::ProjectSet { project, settings }, NOW)
        .unwrap();
    let again = Registry::open(log).unwrap();
    assert_eq!(again.current(), registry.current());
    let state = again.current();
    assert!(state.clients[&id].ignore_cors_and_secret);
    assert_eq!(state.projects["default"].settings.cors, ["shop.example"]);
}

#[test]
fn a_project_goes_with_all_that_is_its_own_and_no_other() {
    let (_, registry) = fresh();
    for project in ["shop", "blog"] {
        let project = project.to_owned();
        registry
            .change(Change::ProjectCreated { project }, NOW)
            .unwrap();
    }
    for (project, name) in [("shop", "till"), ("blog", "pen")] {
        registry
            .mint(project, name, vec![Scope::Ingest], NOW)
            .unwrap();
        let (agent, project) = (format!("{name}-agent"), project.to_owned());
        registry
            .change(Change::AgentRegistered { agent, project }, NOW)
            .unwrap();
    }
    let delete = |project: &str| {
        let project = project.to_owned();
        registry.change(Change::ProjectDeleted { project }, NOW)
    };
    let told = delete("default").unwrap_err().to_string();
    assert!(told.contains("the server's own"), "{told}");
    assert!(delete("nobody").is_err());
    delete("shop").unwrap();
    let state = registry.current();
    let keys: Vec<_> = state.keys.values().map(|key| &*key.client).collect();
    let agents: Vec<_> = state.agents.keys().map(String::as_str).collect();
    assert_eq!((keys, agents), (vec!["pen"], vec!["pen-agent"]));
    assert!(!state.projects.contains_key("shop") && state.projects.contains_key("blog"));
}

#[test]
fn a_project_that_holds_the_operators_key_stays() {
    let (_, registry) = fresh();
    let project = || "shop".to_owned();
    let project_created = Change::ProjectCreated { project: project() };
    registry.change(project_created, NOW).unwrap();
    let minted = registry
        .mint("shop", "ops", vec![Scope::Admin], NOW)
        .unwrap();
    let delete = || Change::ProjectDeleted { project: project() };
    let told = registry.change(delete(), NOW).unwrap_err().to_string();
    assert!(told.contains("admin key of `ops`"), "{told}");
    registry.revoke_key(minted.key.prefix(), NOW).unwrap();
    registry.change(delete(), NOW).unwrap();
}
