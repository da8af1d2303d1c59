//! The one shape of every bench's result; `report.schema.json` beside this crate's manifest
//! publishes it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::latency::Latency;

/// The published schema of [`Report`].
pub const SCHEMA: &str = include_str!("../report.schema.json");

/// A bench's result.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Which bench.
    pub bench: String,
    /// Version of the program.
    pub version: String,
    /// Where it ran.
    pub machine: Machine,
    /// What it was asked to do.
    pub config: Value,
    /// Every round as measured, in order.
    pub rounds: Vec<Value>,
    /// Each metric over all rounds.
    pub summary: BTreeMap<String, Metric>,
    /// What this machine can do at best, measured in the same run; null if there is none.
    pub limit: Value,
    /// Median of ours over the limit: 1 is all that the machine can do.
    pub fraction_of_limit: Option<f64>,
    /// What was measured against, in the same run; null if there is none.
    pub control: Value,
    /// Control over ours, by name: how many times faster ours is; medians over rounds.
    pub ratio: BTreeMap<String, f64>,
    /// Allocations of ours per event; null if they were not counted.
    pub allocations_per_event: Option<f64>,
    /// The terms of the reconciliation; null if nothing was sent.
    pub ledger: Option<Ledger>,
    /// The stage that sets the pace.
    pub pace: Option<Pace>,
    /// The last round in the shape of Sparrow's tool; null in other benches.
    pub sparrow: Value,
    /// The first error seen.
    pub first_error: Option<String>,
    /// `ok`, or what failed.
    pub verdict: String,
}

impl Report {
    /// An empty report of `bench` on this machine, with the verdict `ok`.
    pub fn new(bench: &str, config: Value) -> Self {
        Self {
            bench: bench.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: Machine::this(),
            config,
            rounds: Vec::new(),
            summary: BTreeMap::new(),
            limit: Value::Null,
            fraction_of_limit: None,
            control: Value::Null,
            ratio: BTreeMap::new(),
            allocations_per_event: None,
            ledger: None,
            pace: None,
            sparrow: Value::Null,
            first_error: None,
            verdict: "ok".to_owned(),
        }
    }

    /// True if nothing failed.
    pub fn is_ok(&self) -> bool {
        self.verdict == "ok"
    }

    /// The median of a metric over all rounds; of times, that of their 99th percentile.
    pub(crate) fn median(&self, name: &str) -> Option<f64> {
        match self.summary.get(name)? {
            Metric::Figure(spread) => Some(spread.median),
            Metric::Latency { p99, .. } => Some(p99.median),
        }
    }

    /// Judges the bounds that were given: the verdict names the first that is not met. One on a
    /// figure that this run did not measure is not met. True when all are.
    pub(crate) fn meets(&mut self, bounds: &[Bound<'_>]) -> bool {
        let missed = bounds.iter().find_map(|bound| bound.missed());
        let meets = missed.is_none();
        if let Some(missed) = missed {
            self.verdict = missed;
        }
        meets
    }
}

/// What a caller asks of one figure.
pub(crate) struct Bound<'a> {
    name: &'a str,
    /// What was measured.
    found: Option<f64>,
    asked: Option<Asked>,
}

#[derive(Clone, Copy)]
enum Asked {
    Least(f64),
    Most(f64),
}

