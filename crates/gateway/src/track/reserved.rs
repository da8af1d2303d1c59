//! The properties of an event that mean something to the door: names that start with `__`.

use std::borrow::Cow;
use std::net::IpAddr;

use fulmar_enrich::claimed_device_id;
use fulmar_event::Timestamp;

use super::members::{members, string};
use crate::events::Fault;
use crate::events::time::parse_rfc3339;

/// Bytes of a page's or a referrer's URL that are kept: beyond, servers refuse such URLs.
const URL_BYTES_MAX: usize = 8 * 1024;
/// Bytes of an override such as `__browser`.
const OVERRIDE_BYTES_MAX: usize = 128;

/// Fields of the user agent that an app may say itself.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Overrides<'a> {
    pub(super) os: Cow<'a, str>,
    pub(super) os_version: Cow<'a, str>,
    pub(super) browser: Cow<'a, str>,
    pub(super) browser_version: Cow<'a, str>,
    pub(super) device: Cow<'a, str>,
    pub(super) brand: Cow<'a, str>,
    pub(super) model: Cow<'a, str>,
}

/// What reserved properties say.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Reserved<'a> {
    pub(super) path: Cow<'a, str>,
    pub(super) referrer: Cow<'a, str>,
    pub(super) claimed_ms: Option<i64>,
    pub(super) address: Option<IpAddr>,
    pub(super) device_id: Option<Cow<'a, str>>,
    /// The JSON token of `__revenue`.
    pub(super) revenue: Option<&'a str>,
    /// The object of `__identify`.
    pub(super) identify: Option<&'a str>,
    pub(super) overrides: Overrides<'a>,
    /// A member stands there that only a server may write.
    pub(super) forged: bool,
}

/// Properties that only the server makes: what a client sends under these names is left out.
fn is_forged(name: &str) -> bool {
    name.starts_with("__bot") || name.starts_with("__query") || name == "__hash"
}

/// Reads the reserved properties of an object. A value of the wrong kind is a property like any
/// other, and says nothing.
pub(super) fn reserved<'a>(properties: &'a str, field: &str) -> Result<Reserved<'a>, Fault> {
    let mut found = Reserved::default();
    let (mut legacy_path, mut legacy_referrer) = (Cow::Borrowed(""), Cow::Borrowed(""));
    members(properties, field, |name, value| {
        match name {
            "path" => legacy_path = bounded(value, field, URL_BYTES_MAX)?,
            "referrer" => legacy_referrer = bounded(value, field, URL_BYTES_MAX)?,
            name if !name.starts_with("__") => {}
            "__path" => found.path = bounded(value, field, URL_BYTES_MAX)?,
            "__referrer" => found.referrer = bounded(value, field, URL_BYTES_MAX)?,
            "__timestamp" => found.claimed_ms = claimed_ms(value, field)?,
            "__ip" => {
                found.address = string(value, field)?.and_then(|text| text.trim().parse().ok());
            }
            "__deviceId" => found.device_id = string(value, field)?.and_then(device),
            "__revenue" => found.revenue = Some(value),
            "__identify" if value.starts_with('{') => found.identify = Some(value),
            name if is_forged(name) => found.forged = true,
            name => override_of(&mut found.overrides, name, value, field)?,
        }
        Ok(())
    })?;
    if found.path.is_empty() {
        found.path = legacy_path;
    }
    if found.referrer.is_empty() {
        found.referrer = legacy_referrer;
    }
    Ok(found)
}

fn override_of<'a>(
    overrides: &mut Overrides<'a>,
    name: &str,
    value: &'a str,
    field: &str,
) -> Result<(), Fault> {
    let place = match name {
        "__os" => &mut overrides.os,
        "__osVersion" => &mut overrides.os_version,
        "__browser" => &mut overrides.browser,
        "__browserVersion" => &mut overrides.browser_version,
        "__device" => &mut overrides.device,
        "__brand" => &mut overrides.brand,
        "__model" => &mut overrides.model,
        _ => return Ok(()),
    };
    *place = bounded(value, field, OVERRIDE_BYTES_MAX)?;
    Ok(())
}

/// A string of at most so many bytes; empty for anything else.
fn bounded<'a>(value: &'a str, field: &str, bytes_max: usize) -> Result<Cow<'a, str>, Fault> {
    let text = string(value, field)?.unwrap_or_default();
    Ok(match text.len() > bytes_max {
        true => Cow::Borrowed(""),
        false => text,
    })
}

