//! Where a visitor came from: a published list of hosts, and what a campaign calls itself.

use std::sync::LazyLock;

use fulmar_event::query_pairs;

use crate::page::{PageUrl, split_page};

/// Host, name and kind, a line each, sorted by host.
const LIST: &str = include_str!("../data/referrers.txt");

/// Parameters that name the source of a visit, the first that is there counts.
const SOURCES: [&str; 3] = ["utm_source", "ref", "utm_referrer"];

/// What a referrer is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Referrer {
    /// Its name; the referrer itself where no list knows it.
    pub name: String,
    /// `search`, `social`, `email`, `ai`, `unknown`; empty without a referrer.
    pub kind: &'static str,
}

struct Known {
    host: &'static str,
    name: &'static str,
    kind: &'static str,
}

static KNOWN: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    let known = lines.filter_map(|line| {
        let mut parts = line.split('\t');
        Some(Known {
            host: parts.next()?,
            name: parts.next()?,
            kind: parts.next()?,
        })
    });
    let mut known: Vec<Known> = known.collect();
    known.sort_by_key(|known| known.host);
    known
});

fn of_host(host: &str) -> Option<&'static Known> {
    let host = host.strip_prefix("www.").unwrap_or(host);
    let place = KNOWN.binary_search_by_key(&host, |known| known.host).ok()?;
    Some(&KNOWN[place])
}

/// What the list calls a source: as a host, as a host of `.com`, or by the name shown.
fn of_source(source: &str) -> Option<&'static Known> {
    of_host(source)
        .or_else(|| of_host(&format!("{source}.com")))
        .or_else(|| {
            KNOWN
                .iter()
                .find(|known| known.name.eq_ignore_ascii_case(source))
        })
}

/// What a visit's referrer is called: by the campaign in the page's query, else by its host.
/// `referrer` is empty where there is none, or where it is the page's own host.
pub fn referrer(referrer: &str, page: &PageUrl<'_>) -> Referrer {
    let pairs = || query_pairs(page.query);
    let source = SOURCES.iter().find_map(|wanted| {
        let mut found = pairs().filter(|(name, value)| name == wanted && !value.is_empty());
        found.next().map(|(_, value)| value.to_lowercase())
    });
    if let Some(known) = source.as_deref().and_then(of_source) {
        return Referrer {
            name: known.name.to_owned(),
            kind: known.kind,
        };
    }
    if referrer.is_empty() {
        return Referrer::default();
    }
    let host = split_page(referrer);
    match of_host(host.host()) {
        Some(known) => Referrer {
            name: known.name.to_owned(),
            kind: known.kind,
        },
        None => Referrer {
            name: referrer.trim_end_matches('/').to_owned(),
            kind: "unknown",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(from: &str, page: &str) -> (String, &'static str) {
        let found = referrer(from, &split_page(page));
        (found.name, found.kind)
    }

    #[test]
    fn hosts_of_the_list_have_names_with_and_without_www() {
        assert!(KNOWN.len() >= 1_000, "{}", KNOWN.len());
        let google = ("Google".to_owned(), "search");
        let page = "https://shop.example/a";
        assert_eq!(told("https://www.google.com/search?q=z", page), google);
        assert_eq!(told("https://google.com/", page), google);
        assert_eq!(told("https://t.co/x", page).1, "social");
        assert_eq!(
            told("https://chatgpt.com/", page),
            ("ChatGPT".to_owned(), "ai")
        );
        let unknown = ("https://blog.example/post".to_owned(), "unknown");
        assert_eq!(told("https://blog.example/post/", page), unknown);
        assert_eq!(told("", page), (String::new(), ""));
    }

    #[test]
    fn a_campaigns_source_counts_before_the_host() {
        let facebook = ("Facebook".to_owned(), "social");
        for source in [
            "utm_source=facebook.com",
            "ref=facebook",
            "utm_referrer=Facebook",
        ] {
            let page = format!("https://shop.example/?{source}");
            assert_eq!(told("https://www.google.com/", &page), facebook, "{source}");
            assert_eq!(told("", &page), facebook, "{source}");
        }
        // A source that nobody knows leaves the host its say.
        let page = "https://shop.example/?utm_source=newsletter-7";
        assert_eq!(told("https://www.google.com/", page).0, "Google");
    }
}
