//! Where a command works: the server of a folder, a server elsewhere, or the folder itself.

use std::path::PathBuf;

use clap::Args;
use fulmar_log::{FolderLock, LogError, lock_folder};

use crate::addresses::{Addresses, reachable, same_minor};
use crate::client::Client;
use crate::data_dir::DataDir;
use crate::exit::{Context as _, Failure};
use crate::keys;

/// The data folder.
#[derive(Args, Clone, Debug)]
pub struct DataArg {
    /// Data folder.
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "FULMAR_DATA",
        default_value = "./fulmar-data"
    )]
    pub data: PathBuf,
}

impl DataArg {
    /// The folder.
    pub fn dir(&self) -> DataDir {
        DataDir::new(&self.data)
    }
}

/// The data folder, or a server elsewhere.
#[derive(Args, Clone, Debug)]
pub struct PlaceArgs {
    #[command(flatten)]
    pub data: DataArg,
    /// Public listener of a server elsewhere, such as https://fulmar.example:8080. The key comes
    /// from --key-file or FULMAR_KEY.
    #[arg(long, global = true, value_name = "URL", env = "FULMAR_SERVER")]
    pub server: Option<String>,
    /// File that holds the API key for --server.
    #[arg(long, global = true, value_name = "FILE", env = "FULMAR_KEY_FILE")]
    pub key_file: Option<PathBuf>,
    /// Authority that signed the certificate of an https:// server (PEM).
    #[arg(long, global = true, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// Where the command works.
pub enum Place {
    /// A running server.
    Server(Client),
    /// The folder itself; no server runs, and none can start while this is held.
    Folder(DataDir, FolderLock),
}

impl PlaceArgs {
    /// A folder on this machine and nothing else.
    pub fn of_folder(data: DataArg) -> Self {
        Self {
            data,
            server: None,
            key_file: None,
            ca: None,
        }
    }

    /// Finds the server, or takes the folder's lock.
    ///
    /// # Errors
    /// Exit code 75 when the folder is locked and no server answers.
    pub fn resolve(&self) -> Result<Place, Failure> {
        if let Some(url) = &self.server {
            let key = keys::for_client(self.key_file.as_deref())?;
            return Ok(Place::Server(Client::to_url(url, self.ca.as_deref(), key)?));
        }
        let data = self.data.dir();
        if !data.is_made() {
            return Err(Failure::usage(format!(
                "{} holds no data; start one with `fulmar serve --data {}`",
                data.root().display(),
                data.root().display()
            )));
        }
        match lock_folder(data.root()) {
            Ok(lock) => Ok(Place::Folder(data, lock)),
            Err(LogError::Locked { .. }) => {
                let key = match self.key_file.as_deref() {
                    Some(file) => keys::for_client(Some(file))?,
                    None => Some(keys::read(&data, keys::ADMIN)?),
                };
                Ok(Place::Server(self.local(&data, key)?))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn local(&self, data: &DataDir, key: Option<String>) -> Result<Client, Failure> {
        let addresses = running(data)?;
        let scheme = if addresses.public_tls {
            "https"
        } else {
            "http"
        };
        let url = format!("{scheme}://{}", reachable(&addresses.public));
        let ca = self
            .ca
            .clone()
            .unwrap_or_else(|| data.pki().join("servers-ca.pem"));
        Client::to_url(&url, Some(&ca), key)
    }
}

/// Where the server that holds the folder's lock listens.
///
/// # Errors
/// Exit code 75 when it has not told yet, 1 when it is of another minor version.
pub fn running(data: &DataDir) -> Result<Addresses, Failure> {
    let Some(addresses) = Addresses::read(data).context("a server holds the folder")? else {
        return Err(Failure::locked(format!(
            "{} is locked by another process that is not ready; try again",
            data.root().display()
        )));
    };
    if !same_minor(&addresses.version) {
        return Err(Failure::new(format!(
            "the server is fulmar {}, this program is {}; use the same minor version",
            addresses.version,
            env!("CARGO_PKG_VERSION")
        )));
    }
    Ok(addresses)
}
