//! `fulmar backup` and `fulmar restore`.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::output::{note, print_json};
use crate::backup::{self, BackupRequest};
use crate::data_dir::DataDir;
use crate::exit::Outcome;
use crate::node::ask;
use crate::place::{DataArg, PlaceArgs};

/// Copy the data folder at one committed position, while the server runs or beside none.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  fulmar backup /mnt/backups/2026-08-01\n\n\
    Files are linked, so that it is quick; onto another file system they are copied. Certificates\n\
    and keys are left out unless --with-secrets.")]
pub struct BackupArgs {
    /// The new folder.
    dir: PathBuf,
    #[command(flatten)]
    data: DataArg,
    /// Copy certificates and keys too.
    #[arg(long)]
    with_secrets: bool,
}

impl BackupArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let dir = std::path::absolute(&self.dir)?;
        let request = BackupRequest {
            dir,
            with_secrets: self.with_secrets,
        };
        print_json(&ask(&PlaceArgs::of_folder(self.data), "backup", &request)?)
    }
}

/// Copy a backup into an empty data folder.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  fulmar restore /mnt/backups/2026-08-01 --data ./fulmar-data")]
pub struct RestoreArgs {
    /// The backup's folder.
    dir: PathBuf,
    #[command(flatten)]
    data: DataArg,
}

impl RestoreArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let restored = backup::restore(&DataDir::new(self.dir), &self.data.dir())?;
        let missing = restored["missing"].as_array().into_iter().flatten();
        let missing: Vec<&str> = missing.filter_map(Value::as_str).collect();
        if !missing.is_empty() {
            note(format!(
                "the backup was taken without secrets: put {} there before the first start. \
                 Without pki/ a start makes a new authority, which none of the agents trusts; \
                 API keys stay valid, and keys/ held copies of those that a first start made.",
                missing.join(" and ")
            ));
        }
        print_json(&restored)
    }
}
