//! What a person at the terminal sees. Everything goes to stderr.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::batch::ReadCounts;
use crate::options::Summary;

/// How often the line is drawn anew.
const INTERVAL: Duration = Duration::from_millis(100);

/// How often the same trouble is told again where there is no terminal.
const TROUBLE_INTERVAL: Duration = Duration::from_secs(30);

/// A progress line on a terminal, plain lines elsewhere.
pub struct Progress {
    counts: Arc<ReadCounts>,
    drawn: Option<Instant>,
    on_screen: bool,
    live: bool,
    trouble: Option<(String, Instant)>,
    started: Instant,
}

impl Progress {
    /// `quiet` leaves the moving line out; troubles and refusals are told.
    pub fn new(counts: Arc<ReadCounts>, quiet: bool) -> Progress {
        Progress {
            counts,
            drawn: None,
            on_screen: false,
            live: !quiet && std::io::stderr().is_terminal(),
            trouble: None,
            started: Instant::now(),
        }
    }

    /// Draws the line, if it is time.
    pub fn show(&mut self, summary: &Summary) {
        self.trouble = None;
        if !self.live || self.drawn.is_some_and(|drawn| drawn.elapsed() < INTERVAL) {
            return;
        }
        self.drawn = Some(Instant::now());
        self.on_screen = true;
        let read = self.counts.events.load(Ordering::Relaxed);
        let rate = summary.events as f64 / self.started.elapsed().as_secs_f64().max(0.001);
        let line = format!(
            "\r\x1b[Ksent {} of {read} read, {rate:.0} events/s",
            summary.accepted + summary.duplicates,
        );
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    /// Takes the line off the screen.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.on_screen) {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }

    /// Prints a line of its own.
    pub fn say(&mut self, text: &str) {
        self.clear();
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    /// Tells why a try failed: once, and again when the reason changes or half
    /// a minute has passed.
    pub fn trouble(&mut self, why: &str) {
        let known = self
            .trouble
            .as_ref()
            .is_some_and(|(told, at)| told == why && at.elapsed() < TROUBLE_INTERVAL);
        if known {
            return;
        }
        self.trouble = Some((why.to_owned(), Instant::now()));
        self.say(&format!("{why}; trying again"));
    }
}
