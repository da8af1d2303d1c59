//! `fulmar listen`.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use fulmar_gateway::http::percent_encoded;
use fulmar_webhooks::client::{Client, Outgoing, SystemResolver, Target, Trust, host_of, path_of};
use fulmar_webhooks::guard::Guard;
use fulmar_webhooks::outcome::judge;
use fulmar_webhooks::sign::{self, Signer};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{HeaderMap, Method};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::calling::Api;
use super::output::{note, print_line};
use crate::data_dir::write_private;
use crate::exit::{Context as _, Failure, Outcome};
use crate::keys;
use crate::place::PlaceArgs;

/// Time of one exchange with the local program.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Between two tries of a server that does not answer.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Events as they come, at a local program: no receiver on the network is needed, only a way out to
/// the server.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar listen --event 'order.*'                                # one line for each\n  \
    fulmar listen --forward http://localhost:3000/hook --consumer acme\n  \
    fulmar listen --forward http://localhost:3000/hook --secret-file hook.key\n\n\
    What is forwarded has the form, the headers and the signature of a delivery. It is sent once:\n\
    an answer that is no 2xx is told, and not tried again. Nothing of it is kept on the server.")]
pub struct ListenArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Events published for this consumer.
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Event name, `prefix.*` or `*`.
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Post them here.
    #[arg(long, value_name = "URL")]
    forward: Option<String>,
    /// The secret that they are signed with; made, and written there, if the file is not there.
    #[arg(long, value_name = "FILE", requires = "forward")]
    secret_file: Option<PathBuf>,
    /// First offset; default what comes from now on.
    #[arg(long, value_name = "OFFSET")]
    from: Option<u64>,
    /// End after so many events.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

/// What the server answers.
#[derive(Deserialize)]
struct Heard {
    events: Vec<Event>,
    next: u64,
    missed: u64,
}

#[derive(Deserialize)]
struct Event {
    offset: u64,
    event_id: String,
    event_name: String,
    consumer: String,
    message_id: String,
    /// Its bytes are forwarded as they came.
    envelope: Box<RawValue>,
}

impl ListenArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let api = Api::of(&self.place)?;
        let forward = match &self.forward {
            None => None,
            Some(url) => Some(Forward::to(url, self.signer()?)?),
        };
        let (mut from, mut left) = (self.from, self.count.unwrap_or(u64::MAX));
        note("listening; Ctrl-C ends it");
        while left > 0 {
            let heard: Heard = match api.read(&self.path(from)) {
                Ok(heard) => heard,
                // From where it stood it goes on when the server is back.
                Err(error) if from.is_some() => {
                    note(error);
                    std::thread::sleep(TRY_AGAIN);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if heard.missed > 0 {
                note(format_args!(
                    "{} records were gone before they were heard",
                    heard.missed
                ));
            }
            for event in &heard.events {
                if left == 0 {
                    break;
                }
                left -= 1;
                let told = forward.as_ref().map(|forward| forward.post(event));
                print_line(&event.line(told.as_deref()))?;
            }
            from = Some(heard.next);
        }
        Ok(crate::exit::Exit::Done)
    }

    fn path(&self, from: Option<u64>) -> String {
        let from = from.map(|from| format!("from={from}"));
        let consumer = self.consumer.as_deref();
        let consumer = consumer.map(|name| format!("consumer={}", percent_encoded(name)));
        let event = self.event.as_deref();
        let event = event.map(|name| format!("event={}", percent_encoded(name)));
        let query: Vec<String> = [from, consumer, event].into_iter().flatten().collect();
        format!("/v1/listen?{}", query.join("&"))
    }

    /// What is signed with: a secret of a file, or none.
    fn signer(&self) -> Result<Option<Signer>, Failure> {
        let Some(file) = &self.secret_file else {
            return Ok(None);
        };
        if !file.exists() {
            let secret = sign::new_secret().context("cannot make a secret")?;
            let told = format!("cannot write {}", file.display());
            write_private(file, format!("{secret}\n").as_bytes()).context(told)?;
            note(format_args!("a new secret is in {}", file.display()));
        }
        let secret = keys::read_file(file)?;
        let told = format!("{} holds no secret", file.display());
        Signer::of(&secret).map(Some).context(told)
    }
}

impl Event {
    fn line(&self, told: Option<&str>) -> String {
        let told = told.map(|told| format!("  {told}")).unwrap_or_default();
        let consumer = if self.consumer.is_empty() {
            "-"
        } else {
            &self.consumer
        };
        let (offset, name, id) = (self.offset, &self.event_name, &self.event_id);
        format!("{offset:>10}  {name}  {consumer}  {id}{told}")
    }
}

/// A local program that events are posted to.
struct Forward {
    runtime: tokio::runtime::Runtime,
    client: Rc<Client>,
    target: Target,
    path: hyper::http::uri::PathAndQuery,
    host: HeaderValue,
    signer: Option<Signer>,
}

impl Forward {
    fn to(url: &str, signer: Option<Signer>) -> Result<Self, Failure> {
        let bad = |why: String| Failure::usage(format!("--forward {url}: {why}"));
        let parsed = url::Url::parse(url).map_err(|error| bad(error.to_string()))?;
        // Who types the command says where it goes.
        let guard = Guard::open(parsed.port().into_iter().collect());
        let judged = guard
            .judge_url(url)
            .map_err(|refused| bad(refused.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        Ok(Self {
            runtime: runtime.context("cannot start a runtime")?,
            client: Rc::new(Client::new(
                guard,
                Rc::new(SystemResolver),
                Trust::of_system(),
            )),
            target: Target::of(&judged, None),
            path: path_of(&judged)
                .parse()
                .map_err(|_| bad("its path is none".to_owned()))?,
            host: HeaderValue::from_str(&host_of(&judged))
                .map_err(|error| bad(error.to_string()))?,
            signer,
        })
    }

    /// Posts an event once, and tells what came of it.
    fn post(&self, event: &Event) -> String {
        let body = event.envelope.get().to_owned();
        let id = &*event.message_id;
        let at_s = jiff::Timestamp::now().as_second();
        let mut headers = HeaderMap::new();
        headers.insert(HOST, self.host.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut set = |name: &'static str, text: &str| {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        };
        set("webhook-id", id);
        set("webhook-timestamp", &at_s.to_string());
        if let Some(signer) = &self.signer {
            let mut signature = String::new();
            signer.append(id, at_s, body.as_bytes(), &mut signature);
            set("webhook-signature", &signature);
        }
        let outgoing = Outgoing {
            method: Method::POST,
            path: self.path.clone(),
            headers,
            body: body.into(),
            timeout: TIMEOUT,
        };
        let exchange = self.client.exchange(&self.target, outgoing);
        let local = tokio::task::LocalSet::new();
        match local.block_on(&self.runtime, exchange) {
            Ok(reply) => match judge(&reply, &[]) {
                Ok(()) => reply.status.to_string(),
                Err(fault) => fault.message,
            },
            Err(fault) => format!("{}: {}", fault.category.as_str(), fault.message),
        }
    }
}
