//! Keys at the operator's routes.

use fulmar_gateway::http::Answer;
pub use fulmar_gateway::problem::problem;
use fulmar_registry::{DEFAULT_PROJECT, Grant, Registry, Scope};
use hyper::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use hyper::{HeaderMap, StatusCode};

use crate::admin::now_ms;

/// What the request's bearer key opens, or the refusal: 401 without a known key, 403 without the
/// scope.
pub fn admit(registry: &Registry, headers: &HeaderMap, scope: Scope) -> Result<Grant, Box<Answer>> {
    let key = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, key)| key.trim());
    let Some(grant) = key.and_then(|key| registry.grant(key, now_ms())) else {
        let detail = "a known key is needed: Authorization: Bearer KEY";
        let mut refused = problem(StatusCode::UNAUTHORIZED, "unauthenticated", detail);
        refused
            .headers_mut()
            .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return Err(Box::new(refused));
    };
    // Admin is over all projects; an earlier build gave it to clients of any.
    let operators = scope != Scope::Admin || &*grant.project == DEFAULT_PROJECT;
    if !(grant.scopes.allow(scope) && operators) {
        let detail = format!("the key lacks the scope {}", scope.as_str());
        return Err(Box::new(problem(
            StatusCode::FORBIDDEN,
            "forbidden",
            &detail,
        )));
    }
    Ok(grant)
}
