//! `fulmar init`: make a data folder without serving.

use clap::Args;
use fulmar_log::lock_folder;

use super::config::ConfigSource;
use super::output::note;
use crate::addresses::holder;
use crate::admin::now_ms;
use crate::config::Config;
use crate::exit::{Exit, Outcome};
use crate::keys;
use crate::node::Node;
use crate::pki::Pki;
use crate::place::DataArg;

/// Make a data folder: certificates, keys, topics. `serve` does the same by itself.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  fulmar init --data /var/lib/fulmar --set log.partitions=32")]
pub struct InitArgs {
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    source: ConfigSource,
}

impl InitArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let config = Config::load(self.source.config.as_deref(), &self.source.set)?;
        let data = self.data.dir().create()?;
        let lock = lock_folder(data.root()).map_err(|error| match error {
            fulmar_log::LogError::Locked { .. } => holder(&data),
            error => error.into(),
        })?;
        data.claim()?;
        let pki = Pki::new(data.pki());
        if pki.init()? {
            note(format_args!(
                "made certificates in {}",
                data.pki().display()
            ));
        }
        let node = Node::open(data.clone(), lock, config)?;
        for path in keys::ensure(&data, &node.registry, &node.config, now_ms())? {
            note(format_args!("made the key {}", path.display()));
        }
        node.close();
        note(format_args!(
            "{} is ready for `fulmar serve`",
            data.root().display()
        ));
        Ok(Exit::Done)
    }
}