fn device(text: Cow<'_, str>) -> Option<Cow<'_, str>> {
    match text {
        Cow::Borrowed(text) => claimed_device_id(text).map(Cow::Borrowed),
        Cow::Owned(text) => claimed_device_id(&text).map(|id| Cow::Owned(id.to_owned())),
    }
}

/// A time as SDKs write it: RFC 3339, a date alone, or milliseconds since the epoch.
pub(super) fn claimed_ms(value: &str, field: &str) -> Result<Option<i64>, Fault> {
    let Some(text) = string(value, field)? else {
        return Ok(value.parse().ok().filter(|ms| valid_ms(*ms)));
    };
    Ok(time_of(&text).map(Timestamp::as_millis))
}

/// A time in text: RFC 3339, or a date alone, which is its midnight.
pub(super) fn time_of(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    match text.len() {
        10 => parse_rfc3339(&format!("{text}T00:00:00Z")),
        _ => parse_rfc3339(text),
    }
}

fn valid_ms(ms: i64) -> bool {
    Timestamp::from_millis(ms).is_valid()
}

/// The properties without the members that only the server makes.
pub(super) fn without_forged(properties: &str) -> Result<String, Fault> {
    let mut kept = String::from("{");
    // The names as they stand can't be had from a decoded one: written anew.
    members(properties, "payload.properties", |name, value| {
        if !is_forged(name) {
            if kept.len() > 1 {
                kept.push(',');
            }
            let mut quoted = Vec::new();
            crate::events::verdict::push_json_string(name, &mut quoted);
            kept.push_str(&String::from_utf8_lossy(&quoted));
            kept.push(':');
            kept.push_str(value);
        }
        Ok(())
    })?;
    kept.push('}');
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reserved_name_is_read_and_others_are_not() {
        let text = concat!(
            r#"{"a":1,"__path":"/p","path":"/old","referrer":"https://r.example/","__ip":"203.0.113.5","#,
            r#""__timestamp":"2026-11-30T10:00:00.000Z","__deviceId":" dev-1 ","__revenue":1999,"#,
            r#""__identify":{"profileId":"u","email":"a@b.co"},"__os":"iOS","__bot":"1"}"#
        );
        let found = reserved(text, "f").unwrap();
        assert_eq!(
            (&*found.path, &*found.referrer),
            ("/p", "https://r.example/")
        );
        // 2026-11-30T10:00:00Z: 1,796,032,800 s since the epoch by `date -d`.
        assert_eq!(found.claimed_ms, Some(1_796_032_800_000));
        assert_eq!(found.device_id.as_deref(), Some("dev-1"));
        assert_eq!(found.address.unwrap().to_string(), "203.0.113.5");
        assert_eq!((found.revenue, &*found.overrides.os), (Some("1999"), "iOS"));
        assert!(found.forged && found.identify.is_some());
    }

    #[test]
    fn a_value_of_the_wrong_kind_says_nothing() {
        let text = r#"{"__path":1,"__ip":"x","__timestamp":"soon","__deviceId":"","__identify":1}"#;
        assert_eq!(reserved(text, "f").unwrap(), Reserved::default());
        let null = r#"{"__path":null,"__timestamp":null}"#;
        assert_eq!(reserved(null, "f").unwrap(), Reserved::default());
    }

    #[test]
    fn times_are_read_as_sdks_write_them() {
        let ms = |value| claimed_ms(value, "f").unwrap();
        assert_eq!(ms("1700000000000"), Some(1_700_000_000_000));
        assert_eq!(ms("\"2023-11-14\""), Some(1_699_920_000_000));
        assert_eq!(
            ms("\"2023-11-14T22:13:20.5+01:00\""),
            Some(1_699_996_400_500)
        );
        for value in ["\"\"", "true", "1.5", "99999999999999999", "{}"] {
            assert_eq!(ms(value), None, "{value}");
        }
    }

    #[test]
    fn what_only_the_server_writes_is_left_out() {
        let text =
            r#"{"__bot":"1","a":{"__bot":2},"__query.x":1,"b\"":[1, 2],"__bot_reasons":"x"}"#;
        let kept = without_forged(text).unwrap();
        assert_eq!(kept, r#"{"a":{"__bot":2},"b\"":[1, 2]}"#);
        assert_eq!(without_forged(r#"{"__hash":"x"}"#).unwrap(), "{}");
    }
}
