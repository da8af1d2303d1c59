//! Configuration: `fulmar.toml`, environment and flags over the defaults of one table.
//!
//! Flags win over the environment, which wins over the file, which wins over the defaults. Every
//! problem is reported at once.

mod key;
mod nearest;
mod rules;
mod settings;
mod table;
#[cfg(test)]
mod tests;
mod value;

use std::path::{Path, PathBuf};

pub use key::Kind;
pub use settings::Settings;
pub use value::{Value, duration_text, parse_duration_ms, size_text};

use crate::exit::Failure;
use fulmar_gateway::Network;

/// Rates of one identity; 0 lifts a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Requests a second.
    pub requests: u64,
    /// Events a second.
    pub events: u64,
    /// Body bytes a second.
    pub bytes: u64,
}

/// The ports of a list with commas, and what is none.
fn ports(text: &str) -> impl Iterator<Item = Result<u16, String>> {
    let parts = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    parts.map(|part| part.parse().map_err(|_| format!("`{part}` is no port")))
}

/// The networks of a list with commas, and what is none.
fn networks(text: &str) -> impl Iterator<Item = Result<Network, String>> {
    let entries = text.split(',').map(str::trim);
    entries
        .filter(|entry| !entry.is_empty())
        .map(|entry| entry.parse().map_err(|error| format!("{error}")))
}

/// The configuration, typed. Built only from settings without problems.
#[derive(Clone, Debug)]
pub struct Config {
    settings: Settings,
}

impl Config {
    /// Reads the layers and checks them.
    ///
    /// # Errors
    /// Every problem, one a line, exit code 64.
    pub fn load(file: Option<&Path>, flags: &[(String, String)]) -> Result<Self, Failure> {
        Self::check(Self::read(file, flags))
    }

    /// Reads the file, the environment and the flags; problems are in the settings.
    pub fn read(file: Option<&Path>, flags: &[(String, String)]) -> Settings {
        let mut settings = Settings::defaults();
        if let Some(path) = file {
            match std::fs::read_to_string(path) {
                Ok(text) => settings.add_file(&text, &path.display().to_string()),
                Err(error) => settings
                    .problems
                    .push(format!("{}: {error}", path.display())),
            }
        }
        settings.add_environment(std::env::vars());
        for (name, text) in flags {
            settings.add_flag(name, text);
        }
        settings
    }

    /// Every problem of the settings and between them.
    pub fn problems(mut settings: Settings) -> Vec<String> {
        let mut problems = std::mem::take(&mut settings.problems);
        rules::check(&Self { settings }, &mut problems);
        problems
    }

    /// Checks what single values cannot show.
    ///
    /// # Errors
    /// Every problem of the settings and between them, one a line, exit code 64.
    pub fn check(settings: Settings) -> Result<Self, Failure> {
        let problems = Self::problems(settings.clone());
        if problems.is_empty() {
            return Ok(Self { settings });
        }
        let count = problems.len();
        let word = if count == 1 { "problem" } else { "problems" };
        let list = problems.join("\n  ");
        Err(Failure::usage(format!(
            "the configuration has {count} {word}:\n  {list}"
        )))
    }

    /// The settings behind it, for printing.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A key of kind `Bool`.
    pub fn flag(&self, name: &str) -> bool {
        match self.settings.get(name) {
            Value::Bool(value) => *value,
            other => unreachable!("{name} is no flag: {other}"),
        }
    }

    /// A key of kind `Count`, `Size` (bytes) or `Duration` (milliseconds).
    pub fn number(&self, name: &str) -> u64 {
        match self.settings.get(name) {
            Value::Count(value) | Value::Size(value) | Value::Duration(value) => *value,
            other => unreachable!("{name} is no number: {other}"),
        }
    }

    /// A key of kind `Duration`.
    pub fn duration(&self, name: &str) -> std::time::Duration {
        std::time::Duration::from_millis(self.number(name))
    }

    /// A key of kind `Text`, `Choice` or `Address`.
    pub fn text(&self, name: &str) -> &str {
        match self.settings.get(name) {
            Value::Text(text) | Value::Secret(text) => text,
            other => unreachable!("{name} is no text: {other}"),
        }
    }

    /// A key of kind `Path`, or `None` when unset.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        let text = self.text(name);
        (!text.is_empty()).then(|| PathBuf::from(text))
    }

    /// A key of kind `Text` that holds networks, with commas between them.
    pub fn networks(&self, name: &str) -> Vec<Network> {
        networks(self.text(name)).filter_map(Result::ok).collect()
    }

    /// A key of kind `Text` that holds ports, with commas between them.
    pub fn ports(&self, name: &str) -> Vec<u16> {
        ports(self.text(name)).filter_map(Result::ok).collect()
    }

    /// The three rates of a section: `agents`, `keys` or `projects`.
    pub fn rates(&self, section: &str) -> Rates {
        Rates {
            requests: self.number(&format!("{section}.requests_per_second")),
            events: self.number(&format!("{section}.events_per_second")),
            bytes: self.number(&format!("{section}.bytes_per_second")),
        }
    }
}
