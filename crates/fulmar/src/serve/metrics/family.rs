//! One family of figures, read at a scrape.

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric as _, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Label and value, both fixed words or names of ours, never ids: their number is bounded (I7).
pub type Labels = Vec<(&'static str, String)>;

/// Observations by size.
pub struct Histogram {
    /// Of all of them.
    pub sum: f64,
    /// Upper bounds, the last one `f64::MAX`, and how many lie between each and the one before.
    pub buckets: Vec<(f64, u64)>,
}

/// What a family's rows are.
enum Rows {
    Gauges(Vec<(Labels, f64)>),
    Counters(Vec<(Labels, f64)>),
    Histograms(Vec<(Labels, Histogram)>),
}

/// One value without labels, or one per label set.
pub struct Family {
    name: &'static str,
    help: &'static str,
    rows: Rows,
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
            rows: Rows::Gauges(rows),
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
            rows: Rows::Counters(rows),
        }
    }

    /// Observations since the start, per label set.
    pub fn histograms(
        name: &'static str,
        help: &'static str,
        rows: Vec<(Labels, Histogram)>,
    ) -> Self {
        Self {
            name,
            help,
            rows: Rows::Histograms(rows),
        }
    }

    /// Writes the family.
    pub fn encode(self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let kind = match self.rows {
            Rows::Gauges(_) => MetricType::Gauge,
            Rows::Counters(_) => MetricType::Counter,
            Rows::Histograms(_) => MetricType::Histogram,
        };
        let metric = encoder.encode_descriptor(self.name, self.help, None, kind)?;
        match self.rows {
            Rows::Gauges(rows) => each(metric, rows, |value, to| ConstGauge::new(value).encode(to)),
            Rows::Counters(rows) => each(metric, rows, |value, to| {
                ConstCounter::new(value).encode(to)
            }),
            Rows::Histograms(rows) => each(metric, rows, |value, mut to| {
                let count = value.buckets.iter().map(|(_, count)| count).sum();
                to.encode_histogram::<NoLabelSet>(value.sum, count, &value.buckets, None)
            }),
        }
    }
}

/// Writes rows; without labels there is one, and it is the metric itself.
fn each<T>(
    mut metric: MetricEncoder<'_>,
    rows: Vec<(Labels, T)>,
    write: impl Fn(T, MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    for (labels, value) in rows {
        match labels.is_empty() {
            true => return write(value, metric),
            false => write(value, metric.encode_family(&labels)?)?,
        }
    }
    Ok(())
}

/// One label set of one label.
pub fn label(name: &'static str, value: &str) -> Labels {
    vec![(name, value.to_owned())]
}
