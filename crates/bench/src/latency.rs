//! Latencies of one measurement.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Latencies in ms.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// 50th percentile.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Latency {
    /// Of times in µs.
    pub fn of(latency_us: &Histogram<u64>) -> Latency {
        let ms = |us: u64| us as f64 / 1_000.0;
        Latency {
            p50: ms(latency_us.value_at_quantile(0.50)),
            p99: ms(latency_us.value_at_quantile(0.99)),
            max: ms(latency_us.max()),
        }
    }
}
