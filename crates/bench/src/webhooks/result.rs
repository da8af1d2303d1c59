//! Rounds into the one shape of every bench's result, and into that of Sparrow's tool.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::limit::ClientOutcome;
use super::phase::{Round, Whole};
use super::{Mode, WebhooksOptions};
use crate::ingest::Failure;
use crate::latency::Latency;
use crate::report::{Bound, Ledger, Metric, Report, Spread};

/// The report, and what its verdict means for the exit code.
pub(super) fn report(options: &WebhooksOptions, rounds: &[Round]) -> (Report, Option<Failure>) {
    let mut report = Report::new("webhooks", config(options));
    report.rounds = rounds
        .iter()
        .map(|round| round_json(options, round))
        .collect();
    report.sparrow = rounds.last().map_or(Value::Null, |round| {
        sparrow(options, round.whole.as_ref(), &round.client)
    });
    let limit = Spread::of(rounds.iter().map(|round| client_rate(&round.client)));
    report.limit = json!({ "requests_per_second": limit });
    let whole: Vec<&Whole> = rounds
        .iter()
        .filter_map(|round| round.whole.as_ref())
        .collect();
    match whole.is_empty() {
        true => client_summary(rounds, &mut report),
        false => summary(&whole, rounds, &mut report),
    }
    let errors = rounds.iter().flat_map(|round| {
        let of_load = round
            .whole
            .as_ref()
            .and_then(|whole| whole.load.first_error.clone());
        [of_load, round.client.first_error.clone()]
    });
    report.first_error = errors.flatten().next();
    let failure = judge(options, rounds, &whole, &mut report);
    (report, failure)
}

fn summary(whole: &[&Whole], rounds: &[Round], report: &mut Report) {
    let mut add = |name: &str, figure: &dyn Fn(&Whole) -> Option<f64>| {
        if let Some(spread) = Spread::of(whole.iter().filter_map(|one| figure(one))) {
            report
                .summary
                .insert(name.to_owned(), Metric::Figure(spread));
        }
    };
    add("deliveries_per_second", &|one| Some(delivery_rate(one)));
    add("deliveries_per_second_while_publishing", &|one| {
        Some(steady_rate(one))
    });
    add("published_per_second", &|one| Some(publish_rate(one)));
    add("publish_seconds", &|one| {
        Some(one.load.elapsed.as_secs_f64())
    });
    add("drain_seconds", &|one| Some(one.drain.as_secs_f64()));
    add("connections", &|one| Some(one.connections as f64));
    add("generator_share", &|one| Some(one.generator_share));
    add("server_cpu_us_per_delivery", &|one| {
        let ns = one.server_cpu_ns? as f64;
        Some(ns / 1e3 / (one.matched.deliveries as f64).max(1.0))
    });
    add("server_resident_mib_max", &|one| {
        Some(one.server_resident_bytes_max? as f64 / 1_048_576.0)
    });
    let times = [
        (
            "publish_ms",
            Metric::of_times(whole.iter().map(|one| Latency::of(&one.load.latency_us))),
        ),
        (
            "receipt_ms",
            Metric::of_times(whole.iter().map(|one| Latency::of(&one.matched.latency_us))),
        ),
    ];
    for (name, metric) in times {
        report
            .summary
            .extend(metric.map(|metric| (name.to_owned(), metric)));
    }
    let hanging = rounds.iter().filter_map(|round| round.hanging.as_ref());
    let latencies = hanging.map(|one| Latency::of(&one.matched.latency_us));
    if let Some(metric) = Metric::of_times(latencies.clone()) {
        report
            .summary
            .insert("receipt_ms_beside_hanging".to_owned(), metric);
    }
    let ratios = whole
        .iter()
        .zip(latencies)
        .map(|(well, hanging)| hanging.p99 / Latency::of(&well.matched.latency_us).p99.max(0.001));
    if let Some(spread) = Spread::of(ratios) {
        let name = "receipt_p99_beside_hanging".to_owned();
        report.ratio.insert(name, spread.median);
    }
    let fractions = rounds.iter().filter_map(|round| {
        Some(delivery_rate(round.whole.as_ref()?) / client_rate(&round.client).max(1.0))
    });
    report.fraction_of_limit = Spread::of(fractions).map(|spread| spread.median);
    let sum = |count: fn(&Whole) -> u64| whole.iter().map(|one| count(one)).sum::<u64>();
    report.ledger = Some(Ledger {
        accepted: sum(|one| one.matched.expected),
        logged: None,
        stored: Some(sum(|one| one.matched.deliveries)),
        lost: Some(sum(|one| one.matched.lost)),
        doubled: Some(sum(|one| one.matched.duplicates)),
        foreign: Some(sum(|one| one.matched.foreign + one.matched.unmatched)),
    });
}

