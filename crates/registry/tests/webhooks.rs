//! Webhooks, subscriptions and event types in the registry: kept, checked, and as they were.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use fulmar_registry::{
    Change, ControlRecords, EachRecord, EventType, History, LostRecords, MemoryLog, Registry,
    RegistryError, RetryPolicy, Subscription, TypeVersion, Webhook, WebhookState,
};
use serde_json::json;

fn registry() -> (Registry, Shared) {
    let log = Shared(Arc::new(MemoryLog::default()));
    let registry = Registry::open(log.clone()).unwrap();
    registry.ensure_default_project(1).unwrap();
    (registry, log)
}

/// One log that a registry writes and a history reads.
#[derive(Clone)]
struct Shared(Arc<MemoryLog>);

impl ControlRecords for Shared {
    fn replay(
        &self,
        from: u64,
        each: &mut EachRecord<'_>,
    ) -> Result<Option<LostRecords>, RegistryError> {
        self.0.replay(from, each)
    }
}

impl fulmar_registry::ControlLog for Shared {
    fn append(&self, bytes: &[u8]) -> Result<u64, RegistryError> {
        self.0.append(bytes)
    }
}

fn webhook() -> Webhook {
    Webhook {
        project: "default".to_owned(),
        consumer: "acme".to_owned(),
        url: "https://example.com/hook".to_owned(),
        events: vec!["order.*".to_owned()],
        timeout_s: 30,
        retry: RetryPolicy::default(),
        ..Webhook::default()
    }
}

fn subscription() -> Subscription {
    Subscription {
        project: "default".to_owned(),
        consumer: "acme".to_owned(),
        webhook: "wh-1".to_owned(),
        event: "*".to_owned(),
        ..Subscription::default()
    }
}

fn set_webhook(registry: &Registry, id: &str, webhook: Webhook) -> Result<u64, RegistryError> {
    let (id, webhook) = (id.to_owned(), Box::new(webhook));
    registry.change(Change::WebhookSet { id, webhook }, 1)
}

fn set_subscription(
    registry: &Registry,
    id: &str,
    subscription: Subscription,
) -> Result<u64, RegistryError> {
    let (id, subscription) = (id.to_owned(), Box::new(subscription));
    registry.change(Change::SubscriptionSet { id, subscription }, 1)
}

#[test]
fn what_was_kept_comes_back_from_the_log_and_from_a_copy() {
    let (registry, log) = registry();
    let kept = Webhook {
        state: WebhookState::Disabled {
            reason: "410 Gone".to_owned(),
        },
        secret_headers: BTreeMap::from([("x-key".to_owned(), "sealed".to_owned())]),
        ..webhook()
    };
    set_webhook(&registry, "wh-1", kept.clone()).unwrap();
    set_subscription(&registry, "sub-1", subscription()).unwrap();
    let event_type = Box::new(EventType {
        project: "default".to_owned(),
        name: "order.paid".to_owned(),
        description: String::new(),
        versions: vec![TypeVersion {
            schema: Some(json!({"type": "object"})),
            created_ms: 1,
        }],
        deactivated: false,
        created_ms: 1,
        updated_ms: 1,
    });
    registry
        .change(Change::EventTypeSet { event_type }, 1)
        .unwrap();
    let state = registry.current();
    let again = Registry::open(log).unwrap().current();
    assert_eq!(*again, *state);
    let copy = serde_json::to_string(&*state).unwrap();
    let copied: fulmar_registry::Snapshot = serde_json::from_str(&copy).unwrap();
    assert_eq!(copied, *state);
    assert_eq!(**state.webhook("default", "wh-1").unwrap(), kept);
    assert!(state.webhook("other", "wh-1").is_none());
    let known = state.event_type("default", "order.paid").unwrap();
    assert_eq!(known.schema(), Some(&json!({"type": "object"})));
}

#[test]
fn a_webhook_takes_its_subscriptions_with_it_and_a_project_all_of_them() {
    let (registry, _) = registry();
    set_webhook(&registry, "wh-1", webhook()).unwrap();
    set_subscription(&registry, "sub-1", subscription()).unwrap();
    let id = "wh-1".to_owned();
    registry.change(Change::WebhookDeleted { id }, 1).unwrap();
    let state = registry.current();
    assert!(state.webhooks.is_empty() && state.subscriptions.is_empty());

    let project = "shop".to_owned();
    registry
        .change(Change::ProjectCreated { project }, 1)
        .unwrap();
    let of_shop = Webhook {
        project: "shop".to_owned(),
        ..webhook()
    };
    set_webhook(&registry, "wh-2", of_shop).unwrap();
    let project = "shop".to_owned();
    registry
        .change(Change::ProjectDeleted { project }, 1)
        .unwrap();
    assert!(registry.current().webhooks.is_empty());
}

