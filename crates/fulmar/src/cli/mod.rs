//! The command line: one tree, one file per family of commands.

mod backup;
pub mod bench;
mod calling;
mod clients;
mod completions;
mod config;
mod delete;
mod deliveries;
mod drain;
mod import;
mod init;
mod listen;
mod log;
mod man;
pub mod output;
mod pki;
mod publish;
mod query;
mod registry;
mod replay;
mod send;
mod status;
mod tables;
mod tail;
mod verify;
mod webhooks;

pub use config::ConfigSource;

use clap::{Parser, Subcommand};

use crate::exit::Outcome;

/// Fulmar: events in, durable before the answer, stored exactly once, queryable.
#[derive(Parser, Debug)]
#[command(
    name = "fulmar",
    version,
    disable_help_subcommand = true,
    after_help = "A first run:\n  \
        fulmar serve                                     # everything, with embedded defaults\n  \
        fulmar send --door agents --format sshd --rebase /var/log/auth.log\n  \
        fulmar query \"select auth_outcome, count(*) from security_events group by 1\"\n  \
        fulmar verify                                    # proves that nothing is lost\n\n\
        Exit codes: 0 done; 1 failed; 64 usage or configuration; 75 the folder is locked and no\n\
        server answers. `send`: 2 some refused. `verify`: 10 damage, 11 lost, 12 doubled,\n\
        13 foreign. `bench`: 3 not reconciled, 4 below a bound."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Serve(Box<crate::serve::ServeArgs>),
    Init(init::InitArgs),
    Send(Box<send::SendArgs>),
    Query(query::QueryArgs),
    Tail(tail::TailArgs),
    Status(status::StatusArgs),
    Verify(verify::VerifyArgs),
    Drain(drain::DrainArgs),
    Replay(Box<replay::ReplayArgs>),
    Backup(backup::BackupArgs),
    Restore(backup::RestoreArgs),
    Log(log::LogArgs),
    Lake(tables::LakeArgs),
    Quarantine(tables::QuarantineArgs),
    Projects(registry::ProjectsArgs),
    Keys(registry::KeysArgs),
    Clients(clients::ClientsArgs),
    Webhooks(webhooks::WebhooksArgs),
    Deliveries(deliveries::DeliveriesArgs),
    Publish(publish::PublishArgs),
    Listen(listen::ListenArgs),
    Import(import::ImportArgs),
    Delete(delete::DeleteArgs),
    Agents(registry::AgentsArgs),
    Pki(pki::PkiArgs),
    Config(config::ConfigArgs),
    Bench(bench::BenchArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

impl Cli {
    /// Runs the command that was given.
    pub fn run(self) -> Outcome {
        match self.command {
            Command::Serve(args) => args.run(),
            Command::Init(args) => args.run(),
            Command::Send(args) => args.run(),
            Command::Query(args) => args.run(),
            Command::Tail(args) => args.run(),
            Command::Status(args) => args.run(),
            Command::Verify(args) => args.run(),
            Command::Drain(args) => args.run(),
            Command::Replay(args) => args.run(),
            Command::Backup(args) => args.run(),
            Command::Restore(args) => args.run(),
            Command::Log(args) => args.run(),
            Command::Lake(args) => args.run(),
            Command::Quarantine(args) => args.run(),
            Command::Projects(args) => args.run(),
            Command::Keys(args) => args.run(),
            Command::Clients(args) => args.run(),
            Command::Webhooks(args) => args.run(),
            Command::Deliveries(args) => args.run(),
            Command::Publish(args) => args.run(),
            Command::Listen(args) => args.run(),
            Command::Import(args) => args.run(),
            Command::Delete(args) => args.run(),
            Command::Agents(args) => args.run(),
            Command::Pki(args) => args.run(),
            Command::Config(args) => args.run(),
            Command::Bench(args) => args.run(),
            Command::Completions(args) => args.run(),
            Command::Man(args) => args.run(),
        }
    }
}
