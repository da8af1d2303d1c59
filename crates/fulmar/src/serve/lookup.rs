//! The tables that the SDK door asks: agents, bots, referrers, places.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use fulmar_enrich::{Agents, BrowserHeaders, Geo, PageUrl};
use fulmar_gateway::track::{AgentFacts, BotFacts, Lookup, PlaceFacts, ReferrerFacts};
use hyper::HeaderMap;
use hyper::header::ACCEPT_LANGUAGE;

/// The lists of this build, and the databases of places of the configuration.
pub struct Tables {
    /// Where addresses are.
    pub geo: Arc<Geo>,
    /// Agents that were met lately.
    pub agents: Agents,
}

impl Lookup for Tables {
    fn agent<'a>(&'a self, user_agent: &'a str) -> AgentFacts<'a> {
        let found = self.agents.agent(user_agent);
        AgentFacts {
            is_server: found.is_server,
            os: found.os.clone(),
            os_version: found.os_version.clone(),
            browser: found.browser.clone(),
            browser_version: found.browser_version.clone(),
            device: Cow::Borrowed(found.device),
            brand: Cow::Borrowed(found.brand),
            model: found.model.clone(),
        }
    }

    fn place(&self, address: IpAddr) -> PlaceFacts<'_> {
        let found = self.geo.place(address);
        PlaceFacts {
            country: Cow::Owned(found.country),
            region: Cow::Owned(found.region),
            city: Cow::Owned(found.city),
            place_micros: found.place_micros,
        }
    }

    fn bot<'a>(&'a self, user_agent: &'a str) -> Option<BotFacts<'a>> {
        let found = fulmar_enrich::bot(user_agent)?;
        Some(BotFacts {
            name: Cow::Borrowed(found.name),
            kind: Cow::Borrowed(found.kind),
        })
    }

    fn bot_reasons(&self, headers: &HeaderMap, user_agent: &str, address: IpAddr) -> String {
        let has = BrowserHeaders {
            client_hints: headers.contains_key("sec-ch-ua"),
            fetch_metadata: headers
                .keys()
                .any(|name| name.as_str().starts_with("sec-fetch-")),
            languages: headers.contains_key(ACCEPT_LANGUAGE),
        };
        fulmar_enrich::bot_signs(has, user_agent, self.geo.asn(address))
    }

    fn referrer<'a>(&'a self, referrer: &'a str, page: &PageUrl<'a>) -> ReferrerFacts<'a> {
        let found = fulmar_enrich::referrer(referrer, page);
        ReferrerFacts {
            name: Cow::Owned(found.name),
            kind: Cow::Borrowed(found.kind),
        }
    }
}
