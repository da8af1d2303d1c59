//! A query string's pairs, decoded, and the campaign (UTM) fields among them.

use std::borrow::Cow;

/// Pairs read of one query string. Pages carry a handful; what stands behind the 100th is
/// padding, and each pair would become a stored property (I7).
pub const QUERY_PAIRS_MAX: usize = 100;

/// The campaign fields of a page, each empty when absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Campaign<'a> {
    /// `utm_source`
    pub source: Cow<'a, str>,
    /// `utm_medium`
    pub medium: Cow<'a, str>,
    /// `utm_campaign`
    pub campaign: Cow<'a, str>,
    /// `utm_term`
    pub term: Cow<'a, str>,
    /// `utm_content`
    pub content: Cow<'a, str>,
}

/// The pairs of a query string in their order, decoded as
/// `application/x-www-form-urlencoded` (WHATWG URL section 5.1): `+` is a space, `%XX` a byte,
/// other `%` stand for themselves, invalid UTF-8 becomes U+FFFD. Repeated names are kept; at
/// most [`QUERY_PAIRS_MAX`] pairs are read.
pub fn query_pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .take(QUERY_PAIRS_MAX)
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        })
}

/// The campaign fields of a query string; the first of repeated names counts.
pub fn campaign(query: &str) -> Campaign<'_> {
    let mut found = Campaign::default();
    for (name, value) in query_pairs(query) {
        let field = match name.as_ref() {
            "utm_source" => &mut found.source,
            "utm_medium" => &mut found.medium,
            "utm_campaign" => &mut found.campaign,
            "utm_term" => &mut found.term,
            "utm_content" => &mut found.content,
            _ => continue,
        };
        if field.is_empty() {
            *field = value;
        }
    }
    found
}

fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains(['+', '%']) {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = bytes.get(at + 1..at + 3).and_then(hex_byte);
        match (bytes[at], escaped) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 3;
            }
            (b'+', _) => {
                decoded.push(b' ');
                at += 1;
            }
            (byte, _) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    match String::from_utf8_lossy(&decoded) {
        Cow::Borrowed(valid) => Cow::Owned(valid.to_owned()),
        Cow::Owned(mended) => Cow::Owned(mended),
    }
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let value = digit(digits[0])? * 16 + digit(digits[1])?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(query: &str) -> Vec<(String, String)> {
        query_pairs(query)
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn pairs_are_decoded_as_forms_are() {
        assert_eq!(
            pairs("a=1&b&&=c&d=e=f"),
            [
                pair("a", "1"),
                pair("b", ""),
                pair("", "c"),
                pair("d", "e=f"),
            ]
        );
        assert_eq!(pairs("q=a+b%2Bc%20%C3%A9"), [pair("q", "a b+c é")]);
        assert_eq!(
            pairs("q=100%&r=%4&s=%zz&t=%+1"),
            [
                pair("q", "100%"),
                pair("r", "%4"),
                pair("s", "%zz"),
                pair("t", "% 1"),
            ]
        );
        assert_eq!(pairs("q=%FF"), [pair("q", "\u{fffd}")]);
        assert_eq!(pairs(""), []);
    }

    #[test]
    fn pairs_beyond_the_limit_are_not_read() {
        let query = "a=1&".repeat(QUERY_PAIRS_MAX) + "utm_source=late";
        assert_eq!(query_pairs(&query).count(), QUERY_PAIRS_MAX);
        assert_eq!(campaign(&query).source, "");
    }

    #[test]
    fn the_first_filled_field_of_a_campaign_counts() {
        let found = campaign("utm_source=&utm_source=g%2B&utm_source=z&utm_medium=cpc&UTM_TERM=x");
        let expected = Campaign {
            source: "g+".into(),
            medium: "cpc".into(),
            ..Campaign::default()
        };
        assert_eq!(found, expected);
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back(value in ".*") {
            let encoded: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
            prop_assert_eq!(pairs(&format!("k={encoded}")), [pair("k", &value)]);
        }

        #[test]
        fn any_text_is_read(query in ".*") {
            prop_assert!(query_pairs(&query).count() <= QUERY_PAIRS_MAX);
        }
    }
}
