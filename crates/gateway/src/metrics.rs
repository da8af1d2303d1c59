//! What the doors count. Labels are bounded: never an agent, an id or a path.
//!
//! Names are whole (`fulmar_…`), so that they can be searched for; register
//! them with a registry that adds no prefix. Names of the system before this
//! one map by their prefix: `seagull_ingest_batches_total` is
//! `fulmar_ingest_batches_total`, and so on for `ingest_events`,
//! `ingest_rejections` (here over all refusals, by code), `ingest_batch_events`,
//! `ingest_publish_duration_seconds` (here the log alone; validation is in
//! `ingest_admit_duration_seconds`), `ingest_event_lag_seconds` (here the
//! newest and the oldest event of each batch), `http_requests`,
//! `http_request_duration_seconds`, `http_handler_panics`,
//! `ingest_inflight_bytes`, `ingest_inflight_requests` and their ceilings.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Labels with a door and what became of a thing at it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OutcomeLabels {
    /// `agents`, `events` or `track`.
    pub door: &'static str,
    /// `accepted`, `duplicate`, `dropped`, `rejected` or `unavailable`.
    pub outcome: &'static str,
}

/// Labels of a refusal: the door and the contract's code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RefusalLabels {
    /// `agents`, `events` or `track`.
    pub door: &'static str,
    /// A code of the contract: a fixed few.
    pub reason: &'static str,
}

/// Labels of an HTTP request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// The listener's name.
    pub listener: &'static str,
    /// The route's template.
    pub route: &'static str,
    /// The method, or `other`.
    pub method: &'static str,
    /// `2xx`, `4xx`, …
    pub status_class: &'static str,
}

/// One label: a route.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RouteLabels {
    /// The route's template.
    pub route: &'static str,
}

/// One label: a listener.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ListenerLabels {
    /// The listener's name.
    pub listener: &'static str,
}

/// A listener and what became of a handshake.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct HandshakeLabels {
    /// The listener's name.
    pub listener: &'static str,
    /// `ok`, `failed`, `timed_out` or `no_material`.
    pub outcome: &'static str,
}

/// One label: an outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReloadLabels {
    /// `ok` or `failed`.
    pub outcome: &'static str,
}

/// One label: a door.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DoorLabels {
    /// `agents`, `events` or `track`.
    pub door: &'static str,
}

/// All that the doors and their listeners count.
#[derive(Debug)]
pub struct Metrics {
    batches: Family<OutcomeLabels, Counter>,
    events: Family<OutcomeLabels, Counter>,
    refusals: Family<RefusalLabels, Counter>,
    batch_events: Histogram,
    admit_seconds: Histogram,
    publish_seconds: Histogram,
    lag_seconds: Histogram,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
    panics: Family<RouteLabels, Counter>,
    connections: Family<ListenerLabels, Gauge>,
    connections_refused: Family<ListenerLabels, Counter>,
    handshakes: Family<HandshakeLabels, Counter>,
    tls_reloads: Family<ReloadLabels, Counter>,
    budget_evictions: Family<DoorLabels, Counter>,
    /// 1 while an old set of TLS files serves because the new can't be used.
    pub tls_stale: Gauge,
    /// When the server's certificate ends, in seconds since the epoch.
    pub tls_not_after_seconds: Gauge,
    /// Bytes reserved for bodies and records.
    pub in_flight_bytes: Gauge,
    /// Requests with a reservation.
    pub in_flight_requests: Gauge,
    /// The ceiling of `in_flight_bytes`.
    pub in_flight_bytes_max: Gauge,
    /// The ceiling of `in_flight_requests`.
    pub in_flight_requests_max: Gauge,
}

