//! Deliveries of webhooks.

use fulmar_webhooks::client::{BOUNDS_US, Phase, PhaseTimes};
use fulmar_webhooks::health::{Health, told};

use super::family::{Family, Histogram, Labels, label};
use crate::serve::live::Live;

/// The ledger of deliveries, attempts, and what is under way.
pub fn families(live: &Live) -> Vec<Family> {
    let stats = live.webhooks.sender.stats();
    let counts = stats.counts;
    let terms = [
        ("matched", counts.matched),
        ("reopened", counts.reopened),
        ("delivered", counts.delivered),
        ("failed", counts.failed),
        ("expired", counts.expired),
        ("cancelled", counts.cancelled),
        ("undecided", counts.undecided()),
    ];
    let term = |(name, count): (&str, u64)| (label("term", name), count as f64);
    let attempts = stats.attempts.iter();
    let attempt = |(result, count): (&&str, &u64)| (label("result", result), *count as f64);
    let opened = "Connections to receivers opened since the start";
    vec![
        Family::gauges(
            "fulmar_webhooks_deliveries",
            "matched + reopened = delivered + failed + expired + cancelled + undecided, as committed",
            terms.map(term).into(),
        ),
        Family::counters(
            "fulmar_webhooks_attempts",
            "Attempts since the start, by result",
            attempts.map(attempt).collect(),
        ),
        Family::gauge(
            "fulmar_webhooks_on_disk",
            "Deliveries that wait on disk",
            stats.parked as f64,
        ),
        Family::gauge(
            "fulmar_webhooks_in_memory",
            "Deliveries in memory",
            stats.in_memory as f64,
        ),
        Family::gauge(
            "fulmar_webhooks_in_flight",
            "Deliveries being sent",
            stats.in_flight as f64,
        ),
        Family::counter(
            "fulmar_webhooks_connections_opened",
            opened,
            stats.connections_opened,
        ),
        Family::histograms(
            "fulmar_webhooks_phase_seconds",
            "How long exchanges with receivers were in each phase since the start",
            phases(&stats.phases),
        ),
        Family::gauge(
            "fulmar_webhooks_left_alone",
            "Receivers that fail and are left alone for a while",
            stats.left_alone.len() as f64,
        ),
        Family::gauges(
            "fulmar_webhooks_receivers",
            "Webhooks by the health that was told last; disabled and paused ones too",
            receivers(live),
        ),
        Family::gauge(
            "fulmar_webhooks_stands_still",
            "1 while events are not matched or outcomes not written",
            f64::from(u8::from(stats.trouble.is_some())),
        ),
    ]
}

fn phases(times: &[PhaseTimes]) -> Vec<(Labels, Histogram)> {
    let bounds = BOUNDS_US.map(|us| us as f64 / 1e6);
    let row = |(phase, times): (Phase, &PhaseTimes)| {
        let bounds = bounds.into_iter().chain([f64::MAX]);
        let histogram = Histogram {
            sum: times.sum_us as f64 / 1e6,
            buckets: bounds.zip(times.buckets).collect(),
        };
        (label("phase", phase.as_str()), histogram)
    };
    Phase::ALL.into_iter().zip(times).map(row).collect()
}

fn receivers(live: &Live) -> Vec<(Labels, f64)> {
    let told = told(&live.state).unwrap_or_else(|error| {
        tracing::warn!(%error, "the health of webhooks cannot be read");
        Vec::new()
    });
    let count = |health: Health| told.iter().filter(|one| **one == health).count();
    let row = |health: Health| (label("health", health.as_str()), count(health) as f64);
    Health::ALL.map(row).into()
}
