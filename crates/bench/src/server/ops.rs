//! The operations listener of a server that the bench started: figures, and
//! the writer held back.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::BenchError;

/// Time for an answer; a scrape takes milliseconds.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Asks the operations listener at `address`.
#[derive(Clone, Debug)]
pub struct Ops {
    address: String,
}

/// The samples of one scrape, by name with labels.
pub type Samples = BTreeMap<String, f64>;

impl Ops {
    /// Of the listener at `host:port`.
    pub fn at(address: &str) -> Ops {
        Ops {
            address: address.to_owned(),
        }
    }

    /// All samples.
    pub fn scrape(&self) -> Result<Samples, BenchError> {
        Ok(samples(&self.request("GET", "/metrics")?))
    }

    /// Holds the writer back (`true`) or lets it go.
    pub fn hold_writer(&self, hold: bool) -> Result<(), BenchError> {
        let path = if hold {
            "/bench/hold"
        } else {
            "/bench/release"
        };
        self.request("POST", path).map(|_| ())
    }

    /// The body of an answer 200, anything else is an error.
    fn request(&self, method: &str, path: &str) -> Result<String, BenchError> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: 0\r\n\
             connection: close\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        if head.starts_with("HTTP/1.1 200") {
            return Ok(body.to_owned());
        }
        let why = head.lines().next().unwrap_or("no answer").to_owned();
        Err(BenchError::Child {
            what: format!("{method} {path} at {}", self.address),
            why,
        })
    }
}

/// Reads the text format: `name{labels} value`, comments left out.
fn samples(text: &str) -> Samples {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.rsplit_once(' '));
    pairs
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect()
}

/// The value of `name` with `label="value"` among its labels; 0 if absent.
pub fn value(samples: &Samples, name: &str, labels: &[(&str, &str)]) -> f64 {
    let matches = |key: &str| {
        let (found, rest) = key.split_once('{').unwrap_or((key, ""));
        found == name
            && labels
                .iter()
                .all(|(label, value)| rest.contains(&format!("{label}=\"{value}\"")))
    };
    samples
        .iter()
        .find(|(key, _)| matches(key))
        .map_or(0.0, |(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_found_by_name_and_labels() {
        let text = "# HELP x\n# TYPE x gauge\nfulmar_ledger_records{term=\"stored\"} 12\n\
                    fulmar_ledger_records{term=\"backlog\"} 3.0\nplain 7\n# EOF\n";
        let samples = samples(text);
        assert_eq!(
            value(&samples, "fulmar_ledger_records", &[("term", "backlog")]),
            3.0
        );
        assert_eq!(
            value(&samples, "fulmar_ledger_records", &[("term", "stored")]),
            12.0
        );
        assert_eq!(value(&samples, "plain", &[]), 7.0);
        assert_eq!(value(&samples, "other", &[]), 0.0);
    }
}
