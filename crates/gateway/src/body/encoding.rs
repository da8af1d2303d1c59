//! Which encoding a request's body has.

use hyper::HeaderMap;
use hyper::header::CONTENT_ENCODING;

/// An encoding that the doors read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As it is.
    Identity,
    /// gzip, of one member or several.
    Gzip,
    /// zstd, of one frame or several.
    Zstd,
}

/// 415: unknown, or several one over another, which only a bomb needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the content encoding is not supported")]
pub(crate) struct UnsupportedEncoding;

/// The encoding that the headers name; without one it is identity.
pub(crate) fn encoding_of(headers: &HeaderMap) -> Result<Encoding, UnsupportedEncoding> {
    let mut values = headers.get_all(CONTENT_ENCODING).iter();
    let Some(value) = values.next() else {
        return Ok(Encoding::Identity);
    };
    if values.next().is_some() {
        return Err(UnsupportedEncoding);
    }
    let name = value.to_str().map_err(|_| UnsupportedEncoding)?.trim();
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    if is("gzip") || is("x-gzip") {
        Ok(Encoding::Gzip)
    } else if is("zstd") {
        Ok(Encoding::Zstd)
    } else if is("identity") || name.is_empty() {
        Ok(Encoding::Identity)
    } else {
        Err(UnsupportedEncoding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn of(values: &[&str]) -> Option<Encoding> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(CONTENT_ENCODING, HeaderValue::from_str(value).unwrap());
        }
        encoding_of(&headers).ok()
    }

    #[test]
    fn one_known_encoding_or_none() {
        assert_eq!(of(&[]), Some(Encoding::Identity));
        assert_eq!(of(&["identity"]), Some(Encoding::Identity));
        assert_eq!(of(&["gzip"]), Some(Encoding::Gzip));
        assert_eq!(of(&["X-GZIP"]), Some(Encoding::Gzip));
        assert_eq!(of(&[" ZStd "]), Some(Encoding::Zstd));
    }

    #[test]
    fn unknown_and_stacked_ones_are_refused() {
        let refused: [&[&str]; 7] = [
            &["br"],
            &["deflate"],
            &["gzip, gzip"],
            &["gzip,zstd"],
            &["gzip", "gzip"],
            &["identity", "gzip"],
            &["snappy"],
        ];
        for values in refused {
            assert_eq!(of(values), None, "{values:?}");
        }
    }
}
