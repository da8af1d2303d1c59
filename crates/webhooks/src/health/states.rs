//! The fold from the topic `control` to what is told of webhooks that were given up or taken up
//! again.

use std::collections::HashMap;
use std::sync::Arc;

use fulmar_flow::{Block, BlockCounts, BlockName, Fold, FoldError, State, StateBatch};
use fulmar_registry::{Change, Entry, SYSTEM_CONSUMER, WebhookState};

use super::notice::{Notice, Teller};

/// The fold's name in committed state, and the keyspace of webhooks that are disabled.
pub const WEBHOOK_STATES: &str = "webhook-states";
/// Version of what it commits (F5).
const VERSION: u32 = 1;

/// The fold of webhooks' states.
pub struct StatesFold {
    state: Arc<State>,
    teller: Teller,
}

impl StatesFold {
    /// A fold; its state is committed state alone.
    #[must_use]
    pub fn new(state: Arc<State>, teller: Teller) -> Self {
        Self { state, teller }
    }
}

impl Fold for StatesFold {
    fn name(&self) -> &'static str {
        WEBHOOK_STATES
    }

    fn version(&self) -> u32 {
        VERSION
    }

    fn fold(&mut self, block: &Block, batch: &mut StateBatch) -> Result<BlockCounts, FoldError> {
        let (mut changed, mut notices) = (HashMap::new(), Vec::new());
        for record in block.records().filter(|record| !record.is_tick()) {
            // A record that is unreadable has kept the server from starting, or was given up.
            let Ok(entry) = Entry::decode(record.offset, record.bytes) else {
                continue;
            };
            let (id, webhook) = match entry.change {
                Change::WebhookSet { id, webhook } => (id, Some(webhook)),
                Change::WebhookDeleted { id } => (id, None),
                _ => continue,
            };
            let was_disabled = match changed.get(&id) {
                Some(known) => *known,
                None => self.state.get(WEBHOOK_STATES, id.as_bytes())?.is_some(),
            };
            let is_disabled = |state: &WebhookState| matches!(state, WebhookState::Disabled { .. });
            let now = webhook.as_ref().is_some_and(|one| is_disabled(&one.state));
            if let Some(webhook) = webhook.filter(|one| one.consumer != SYSTEM_CONSUMER)
                && now != was_disabled
            {
                notices.push(Notice::state_changed(&id, &webhook, record.offset));
            }
            changed.insert(id, now);
        }
        for (id, is_disabled) in changed {
            match is_disabled {
                true => batch.put(WEBHOOK_STATES, id.into_bytes(), Vec::new()),
                false => batch.delete(WEBHOOK_STATES, id.into_bytes()),
            }
        }
        self.teller.tell(&notices)?;
        // It fills no table: nothing of it stands in a ledger.
        Ok(BlockCounts {
            ticks: block.len(),
            ..BlockCounts::default()
        })
    }

    fn committed(&mut self, _name: &BlockName) {}
}
