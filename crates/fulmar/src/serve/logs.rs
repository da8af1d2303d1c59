//! Structured logs of the server: text or JSON, one level for all, none per event.

use std::io::IsTerminal as _;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, fmt, reload};

use crate::exit::Failure;

/// Changes the least level that is logged while the server runs.
#[derive(Clone)]
pub struct LevelSwitch(reload::Handle<LevelFilter, Registry>);

impl LevelSwitch {
    /// Sets the level by name; false when there is no such level.
    pub fn set(&self, name: &str) -> bool {
        let Ok(level) = name.trim().parse::<LevelFilter>() else {
            return false;
        };
        self.0.modify(|filter| *filter = level).is_ok()
    }
}

/// Starts logging to standard error. `format` is `text` or `json`.
pub fn start(level: &str, format: &str) -> Result<LevelSwitch, Failure> {
    let level: LevelFilter = level
        .parse()
        .map_err(|_| Failure::usage(format!("no log level `{level}`")))?;
    let (filter, handle) = reload::Layer::new(level);
    let base = tracing_subscriber::registry().with(filter);
    let started = match format {
        "json" => {
            let layer = fmt::layer()
                .json()
                .flatten_event(true)
                .with_writer(std::io::stderr);
            base.with(layer).try_init()
        }
        _ => {
            let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            let layer = fmt::layer().with_ansi(colours).with_target(false);
            base.with(layer.with_writer(std::io::stderr)).try_init()
        }
    };
    started.map_err(|e| Failure::new(format!("cannot start logging: {e}")))?;
    Ok(LevelSwitch(handle))
}
