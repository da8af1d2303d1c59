//! `fulmar send`: a small agent.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use fulmar_agent::{Address, CertificateFiles, Credentials, SendError, SendOptions, Summary};

use super::output::note;
use crate::exit::{Exit, Failure, Outcome};
use crate::keys;
use crate::node::block_on;
use crate::pki::Pki;
use crate::place::DataArg;

/// Send log lines or events, until each has its answer.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar send --door agents --format sshd --rebase samples/sshd.log\n  \
    fulmar send --door agents --format sshd --follow /var/log/auth.log\n  \
    fulmar send --door events --format combined --receipts receipts.ndjson access.log\n  \
    producer | fulmar send --door events --format ndjson -\n  \
    fulmar send --door track --format combined --client ID access.log   # views, sessions\n\n\
    Sending a file twice stores each line once. Without --rebase the agents door admits lines of\n\
    the last 168 hours only. Exit code 2: done, but some lines were refused.")]
pub struct SendArgs {
    /// File to send; `-` is standard input. Several are sent in order.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The door: agents (mutual TLS), events (HTTP with an API key), or track (a client of SDKs).
    #[arg(long, value_enum)]
    door: Door,
    /// How lines are read.
    #[arg(long, value_enum)]
    format: Format,
    #[command(flatten)]
    data: DataArg,
    /// A server elsewhere: https://host:8443 for agents, http(s)://host:8080 for events.
    #[arg(long, value_name = "URL", env = "FULMAR_SERVER")]
    server: Option<String>,
    /// The agent's name, with --data: its certificate is made at first use.
    #[arg(
        long,
        value_name = "NAME",
        env = "FULMAR_AGENT",
        default_value = "local"
    )]
    agent: String,
    /// The agent's certificate (PEM), instead of the one in the data folder.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Authority that signed the server's certificate (PEM).
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// File that holds the API key; default keys/ingest.key of the data folder, or FULMAR_KEY.
    #[arg(long, value_name = "FILE", env = "FULMAR_KEY_FILE")]
    key_file: Option<PathBuf>,
    /// For the track door: id of a client; an access log takes one of kind read or root.
    #[arg(long, value_name = "ID", env = "FULMAR_CLIENT")]
    client: Option<String>,
    /// File with that client's secret; default keys/client-ID.key of the data folder.
    #[arg(long, value_name = "FILE", requires = "client")]
    client_secret_file: Option<PathBuf>,
    /// Keep reading as the files grow, over rotation and truncation.
    #[arg(long)]
    follow: bool,
    /// Move all times so that the newest line is now; ids stay.
    #[arg(long)]
    rebase: bool,
    /// Append each acknowledged id to this file, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    receipts: Option<PathBuf>,
    /// Name of the source, from which ids are made; default the canonical path.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Zone of stamps without one, such as Europe/Berlin; default this machine's.
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// Folder of the spool; default under your state folder.
    #[arg(long, value_name = "DIR", env = "FULMAR_SPOOL")]
    spool: Option<PathBuf>,
    /// Events in a batch.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    batch: Option<u64>,
    /// No progress line.
    #[arg(long)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Door {
    Agents,
    Events,
    Track,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Sshd,
    Combined,
    Ndjson,
}

