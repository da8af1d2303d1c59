//! Layers of settings over the table: default, file, environment, flags, in rising order.

use std::fmt;
use std::path::Path;

use super::key::{Key, Kind};
use super::nearest::nearest;
use super::table::{KEYS, find};
use super::value::{Value, duration_text, parse_duration_ms, parse_size, size_text};

/// Longest secret file that is read, in bytes: a key is 84.
const SECRET_FILE_BYTES_MAX: u64 = 64 * 1024;
/// Variables that start with `FULMAR_` and are no keys of the table.
const OTHER_VARIABLES: [&str; 8] = [
    "FULMAR_DATA",
    "FULMAR_CONFIG",
    "FULMAR_SERVER",
    "FULMAR_KEY",
    "FULMAR_KEY_FILE",
    "FULMAR_AGENT",
    "FULMAR_SPOOL",
    "FULMAR_SQL",
];
/// Starts of the variables by which tests plant faults and choose their samples.
const TEST_VARIABLES: [&str; 4] = [
    "FULMAR_FAULT",
    "FULMAR_KILL",
    "FULMAR_TEST",
    "FULMAR_TORTURE",
];

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The table.
    Default,
    /// The configuration file.
    File,
    /// The environment variable of this name.
    Environment(String),
    /// A flag of the command line.
    Flag,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File => f.write_str("file"),
            Self::Environment(name) => f.write_str(name),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// The value of every key of the table and where it came from, in the table's order.
#[derive(Clone, Debug)]
pub struct Settings {
    values: Vec<(Value, Source)>,
    /// Everything that is wrong, in the order it was found.
    pub problems: Vec<String>,
}

impl Settings {
    /// All defaults.
    pub fn defaults() -> Self {
        let values = KEYS
            .iter()
            .map(|key| {
                let value = parse(key, key.default).expect("a test reads every default");
                (value, Source::Default)
            })
            .collect();
        Self {
            values,
            problems: Vec::new(),
        }
    }

    /// Puts the text of a configuration file over what is there. `place` names it in problems.
    pub fn add_file(&mut self, text: &str, place: &str) {
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(error) => {
                self.problems
                    .push(format!("{place}: {}", error.to_string().trim_end()));
                return;
            }
        };
        for (section, content) in table {
            let toml::Value::Table(keys) = content else {
                self.unknown(&section, place);
                continue;
            };
            for (name, value) in keys {
                self.add_file_value(&format!("{section}.{name}"), &value, place);
            }
        }
    }

    fn add_file_value(&mut self, name: &str, value: &toml::Value, place: &str) {
        let text = match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(flag) => flag.to_string(),
            _ => {
                let problem = "takes text, a number or true or false";
                self.problems.push(format!("{place}: {name} {problem}"));
                return;
            }
        };
        self.add(name, &text, Source::File, place);
    }

    /// Puts environment variables over what is there. Blank ones are unset.
    pub fn add_environment(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        for (variable, text) in variables {
            if !variable.starts_with("FULMAR_")
                || OTHER_VARIABLES.contains(&variable.as_str())
                || TEST_VARIABLES
                    .iter()
                    .any(|start| variable.starts_with(start))
                || text.trim().is_empty()
            {
                continue;
            }
            let bare = variable.strip_suffix("_FILE");
            let known = KEYS.iter().find(|key| {
                let env = key.env();
                env == variable || (matches!(key.kind, Kind::Secret) && bare == Some(env.as_str()))
            });
            let Some(key) = known else {
                let names: Vec<String> = KEYS.iter().map(Key::env).collect();
                let hint = hint(&variable, names.iter().map(String::as_str));
                self.problems
                    .push(format!("environment: no variable `{variable}`{hint}"));
                continue;
            };
            let suffix = if key.env() == variable { "" } else { "_file" };
            let name = format!("{}{suffix}", key.name);
            self.add(&name, &text, Source::Environment(variable), "environment");
        }
    }

    /// Puts one flag over what is there.
    pub fn add_flag(&mut self, name: &str, text: &str) {
        self.add(name, text, Source::Flag, "flag");
    }

    fn add(&mut self, name: &str, text: &str, source: Source, place: &str) {
        if let Some(at) = find(name) {
            match parse(&KEYS[at], text) {
                Ok(value) => self.values[at] = (value, source),
                Err(problem) => self.problems.push(format!("{place}: {name} {problem}")),
            }
            return;
        }
        let secret = name.strip_suffix("_file").and_then(find);
        let Some(at) = secret.filter(|at| matches!(KEYS[*at].kind, Kind::Secret)) else {
            self.unknown(name, place);
            return;
        };
        match read_secret(Path::new(text)) {
            Ok(value) => self.values[at] = (Value::Secret(value), source),
            Err(error) => self
                .problems
                .push(format!("{place}: {name} `{text}`: {error}")),
        }
    }

    fn unknown(&mut self, name: &str, place: &str) {
        let hint = hint(name, KEYS.iter().map(|key| key.name));
        self.problems
            .push(format!("{place}: no key `{name}`{hint}"));
    }

    /// Every key with its value and where it came from, in the table's order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Key, &Value, &Source)> {
        KEYS.iter()
            .zip(&self.values)
            .map(|(key, (value, source))| (key, value, source))
    }

    /// The value of a key of the table.
    pub fn get(&self, name: &str) -> &Value {
        &self.values[find(name).expect("a test asks for every key that the code asks for")].0
    }
}

fn hint<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str> + Clone) -> String {
    nearest(wrong, names)
        .map(|name| format!("; did you mean `{name}`?"))
        .unwrap_or_default()
}

/// Reads a value as the key wants it, or says what it wants.
fn parse(key: &Key, text: &str) -> Result<Value, String> {
    let wrong = |wants: &str| Err(format!("is `{text}`, but takes {wants}"));
    match key.kind {
        Kind::Bool => match text {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => wrong("true or false"),
        },
        Kind::Count(min, max) => match text.parse() {
            Ok(count) if (min..=max).contains(&count) => Ok(Value::Count(count)),
            _ => wrong(&format!("a number from {min} to {max}")),
        },
        Kind::Size(min, max) => match parse_size(text) {
            Some(bytes) if (min..=max).contains(&bytes) => Ok(Value::Size(bytes)),
            _ => wrong(&format!(
                "a size such as 8MiB from {} to {}",
                size_text(min),
                size_text(max)
            )),
        },
        Kind::Duration(min, max) => match parse_duration_ms(text) {
            Some(ms) if (min..=max).contains(&ms) => Ok(Value::Duration(ms)),
            _ => wrong(&format!(
                "a duration such as 10s from {} to {}",
                duration_text(min),
                duration_text(max)
            )),
        },
        Kind::Address => match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Value::Text(text.to_owned()))
            }
            _ => wrong("an address such as 127.0.0.1:8080"),
        },
        Kind::Text(max) if text.len() <= max => Ok(Value::Text(text.to_owned())),
        Kind::Text(max) => wrong(&format!("at most {max} bytes")),
        Kind::Path => Ok(Value::Text(text.to_owned())),
        Kind::Choice(words) if words.contains(&text) => Ok(Value::Text(text.to_owned())),
        Kind::Choice(words) => {
            let hint = hint(text, words.iter().copied());
            wrong(&format!("one of {}{hint}", words.join(", ")))
        }
        Kind::Secret => Ok(Value::Secret(text.to_owned())),
    }
}

/// Reads a secret from a file; the line end that editors leave is no part of it.
fn read_secret(path: &Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(path)?
        .take(SECRET_FILE_BYTES_MAX)
        .read_to_string(&mut text)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
