//! Bots that say that they are: a published list, as one automaton over the agent's text.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

/// Text and kind, a line each; `^` at a text's start and `$` at its end are anchors.
const LIST: &str = include_str!("../data/bots.txt");

/// A bot of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bot {
    /// What it calls itself.
    pub name: &'static str,
    /// Its kind: `search-engine`, `seo`, `monitoring` and others.
    pub kind: &'static str,
}

struct Pattern {
    bot: Bot,
    at_start: bool,
    at_end: bool,
}

struct Bots {
    patterns: Vec<Pattern>,
    texts: AhoCorasick,
}

static BOTS: LazyLock<Bots> = LazyLock::new(|| {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    let mut patterns = Vec::new();
    let mut texts = Vec::new();
    for (text, kind) in lines.filter_map(|line| line.split_once('\t')) {
        let (at_start, at_end) = (text.starts_with('^'), text.ends_with('$'));
        let text = text.trim_start_matches('^').trim_end_matches('$');
        texts.push(text);
        patterns.push(Pattern {
            bot: Bot {
                name: text.trim_matches([' ', '/', '-', ';', ':', '(']),
                kind,
            },
            at_start,
            at_end,
        });
    }
    let texts = AhoCorasick::new(&texts).expect("the list is far below any bound");
    Bots { patterns, texts }
});

/// The bot that an agent's text names; of several the one that stands first in the list.
pub fn bot(user_agent: &str) -> Option<Bot> {
    let bots = &*BOTS;
    let holds = |found: &aho_corasick::Match| {
        let pattern = &bots.patterns[found.pattern().as_usize()];
        (!pattern.at_start || found.start() == 0)
            && (!pattern.at_end || found.end() == user_agent.len())
    };
    let found = bots.texts.find_overlapping_iter(user_agent).filter(holds);
    let first = found.map(|found| found.pattern().as_usize()).min()?;
    Some(bots.patterns[first].bot)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = include_str!("../data/bots.sample.txt");

    #[test]
    fn the_list_is_long_and_finds_the_bots_that_it_is_of() {
        assert!(BOTS.patterns.len() >= 600, "{}", BOTS.patterns.len());
        let agents = SAMPLE.lines().filter(|line| !line.starts_with('#'));
        let missed: Vec<&str> = agents.filter(|agent| bot(agent).is_none()).collect();
        assert!(missed.len() <= 5, "{missed:?}");
        let google = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
        let expected = Bot {
            name: "Googlebot",
            kind: "search-engine",
        };
        assert_eq!(bot(google), Some(expected));
    }

    #[test]
    fn people_and_servers_are_no_bots() {
        for agent in [
            "",
            "node",
            "python-requests/2.31.0",
            "okhttp/4.9.3",
            "Dart/3.0 (dart:io)",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
             Chrome/131.0.0.0 Safari/537.36",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_1 like Mac OS X) AppleWebKit/605.1.15 \
             (KHTML, like Gecko) Version/17.1 Mobile/15E148 Safari/604.1",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:133.0) Gecko/20100101 Firefox/133.0",
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like \
             Gecko) Version/17.6 Safari/605.1.15",
            "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) \
             Chrome/131.0.0.0 Mobile Safari/537.36",
            "Shop/12 CFNetwork/1410.0.3 Darwin/22.6.0",
        ] {
            assert_eq!(bot(agent), None, "{agent}");
        }
    }
}