fn client_summary(rounds: &[Round], report: &mut Report) {
    if let Some(spread) = Spread::of(rounds.iter().map(|round| client_rate(&round.client))) {
        let name = "requests_per_second".to_owned();
        report.summary.insert(name, Metric::Figure(spread));
    }
    let clients = rounds.iter().map(|round| &round.client);
    let metric = Metric::of_times(clients.map(|client| Latency::of(&client.latency_us)));
    report
        .summary
        .extend(metric.map(|metric| ("request_ms".to_owned(), metric)));
}

fn client_rate(client: &ClientOutcome) -> f64 {
    client.successful as f64 / client.elapsed.as_secs_f64().max(0.001)
}

/// Deliveries a second from the first planned send to the last receipt.
fn delivery_rate(one: &Whole) -> f64 {
    one.matched.deliveries as f64 / one.total.as_secs_f64().max(0.001)
}

/// Deliveries a second of the seconds in which events were published.
fn steady_rate(one: &Whole) -> f64 {
    let seconds = (one.load.elapsed.as_secs() as usize).max(1);
    let events: u64 = one.matched.timeline.iter().take(seconds).sum();
    let subscribers = one.matched.expected as f64 / (one.load.published.len() as f64).max(1.0);
    events as f64 * subscribers / seconds as f64
}

fn publish_rate(one: &Whole) -> f64 {
    one.load.published.len() as f64 / one.load.elapsed.as_secs_f64().max(0.001)
}

fn config(options: &WebhooksOptions) -> Value {
    json!({
        "mode": options.mode,
        "seconds": options.duration.as_secs_f64(),
        "rps": options.rate,
        "payload_bytes": options.payload_bytes,
        "concurrency": options.concurrency,
        "batch": options.batch,
        "webhooks": options.webhooks,
        "subscribers": options.subscribers,
        "burst": options.burst,
        "backlog_max": options.backlog_max,
        "receiver_delay_ms": options.receiver_delay.as_secs_f64() * 1e3,
        "hang_percent": options.hang,
        "kill": options.kill,
        "drain_timeout_seconds": options.drain_timeout.as_secs_f64(),
        "consumer": options.consumer,
        "event": options.event,
        "rounds": options.rounds,
        "target": options.target.as_ref().map(|target| &target.url),
        "bounds": options.bounds,
    })
}

fn round_json(options: &WebhooksOptions, round: &Round) -> Value {
    json!({
        "client": {
            "requests_per_second": client_rate(&round.client),
            "request_ms": Latency::of(&round.client.latency_us),
            "requests": round.client.total,
            "failed": round.client.total - round.client.successful,
            "connections": round.client.connections,
            "first_error": round.client.first_error,
        },
        "whole": sparrow(options, round.whole.as_ref(), &round.client),
        "hanging": round.hanging.as_ref().map(|one| {
            json!({
                "to_hanging": one.load.to_hanging,
                "whole": sparrow(options, Some(one), &round.client),
            })
        }),
    })
}

/// The object that Sparrow's tool prints, with durations in ns.
fn sparrow(options: &WebhooksOptions, whole: Option<&Whole>, client: &ClientOutcome) -> Value {
    let Some(whole) = whole else {
        return sparrow_client(options, client);
    };
    let (load, matched) = (&whole.load, &whole.matched);
    let rejected: u64 = load.rejected.values().sum();
    let mut codes = load.accepted.clone();
    for (code, count) in &load.rejected {
        *codes.entry(*code).or_default() += count;
    }
    let backlog = backlog(whole);
    json!({
        "config": config(options),
        "publish_duration": ns(load.elapsed),
        "total_duration": ns(whole.total),
        "drain_duration": ns(whole.drain),
        "drained": whole.drained,
        "accepted": load.published.len(),
        "rejected": rejected,
        "delivered": matched.delivered,
        "duplicates": matched.duplicates,
        "unmatched": matched.unmatched,
        "foreign": matched.foreign,
        "lost": matched.lost,
        "publish_rps": publish_rate(whole),
        "delivery_rps": matched.delivered as f64 / whole.total.as_secs_f64().max(0.001),
        "steady_delivery_rps": steady_rate(whole) / f64::from(options.subscribers.max(1)),
        "ingest_latency": latency_ns(&load.latency_us),
        "end_to_end_latency": latency_ns(&matched.latency_us),
        "peak_backlog": backlog.iter().map(|row| row[2]).max(),
        "backlog_timeline": backlog.iter().enumerate().map(|(second, row)| json!({
            "second": second, "accepted": row[0], "delivered": row[1], "backlog": row[2],
        })).collect::<Vec<_>>(),
        "publish_status_codes": codes,
        "resource_usage": whole.server_cpu_ns.map(|cpu_ns| json!({
            "sparrow_cpu_avg_pct": cpu_ns as f64 / ns(whole.total).max(1) as f64 * 100.0,
            "sparrow_peak_rss_mb":
                whole.server_resident_bytes_max.unwrap_or(0) as f64 / 1_048_576.0,
            "cpu_ms_per_delivery": cpu_ns as f64 / 1e6 / (matched.deliveries as f64).max(1.0),
        })),
    })
}

