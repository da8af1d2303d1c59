//! `/metrics`: what the doors count, and what the log, the folds and the ledger hold.

mod family;
mod folds;
mod process;
mod tables;
mod topics;
mod webhooks;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::live::Live;

/// Everything that is read from the parts at each scrape, so that it is never out of date.
struct Parts(Arc<Live>);

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parts")
    }
}

impl Collector for Parts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let live = &self.0;
        let families = process::families(live)
            .into_iter()
            .chain(folds::ledger(live)?)
            .chain(folds::families(live))
            .chain(topics::families(live))
            .chain(tables::families(live))
            .chain(tables::repeats(live))
            .chain(webhooks::families(live));
        for family in families {
            family.encode(&mut encoder)?;
        }
        Ok(())
    }
}

/// The registry behind `/metrics`.
pub fn registry(live: &Arc<Live>, doors: &fulmar_gateway::metrics::Metrics) -> Registry {
    let mut registry = Registry::default();
    doors.register(&mut registry);
    registry.register_collector(Box::new(Parts(Arc::clone(live))));
    registry
}

/// The text of one scrape.
pub fn encode(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry)?;
    Ok(text)
}
