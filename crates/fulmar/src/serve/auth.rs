//! Keys at the operator's routes.

use fulmar_gateway::events::api_key;
use fulmar_gateway::http::Answer;
pub use fulmar_gateway::problem::problem;
use fulmar_registry::{DEFAULT_PROJECT, Grant, Registry, Scope};
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use hyper::{HeaderMap, StatusCode};

use crate::admin::now_ms;

/// What the request's bearer key opens, or the refusal: 401 without a known key, 403 without the
/// scope.
pub fn admit(registry: &Registry, headers: &HeaderMap, scope: Scope) -> Result<Grant, Box<Answer>> {
    let key = api_key(headers);
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
    // An operator may do whatever a key of a project may.
    let allowed = grant.scopes.allow(scope) || scope == Scope::Webhooks && grant.is_operator();
    if !(allowed && operators) {
        let detail = match operators {
            true => format!("the key lacks the scope {}", scope.as_str()),
            false => format!(
                "the key is of project `{}`: the scope admin is over all projects, and counts for \
                 keys of the project `{DEFAULT_PROJECT}` alone",
                grant.project
            ),
        };
        return Err(Box::new(problem(
            StatusCode::FORBIDDEN,
            "forbidden",
            &detail,
        )));
    }
    Ok(grant)
}

#[cfg(test)]
mod tests {
    use fulmar_registry::{ApiKey, Change, MemoryLog};
    use hyper::header::AUTHORIZATION;

    use super::*;

    #[tokio::test]
    async fn admin_of_an_older_build_in_another_project_is_told_where_the_scope_counts() {
        let registry = Registry::open(MemoryLog::default()).unwrap();
        registry.ensure_default_project(1).unwrap();
        let project = "shop".to_owned();
        registry
            .change(Change::ProjectCreated { project }, 1)
            .unwrap();
        let key = ApiKey::generate().unwrap();
        let bearer = format!("Bearer {}", key.reveal());
        let admin = vec![Scope::Admin];
        registry.admit_key(key, "shop", "ops", admin, 1).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, bearer.parse().unwrap());
        let refused = admit(&registry, &headers, Scope::Admin).unwrap_err();
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        let body = http_body_util::BodyExt::collect(refused.into_body()).await;
        let body = String::from_utf8(body.unwrap().to_bytes().to_vec()).unwrap();
        assert!(
            body.contains("`shop`") && body.contains("`default` alone"),
            "{body}"
        );
    }
}
