//! `fulmar pki`: certificates for a start.

use clap::{Args, Subcommand};
use serde_json::json;

use super::output::{note, print_json};
use crate::exit::{Exit, Outcome};
use crate::pki::Pki;
use crate::place::DataArg;

/// Certificates for a start: authorities for agents and servers, a server, agents.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar pki init --data ./fulmar-data     # both authorities and the server's certificate\n  \
    fulmar pki agent web-1                   # pki/agents/web-1.pem and .key")]
pub struct PkiArgs {
    #[command(flatten)]
    data: DataArg,
    #[command(subcommand)]
    command: PkiCommand,
}

#[derive(Subcommand, Debug)]
enum PkiCommand {
    /// Make the authorities and the server's certificate; keeps what is there.
    Init,
    /// Make an agent's certificate, in place of an earlier one.
    Agent {
        /// The agent's id.
        name: String,
    },
}

impl PkiArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let data = self.data.dir().create()?;
        let pki = Pki::new(data.pki());
        match self.command {
            PkiCommand::Init => {
                let made = pki.init()?;
                let word = if made { "made" } else { "already there:" };
                note(format_args!("{word} {}", data.pki().display()));
                Ok(Exit::Done)
            }
            PkiCommand::Agent { name } => {
                if pki.init()? {
                    note(format_args!("made {}", data.pki().display()));
                }
                let pair = pki.make_agent(&name)?;
                print_json(&json!({
                    "agent": name,
                    "cert": pair.cert.display().to_string(),
                    "key": pair.key.display().to_string(),
                    "ca": pki.pair("servers-ca").cert.display().to_string(),
                }))
            }
        }
    }
}
