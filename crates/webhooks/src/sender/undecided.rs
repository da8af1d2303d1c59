//! Deliveries that are not decided, as others read them: what the last checkpoint found.

use std::ops::ControlFlow;

use fulmar_flow::{FlowError, State};

use super::checkpoint::PARKED;
use super::delivery::{Parked, key_from};

/// Entries read at once.
const READ_AT_ONCE: usize = 4_096;

/// Calls `each` with the deliveries of a webhook, or of all, and with their webhook, until it
/// breaks off. One whose due time changes meanwhile may come twice; none that stays is missed.
///
/// # Errors
/// When committed state cannot be read.
pub fn each_undecided(
    state: &State,
    webhook: Option<&str>,
    mut each: impl FnMut(&str, Parked) -> ControlFlow<()>,
) -> Result<(), FlowError> {
    let (mut from, to) = match webhook {
        Some(webhook) => (key_from(webhook, 0), key_from(webhook, i64::MAX)),
        // No id of a webhook begins with such a byte: ids are text.
        None => (Vec::new(), vec![0xff]),
    };
    loop {
        let entries = state.scan(PARKED, &from..&to, READ_AT_ONCE)?;
        for (key, value) in &entries {
            if let Some((webhook, parked)) = Parked::read(key, value)
                && each(webhook, parked).is_break()
            {
                return Ok(());
            }
        }
        match entries.last() {
            Some((last, _)) if entries.len() == READ_AT_ONCE => {
                from.clone_from(last);
                from.push(0);
            }
            _ => return Ok(()),
        }
    }
}
