//! `addresses.json`: where the server of a folder listens, for every other command.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::data_dir::{DataDir, write_private};
use crate::exit::Failure;

/// Longest file that is read, in bytes.
const ADDRESSES_BYTES_MAX: usize = 4_096;

/// What a running server tells clients of its folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// Version of the server.
    pub version: String,
    /// Public listener as bound, `host:port`.
    pub public: String,
    /// Agents listener as bound.
    pub agents: String,
    /// Operations listener as bound.
    pub ops: String,
    /// Whether the public listener speaks TLS.
    #[serde(default)]
    pub public_tls: bool,
    /// The server's process.
    #[serde(default)]
    pub pid: Option<u32>,
}

impl Addresses {
    /// Writes the file whole.
    pub fn write(&self, data: &DataDir) -> Result<(), Failure> {
        let bytes = serde_json::to_vec_pretty(self)?;
        write_private(&data.addresses(), &bytes)
            .map_err(|e| Failure::new(format!("cannot write {}: {e}", data.addresses().display())))
    }

    /// Reads the file; `None` when there is none, so that no server was started or it stopped.
    pub fn read(data: &DataDir) -> Result<Option<Self>, Failure> {
        let path = data.addresses();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(Failure::new(format!(
                    "cannot read {}: {error}",
                    path.display()
                )));
            }
        };
        if text.len() > ADDRESSES_BYTES_MAX {
            return Err(Failure::new(format!("{} is too long", path.display())));
        }
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|e| Failure::new(format!("cannot read {}: {e}", path.display())))
    }

    /// Removes the file at a clean stop, or a stale one at the start.
    pub fn remove(data: &DataDir) {
        let _ = std::fs::remove_file(data.addresses());
    }
}

/// Who holds a folder whose lock is taken, as far as the folder tells.
pub fn holder(data: &DataDir) -> Failure {
    let folder = data.root().display();
    let who = match Addresses::read(data) {
        Ok(Some(Addresses {
            pid: Some(pid),
            public,
            ..
        })) => {
            format!("the server with process {pid}, which listens on {public}, holds it")
        }
        _ => "another process holds it, and has told no address: it starts, stops or is a command"
            .to_owned(),
    };
    Failure::locked(format!("{folder} is in use: {who}"))
}

/// How a client on this machine reaches a bound address: an unspecified one is `localhost`.
pub fn reachable(bound: &str) -> String {
    match bound.parse::<SocketAddr>() {
        Ok(socket) if socket.ip().is_unspecified() => format!("localhost:{}", socket.port()),
        _ => bound.to_owned(),
    }
}

/// Whether a server of `version` and this program speak the same protocol: the same minor version.
pub fn same_minor(version: &str) -> bool {
    let minor = |text: &str| text.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
    minor(version) == minor(env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_reads_back_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::new(folder.path());
        assert_eq!(Addresses::read(&data).unwrap(), None);
        let addresses = Addresses {
            version: "0.1.0".into(),
            public: "127.0.0.1:8080".into(),
            agents: "0.0.0.0:8443".into(),
            ops: "127.0.0.1:9100".into(),
            public_tls: false,
            pid: Some(7),
        };
        addresses.write(&data).unwrap();
        assert_eq!(Addresses::read(&data).unwrap(), Some(addresses));
        Addresses::remove(&data);
        assert_eq!(Addresses::read(&data).unwrap(), None);
        std::fs::write(data.addresses(), "{").unwrap();
        assert!(Addresses::read(&data).is_err());
    }

    #[test]
    fn an_unspecified_address_is_read_as_localhost() {
        assert_eq!(reachable("0.0.0.0:8443"), "localhost:8443");
        assert_eq!(reachable("[::]:8443"), "localhost:8443");
        assert_eq!(reachable("127.0.0.1:8080"), "127.0.0.1:8080");
        assert_eq!(reachable("[::1]:8080"), "[::1]:8080");
    }

    #[test]
    fn only_the_same_minor_version_is_spoken_to() {
        assert!(same_minor(env!("CARGO_PKG_VERSION")));
        assert!(!same_minor("99.0.0"));
        assert!(!same_minor(""));
    }
}
