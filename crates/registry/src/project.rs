//! Settings of a project: whom the SDK door lets in, and what it leaves out.

use serde::{Deserialize, Serialize};

use crate::error::RegistryError;
use crate::filter::EventFilter;

/// Entries of one list: each request is compared with them one by one.
const ENTRIES_MAX: usize = 256;
/// Bytes of one entry: the longest host name.
const ENTRY_BYTES_MAX: usize = 255;

/// Settings of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProjectSettings {
    /// Origins that may send without a secret; `*` stands for one or more characters.
    pub cors: Vec<String>,
    /// Revenue is taken from requests that show no secret.
    pub allow_unsafe_revenue: bool,
    /// Addresses that are refused.
    pub ip_filters: Vec<String>,
    /// Profiles that are refused.
    pub profile_filters: Vec<String>,
    /// Events that are left out.
    pub event_filters: Vec<EventFilter>,
}

/// A change of some of a project's settings; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingsChange {
    /// The new list of origins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cors: Option<Vec<String>>,
    /// Whether revenue needs no secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_unsafe_revenue: Option<bool>,
    /// The new list of addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_filters: Option<Vec<String>>,
    /// The new list of profiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_filters: Option<Vec<String>>,
    /// The new list of events to leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_filters: Option<Vec<EventFilter>>,
}

impl SettingsChange {
    /// Whether the lists are within their bounds and of their shape.
    pub(crate) fn check(&self) -> Result<(), RegistryError> {
        let lists = [
            ("cors", &self.cors),
            ("ip_filters", &self.ip_filters),
            ("profile_filters", &self.profile_filters),
        ];
        for (field, list) in lists {
            let list = list.as_deref().unwrap_or_default();
            if list.len() > ENTRIES_MAX {
                return Err(refused(
                    field,
                    &format!("takes at most {ENTRIES_MAX} entries"),
                ));
            }
            let fits = |entry: &String| !entry.is_empty() && entry.len() <= ENTRY_BYTES_MAX;
            if !list.iter().all(fits) {
                let rule = format!("takes entries of 1 to {ENTRY_BYTES_MAX} bytes");
                return Err(refused(field, &rule));
            }
        }
        let events = self.event_filters.as_deref().unwrap_or_default();
        if events.len() > ENTRIES_MAX {
            let rule = format!("takes at most {ENTRIES_MAX} entries");
            return Err(refused("event_filters", &rule));
        }
        if let Some(fault) = events.iter().find_map(EventFilter::fault) {
            return Err(refused("event_filters", &fault));
        }
        let addresses = self.ip_filters.iter().flatten();
        for address in addresses {
            if address.parse::<std::net::IpAddr>().is_err() {
                let rule = format!("takes addresses, and `{address}` is none");
                return Err(refused("ip_filters", &rule));
            }
        }
        Ok(())
    }

    pub(crate) fn apply_to(self, settings: &mut ProjectSettings) {
        fn set<T>(to: &mut T, from: Option<T>) {
            if let Some(from) = from {
                *to = from;
            }
        }
        set(&mut settings.cors, self.cors);
        set(
            &mut settings.allow_unsafe_revenue,
            self.allow_unsafe_revenue,
        );
        set(&mut settings.ip_filters, self.ip_filters);
        set(&mut settings.profile_filters, self.profile_filters);
        set(&mut settings.event_filters, self.event_filters);
    }
}

fn refused(field: &str, rule: &str) -> RegistryError {
    RegistryError::Refused(format!("{field} {rule}"))
}
