//! Filters of a list under one id, for who wants to send again what the list has shown. The id says
//! them itself: nothing is kept for it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{ApiError, Call};

/// Those of deliveries and of events.
const FILTERS: [&str; 11] = [
    "webhook_id",
    "event_id",
    "event_name",
    "subscription_id",
    "status",
    "error_category",
    "created_after",
    "created_before",
    "event",
    "schema_valid",
    "labels",
];

/// What a list's filters stand under, where the caller wants to send what they take again.
pub fn prepared(call: &Call, wish: &'static str) -> Result<Option<String>, ApiError> {
    match call.query.get(wish).map(String::as_str) {
        None | Some("" | "false") => return Ok(None),
        Some("true") => {}
        Some(_) => return Err(ApiError::invalid(wish, "takes true or false")),
    }
    let known = |name: &String| FILTERS.contains(&name.as_str());
    let query = call.query.iter().filter(|(name, _)| known(name));
    let query: BTreeMap<&String, &String> = query.collect();
    let text = serde_json::to_string(&query).map_err(|e| ApiError::Failed(e.to_string()))?;
    Ok(Some(URL_SAFE_NO_PAD.encode(text)))
}

/// The filters that an id of a list stands for, which no other filter may stand beside.
pub fn filters_of(
    id: &str,
    others: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, ApiError> {
    if let Some(name) = others.keys().next() {
        return Err(ApiError::invalid(name, "is not taken beside `repush_id`"));
    }
    let bytes = URL_SAFE_NO_PAD.decode(id).ok();
    let read = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    read.ok_or_else(|| ApiError::invalid("repush_id", "takes `repush_id` of a list"))
}

/// Those of some fields that were given.
pub fn given(fields: &[(&str, &Option<String>)]) -> BTreeMap<String, String> {
    let given = fields.iter().filter_map(|(name, text)| {
        let text = text.as_ref().filter(|text| !text.is_empty())?;
        Some(((*name).to_owned(), text.clone()))
    });
    given.collect()
}
