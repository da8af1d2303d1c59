//! `fulmar delete`.

use clap::{Args, Subcommand};
use fulmar_registry::DEFAULT_PROJECT;
use serde_json::{Value, json};

use super::output::{note, print_json, print_table};
use crate::admin::DeleteRequest;
use crate::exit::{Exit, Failure, Outcome};
use crate::node::ask;
use crate::place::PlaceArgs;

/// Delete what is stored of a profile or of a project, for good.
///
/// Queries no longer show it when the command returns. Files are rewritten without it within a
/// day, or at once by `fulmar lake compact`. The log holds it until its retention ends
/// (log.events_age_max), and backups as long as you keep them.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar delete profile u-123 --project shop --yes\n  \
    fulmar delete project shop --yes               # with its clients, keys and agents\n  \
    fulmar delete project default --rows-only --yes\n  \
    fulmar delete list --json\n\n\
    A profile is what its id names: events from before it was identified have the id of their \
    device, which is deleted like a profile; so is each alias.")]
pub struct DeleteArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(subcommand)]
    command: DeleteCommand,
}

#[derive(Subcommand, Debug)]
enum DeleteCommand {
    /// Everything that is stored of a profile by now: events, sessions, recordings, properties.
    Profile {
        /// Its id, or that of a device.
        profile: String,
        /// Its project.
        #[arg(long, default_value = DEFAULT_PROJECT)]
        project: String,
        /// Do it: nothing brings it back.
        #[arg(long)]
        yes: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// A project with its clients, keys and agents, and everything that is stored of it.
    Project {
        /// Its id.
        project: String,
        /// Delete what is stored and keep the project.
        #[arg(long)]
        rows_only: bool,
        /// Do it: nothing brings it back.
        #[arg(long)]
        yes: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List what was deleted, and whether files still hold some of it.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

impl DeleteArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let (request, what, yes, json) = match self.command {
            DeleteCommand::List { json } => {
                let listed = ask(&self.place, "delete", &DeleteRequest::List {})?;
                return list(&listed, json);
            }
            DeleteCommand::Profile {
                profile,
                project,
                yes,
                json,
            } => {
                let what = format!("profile {profile} of project {project}");
                (DeleteRequest::Profile { project, profile }, what, yes, json)
            }
            DeleteCommand::Project {
                project,
                rows_only,
                yes,
                json,
            } => {
                let what = match rows_only {
                    true => format!("all rows of project {project}"),
                    false => format!("project {project}"),
                };
                let request = DeleteRequest::Project { project, rows_only };
                (request, what, yes, json)
            }
        };
        if !yes {
            return Err(Failure::usage(format!(
                "this would delete {what}, and nothing brings it back; repeat it with --yes"
            )));
        }
        let answer = ask(&self.place, "delete", &request)?;
        if json {
            print_json(&answer)?;
        } else if answer["hidden"] == json!(true) {
            note(format_args!(
                "{what} is deleted: no query shows it, and files are rewritten within a day \
                 (`fulmar lake compact` does it now)"
            ));
        } else {
            note(format_args!(
                "{what} is noted for deletion: queries hide it once the server has read that far"
            ));
        }
        Ok(Exit::Done)
    }
}

fn list(listed: &Value, json: bool) -> Outcome {
    if json {
        return print_json(listed);
    }
    let columns = ["project", "profile", "topic", "before", "asked", "removed"];
    print_table(&listed["deletions"], &columns)
}