#[test]
fn an_id_stays_with_its_project_and_a_subscription_with_its_webhooks_consumer() {
    let (registry, _) = registry();
    let project = "shop".to_owned();
    registry
        .change(Change::ProjectCreated { project }, 1)
        .unwrap();
    set_webhook(&registry, "wh-1", webhook()).unwrap();
    let taken = Webhook {
        project: "shop".to_owned(),
        ..webhook()
    };
    let error = set_webhook(&registry, "wh-1", taken).unwrap_err();
    assert!(matches!(error, RegistryError::Exists { .. }), "{error}");
    for (project, consumer) in [("shop", "acme"), ("default", "other")] {
        let foreign = Subscription {
            project: project.to_owned(),
            consumer: consumer.to_owned(),
            ..subscription()
        };
        let error = set_subscription(&registry, "sub-1", foreign).unwrap_err();
        assert!(matches!(error, RegistryError::Unknown { .. }), "{error}");
    }
}

#[test]
fn what_breaks_a_rule_is_refused_with_its_field() {
    let (registry, _) = registry();
    let headers = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    let with = |change: &dyn Fn(&mut Webhook)| {
        let mut webhook = webhook();
        change(&mut webhook);
        webhook
    };
    let table: [(&str, Webhook); 14] = [
        ("consumer", with(&|w| w.consumer = "_acme".to_owned())),
        ("consumer", with(&|w| w.consumer = "a/b".to_owned())),
        ("url", with(&|w| w.url = String::new())),
        ("events", with(&|w| w.events = vec!["order*".to_owned()])),
        ("events", with(&|w| w.events = vec!["a\nb".to_owned()])),
        ("headers", with(&|w| w.headers = headers("Host", "x"))),
        ("headers", with(&|w| w.headers = headers("Webhook-Id", "x"))),
        ("headers", with(&|w| w.headers = headers("x", "a\r\nb: c"))),
        ("headers", with(&|w| w.headers = headers("x y", "a"))),
        (
            "secret_headers",
            with(&|w| w.secret_headers = headers("connection", "x")),
        ),
        ("max_retries", with(&|w| w.retry.retries_max = 51)),
        ("request_timeout_seconds", with(&|w| w.timeout_s = 0)),
        (
            "expected_status_codes",
            with(&|w| w.expected_statuses = vec![404]),
        ),
        ("rate_limit_rps", with(&|w| w.rate_limit_rps = Some(0))),
    ];
    for (field, webhook) in table {
        let error = set_webhook(&registry, "wh-1", webhook).unwrap_err();
        let named = matches!(&error, RegistryError::Invalid { field: f, .. } if *f == field);
        assert!(named, "{field}: {error}");
    }
    assert!(registry.current().webhooks.is_empty());
    set_webhook(&registry, "wh-1", webhook()).unwrap();
    let unclassed = Subscription {
        classes: vec!["weather".to_owned()],
        ..subscription()
    };
    let error = set_subscription(&registry, "sub-1", unclassed).unwrap_err();
    assert!(
        error.to_string().starts_with("classes: takes message"),
        "{error}"
    );
}

#[test]
fn a_change_is_made_from_the_state_that_it_follows() {
    let (registry, _) = registry();
    set_webhook(&registry, "wh-1", webhook()).unwrap();
    let rounds = 50;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let added = registry.change_from::<RegistryError>(2, |state| {
                        let mut webhook = (*state.webhooks["wh-1"]).clone();
                        webhook.timeout_s += 1;
                        let (id, webhook) = ("wh-1".to_owned(), Box::new(webhook));
                        Ok(Change::WebhookSet { id, webhook })
                    });
                    added.unwrap();
                }
            });
        }
    });
    assert_eq!(
        registry.current().webhooks["wh-1"].timeout_s,
        30 + 2 * rounds
    );
}

#[test]
fn the_state_of_any_revision_can_be_asked_for_forwards_and_back() {
    let (registry, log) = registry();
    let empty = registry.current().revision;
    let with_one = set_webhook(&registry, "wh-1", webhook()).unwrap();
    let with_two = set_webhook(&registry, "wh-2", webhook()).unwrap();
    let mut history = History::new(Arc::new(log));
    for (revision, webhooks) in [(with_one, 1), (empty, 0), (with_two, 2), (with_one, 1)] {
        assert_eq!(history.at(revision).unwrap().webhooks.len(), webhooks);
        assert_eq!(history.revision(), revision);
    }
    // What came after the first look is read too.
    let without = registry
        .change(
            Change::WebhookDeleted {
                id: "wh-1".to_owned(),
            },
            1,
        )
        .unwrap();
    assert_eq!(history.at(without).unwrap().webhooks.len(), 1);
}
