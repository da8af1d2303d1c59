//! `fulmar config`: print and check the configuration.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};

use super::output::{note, print_json, print_line};
use crate::config::{Config, Kind, Settings, Value, duration_text, size_text};
use crate::exit::{Exit, Outcome};

/// The configuration: fulmar.toml, environment, flags.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar config print > fulmar.toml        # every key with its value and what it does\n  \
    FULMAR_LOG_PARTITIONS=32 fulmar config check --config fulmar.toml")]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand, Debug)]
enum ConfigCommand {
    /// Print the configuration in force as TOML; secrets are left out.
    Print {
        #[command(flatten)]
        source: ConfigSource,
        /// Print JSON, with where each value came from.
        #[arg(long)]
        json: bool,
    },
    /// Report every problem at once; exit code 64 when there is one.
    Check {
        #[command(flatten)]
        source: ConfigSource,
        /// Print JSON: the problems, none when it is sound.
        #[arg(long)]
        json: bool,
    },
    /// Print the reference of every key as Markdown.
    Reference,
}

/// Where the configuration comes from, beside the environment.
#[derive(Args, Clone, Debug, Default)]
pub struct ConfigSource {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE", env = "FULMAR_CONFIG")]
    pub config: Option<PathBuf>,
    /// Set one key, such as log.partitions=32; may be given many times.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("takes KEY=VALUE")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

impl ConfigArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        match self.command {
            ConfigCommand::Print { source, json } => {
                let config = Config::load(source.config.as_deref(), &source.set)?;
                match json {
                    true => print_json(&as_json(config.settings())),
                    false => print_line(&as_toml(config.settings())),
                }
            }
            ConfigCommand::Check { source, json } => {
                let settings = Config::read(source.config.as_deref(), &source.set);
                if json {
                    let problems = Config::problems(settings.clone());
                    print_json(&json!({ "problems": problems }))?;
                }
                Config::check(settings)?;
                note("the configuration is sound");
                Ok(Exit::Done)
            }
            ConfigCommand::Reference => print_line(&reference()),
        }
    }
}

fn as_json(settings: &Settings) -> Json {
    let rows = settings.iter().map(|(key, value, source)| {
        let value = match value {
            Value::Bool(flag) => json!(flag),
            Value::Count(count) => json!(count),
            other => json!(other.to_string()),
        };
        json!({"key": key.name, "value": value, "source": source.to_string()})
    });
    Json::Array(rows.collect())
}

fn as_toml(settings: &Settings) -> String {
    let mut text = String::new();
    let mut section = "";
    for (key, value, source) in settings.iter() {
        let (of, name) = key
            .name
            .split_once('.')
            .expect("a test holds that names have two parts");
        if of != section {
            text.push_str(&format!(
                "{}[{of}]\n",
                if section.is_empty() { "" } else { "\n" }
            ));
            section = of;
        }
        let line = match value {
            Value::Bool(_) | Value::Count(_) => format!("{name} = {value}"),
            Value::Secret(secret) if secret.is_empty() => format!("# {name} is not set"),
            Value::Secret(_) => format!("# {name} is set, and secret"),
            other => format!("{name} = {}", toml::Value::String(other.to_string())),
        };
        text.push_str(&format!("# {} ({source})\n{line}\n", key.doc));
    }
    text.trim_end().to_owned()
}

fn reference() -> String {
    let mut text =
        String::from("| key | takes | default | what it does |\n| --- | --- | --- | --- |\n");
    for (key, value, _) in Settings::defaults().iter() {
        let default = match value.to_string() {
            empty if empty.is_empty() => "unset".to_owned(),
            value => format!("`{value}`"),
        };
        let takes = takes(key.kind);
        text.push_str(&format!(
            "| `{}` | {takes} | {default} | {} |\n",
            key.name, key.doc
        ));
    }
    text.trim_end().to_owned()
}

fn takes(kind: Kind) -> String {
    match kind {
        Kind::Bool => "true or false".to_owned(),
        Kind::Count(min, max) => format!("{min} to {max}"),
        Kind::Size(min, max) => format!("{} to {}", size_text(min), size_text(max)),
        Kind::Duration(min, max) => format!("{} to {}", duration_text(min), duration_text(max)),
        Kind::Address => "host:port".to_owned(),
        Kind::Text(max) => format!("text, {max} bytes"),
        Kind::Path => "path".to_owned(),
        Kind::Choice(words) => words.join(", "),
        Kind::Secret => "secret; also `NAME_file`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_the_same_configuration_again() {
        let mut first = Settings::defaults();
        first.add_flag("log.partitions", "32");
        first.add_flag("writer.block_age", "250ms");
        let mut again = Settings::defaults();
        again.add_file(&as_toml(&first), "printed");
        assert!(again.problems.is_empty(), "{:?}", again.problems);
        for ((key, one, _), (_, other, _)) in first.iter().zip(again.iter()) {
            assert_eq!(one, other, "{}", key.name);
        }
    }

    #[test]
    fn a_secret_is_never_printed() {
        let mut settings = Settings::defaults();
        settings.add_flag("keys.admin", "hunter2");
        assert!(!as_toml(&settings).contains("hunter2"));
        assert!(!as_json(&settings).to_string().contains("hunter2"));
    }
}
