//! How a webhook is sent to: its URL, headers and secrets, made ready once for many deliveries.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fulmar_registry::{BodyShape, Snapshot, Subscription, Webhook};
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::http::uri::PathAndQuery;
use hyper::{HeaderMap, Method};

use crate::client::{Category, Fault, Outgoing, Phase, Target, host_of, path_of};
use crate::guard::Guard;
use crate::seal::Keyring;
use crate::sign::Signer;

/// What deliveries are sent as, unless the webhook says otherwise.
const CONTENT_TYPE_DEFAULT: &str = "application/json";
const USER_AGENT_DEFAULT: &str = concat!("Fulmar-Webhook/", env!("CARGO_PKG_VERSION"));

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const SPARROW_EVENT: HeaderName = HeaderName::from_static("x-sparrow-event-id");
const SPARROW_DELIVERY: HeaderName = HeaderName::from_static("x-sparrow-delivery-id");
const SPARROW_WEBHOOK: HeaderName = HeaderName::from_static("x-sparrow-webhook-id");
const REPLAY: HeaderName = HeaderName::from_static("fulmar-replay");
const SPARROW_ATTEMPT: HeaderName = HeaderName::from_static("x-sparrow-attempt");

/// A webhook that is ready to be sent to.
pub struct Receiver {
    /// As the registry has it.
    pub webhook: Arc<Webhook>,
    target: Target,
    path: PathAndQuery,
    method: Method,
    headers: HeaderMap,
    signers: Vec<(Signer, Option<i64>)>,
    timeout: Duration,
    id: HeaderValue,
}

/// What one attempt says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// The delivery's id.
    pub delivery: &'a str,
    /// The event's id, as sent.
    pub event: &'a str,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// When it is made, ms since the epoch.
    pub now_ms: i64,
    /// Somebody asked for the delivery once more.
    pub by_hand: bool,
}

impl Receiver {
    /// Makes a webhook ready.
    ///
    /// # Errors
    /// [`Fault`] when its URL is refused by now, or a secret of it can't be opened: then nothing
    /// is sent, least of all without it.
    pub fn of(
        (id, webhook): (&str, &Arc<Webhook>),
        subscription: Option<&Subscription>,
        keyring: &Keyring,
        guard: &Guard,
    ) -> Result<Self, Fault> {
        let url = guard.judge_url(&webhook.url);
        let url = url.map_err(|refused| Fault::blocked(&refused))?;
        let open = |sealed: &str| {
            let opened = keyring.open(sealed);
            opened.map_err(|error| unready(format!("a secret of the webhook: {error}")))
        };
        let mut headers = HeaderMap::new();
        put(&mut headers, HOST.as_str(), &host_of(&url))?;
        let or = |text: &str, default: &str| match text {
            "" => default.to_owned(),
            text => text.to_owned(),
        };
        let content_type = or(&webhook.content_type, CONTENT_TYPE_DEFAULT);
        put(&mut headers, CONTENT_TYPE.as_str(), &content_type)?;
        let user_agent = or(&webhook.user_agent, USER_AGENT_DEFAULT);
        put(&mut headers, USER_AGENT.as_str(), &user_agent)?;
        for (name, value) in &webhook.headers {
            put(&mut headers, name, value)?;
        }
        for (name, value) in subscription.iter().flat_map(|one| &one.headers) {
            put(&mut headers, name, value)?;
        }
        for (name, sealed) in &webhook.secret_headers {
            put(&mut headers, name, &open(sealed)?)?;
            if let Some(value) = headers.get_mut(name) {
                value.set_sensitive(true);
            }
        }
        let mut signers = Vec::with_capacity(webhook.secrets.len());
        // The newest first, as receivers try them in order.
        for secret in webhook.secrets.iter().rev() {
            let signer = Signer::of(&open(&secret.sealed)?);
            let signer = signer.map_err(|error| unready(format!("a secret {error}")))?;
            signers.push((signer, secret.expires_ms));
        }
        let method = match subscription.map_or("", |one| one.method.as_str()) {
            "" => Method::POST,
            named => Method::from_bytes(named.as_bytes()).map_err(|e| unready(e.to_string()))?,
        };
        let path = path_of(&url);
        let seconds = subscription
            .and_then(|one| one.timeout_s)
            .unwrap_or(webhook.timeout_s);
        Ok(Self {
            target: Target::of(&url, webhook.ca_pem.as_deref()),
            path: path
                .parse()
                .map_err(|_| unready(format!("path `{path}`")))?,
            method,
            headers,
            signers,
            timeout: Duration::from_secs(u64::from(seconds.max(1))),
            id: HeaderValue::from_str(id).map_err(|e| unready(e.to_string()))?,
            webhook: Arc::clone(webhook),
        })
    }

