//! The fold from the topic `deliveries` to every webhook's health. All that it knows between blocks
//! is committed state, so that a replay of the outcomes gives the same.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use fulmar_event::{AttemptRecord, DeliveryStatus};
use fulmar_flow::{Block, BlockCounts, BlockName, FlowError, Fold, FoldError, State, StateBatch};
use fulmar_log::Record;

use super::minute::{Attempts, MINUTE_MS, Verdict};
use super::notice::{Notice, Teller, ended_ms, is_told};
use super::standing::Standing;
use crate::disabling::disable;

/// The fold's name in committed state, and the keyspace of standings.
pub const HEALTH: &str = "health";
/// Keyspace of minutes: webhook, zero, minute.
pub(super) const MINUTES: &str = "health-minutes";
/// Version of what it commits (F5).
const VERSION: u32 = 1;
/// How often what is kept of webhooks that are gone is removed, in milliseconds of the log's time.
const SWEEP_EVERY_MS: i64 = 3_600_000;

/// When a receiver is given up: both must hold.
#[derive(Clone, Copy, Debug)]
pub struct HealthLimits {
    /// How long every attempt has failed, in milliseconds.
    pub failing_ms: i64,
    /// How many have.
    pub failures: u32,
}

/// The fold of health.
pub struct HealthFold {
    state: Arc<State>,
    limits: HealthLimits,
    /// None for a replay, which tells nothing (F1).
    teller: Option<Teller>,
    /// Receivers to give up once the block is committed, with the reason.
    given_up: HashMap<String, String>,
    /// When the sweep is due by the log's time.
    sweep_ms: i64,
}

/// What a block has changed of a webhook.
struct Touched {
    standing: Standing,
    minutes: BTreeMap<i64, Attempts>,
    left: Vec<Vec<u8>>,
}

/// Changes of a block.
#[derive(Default)]
struct Changes {
    webhooks: HashMap<String, Touched>,
    notices: Vec<Notice>,
    given_up: HashMap<String, String>,
    /// Projects that listen, as the block begins.
    listening: HashSet<String>,
}

impl HealthFold {
    /// A fold; its state is committed state alone.
    #[must_use]
    pub fn new(state: Arc<State>, limits: HealthLimits, teller: Option<Teller>) -> Self {
        Self {
            state,
            limits,
            teller,
            given_up: HashMap::new(),
            sweep_ms: 0,
        }
    }

    fn take(&self, record: &Record<'_>, changes: &mut Changes) -> Result<(), FoldError> {
        // What is no record of a delivery is in quarantine by the tables' fold.
        let Ok(read) = AttemptRecord::parse(record.bytes) else {
            return Ok(());
        };
        let tells = self.teller.is_some() && is_told(&read);
        let is_given_up = read.status == DeliveryStatus::Failed as i32;
        if is_given_up && tells && changes.listening.contains(read.project) {
            let notice = Notice::delivery_failed(&read, record.offset);
            changes.notices.push(notice);
        }
        let Some(verdict) = Verdict::of(&read) else {
            return Ok(());
        };
        let touched = self.touch(&read, &mut changes.webhooks)?;
        let at_ms = ended_ms(&read);
        self.count(read.webhook_id, touched, (verdict, at_ms, read.duration_us))?;
        if let Some(turn) = touched.standing.turn().filter(|_| tells) {
            let standing = &touched.standing;
            let notice = Notice::health_changed(read.webhook_id, standing, turn, record.offset);
            changes.notices.push(notice);
        }
        if let Some(reason) = self.gives_up(read.webhook_id, &touched.standing, at_ms) {
            let given_up = &mut changes.given_up;
            given_up.entry(read.webhook_id.to_owned()).or_insert(reason);
        }
        Ok(())
    }

