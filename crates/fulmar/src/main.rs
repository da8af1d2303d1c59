//! The `fulmar` binary: configuration, wiring, operations listener, command line.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod addresses;
mod admin;
mod api;
mod backup;
mod cli;
mod client;
mod config;
mod data_dir;
mod exit;
mod folds;
mod keyring;
mod keys;
mod node;
mod noted_position;
mod pki;
mod place;
mod query;
mod replay;
mod salts;
mod saved_registry;
mod sending;
mod serve;
mod status;
mod verify;

use std::process::ExitCode;

use clap::Parser as _;
use fulmar_bench::allocation::Counting;

use crate::cli::Cli;
use crate::exit::Exit;

/// Counting costs a load and a store per allocation, and lets the bench and the metrics say what a
/// running server allocates.
#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

fn main() -> ExitCode {
    // Whatever this program makes is its owner's alone, also inside of a folder that others may
    // enter, and also what libraries make.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let cli = match Cli::try_parse_from(cli::bench::with_long_flags(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, on standard output; the rest is wrong usage.
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Done
            };
            let _ = error.print();
            return exit.into();
        }
    };
    match cli.run() {
        Ok(exit) => exit.into(),
        Err(failure) => {
            cli::output::note(format_args!("fulmar: {failure}"));
            failure.exit.into()
        }
    }
}
