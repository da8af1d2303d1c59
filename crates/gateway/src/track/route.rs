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
    /// A path of Segment's: one message of this type, or a `batch`.
    Segment(&'static str),
    /// One of OpenPanel's to read or to manage, by whatever method: not built.
    NotSupported,
}

/// How those paths begin.
const NOT_SUPPORTED: [&str; 5] = ["/export/", "/insights/", "/manage/", "/trpc/", "/misc/"];

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
            // The short ones are of SDKs in browsers.
            "/v1/batch" | "/v1/b" | "/v1/import" => Self::Segment("batch"),
            "/v1/track" | "/v1/t" => Self::Segment("track"),
            "/v1/identify" | "/v1/i" => Self::Segment("identify"),
            "/v1/page" | "/v1/p" => Self::Segment("page"),
            "/v1/screen" | "/v1/s" => Self::Segment("screen"),
            "/v1/group" | "/v1/g" => Self::Segment("group"),
            "/v1/alias" | "/v1/a" => Self::Segment("alias"),
            _ if NOT_SUPPORTED.iter().any(|start| path.starts_with(start)) => Self::NotSupported,
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
            Self::Segment("track") => "/v1/track",
            Self::Segment("identify") => "/v1/identify",
            Self::Segment("page") => "/v1/page",
            Self::Segment("screen") => "/v1/screen",
            Self::Segment("group") => "/v1/group",
            Self::Segment("alias") => "/v1/alias",
            Self::Segment(_) => "/v1/batch",
            Self::NotSupported => "not_supported",
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