fn request_histogram() -> Histogram {
    Histogram::new([0.005, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0])
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Everything at zero.
    pub fn new() -> Self {
        Self {
            batches: Family::default(),
            events: Family::default(),
            refusals: Family::default(),
            batch_events: Histogram::new([1.0, 10.0, 100.0, 500.0, 1e3, 5e3, 1e4]),
            admit_seconds: Histogram::new([1e-5, 1e-4, 5e-4, 1e-3, 5e-3, 0.025, 0.1]),
            publish_seconds: Histogram::new([0.001, 0.005, 0.025, 0.1, 0.5, 2.0, 10.0]),
            lag_seconds: Histogram::new([1.0, 5.0, 30.0, 120.0, 600.0, 3_600.0, 86_400.0]),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(request_histogram),
            panics: Family::default(),
            connections: Family::default(),
            connections_refused: Family::default(),
            handshakes: Family::default(),
            tls_reloads: Family::default(),
            budget_evictions: Family::default(),
            tls_stale: Gauge::default(),
            tls_not_after_seconds: Gauge::default(),
            in_flight_bytes: Gauge::default(),
            in_flight_requests: Gauge::default(),
            in_flight_bytes_max: Gauge::default(),
            in_flight_requests_max: Gauge::default(),
        }
    }

    /// Puts every family into `registry`, which must add no prefix of its own.
    pub fn register(&self, registry: &mut Registry) {
        self.register_ingest(registry);
        self.register_in_flight(registry);
        self.register_listeners(registry);
        self.register_tls(registry);
    }

    fn register_ingest(&self, registry: &mut Registry) {
        registry.register(
            "fulmar_ingest_batches",
            "Requests by outcome",
            self.batches.clone(),
        );
        registry.register(
            "fulmar_ingest_events",
            "Events by outcome",
            self.events.clone(),
        );
        registry.register(
            "fulmar_ingest_rejections",
            "Refusals by code",
            self.refusals.clone(),
        );
        registry.register(
            "fulmar_ingest_batch_events",
            "Events of an accepted request",
            self.batch_events.clone(),
        );
        registry.register(
            "fulmar_ingest_admit_duration_seconds",
            "Validating and stamping one request",
            self.admit_seconds.clone(),
        );
        registry.register(
            "fulmar_ingest_publish_duration_seconds",
            "From handing records to the log until they are durable",
            self.publish_seconds.clone(),
        );
        registry.register(
            "fulmar_ingest_event_lag_seconds",
            "Reception minus event time",
            self.lag_seconds.clone(),
        );
        registry.register(
            "fulmar_ingest_budget_evictions",
            "Agents or keys whose budget was folded into a shared slot",
            self.budget_evictions.clone(),
        );
    }

    fn register_in_flight(&self, registry: &mut Registry) {
        let gauges = [
            (
                "fulmar_ingest_inflight_bytes",
                "Bytes reserved",
                &self.in_flight_bytes,
            ),
            (
                "fulmar_ingest_inflight_requests",
                "Requests reserved",
                &self.in_flight_requests,
            ),
            (
                "fulmar_ingest_inflight_bytes_ceiling",
                "Their ceiling",
                &self.in_flight_bytes_max,
            ),
            (
                "fulmar_ingest_inflight_requests_ceiling",
                "Their ceiling",
                &self.in_flight_requests_max,
            ),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
    }

    fn register_listeners(&self, registry: &mut Registry) {
        registry.register(
            "fulmar_http_requests",
            "Requests answered",
            self.requests.clone(),
        );
        registry.register(
            "fulmar_http_request_duration_seconds",
            "From the headers to the answer",
            self.request_seconds.clone(),
        );
        registry.register(
            "fulmar_http_handler_panics",
            "Handlers that panicked",
            self.panics.clone(),
        );
        registry.register(
            "fulmar_connections",
            "Open connections",
            self.connections.clone(),
        );
        registry.register(
            "fulmar_connections_refused",
            "Connections closed at the bound",
            self.connections_refused.clone(),
        );
        registry.register(
            "fulmar_tls_handshakes",
            "TLS handshakes by outcome",
            self.handshakes.clone(),
        );
    }

    fn register_tls(&self, registry: &mut Registry) {
        registry.register(
            "fulmar_tls_reloads",
            "Reloads of TLS files",
            self.tls_reloads.clone(),
        );
        registry.register(
            "fulmar_tls_material_stale",
            "1 while old TLS files serve because the new can't be used",
            self.tls_stale.clone(),
        );
        registry.register(
            "fulmar_tls_certificate_not_after_seconds",
            "When the server's certificate ends",
            self.tls_not_after_seconds.clone(),
        );
    }

    pub(crate) fn batch(&self, door: &'static str, outcome: &'static str) {
        self.batches
            .get_or_create(&OutcomeLabels { door, outcome })
            .inc();
    }

    pub(crate) fn events(&self, door: &'static str, outcome: &'static str, count: u64) {
        if count > 0 {
            self.events
                .get_or_create(&OutcomeLabels { door, outcome })
                .inc_by(count);
        }
    }

    pub(crate) fn refused(&self, door: &'static str, reason: &'static str) {
        self.refusals
            .get_or_create(&RefusalLabels { door, reason })
            .inc();
    }

    pub(crate) fn accepted_events(&self, count: u32) {
        self.batch_events.observe(f64::from(count));
    }

    pub(crate) fn admitted_in(&self, time: Duration) {
        self.admit_seconds.observe(time.as_secs_f64());
    }

    pub(crate) fn published_in(&self, time: Duration) {
        self.publish_seconds.observe(time.as_secs_f64());
    }

    pub(crate) fn event_lag(&self, seconds: f64) {
        self.lag_seconds.observe(seconds);
    }

    pub(crate) fn evicted(&self, door: &'static str) {
        self.budget_evictions
            .get_or_create(&DoorLabels { door })
            .inc();
    }

    pub(crate) fn http_request(
        &self,
        listener: &'static str,
        route: &'static str,
        method: &'static str,
        status_class: &'static str,
        time: Duration,
    ) {
        let labels = RequestLabels {
            listener,
            route,
            method,
            status_class,
        };
        self.requests.get_or_create(&labels).inc();
        self.request_seconds
            .get_or_create(&RouteLabels { route })
            .observe(time.as_secs_f64());
    }

    pub(crate) fn panicked(&self, route: &'static str) {
        self.panics.get_or_create(&RouteLabels { route }).inc();
    }

    pub(crate) fn connection_open(&self, listener: &'static str) -> OpenConnection {
        let gauge = self
            .connections
            .get_or_create_owned(&ListenerLabels { listener });
        gauge.inc();
        OpenConnection(gauge)
    }

    pub(crate) fn connection_refused(&self, listener: &'static str) {
        self.connections_refused
            .get_or_create(&ListenerLabels { listener })
            .inc();
    }

    pub(crate) fn handshake(&self, listener: &'static str, outcome: &'static str) {
        self.handshakes
            .get_or_create(&HandshakeLabels { listener, outcome })
            .inc();
    }

    pub(crate) fn tls_reload(&self, outcome: &'static str) {
        self.tls_reloads
            .get_or_create(&ReloadLabels { outcome })
            .inc();
    }
}

/// Counts a connection as open until dropped.
pub(crate) struct OpenConnection(Gauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}