    fn touch<'c>(
        &self,
        read: &AttemptRecord<'_>,
        webhooks: &'c mut HashMap<String, Touched>,
    ) -> Result<&'c mut Touched, FoldError> {
        let webhook = read.webhook_id;
        if !webhooks.contains_key(webhook) {
            let standing = match self.state.get(HEALTH, webhook.as_bytes())? {
                None => Standing {
                    project: read.project.to_owned(),
                    consumer: read.consumer.to_owned(),
                    ..Standing::default()
                },
                Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                    FoldError::Damaged(format!("the health of webhook {webhook}: {error}"))
                })?,
            };
            let touched = Touched {
                standing,
                minutes: BTreeMap::new(),
                left: Vec::new(),
            };
            webhooks.insert(webhook.to_owned(), touched);
        }
        Ok(webhooks.get_mut(webhook).expect("it has just been put in"))
    }

    fn count(
        &self,
        webhook: &str,
        touched: &mut Touched,
        (verdict, at_ms, duration_us): (Verdict, i64, u64),
    ) -> Result<(), FlowError> {
        let minute = at_ms.div_euclid(MINUTE_MS);
        let (from, to) = touched.standing.move_on(minute);
        if from < to {
            self.leave(webhook, touched, (from, to))?;
        }
        touched.standing.count(verdict, at_ms);
        if minute >= touched.standing.first_minute() {
            let counts = match touched.minutes.entry(minute) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    let known = self.state.get(MINUTES, &minute_key(webhook, minute))?;
                    let read = known.as_deref().and_then(Attempts::decode);
                    place.insert(read.unwrap_or_default())
                }
            };
            counts.add(verdict, duration_us);
        }
        Ok(())
    }

    /// Takes minutes that have left the window out of the sums, and out of what is kept.
    fn leave(
        &self,
        webhook: &str,
        touched: &mut Touched,
        (from, to): (i64, i64),
    ) -> Result<(), FlowError> {
        let (first, end) = (minute_key(webhook, from), minute_key(webhook, to));
        let mut gone: BTreeMap<Vec<u8>, Attempts> = BTreeMap::new();
        for (key, value) in self.state.scan(MINUTES, &first..&end, usize::MAX)? {
            gone.insert(key, Attempts::decode(&value).unwrap_or_default());
        }
        // What this block has counted stands over what is committed.
        let kept = touched.minutes.split_off(&to);
        for (minute, counts) in std::mem::replace(&mut touched.minutes, kept) {
            gone.insert(minute_key(webhook, minute), counts);
        }
        let standing = &mut touched.standing;
        for (key, counts) in gone {
            standing.successes = standing.successes.saturating_sub(counts.successes);
            standing.failures = standing.failures.saturating_sub(counts.failed());
            touched.left.push(key);
        }
        Ok(())
    }

    /// Why a receiver is given up, if it is.
    fn gives_up(&self, webhook: &str, standing: &Standing, at_ms: i64) -> Option<String> {
        let (teller, since_ms) = (self.teller.as_ref()?, standing.failing_since_ms?);
        let HealthLimits {
            failing_ms,
            failures,
        } = self.limits;
        if at_ms - since_ms < failing_ms || standing.failures_in_a_row < failures {
            return None;
        }
        // Who takes a receiver up again gives it the whole time once more.
        let state = teller.registry.current();
        let resumed_ms = state.webhooks.get(webhook).map_or(0, |one| one.resumed_ms);
        if at_ms - resumed_ms < failing_ms {
            return None;
        }
        let hours = (at_ms - since_ms) / 3_600_000;
        let in_a_row = standing.failures_in_a_row;
        Some(format!(
            "every attempt has failed for {hours} hours, {in_a_row} in a row"
        ))
    }

    /// Removes what is kept of webhooks that are gone.
    fn sweep(&mut self, now_ms: i64, batch: &mut StateBatch) -> Result<(), FlowError> {
        let Some(teller) = self.teller.as_ref().filter(|_| now_ms >= self.sweep_ms) else {
            return Ok(());
        };
        let registry = teller.registry.current();
        for key in self.state.keys(HEALTH, b"")? {
            let known = std::str::from_utf8(&key);
            if known.is_ok_and(|id| registry.webhooks.contains_key(id)) {
                continue;
            }
            let mut minutes = key.clone();
            minutes.push(0);
            for minute in self.state.keys(MINUTES, &minutes)? {
                batch.delete(MINUTES, minute);
            }
            batch.delete(HEALTH, key);
        }
        self.sweep_ms = now_ms + SWEEP_EVERY_MS;
        Ok(())
    }
}

impl Fold for HealthFold {
    fn name(&self) -> &'static str {
        HEALTH
    }

    fn version(&self) -> u32 {
        VERSION
    }

    fn fold(&mut self, block: &Block, batch: &mut StateBatch) -> Result<BlockCounts, FoldError> {
        let teller = self.teller.as_ref();
        let mut changes = Changes {
            listening: teller.map(Teller::listening).unwrap_or_default(),
            ..Changes::default()
        };
        for record in block.records().filter(|record| !record.is_tick()) {
            self.take(&record, &mut changes)?;
        }
        self.sweep(block.append_last_ms(), batch)?;
        for (webhook, touched) in changes.webhooks {
            for key in touched.left {
                batch.delete(MINUTES, key);
            }
            for (minute, counts) in touched.minutes {
                batch.put(MINUTES, minute_key(&webhook, minute), counts.encode());
            }
            let value = serde_json::to_vec(&touched.standing);
            let value = value.map_err(|error| FoldError::Fatal(error.to_string()))?;
            batch.put(HEALTH, webhook.into_bytes(), value);
        }
        if let Some(teller) = &self.teller {
            teller.tell(&changes.notices)?;
        }
        self.given_up = changes.given_up;
        // It fills no table: nothing of it stands in a ledger.
        Ok(BlockCounts {
            ticks: block.len(),
            ..BlockCounts::default()
        })
    }

    /// A receiver that could not be given up now is so after its next failure.
    fn committed(&mut self, _name: &BlockName) {
        let Some(teller) = &self.teller else {
            return;
        };
        for (webhook, reason) in std::mem::take(&mut self.given_up) {
            match disable(&teller.registry, &webhook, &reason) {
                Ok(()) => tracing::warn!(webhook, reason, "a receiver is given up"),
                Err(error) => tracing::error!(webhook, %error, "cannot give a receiver up"),
            }
        }
    }
}

/// The key of a webhook's minute.
pub(super) fn minute_key(webhook: &str, minute: i64) -> Vec<u8> {
    let mut key = Vec::with_capacity(webhook.len() + 9);
    key.extend_from_slice(webhook.as_bytes());
    key.push(0);
    key.extend_from_slice(&minute.max(0).to_be_bytes());
    key
}
