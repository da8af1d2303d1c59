//! How a command ends: its exit code and the one line that says why.

use std::fmt;
use std::process::ExitCode;

/// How a command ended, as its exit code (the reference lists them).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done as asked.
    Done = 0,
    /// Failed.
    Failed = 1,
    /// `send`: done, but some lines were refused.
    SomeRefused = 2,
    /// `bench`: what was acknowledged and what is stored differ.
    NotReconciled = 3,
    /// `bench`: a figure is below a bound that was given.
    BelowBound = 4,
    /// The log, the state or a table's file is damaged.
    Damage = 10,
    /// `verify`: something acknowledged is not stored.
    Lost = 11,
    /// `verify`: something is stored more than once.
    Doubled = 12,
    /// `verify`: something is stored that the log does not hold.
    Foreign = 13,
    /// Wrong usage or configuration.
    Usage = 64,
    /// Another process holds the folder and no server answers.
    Locked = 75,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command could not do what it was asked, for one line on standard error.
#[derive(Debug)]
pub struct Failure {
    /// The exit code to end with.
    pub exit: Exit,
    message: String,
}

/// What a command returns.
pub type Outcome = Result<Exit, Failure>;

impl Failure {
    /// A plain failure, exit code 1.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Failed,
            message: message.into(),
        }
    }

    /// Wrong usage or configuration, exit code 64.
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            message: message.into(),
        }
    }

    /// Something on disk is damaged, exit code 10.
    pub fn damage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Damage,
            message: message.into(),
        }
    }

    /// The folder is held by another process that does not answer, exit code 75.
    pub fn locked(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Locked,
            message: message.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Any error of a crate below becomes a plain failure; its whole chain is told.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            let text = source.to_string();
            // Errors made with `transparent` or `{0}` already tell their cause.
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = source.source();
        }
        Self::new(message)
    }
}

/// Puts what was being done before an error.
pub trait Context<T> {
    /// `context: error`, exit code 1.
    fn context(self, context: impl fmt::Display) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> Context<T> for Result<T, E> {
    fn context(self, context: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| {
            let failure = error.into();
            Failure {
                exit: failure.exit,
                message: format!("{context}: {}", failure.message),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_tells_each_cause_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot start")]
        struct Outer(#[source] std::io::Error);
        let failure = Failure::from(Outer(std::io::Error::other("disk gone")));
        assert_eq!(failure.to_string(), "cannot start: disk gone");
        let again: Result<(), Failure> = Err(failure).context("serve");
        assert_eq!(
            again.unwrap_err().to_string(),
            "serve: cannot start: disk gone"
        );
    }
}
