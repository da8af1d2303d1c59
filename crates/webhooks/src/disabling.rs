//! Giving a receiver up: its deliveries are held until somebody resumes it.

use fulmar_registry::{Change, Registry, RegistryError, WebhookState};

/// Disables an active webhook, durably; one that is paused or disabled stays as it is. Blocks.
///
/// # Errors
/// When it is gone, or the control topic cannot be written.
pub fn disable(registry: &Registry, id: &str, reason: &str) -> Result<(), RegistryError> {
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let gone = || RegistryError::Unknown {
        kind: "webhook",
        id: id.to_owned(),
    };
    registry.change_from(now_ms, |state| {
        let known = state.webhooks.get(id).ok_or_else(gone)?;
        let mut webhook = (**known).clone();
        if webhook.state == WebhookState::Active {
            webhook.state = WebhookState::Disabled {
                reason: reason.to_owned(),
            };
            webhook.updated_ms = now_ms;
        }
        Ok::<_, RegistryError>(Change::WebhookSet {
            id: id.to_owned(),
            webhook: Box::new(webhook),
        })
    })?;
    Ok(())
}
