//! `fulmar man`.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _};

use super::Cli;
use super::output::note;
use crate::exit::{Context as _, Exit, Outcome};

/// Print the manual page, or write one for each command.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar man | man -l -\n  \
    fulmar man --out /usr/local/share/man/man1     # then: man fulmar-serve")]
pub struct ManArgs {
    /// Folder to write the pages of all commands to.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl ManArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let command = Cli::command();
        let Some(folder) = self.out else {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            std::io::stdout().write_all(&page)?;
            return Ok(Exit::Done);
        };
        let context = || format!("cannot write pages to {}", folder.display());
        std::fs::create_dir_all(&folder).context(context())?;
        clap_mangen::generate_to(command, &folder).context(context())?;
        note(format_args!("wrote the pages to {}", folder.display()));
        Ok(Exit::Done)
    }
}