impl SendArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let options = self.options()?;
        let format = self.format;
        let sent = block_on(async {
            let interrupt = async {
                let _ = tokio::signal::ctrl_c().await;
            };
            fulmar_agent::run(options, interrupt).await
        })?;
        match sent {
            Ok(summary) => tell(&summary, format),
            Err(SendError::Usage(reason)) => Err(Failure::usage(reason)),
            Err(error) => Err(error.into()),
        }
    }

    fn options(&self) -> Result<SendOptions, Failure> {
        let door = match self.door {
            Door::Agents => fulmar_agent::Door::Agents,
            Door::Events => fulmar_agent::Door::Events,
            Door::Track => fulmar_agent::Door::Track,
        };
        let format = match self.format {
            Format::Sshd => fulmar_agent::Format::Sshd,
            Format::Combined => fulmar_agent::Format::Combined,
            Format::Ndjson => fulmar_agent::Format::Ndjson,
        };
        let address = match &self.server {
            Some(url) => Address::Url(url.clone()),
            None => Address::Folder(self.data.dir().root().to_path_buf()),
        };
        let mut options = SendOptions::new(door, format, address);
        options.credentials = match self.door {
            Door::Agents => self.agents_credentials()?,
            Door::Events => self.events_credentials()?,
            Door::Track => self.track_credentials()?,
        };
        options.sources = self.files.iter().map(|path| source(path)).collect();
        options.source_name.clone_from(&self.source);
        options.timezone.clone_from(&self.timezone);
        options.agent =
            (self.door == Door::Agents && self.cert.is_none()).then(|| self.agent.clone());
        options.spool.clone_from(&self.spool);
        options.follow = self.follow;
        options.rebase = self.rebase;
        options.receipts.clone_from(&self.receipts);
        options.quiet = self.quiet;
        if let Some(events) = self.batch {
            options.limits.events_max = usize::try_from(events).unwrap_or(usize::MAX);
        }
        Ok(options)
    }

    /// The given certificate, or that of the named agent in the folder, made at first use.
    fn agents_credentials(&self) -> Result<Credentials, Failure> {
        let data = self.data.dir();
        let pki = Pki::new(data.pki());
        let (certificate, key) = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => (cert.clone(), key.clone()),
            _ if self.server.is_some() => {
                return Err(Failure::usage(
                    "with --server, the agents door needs --cert and --key",
                ));
            }
            _ => {
                self.need_folder()?;
                let pair = pki.agent_or_make(&self.agent)?;
                (pair.cert, pair.key)
            }
        };
        let authorities = match &self.ca {
            Some(ca) => ca.clone(),
            None if self.server.is_some() => {
                return Err(Failure::usage("with --server, the agents door needs --ca"));
            }
            None => pki.pair("servers-ca").cert,
        };
        let certificate = CertificateFiles {
            certificate,
            key,
            authorities,
        };
        Ok(Credentials {
            certificate: Some(certificate),
            ..Credentials::default()
        })
    }

    fn events_credentials(&self) -> Result<Credentials, Failure> {
        let given = keys::for_client(self.key_file.as_deref())?;
        let api_key = match given {
            Some(key) => key,
            None if self.server.is_some() => {
                return Err(Failure::usage(
                    "with --server, the key comes from --key-file or FULMAR_KEY",
                ));
            }
            None => {
                self.need_folder()?;
                keys::read(&self.data.dir(), keys::INGEST)?
            }
        };
        let authorities = self.ca.clone();
        Ok(Credentials {
            api_key: Some(api_key),
            authorities,
            ..Credentials::default()
        })
    }

    fn track_credentials(&self) -> Result<Credentials, Failure> {
        let Some(client) = &self.client else {
            return Err(Failure::usage(
                "the track door needs --client: `fulmar clients create NAME --kind root` makes one",
            ));
        };
        let file = match &self.client_secret_file {
            Some(file) => file.clone(),
            None if self.server.is_some() => {
                return Err(Failure::usage("with --server, give --client-secret-file"));
            }
            None => {
                self.need_folder()?;
                self.data.dir().keys().join(format!("client-{client}.key"))
            }
        };
        Ok(Credentials {
            api_key: Some(format!("{client}:{}", keys::read_file(&file)?)),
            authorities: self.ca.clone(),
            ..Credentials::default()
        })
    }

    fn need_folder(&self) -> Result<(), Failure> {
        let data = self.data.dir();
        if data.is_made() {
            return Ok(());
        }
        let folder = data.root().display();
        Err(Failure::usage(format!(
            "{folder} holds no data; start a server with `fulmar serve --data {folder}`, or name \
             one with --server"
        )))
    }
}

fn source(path: &Path) -> fulmar_agent::Source {
    match path.as_os_str() == "-" {
        true => fulmar_agent::Source::Stdin,
        false => fulmar_agent::Source::File(path.to_owned()),
    }
}

/// One line for a person, and the exit code.
fn tell(summary: &Summary, format: Format) -> Outcome {
    note(format_args!(
        "sent {} events: {} accepted, {} duplicates, {} refused; {} lines skipped",
        summary.events, summary.accepted, summary.duplicates, summary.refused, summary.skipped
    ));
    if let Some(first) = &summary.first_refusal {
        note(format_args!("first refusal: {first}"));
    }
    if summary.window_refused {
        note("lines outside the admission window were refused: --rebase moves an old file to now");
    }
    if summary.interrupted && summary.pending > 0 {
        note(format_args!(
            "{} events wait in the spool for the next run",
            summary.pending
        ));
        return Ok(Exit::Failed);
    }
    if summary.events == 0 && summary.skipped > 0 {
        let format = format.to_possible_value().expect("no format is hidden");
        note(format_args!(
            "no line is of the format {}: is --format right?",
            format.get_name()
        ));
        return Ok(Exit::Failed);
    }
    Ok(if summary.refused > 0 {
        Exit::SomeRefused
    } else {
        Exit::Done
    })
}
