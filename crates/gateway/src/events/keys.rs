//! API keys, as the registry answers for them.

use fulmar_event::Timestamp;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

/// What a live key opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// The client: the source in the identity of its events.
    pub id: String,
    /// Its project.
    pub project: String,
    /// It may send events.
    pub can_ingest: bool,
    /// The registry version that says so (R2).
    pub control_offset: u64,
}

/// Why a key opens nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// 401: unknown, revoked or past its time.
    #[error("the key is not known")]
    Unknown,
    /// 429: too many checks of costly hashes are under way.
    #[error("too many keys are being checked")]
    Busy,
}

/// The registry's keys.
pub trait KeyStore: Send + Sync + 'static {
    /// What the presented key opens at `now`. A look into memory.
    fn authenticate(&self, presented: &str, now: Timestamp) -> Result<Client, KeyError>;
}

/// The key of a request: as a bearer, or in `X-API-Key`, as other systems' clients have it.
pub fn api_key(headers: &HeaderMap) -> Option<&str> {
    let named = || headers.get("x-api-key")?.to_str().ok();
    bearer(headers).or_else(|| named().map(str::trim).filter(|key| !key.is_empty()))
}

/// The key in `Authorization: Bearer KEY`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}
