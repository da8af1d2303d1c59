//! The listeners: bound, told, served, drained.

use std::sync::Arc;
use std::time::Duration;

use fulmar_gateway::http::Handler;
use fulmar_gateway::server::{Drain, DrainReport, DrainTrigger, Server, ServerLimits, drain};
use fulmar_gateway::tls::Tls;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::doors::{self, Shared};
use super::live::Live;
use super::ops::Ops;
use super::public::Public;
use super::{Told, metrics, shutdown, supervisor};
use crate::addresses::Addresses;
use crate::admin::now_ms;
use crate::data_dir::DataDir;
use crate::exit::{Context as _, Failure};
use crate::pki::Pki;
use crate::salts;

/// Connections of the operations listener: probes, a scraper, an operator.
const OPS_CONNECTIONS_MAX: usize = 64;

/// A listener at work.
pub struct Listening {
    /// Starts its drain.
    pub drain: DrainTrigger,
    /// Ends with it.
    pub task: JoinHandle<DrainReport>,
}

/// All listeners at work. The operations listener outlives the doors, so that draining is seen.
pub struct Listeners {
    /// The public listener.
    pub public: Listening,
    /// The agents listener.
    pub agents: Listening,
    /// The operations listener.
    pub ops: Listening,
}

/// Serves until a signal, then drains. True when the drain was complete.
pub async fn run(live: Arc<Live>, data: &DataDir, pki: &Pki, told: &Told) -> Result<bool, Failure> {
    // Before ready: a signal that comes at once must already find its handler.
    let signals = shutdown::Signals::listen()?;
    let shared = Shared::new(&live.config);
    let agents_tls = doors::agents_tls(&live.config, pki, &shared)?;
    let public_tls = doors::public_tls(&live.config, &shared)?;

    // All three are bound before any serves: a port that is taken is told before a client comes.
    let ops = bind(&live, "ops.address").await?;
    let public = bind(&live, "public.address").await?;
    let agents = bind(&live, "agents.address").await?;
    live.start_jobs(&Handle::current())?;
    let addresses = Addresses {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        public: public.local_addr()?.to_string(),
        agents: agents.local_addr()?.to_string(),
        ops: ops.local_addr()?.to_string(),
        public_tls: public_tls.is_some(),
        pid: Some(std::process::id()),
    };

    let limits = doors::server_limits(&live.config);
    let ops_limits = ServerLimits {
        connections_max: OPS_CONNECTIONS_MAX,
        ..limits
    };
    let registry = metrics::registry(&live, &shared.metrics);
    let ops_handler = Ops::new(Arc::clone(&live), registry);
    let public_handler = Public::new(
        Arc::clone(&live),
        doors::events(&live, &shared),
        doors::track(&live, &shared),
    );
    let agents_handler = doors::agents(&live, &shared);
    let listeners = Listeners {
        ops: serve("ops", ops_handler, None, ops_limits, &shared, ops),
        public: serve(
            "public",
            public_handler,
            public_tls,
            limits,
            &shared,
            public,
        ),
        agents: serve(
            "agents",
            agents_handler,
            Some(agents_tls),
            limits,
            &shared,
            agents,
        ),
    };
    let sampler = tokio::spawn(sample(Arc::clone(&live)));
    let saver = tokio::spawn(save_uses(Arc::clone(&live)));
    let salter = tokio::spawn(advance_salts(Arc::clone(&live)));
    let places = tokio::spawn(reload_geo(Arc::clone(&live)));

    addresses.write(data)?;
    told.print(data, &addresses);
    supervisor::tell(supervisor::READY);
    let watchdog = tokio::spawn(supervisor::keep_telling());
    let complete = shutdown::run(&live, data, listeners, signals).await;
    sampler.abort();
    saver.abort();
    salter.abort();
    places.abort();
    watchdog.abort();
    Ok(complete)
}

async fn bind(live: &Live, name: &str) -> Result<TcpListener, Failure> {
    let address = live.config.text(name);
    TcpListener::bind(address)
        .await
        .context(format!("cannot listen on {address} ({name})"))
}

fn serve<H: Handler>(
    name: &'static str,
    handler: H,
    tls: Option<Arc<Tls>>,
    limits: ServerLimits,
    shared: &Shared,
    listener: TcpListener,
) -> Listening {
    let (trigger, end): (DrainTrigger, Drain) = drain();
    let metrics = Arc::clone(&shared.metrics);
    let server = Server::new(name, Arc::new(handler), tls, limits, metrics);
    let task = tokio::spawn(server.run(listener, end));
    Listening {
        drain: trigger,
        task,
    }
}

async fn sample(live: Arc<Live>) {
    let mut every = tokio::time::interval(Duration::from_secs(1));
    loop {
        every.tick().await;
        live.sample();
    }
}

/// How often the last uses of keys are saved: what a crash may forget of a hint.
const SAVE_USES_EVERY: Duration = Duration::from_secs(60);

async fn save_uses(live: Arc<Live>) {
    let mut every = tokio::time::interval(SAVE_USES_EVERY);
    loop {
        every.tick().await;
        let saved = Arc::clone(&live.desk.saved);
        // A panic there has been printed, and the next time is a new try.
        let _ = tokio::task::spawn_blocking(move || saved.save_uses()).await;
    }
}

/// How often the databases of places are looked at: they change once a week.
const RELOAD_GEO_EVERY: Duration = Duration::from_secs(60);

async fn reload_geo(live: Arc<Live>) {
    let mut every = tokio::time::interval(RELOAD_GEO_EVERY);
    loop {
        every.tick().await;
        let geo = Arc::clone(&live.geo);
        let reloaded = tokio::task::spawn_blocking(move || geo.reload_if_changed()).await;
        if let Ok(Err(error)) = reloaded {
            tracing::warn!(%error, "a database of places is not read: the last one counts");
        }
    }
}

/// How often it is asked whether a salt is due: far more often than the half day that it is made
/// ahead.
const ADVANCE_SALTS_EVERY: Duration = Duration::from_secs(60);

async fn advance_salts(live: Arc<Live>) {
    let mut every = tokio::time::interval(ADVANCE_SALTS_EVERY);
    loop {
        every.tick().await;
        let live = Arc::clone(&live);
        let advanced = tokio::task::spawn_blocking(move || {
            salts::advance(&live.salts, &live.desk.data, now_ms())
        });
        if let Ok(Err(error)) = advanced.await {
            tracing::error!(%error, "the next salt of device ids cannot be made");
        }
    }
}