impl<'a> Bound<'a> {
    pub(crate) fn least(name: &'a str, found: Option<f64>, least: Option<f64>) -> Bound<'a> {
        let asked = least.map(Asked::Least);
        Bound { name, found, asked }
    }

    pub(crate) fn most(name: &'a str, found: Option<f64>, most: Option<f64>) -> Bound<'a> {
        let asked = most.map(Asked::Most);
        Bound { name, found, asked }
    }

    fn missed(&self) -> Option<String> {
        let (name, asked) = (self.name, self.asked?);
        let Some(found) = self.found else {
            let (Asked::Least(bound) | Asked::Most(bound)) = asked;
            return Some(format!(
                "{name} was not measured in this run, so that its bound {bound} is not met"
            ));
        };
        match asked {
            Asked::Least(least) if found < least => {
                Some(format!("{name} {found:.3} is below {least:.3}"))
            }
            Asked::Most(most) if found > most => {
                Some(format!("{name} {found:.3} is above {most:.3}"))
            }
            _ => None,
        }
    }
}

/// Where a bench ran.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Bytes of memory; 0 if unknown.
    pub memory_bytes: u64,
    /// Operating system and architecture.
    pub platform: String,
}

impl Machine {
    /// This machine.
    pub fn this() -> Self {
        let cpu_info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory_info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let field = |text: &str, name: &str| -> Option<String> {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory_kib = field(&memory_info, "MemTotal")
            .and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        Self {
            processor: field(&cpu_info, "model name").unwrap_or_else(|| "unknown".to_owned()),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_kib.unwrap_or(0) * 1_024,
            platform: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}

/// A metric over all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Metric {
    /// One figure a round.
    Figure(Spread),
    /// A distribution of times a round.
    Latency {
        /// The median of each round.
        p50: Spread,
        /// The 99th percentile of each round.
        p99: Spread,
        /// The longest of each round.
        max: Spread,
    },
}

impl Metric {
    /// Of the times of each round; none of none.
    pub(crate) fn of_times(rounds: impl Iterator<Item = Latency> + Clone) -> Option<Metric> {
        Some(Metric::Latency {
            p50: Spread::of(rounds.clone().map(|round| round.p50))?,
            p99: Spread::of(rounds.clone().map(|round| round.p99))?,
            max: Spread::of(rounds.map(|round| round.max))?,
        })
    }
}

/// Median and range of a figure over rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The middle round; of an even number, the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// Of at least one figure; none of none.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self { median, min, max })
    }
}

/// What was sent against what was kept (I8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Ledger {
    /// Events acknowledged.
    pub accepted: u64,
    /// Events in the log; null against a server whose inside is not seen.
    pub logged: Option<u64>,
    /// Events stored; null against a server whose inside is not seen.
    pub stored: Option<u64>,
    /// Acknowledged and not stored.
    pub lost: Option<u64>,
    /// Stored more than once.
    pub doubled: Option<u64>,
    /// Stored and never sent.
    pub foreign: Option<u64>,
}

/// The stage that sets the pace, and how that was told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pace {
    /// The stage.
    pub stage: String,
    /// How much of its time it was busy, 0 to 1.
    pub utilisation: f64,
    /// Why it is this one.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_odd_and_even_rounds() {
        let odd = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!((odd.median, odd.min, odd.max), (2.0, 1.0, 3.0));
        let even = Spread::of([4.0, 1.0, 2.0, 8.0]).unwrap();
        assert_eq!((even.median, even.min, even.max), (3.0, 1.0, 8.0));
        assert_eq!(Spread::of([]), None);
    }

    /// The schema names exactly the members that a report has.
    #[test]
    fn the_schema_names_every_member() {
        let schema: Value = serde_json::from_str(SCHEMA).unwrap();
        let report = serde_json::to_value(Report::new("hotpath", Value::Null)).unwrap();
        let names = |value: &Value| -> Vec<String> {
            let mut names: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
            names.sort();
            names
        };
        assert_eq!(names(&schema["properties"]), names(&report));
        let mut required: Vec<&str> = schema["required"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n.as_str().unwrap())
            .collect();
        required.sort_unstable();
        assert_eq!(required, names(&report));
        assert_eq!(
            names(&schema["properties"]["machine"]["properties"]),
            names(&report["machine"])
        );
        let ledger = serde_json::to_value(Ledger::default()).unwrap();
        assert_eq!(
            names(&schema["properties"]["ledger"]["properties"]),
            names(&ledger)
        );
    }
}
