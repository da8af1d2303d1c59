//! Segment's write key: a client of ours, with its secret where the producer keeps one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Characters of a client's id, a UUID.
const ID_CHARS: usize = 36;

/// A client and perhaps its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::track) struct WriteKey {
    pub(in crate::track) client: String,
    pub(in crate::track) secret: Option<String>,
}

impl WriteKey {
    /// Reads `ID`, `ID:SECRET` or `ID.SECRET`. The SDKs put a colon and an empty password behind.
    pub(in crate::track) fn of(key: &str) -> WriteKey {
        let key = key.strip_suffix(':').unwrap_or(key);
        let (client, rest) = match key.is_char_boundary(ID_CHARS) && key.len() > ID_CHARS {
            true => key.split_at(ID_CHARS),
            false => (key, ""),
        };
        let secret = rest
            .strip_prefix([':', '.'])
            .filter(|secret| !secret.is_empty());
        // What is no separator belongs to an id that is not one.
        let client = if secret.is_none() && !rest.is_empty() {
            key
        } else {
            client
        };
        WriteKey {
            client: client.to_owned(),
            secret: secret.map(str::to_owned),
        }
    }
}

/// The write key of `Authorization: Basic …` (RFC 7617); none for another scheme.
pub(in crate::track) fn of_basic(header: &str) -> Option<WriteKey> {
    let (scheme, credentials) = header.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(credentials.trim()).ok()?;
    let key = String::from_utf8(decoded).ok()?;
    (!key.is_empty()).then(|| WriteKey::of(&key))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "11111111-2222-4333-8444-555555555555";

    #[test]
    fn a_key_is_an_id_with_or_without_a_secret() {
        let secret = |key: &str| {
            let key = WriteKey::of(key);
            assert_eq!(key.client, ID);
            key.secret
        };
        assert_eq!(secret(ID), None);
        assert_eq!(secret(&format!("{ID}:")), None);
        for separator in [':', '.'] {
            assert_eq!(
                secret(&format!("{ID}{separator}sec_a.b:c")).unwrap(),
                "sec_a.b:c"
            );
            assert_eq!(secret(&format!("{ID}{separator}sec:")).unwrap(), "sec");
        }
        for other in [
            "",
            "short",
            "11111111-2222-4333-8444-555555555555x",
            "ééééééééééééééééééé",
        ] {
            let key = WriteKey::of(other);
            assert_eq!((&*key.client, key.secret), (other, None));
        }
    }

    #[test]
    fn basic_authorization_holds_the_key_as_the_user() {
        // printf '11111111-2222-4333-8444-555555555555:' | base64
        let header = "Basic MTExMTExMTEtMjIyMi00MzMzLTg0NDQtNTU1NTU1NTU1NTU1Og==";
        let expected = WriteKey {
            client: ID.to_owned(),
            secret: None,
        };
        assert_eq!(of_basic(header), Some(expected.clone()));
        assert_eq!(of_basic(&header.replace("Basic", "basic ")), Some(expected));
        for other in ["Bearer x", "Basic", "Basic !", "Basic gA==", ""] {
            assert_eq!(of_basic(other), None, "{other}");
        }
    }
}
