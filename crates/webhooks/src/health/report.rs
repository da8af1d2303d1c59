//! A webhook's health as it is read: the window ends now, not at its newest outcome.

use fulmar_flow::{FlowError, State};

use super::fold::{HEALTH, MINUTES, minute_key};
use super::label::Health;
use super::minute::{Attempts, MINUTE_MS, WINDOW_MINUTES};
use super::standing::Standing;

/// What is known of a webhook at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How it does.
    pub health: Health,
    /// Attempts of the last 24 hours.
    pub attempts: Attempts,
    /// What stands at the end of the outcomes.
    pub standing: Standing,
}

/// The words that were told last, one a webhook that was ever sent to.
///
/// # Errors
/// When committed state cannot be read.
pub fn told(state: &State) -> Result<Vec<Health>, FlowError> {
    let all = state.prefix(HEALTH, b"")?;
    let read = |bytes: &[u8]| serde_json::from_slice::<Standing>(bytes).ok();
    let standings = all.iter().filter_map(|(_, bytes)| read(bytes));
    Ok(standings.map(|standing| standing.health).collect())
}

/// Reads a webhook's health; one that was never sent to has an empty one.
///
/// # Errors
/// When committed state cannot be read.
pub fn report(state: &State, webhook: &str, now_ms: i64) -> Result<Report, FlowError> {
    let known = state.get(HEALTH, webhook.as_bytes())?;
    let read = known.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let standing: Standing = read.unwrap_or_default();
    let first = now_ms.div_euclid(MINUTE_MS) - WINDOW_MINUTES + 1;
    let range = (
        minute_key(webhook, first),
        minute_key(webhook, i64::MAX - 1),
    );
    let mut attempts = Attempts::default();
    for (_, value) in state.scan(MINUTES, &range.0..&range.1, usize::MAX)? {
        attempts.add_all(&Attempts::decode(&value).unwrap_or_default());
    }
    let in_a_row = standing.failures_in_a_row;
    Ok(Report {
        health: Health::of(attempts.successes, attempts.failed(), in_a_row),
        attempts,
        standing,
    })
}
