//! The door's paths, each also under `/api`.

use hyper::Method;

/// What a path asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Track,
    Batch,
    DeviceId,
}

impl Route {
    pub(super) fn of(path: &str) -> Option<Self> {
        let path = match path.strip_prefix("/api") {
            Some(rest) if rest.starts_with('/') => rest,
            _ => path,
        };
        Some(match path {
            "/track" => Self::Track,
            "/track/batch" => Self::Batch,
            "/track/device-id" => Self::DeviceId,
            _ => return None,
        })
    }

    /// The label in metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Track => "/track",
            Self::Batch => "/track/batch",
            Self::DeviceId => "/track/device-id",
        }
    }

    pub(super) fn method(self) -> Method {
        match self {
            Self::DeviceId => Method::GET,
            _ => Method::POST,
        }
    }

    /// The `Allow` of an answer to another method.
    pub(super) fn allowed(self) -> &'static str {
        match self {
            Self::DeviceId => "GET, OPTIONS",
            _ => "POST, OPTIONS",
        }
    }
}
