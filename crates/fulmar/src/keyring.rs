//! What secrets of webhooks are sealed with, and which addresses webhooks may reach.

use std::sync::Arc;

use fulmar_registry::Registry;
use fulmar_webhooks::guard::Guard;
use fulmar_webhooks::seal::Keyring;

use crate::config::Config;
use crate::data_dir::{DataDir, create_private_dir, write_private};
use crate::exit::{Context as _, Failure};
use crate::keys;

/// Id of the first key of a ring that is made here.
const FIRST_KEY: &str = "k1";

/// The keyring of a folder, made at first use.
///
/// # Errors
/// A file that can't be read or written, or is no keyring.
pub fn open(data: &DataDir, registry: &Registry) -> Result<Arc<Keyring>, Failure> {
    let path = data.keyring();
    let shown = path.display();
    if !path.exists() {
        let sealed = |one: &Arc<fulmar_registry::Webhook>| !one.secrets.is_empty();
        if registry.current().webhooks.values().any(sealed) {
            tracing::error!(
                path = %shown,
                "the keyring is gone: what it has sealed is sent by no webhook until it is back"
            );
        }
        create_private_dir(&data.keys())
            .context(format!("cannot make {}", data.keys().display()))?;
        let text = Keyring::generate(FIRST_KEY).context("the keyring")?;
        write_private(&path, text.as_bytes()).context(format!("cannot write {shown}"))?;
    }
    let ring = Keyring::parse(&keys::read_file(&path)?);
    Ok(Arc::new(ring.context(format!("{shown} is no keyring"))?))
}

/// What webhooks may reach.
#[must_use]
pub fn guard(config: &Config) -> Guard {
    Guard::new(
        config.networks("webhooks.allowed_networks"),
        config.ports("webhooks.allowed_ports"),
    )
}
