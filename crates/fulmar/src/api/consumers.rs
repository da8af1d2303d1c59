//! Consumers, and what a caller may know of the server.

use std::collections::BTreeMap;

use hyper::Method;
use schemars::JsonSchema;
use serde::Serialize;

use super::paging::Page;
use super::route::Route;
use super::{ApiError, Call, Reply};

/// Query parameters of the list.
const SEARCH: &[(&str, &str)] = &[
    ("q", "a part of the name"),
    ("limit", "items of a page, 1 to 1000; default 50"),
    ("cursor", "`next_cursor` of the page before"),
];

pub fn routes(routes: &mut Vec<Route>) {
    let (list_path, get) = ("/v1/consumers", Method::GET);
    let told = ("listConsumers", "Consumers that have webhooks");
    let route = Route::new(get.clone(), list_path, told, list);
    routes.push(route.gives::<ConsumerPage>(200).asks(SEARCH));
    let told = ("getCapabilities", "What this server does");
    let route = Route::new(get.clone(), "/v1/capabilities", told, capabilities);
    routes.push(route.gives::<Capabilities>(200));
    let told = ("whoAmI", "The project that calls with this key act in");
    routes.push(Route::new(get, "/v1/whoami", told, who_am_i).gives::<WhoAmI>(200));
}

/// A consumer.
#[derive(Serialize, JsonSchema)]
struct ConsumerView {
    name: String,
    webhooks: usize,
    subscriptions: usize,
}

/// A page of consumers.
#[derive(Serialize, JsonSchema)]
struct ConsumerPage {
    consumers: Vec<ConsumerView>,
    /// Of the next page; null at the end.
    next_cursor: Option<String>,
}

/// What the server does.
#[derive(Serialize, JsonSchema)]
struct Capabilities {
    version: &'static str,
    signatures: Vec<&'static str>,
    transforms: bool,
    batch_publish: bool,
}

/// Who calls.
#[derive(Serialize, JsonSchema)]
struct WhoAmI {
    project: String,
}

fn list(call: &Call) -> Result<Reply, ApiError> {
    let (page, state) = (Page::of(call)?, call.state());
    let mut found: BTreeMap<&str, ConsumerView> = BTreeMap::new();
    let view = |name: &str| ConsumerView {
        name: name.to_owned(),
        webhooks: 0,
        subscriptions: 0,
    };
    for one in state
        .webhooks
        .values()
        .filter(|one| one.project == call.project)
    {
        let consumer = found
            .entry(&one.consumer)
            .or_insert_with(|| view(&one.consumer));
        consumer.webhooks += 1;
    }
    for one in state
        .subscriptions
        .values()
        .filter(|one| one.project == call.project)
    {
        let consumer = found
            .entry(&one.consumer)
            .or_insert_with(|| view(&one.consumer));
        consumer.subscriptions += 1;
    }
    let part = call.query.get("q").map_or("", String::as_str);
    let after = page.after.clone().unwrap_or_default();
    let rest = found
        .into_iter()
        .filter(|(name, _)| **name > *after && name.contains(part));
    let (consumers, next_cursor) = page.cut(rest.map(|(name, view)| (name.to_owned(), view)));
    Reply::ok(&ConsumerPage {
        consumers,
        next_cursor,
    })
}

fn capabilities(_: &Call) -> Result<Reply, ApiError> {
    Reply::ok(&Capabilities {
        version: env!("CARGO_PKG_VERSION"),
        signatures: vec!["v1"],
        transforms: false,
        batch_publish: true,
    })
}

fn who_am_i(call: &Call) -> Result<Reply, ApiError> {
    Reply::ok(&WhoAmI {
        project: call.project.clone(),
    })
}
