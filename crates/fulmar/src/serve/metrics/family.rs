//! One family of figures, read at a scrape.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Label and value, both fixed words or names of ours, never ids: their number is bounded (I7).
pub type Labels = Vec<(&'static str, String)>;

/// One value without labels, or one per label set.
pub struct Family {
    name: &'static str,
    help: &'static str,
    counts: bool,
    rows: Vec<(Labels, f64)>,
}

impl Family {
    /// A figure that goes up and down.
    pub fn gauge(name: &'static str, help: &'static str, value: f64) -> Self {
        Self::gauges(name, help, vec![(Vec::new(), value)])
    }

    /// The same, per label set.
    pub fn gauges(name: &'static str, help: &'static str, rows: Vec<(Labels, f64)>) -> Self {
        Self {
            name,
            help,
            counts: false,
            rows,
        }
    }

    /// A count since the start; the text adds `_total` to its name.
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self::counters(name, help, vec![(Vec::new(), value as f64)])
    }

    /// The same, per label set.
    pub fn counters(name: &'static str, help: &'static str, rows: Vec<(Labels, f64)>) -> Self {
        Self {
            name,
            help,
            counts: true,
            rows,
        }
    }

    /// Writes the family.
    pub fn encode(self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let kind = if self.counts {
            MetricType::Counter
        } else {
            MetricType::Gauge
        };
        let mut metric = encoder.encode_descriptor(self.name, self.help, None, kind)?;
        for (labels, value) in self.rows {
            let target = match labels.is_empty() {
                // Without labels there is one row, and it is the metric itself.
                true => return write(metric, self.counts, value),
                false => metric.encode_family(&labels)?,
            };
            write(target, self.counts, value)?;
        }
        Ok(())
    }
}

fn write(
    encoder: prometheus_client::encoding::MetricEncoder<'_>,
    counts: bool,
    value: f64,
) -> Result<(), fmt::Error> {
    match counts {
        true => ConstCounter::new(value).encode(encoder),
        false => ConstGauge::new(value).encode(encoder),
    }
}

/// One label set of one label.
pub fn label(name: &'static str, value: &str) -> Labels {
    vec![(name, value.to_owned())]
}