fn sparrow_client(options: &WebhooksOptions, client: &ClientOutcome) -> Value {
    json!({
        "config": config(options),
        "duration": ns(client.elapsed),
        "total_requests": client.total,
        "successful": client.successful,
        "failed": client.total - client.successful,
        "actual_rps": client_rate(client),
        "bytes_sent": client.total * options.payload_bytes as u64,
        "latency": latency_ns(&client.latency_us),
        "first_error": client.first_error,
        "server_connections_seen": client.connections,
    })
}

/// By second: events accepted, events delivered, and those on the way at its end.
fn backlog(whole: &Whole) -> Vec<[u64; 3]> {
    let (accepted, delivered) = (&whole.load.timeline, &whole.matched.timeline);
    let mut on_the_way = 0_u64;
    let at = |counts: &[u64], second: usize| counts.get(second).copied().unwrap_or(0);
    (0..accepted.len().max(delivered.len()))
        .map(|second| {
            let (came, went) = (at(accepted, second), at(delivered, second));
            on_the_way = (on_the_way + came).saturating_sub(went);
            [came, went, on_the_way]
        })
        .collect()
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn latency_ns(latency_us: &Histogram<u64>) -> Value {
    let at = |quantile: f64| latency_us.value_at_quantile(quantile) * 1_000;
    json!({
        "samples": latency_us.len(),
        "avg": (latency_us.mean() * 1e3) as u64,
        "p50": at(0.5), "p90": at(0.9), "p95": at(0.95), "p99": at(0.99), "p999": at(0.999),
        "max": latency_us.max() * 1_000,
    })
}

fn judge(
    options: &WebhooksOptions,
    rounds: &[Round],
    whole: &[&Whole],
    report: &mut Report,
) -> Option<Failure> {
    let error = report.first_error.clone().unwrap_or_else(|| "-".to_owned());
    if rounds.iter().any(|round| round.client.successful == 0) {
        report.verdict = format!("client: nothing was answered: {error}");
        return Some(Failure::NotReconciled);
    }
    let hanging = rounds.iter().filter_map(|round| round.hanging.as_ref());
    let at_fault = whole.iter().copied().chain(hanging).find(|one| {
        let matched = &one.matched;
        // What was in flight when the server was killed may come twice, or without an answer to
        // who published it.
        let of_death = match options.kill {
            true => 0,
            false => matched.duplicates + matched.foreign,
        };
        let strange = matched.lost + matched.unmatched + of_death;
        strange > 0 || !one.drained || matched.delivered == 0
    });
    if let Some(one) = at_fault {
        let found = &one.matched;
        report.verdict = format!(
            "not reconciled: {} lost, {} doubled, {} foreign, {} unmatched, drained {}; {error}",
            found.lost, found.duplicates, found.foreign, found.unmatched, one.drained,
        );
        return Some(Failure::NotReconciled);
    }
    let bounds = &options.bounds;
    let rate = match options.mode {
        Mode::Client => "requests_per_second",
        Mode::E2e => "deliveries_per_second",
    };
    let fraction = report.fraction_of_limit;
    let bounds = [
        Bound::least(rate, report.median(rate), bounds.deliveries_per_second_min),
        Bound::least("fraction_of_limit", fraction, bounds.fraction_of_limit_min),
        Bound::most(
            "receipt_ms",
            report.median("receipt_ms"),
            bounds.receipt_ms_p99_max,
        ),
    ];
    (!report.meets(&bounds)).then_some(Failure::BelowBound)
}