    /// Where it is sent.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// What its deliveries' bodies are.
    #[must_use]
    pub fn shape(&self) -> BodyShape {
        self.webhook.body
    }

    /// The request of one attempt, signed.
    #[must_use]
    pub fn outgoing(&self, labels: Labels<'_>, body: bytes::Bytes) -> Outgoing {
        let mut headers = self.headers.clone();
        let mut set = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        let id = format!("msg_{}", labels.delivery);
        let at_s = labels.now_ms.div_euclid(1_000);
        set(WEBHOOK_ID, &id);
        set(WEBHOOK_TIMESTAMP, &at_s.to_string());
        let mut signatures = String::new();
        for (signer, expires_ms) in &self.signers {
            if expires_ms.is_none_or(|at_ms| labels.now_ms < at_ms) {
                signer.append(&id, at_s, &body, &mut signatures);
            }
        }
        if !signatures.is_empty() {
            set(WEBHOOK_SIGNATURE, &signatures);
        }
        if labels.by_hand {
            set(REPLAY, "true");
        }
        if !self.webhook.plain_headers {
            // An id that no header can carry is in the body all the same.
            set(SPARROW_EVENT, labels.event);
            set(SPARROW_DELIVERY, labels.delivery);
            set(SPARROW_ATTEMPT, &labels.attempt.to_string());
            headers.insert(SPARROW_WEBHOOK, self.id.clone());
        }
        Outgoing {
            method: self.method.clone(),
            path: self.path.clone(),
            headers,
            body,
            timeout: self.timeout,
        }
    }
}

fn put(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), Fault> {
    let name = HeaderName::from_bytes(name.as_bytes());
    let value = HeaderValue::from_str(value);
    match (name, value) {
        (Ok(name), Ok(value)) => {
            headers.insert(name, value);
            Ok(())
        }
        _ => Err(unready("a header of the webhook can't be sent".to_owned())),
    }
}

fn unready(message: String) -> Fault {
    Fault::new(Category::Unsendable, Phase::Resolve, message)
}

/// A webhook's receiver, or why it can't be sent to.
pub(super) type Ready = Rc<Result<Receiver, Fault>>;

/// Receivers that were made ready, by webhook and subscription.
pub(super) struct Receivers {
    keyring: Arc<Keyring>,
    guard: Guard,
    state: Arc<Snapshot>,
    known: HashMap<Rc<str>, HashMap<Option<Rc<str>>, Ready>>,
}

impl Receivers {
    pub fn new(keyring: Arc<Keyring>, guard: Guard, state: Arc<Snapshot>) -> Self {
        Self {
            keyring,
            guard,
            state,
            known: HashMap::new(),
        }
    }

    /// Goes on with a newer registry. All are made anew when next sent to: it changes seldom.
    pub fn renew(&mut self, state: Arc<Snapshot>) {
        self.known.clear();
        self.state = state;
    }

    pub fn state(&self) -> &Arc<Snapshot> {
        &self.state
    }

