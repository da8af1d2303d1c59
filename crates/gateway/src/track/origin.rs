//! Whether a project lets a request's `Origin` in without a secret.

/// Whether any entry lets `origin` in. `*` lets in whatever has an origin; in other entries each
/// `*` stands for one or more characters. Scheme, one `www.`, a slash at the end and the case
/// are not compared.
pub(super) fn origin_allowed(entries: &[String], origin: &str) -> bool {
    let asked = bare(origin);
    // A browser's origin has no path, query or user: what has one is made up.
    let is_origin = !asked.contains(['/', '?', '#', '@']);
    entries
        .iter()
        .any(|entry| entry == "*" || is_origin && matches_whole(&bare(entry), &asked))
}

fn bare(text: &str) -> String {
    let text = text.trim().to_ascii_lowercase();
    let host = text.split_once("://").map_or(&*text, |(_, host)| host);
    let host = host.strip_prefix("www.").unwrap_or(host);
    host.strip_suffix('/').unwrap_or(host).to_owned()
}

/// Whether all of `text` is the pattern: a part that is found in the middle of another host
/// would let `shop.example.evil.test` in.
fn matches_whole(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match skip_one(rest).and_then(|rest| Some(&rest[rest.find(part)? + part.len()..])) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    skip_one(rest).is_some_and(|rest| rest.ends_with(last))
}

/// What follows the first character.
fn skip_one(text: &str) -> Option<&str> {
    let mut characters = text.chars();
    characters.next()?;
    Some(characters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_whole_and_wildcards_anchored() {
        let table = [
            ("shop.example", "https://shop.example", true),
            ("https://www.shop.example/", "http://Shop.Example", true),
            ("shop.example", "https://www.shop.example", true),
            ("shop.example", "https://shop.example:8443", false),
            ("shop.example", "https://shop.example.evil.test", false),
            ("shop.example", "https://evil-shop.example", false),
            ("*.shop.example", "https://a.b.shop.example", true),
            ("https://*.shop.example", "https://a.shop.example", true),
            ("*.shop.example", "https://shop.example", false),
            ("*.shop.example", "https://.shop.example", false),
            ("*.shop.example", "https://a.shop.example.evil.test", false),
            ("*.shop.example", "https://evil.test/?.shop.example", false),
            ("a.*.c.*", "https://a.b.c.d", true),
            ("a.*.c.*", "https://a.c.d", false),
            ("a*", "https://a", false),
            ("shopXexample", "https://shop.example", false),
            ("*", "null", true),
            ("", "https://a", false),
        ];
        for (entry, origin, allowed) in table {
            let entries = [entry.to_owned()];
            let found = origin_allowed(&entries, origin);
            assert_eq!(found, allowed, "{entry} {origin}");
        }
        assert!(!origin_allowed(&[], "https://a"));
    }
}
