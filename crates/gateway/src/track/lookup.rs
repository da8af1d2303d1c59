//! What the door looks up about a request, behind a trait: tables are the binary's to wire.

use std::borrow::Cow;
use std::net::IpAddr;

use fulmar_enrich::PageUrl;
use hyper::HeaderMap;

/// What a `User-Agent` tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentFacts<'a> {
    /// No person's program: its events belong to no session by themselves.
    pub is_server: bool,
    /// Operating system.
    pub os: Cow<'a, str>,
    /// Its version.
    pub os_version: Cow<'a, str>,
    /// Browser.
    pub browser: Cow<'a, str>,
    /// Its version.
    pub browser_version: Cow<'a, str>,
    /// Kind of device.
    pub device: Cow<'a, str>,
    /// Who makes it.
    pub brand: Cow<'a, str>,
    /// What they call it.
    pub model: Cow<'a, str>,
}

/// Where an address is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlaceFacts<'a> {
    /// ISO 3166 code of two letters.
    pub country: Cow<'a, str>,
    /// Region, in English.
    pub region: Cow<'a, str>,
    /// City, in English.
    pub city: Cow<'a, str>,
    /// Latitude and longitude in millionths of a degree.
    pub place_micros: Option<(i32, i32)>,
}

/// A bot that says that it is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BotFacts<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its kind.
    pub kind: Cow<'a, str>,
}

/// Where a visitor came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReferrerFacts<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its kind: `search`, `social` and others.
    pub kind: Cow<'a, str>,
}

/// The tables that the door asks. Pure look-ups in memory; the answers travel in the record (F3).
pub trait Lookup: Send + Sync + 'static {
    /// What a `User-Agent`, or an empty text, tells.
    fn agent<'a>(&'a self, user_agent: &'a str) -> AgentFacts<'a>;

    /// Where an address is.
    fn place(&self, address: IpAddr) -> PlaceFacts<'_> {
        let _ = address;
        PlaceFacts::default()
    }

    /// The bot that a `User-Agent` names.
    fn bot<'a>(&'a self, user_agent: &'a str) -> Option<BotFacts<'a>> {
        let _ = user_agent;
        None
    }

    /// Why a request looks like a bot's, separated by commas; empty if it does not.
    fn bot_reasons(&self, headers: &HeaderMap, user_agent: &str, address: IpAddr) -> String {
        let _ = (headers, user_agent, address);
        String::new()
    }

    /// What the referrer's host, or the campaign in the page's query, is called.
    fn referrer<'a>(&'a self, referrer: &'a str, page: &PageUrl<'a>) -> ReferrerFacts<'a> {
        let _ = (referrer, page);
        ReferrerFacts::default()
    }
}

/// No tables: only whether a `User-Agent` is a server's can be told.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTables;

impl Lookup for NoTables {
    fn agent<'a>(&'a self, user_agent: &'a str) -> AgentFacts<'a> {
        AgentFacts {
            is_server: fulmar_enrich::agent(user_agent).is_server,
            ..AgentFacts::default()
        }
    }
}
