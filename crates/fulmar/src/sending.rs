//! What sends webhooks, and knows how their receivers do.

use std::sync::Arc;

use fulmar_flow::repeats::RepeatsConfig;
use fulmar_flow::{FoldHandle, start_fold};
use fulmar_log::Topic;
use fulmar_webhooks::backlog::Backlogs;
use fulmar_webhooks::guard::Guard;
use fulmar_webhooks::health::{HealthFold, HealthLimits, StatesFold, Teller};
use fulmar_webhooks::seal::Keyring;
use fulmar_webhooks::sender::{SenderConfig, SenderHandle, SenderParts};

use crate::exit::Failure;
use crate::keyring;
use crate::node::{Node, block_limits, repeats_config};

/// The index of repeats of webhooks has this part of the writer's bounds: it knows matched events
/// alone.
const WEBHOOK_REPEATS_SHARE: u64 = 8;

/// What sends webhooks, and what their settings are checked and sealed with.
pub struct WebhookParts {
    /// The running sender.
    pub sender: Arc<SenderHandle>,
    /// What it has not sent yet.
    pub backlogs: Arc<Backlogs>,
    /// Seals secrets.
    pub keyring: Arc<Keyring>,
    /// Which addresses may be reached.
    pub guard: Guard,
    /// The fold of health, over `deliveries`.
    pub health: FoldHandle,
    /// The fold of what is told of webhooks' states, over `control`.
    pub states: FoldHandle,
}

impl Node {
    /// Starts the sender of webhooks, from its committed state.
    pub fn start_webhooks(&self) -> Result<WebhookParts, Failure> {
        let config = &self.config;
        let (keyring, guard) = (
            keyring::open(&self.data, &self.registry)?,
            keyring::guard(config),
        );
        let of_webhooks = |bytes: u64| bytes / WEBHOOK_REPEATS_SHARE;
        let limits = repeats_config(config);
        let backlogs = Arc::<Backlogs>::default();
        let sender = SenderHandle::start(SenderParts {
            registry: Arc::clone(&self.registry),
            control: self.log.journal(Topic::Control),
            events: self.log.journal(Topic::Events),
            deliveries: self.log.journal(Topic::Deliveries),
            state: Arc::clone(&self.state),
            repeats_dir: self.data.webhook_repeats(),
            repeats: RepeatsConfig {
                disk_bytes_max: of_webhooks(limits.disk_bytes_max),
                memory_bytes_max: of_webhooks(limits.memory_bytes_max),
                ..limits
            },
            keyring: Arc::clone(&keyring),
            guard: guard.clone(),
            backlogs: Arc::clone(&backlogs),
            config: SenderConfig {
                in_flight_max: usize::try_from(config.number("webhooks.in_flight_max"))
                    .unwrap_or(usize::MAX),
                in_flight_per_webhook: u32::try_from(
                    config.number("webhooks.in_flight_per_webhook"),
                )
                .unwrap_or(u32::MAX),
                breaker_pause: config.duration("webhooks.breaker_pause"),
                stop_time_max: config.duration("server.shutdown_timeout") / 2,
            },
        })?;
        let (health, states) = self.start_health()?;
        Ok(WebhookParts {
            sender: Arc::new(sender),
            backlogs,
            keyring,
            guard,
            health,
            states,
        })
    }

    /// Starts the folds that know how receivers do, and tell of it.
    fn start_health(&self) -> Result<(FoldHandle, FoldHandle), Failure> {
        let config = &self.config;
        let limits = HealthLimits {
            failing_ms: i64::try_from(config.number("webhooks.give_up_after")).unwrap_or(i64::MAX),
            failures: u32::try_from(config.number("webhooks.give_up_failures_min"))
                .unwrap_or(u32::MAX),
        };
        let teller = Teller {
            events: self.log.journal(Topic::Events),
            partitions: self.log.partitions(),
            registry: Arc::clone(&self.registry),
        };
        let state = || Arc::clone(&self.state);
        let health = HealthFold::new(state(), limits, Some(teller.clone()));
        let deliveries = self.log.journal(Topic::Deliveries);
        let health = start_fold(health, deliveries, state(), block_limits(config))?;
        let states = StatesFold::new(state(), teller);
        let control = self.log.journal(Topic::Control);
        let states = start_fold(states, control, state(), block_limits(config))?;
        Ok((health, states))
    }
}
