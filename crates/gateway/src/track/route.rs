//! The door's paths, each also under `/api`.

use hyper::Method;

/// What a path asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Track,
    Batch,
    DeviceId,
    Import,
    /// A path of older SDKs: the whole body is the payload of this type.
    Legacy(&'static str),
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
            "/import/events" => Self::Import,
            "/event" => Self::Legacy("track"),
            "/profile" => Self::Legacy("identify"),
            "/profile/increment" => Self::Legacy("increment"),
            "/profile/decrement" => Self::Legacy("decrement"),
            _ => return None,
        })
    }

    /// The label in metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Track => "/track",
            Self::Batch => "/track/batch",
            Self::DeviceId => "/track/device-id",
            Self::Import => "/import/events",
            Self::Legacy("track") => "/event",
            Self::Legacy("identify") => "/profile",
            Self::Legacy("increment") => "/profile/increment",
            Self::Legacy(_) => "/profile/decrement",
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