    /// The receiver of a webhook; none when it is gone. A subscription that is gone by now changes
    /// nothing of how its deliveries are sent but what it said itself.
    pub fn get(&mut self, webhook: &Rc<str>, subscription: Option<&Rc<str>>) -> Option<Ready> {
        let record = self.state.webhooks.get(&**webhook)?;
        let of_webhook = self.known.entry(Rc::clone(webhook)).or_default();
        if let Some(ready) = of_webhook.get(&subscription.cloned()) {
            return Some(Rc::clone(ready));
        }
        let named = subscription.and_then(|id| self.state.subscriptions.get(&**id));
        let named = named.map(|one| &**one);
        let made = Receiver::of((webhook, record), named, &self.keyring, &self.guard);
        let ready = Rc::new(made);
        of_webhook.insert(subscription.cloned(), Rc::clone(&ready));
        Some(ready)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fulmar_registry::SigningSecret;

    use super::*;

    fn keyring() -> Keyring {
        Keyring::parse(&Keyring::generate("a").unwrap()).unwrap()
    }

    fn receiver(keyring: &Keyring, change: impl FnOnce(&mut Webhook)) -> Result<Receiver, Fault> {
        let mut webhook = Webhook {
            url: "http://192.0.0.1:8080/in?x=1".to_owned(),
            timeout_s: 7,
            ..Webhook::default()
        };
        change(&mut webhook);
        let allowed = vec!["192.0.0.1/32".parse().unwrap()];
        let guard = Guard::new(allowed, Vec::new());
        Receiver::of(("wh-1", &Arc::new(webhook)), None, keyring, &guard)
    }

    const LABELS: Labels<'static> = Labels {
        delivery: "00112233445566778899aabbccddeeff",
        event: "evt-1",
        attempt: 3,
        now_ms: 1_700_000_000_900,
        by_hand: false,
    };

    #[test]
    fn an_attempt_carries_its_ids_and_a_signature_per_living_secret() {
        let ring = keyring();
        let secret = |expires_ms| SigningSecret {
            sealed: ring.seal("a secret of sixteen").unwrap(),
            expires_ms,
            public_key: None,
        };
        let made = receiver(&ring, |webhook| {
            webhook.secrets = vec![
                secret(Some(1_700_000_000_000)),
                secret(Some(1_800_000_000_000)),
                secret(None),
            ];
            webhook.secret_headers = [("X-Token".to_owned(), ring.seal("t0k").unwrap())].into();
        });
        let outgoing = made.unwrap().outgoing(LABELS, "{}".into());
        let header = |name: &str| outgoing.headers[name].to_str().unwrap().to_owned();
        assert_eq!(header("webhook-id"), "msg_00112233445566778899aabbccddeeff");
        assert_eq!(header("webhook-timestamp"), "1700000000");
        assert_eq!(header("x-sparrow-event-id"), "evt-1");
        assert_eq!(header("x-sparrow-webhook-id"), "wh-1");
        assert_eq!(header("x-sparrow-attempt"), "3");
        assert_eq!(header("x-token"), "t0k");
        assert_eq!(header("host"), "192.0.0.1:8080");
        assert_eq!(header("content-type"), "application/json");
        assert_eq!(outgoing.path.as_str(), "/in?x=1");
        assert_eq!(outgoing.timeout, Duration::from_secs(7));
        let signatures = header("webhook-signature");
        assert_eq!(
            signatures.split(' ').count(),
            2,
            "the expired one is silent"
        );
        let signer = Signer::of("a secret of sixteen").unwrap();
        let id = header("webhook-id");
        assert!(signer.verifies(&id, 1_700_000_000, b"{}", &signatures, 1_700_000_000));
        assert!(!format!("{:?}", outgoing.headers).contains("t0k"));
    }

    #[test]
    fn plain_headers_leave_the_others_out() {
        let made = receiver(&keyring(), |webhook| webhook.plain_headers = true);
        let outgoing = made.unwrap().outgoing(LABELS, "{}".into());
        let named = |name: &&HeaderName| name.as_str().starts_with("x-");
        assert_eq!(outgoing.headers.keys().filter(named).count(), 0);
    }

    #[test]
    fn what_cannot_be_opened_or_is_refused_is_not_sent_to() {
        let sealed = keyring().seal("a secret of sixteen").unwrap();
        let category = |made: Result<Receiver, Fault>| made.err().map(|fault| fault.category);
        let foreign = receiver(&keyring(), |webhook| {
            webhook.secret_headers = BTreeMap::from([("x-token".to_owned(), sealed)]);
        });
        assert_eq!(category(foreign), Some(Category::Unsendable));
        let refused = receiver(&keyring(), |webhook| {
            webhook.url = "http://127.0.0.1:9000/".to_owned();
        });
        assert_eq!(category(refused), Some(Category::BlockedAddress));
    }
}
