//! `fulmar completions`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;
use crate::exit::{Exit, Outcome};

/// Print completions for a shell.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  \
    fulmar completions bash > ~/.local/share/bash-completion/completions/fulmar")]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

impl CompletionsArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let mut command = Cli::command();
        clap_complete::generate(self.shell, &mut command, "fulmar", &mut std::io::stdout());
        Ok(Exit::Done)
    }
}
