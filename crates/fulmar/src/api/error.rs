//! Refusals of the API, as problem details (RFC 9457).

use fulmar_gateway::http::Answer;
use fulmar_gateway::problem::{problem, problem_for_now, problem_of_field};
use fulmar_registry::RegistryError;
use fulmar_store::query::QueryError;
use hyper::StatusCode;

use crate::query;

/// After which who is told that there is too much may ask again.
const BUSY_SECONDS: u32 = 5;

/// Why a call was not answered.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// There is no such thing in the caller's project.
    #[error("{0}")]
    NotFound(String),
    /// It is there already, or in the way.
    #[error("{detail}")]
    Conflict {
        /// For machines.
        code: &'static str,
        /// For people.
        detail: String,
    },
    /// The request is not one.
    #[error("{0}")]
    Malformed(String),
    /// A field breaks its rule.
    #[error("{field}: {rule}")]
    Invalid {
        /// The field.
        field: String,
        /// What it takes.
        rule: String,
    },
    /// Part of the interface that is not there.
    #[error("{0}")]
    NotBuilt(&'static str),
    /// Too much of it at once.
    #[error("{0}: ask again in a moment")]
    Busy(String),
    /// Not now.
    #[error("{0}")]
    Unavailable(String),
    /// The tables can't be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// A defect.
    #[error("{0}")]
    Failed(String),
    /// The registry refused.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl ApiError {
    /// A field that breaks its rule.
    pub fn invalid(field: impl Into<String>, rule: impl Into<String>) -> Self {
        Self::Invalid {
            field: field.into(),
            rule: rule.into(),
        }
    }

    /// A thing of the caller's that is not there.
    pub fn unknown(kind: &str, id: &str) -> Self {
        Self::NotFound(format!("no {kind} `{id}`"))
    }

    /// The problem that the caller gets.
    pub fn answer(&self) -> Answer {
        let told = self.to_string();
        match self {
            Self::NotFound(_) | Self::Registry(RegistryError::Unknown { .. }) => {
                problem(StatusCode::NOT_FOUND, "not_found", &told)
            }
            Self::Conflict { code, .. } => problem(StatusCode::CONFLICT, code, &told),
            Self::Malformed(_) => problem(StatusCode::BAD_REQUEST, "malformed", &told),
            Self::Invalid { field, rule } => {
                problem_of_field(StatusCode::UNPROCESSABLE_ENTITY, "invalid", field, rule)
            }
            Self::NotBuilt(_) => problem(StatusCode::NOT_IMPLEMENTED, "not_built", &told),
            Self::Query(error) => query::refusal(error),
            Self::Unavailable(_) | Self::Registry(RegistryError::Log(_)) => {
                problem(StatusCode::SERVICE_UNAVAILABLE, "unavailable", &told)
            }
            Self::Busy(_) => {
                problem_for_now(StatusCode::TOO_MANY_REQUESTS, "busy", &told, BUSY_SECONDS)
            }
            Self::Failed(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "failed", &told),
            Self::Registry(RegistryError::Invalid { field, rule }) => {
                problem_of_field(StatusCode::UNPROCESSABLE_ENTITY, "invalid", field, rule)
            }
            Self::Registry(RegistryError::Exists { .. }) => {
                problem(StatusCode::CONFLICT, "exists", &told)
            }
            Self::Registry(_) => problem(StatusCode::UNPROCESSABLE_ENTITY, "refused", &told),
        }
    }
}
