//! The table of routes, from which calls are dispatched and the OpenAPI document is made.

use std::collections::BTreeMap;

use fulmar_gateway::http::percent_decoded;
use hyper::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{
    Call, Reply, consumers, deliveries, event_types, events, health, import, jobs, listen, repush,
    retry, signing, subscriptions, trial, webhooks,
};
use crate::api::error::ApiError;

/// Makes the schema of a body.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What answers a call. It may block.
pub type Handle = fn(&Call) -> Result<Reply, ApiError>;

/// One operation.
pub struct Route {
    /// Its method.
    pub method: Method,
    /// Its path, with `{name}` for what varies.
    pub path: &'static str,
    /// Its name for clients that are generated.
    pub id: &'static str,
    /// What it does, one line.
    pub summary: &'static str,
    /// Query parameters, with what they are.
    pub query: &'static [(&'static str, &'static str)],
    /// The request's body.
    pub takes: Option<SchemaOf>,
    /// Status and body of the answer.
    pub gives: (u16, Option<SchemaOf>),
    /// Answers it.
    pub handle: Handle,
}

impl Route {
    /// An operation without a body, either way.
    pub fn new(
        method: Method,
        path: &'static str,
        (id, summary): (&'static str, &'static str),
        handle: Handle,
    ) -> Self {
        Self {
            method,
            path,
            id,
            summary,
            query: &[],
            takes: None,
            gives: (204, None),
            handle,
        }
    }

    /// It takes a body.
    pub fn takes<T: JsonSchema>(self) -> Self {
        Self {
            takes: Some(schema::<T>),
            ..self
        }
    }

    /// It is answered with a body.
    pub fn gives<T: JsonSchema>(self, status: u16) -> Self {
        Self {
            gives: (status, Some(schema::<T>)),
            ..self
        }
    }

    /// It takes these in its query.
    pub fn asks(self, query: &'static [(&'static str, &'static str)]) -> Self {
        Self { query, ..self }
    }
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Query parameters of lists.
pub const PAGING: &[(&str, &str)] = &[
    ("limit", "items of a page, 1 to 1000; default 50"),
    ("cursor", "`next_cursor` of the page before"),
];

/// All operations.
#[must_use]
pub fn routes() -> Vec<Route> {
    let mut routes = Vec::new();
    webhooks::routes(&mut routes);
    signing::routes(&mut routes);
    trial::routes(&mut routes);
    subscriptions::routes(&mut routes);
    event_types::routes(&mut routes);
    consumers::routes(&mut routes);
    events::routes(&mut routes);
    deliveries::routes(&mut routes);
    retry::routes(&mut routes);
    repush::routes(&mut routes);
    jobs::routes(&mut routes);
    listen::routes(&mut routes);
    import::routes(&mut routes);
    health::routes(&mut routes);
    routes
}

/// What a path of a template holds in the places of its names; none if it is of another template.
#[must_use]
pub fn match_path(template: &str, path: &str) -> Option<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(found),
            (Some(wanted), Some(given)) => {
                let Some((name, verb)) = wanted.strip_prefix('{').and_then(|w| w.split_once('}'))
                else {
                    if wanted != given {
                        return None;
                    }
                    continue;
                };
                let value = percent_decoded(given.strip_suffix(verb)?)?;
                // A verb is no part of a name: `{id}` does not take `a:pause`.
                if value.is_empty() || verb.is_empty() && given.contains(':') {
                    return None;
                }
                found.insert(name.to_owned(), value);
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_matched_whole_and_verbs_are_no_ids() {
        let one = |template: &str, path: &str| {
            match_path(template, path).map(|found| found.into_values().collect::<Vec<_>>())
        };
        let list = "/v1/consumers/{consumer}/webhooks";
        assert_eq!(
            one(list, "/v1/consumers/a%20b/webhooks"),
            Some(vec!["a b".to_owned()])
        );
        assert_eq!(one(list, "/v1/consumers/a/webhooks/x"), None);
        assert_eq!(one(list, "/v1/consumers//webhooks"), None);
        let item = "/v1/webhooks/{id}";
        assert_eq!(
            one(item, "/v1/webhooks/wh_1"),
            Some(vec!["wh_1".to_owned()])
        );
        assert_eq!(one(item, "/v1/webhooks/wh_1:pause"), None);
        assert_eq!(
            one("/v1/webhooks/{id}:pause", "/v1/webhooks/wh_1:pause"),
            Some(vec!["wh_1".to_owned()])
        );
        assert_eq!(one(item, "/v1/webhooks/%zz"), None);
    }

    #[test]
    fn no_two_operations_share_a_name_or_a_path() {
        let mut seen = std::collections::BTreeSet::new();
        for route in routes() {
            assert!(seen.insert(route.id.to_owned()), "{}", route.id);
            assert!(
                seen.insert(format!("{} {}", route.method, route.path)),
                "{}",
                route.path
            );
        }
    }
}
