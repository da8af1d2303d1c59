//! `fulmar projects`, `fulmar keys`, `fulmar agents`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use fulmar_registry::{AgentState, DEFAULT_PROJECT, EventFilter, Scope, SettingsChange};
use serde_json::{Value, json};

use super::output::{note, print_json, print_table, to_terminal};
use crate::admin::{AgentsRequest, KeysRequest, ProjectsRequest};
use crate::config::parse_duration_ms;
use crate::data_dir::{create_private_dir, write_private};
use crate::exit::{Context as _, Exit, Failure, Outcome};
use crate::node::ask;
use crate::place::PlaceArgs;

/// Projects: the unit of isolation. An agent's tenant is a project.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar projects create shop\n  \
    fulmar projects set shop --cors 'https://*.shop.example' --cors shop.example\n  \
    fulmar projects set shop --event-filter debug --allow-unsafe-revenue true\n  \
    fulmar projects set shop --event-filter '{\"name\":\"view\",\"filters\":[{\"name\":\"path\",\
    \"operator\":\"startsWith\",\"value\":[\"/internal\"]}]}'\n  \
    fulmar projects list --json")]
pub struct ProjectsArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(subcommand)]
    command: ProjectsCommand,
}

#[derive(Subcommand, Debug)]
enum ProjectsCommand {
    /// List every project.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Create a project.
    Create {
        /// Its id: letters, digits, `.`, `_` and `-`, at most 64.
        project: String,
    },
    /// Set what the SDK door lets in; what is not named stays as it is.
    Set(ProjectSetArgs),
}

#[derive(Args, Debug)]
struct ProjectSetArgs {
    /// The project.
    #[arg(default_value = DEFAULT_PROJECT)]
    project: String,
    /// Origin that may send without a secret, `*` for one or more characters; may be given
    /// often, and '' empties the list.
    #[arg(long, value_name = "ORIGIN")]
    cors: Option<Vec<String>>,
    /// Whether revenue is taken from requests that show no secret.
    #[arg(long, value_name = "true|false")]
    allow_unsafe_revenue: Option<bool>,
    /// Address that is refused; may be given often, and '' empties the list.
    #[arg(long, value_name = "IP")]
    ip_filter: Option<Vec<String>>,
    /// Profile that is refused; may be given often, and '' empties the list.
    #[arg(long, value_name = "ID")]
    profile_filter: Option<Vec<String>>,
    /// Events that are left out: a name, `*` for every event, or a name with conditions as JSON;
    /// may be given often, and '' empties the list.
    #[arg(long, value_name = "NAME|JSON", value_parser = event_filter)]
    event_filter: Option<Vec<EventFilter>>,
}

/// JSON begins with a brace, which no name of an event should.
fn event_filter(text: &str) -> Result<EventFilter, String> {
    if text.starts_with('{') {
        return serde_json::from_str(text)
            .map(EventFilter::When)
            .map_err(|error| {
                format!(
                    "{error}; a filter is {{\"name\":\"view\",\"filters\":[{{\"name\":\"path\",\
                 \"operator\":\"startsWith\",\"value\":[\"/internal\"]}}]}}"
                )
            });
    }
    Ok(EventFilter::Name(text.to_owned()))
}

impl ProjectSetArgs {
    fn request(self) -> ProjectsRequest {
        let list = |given: Option<Vec<String>>| {
            given.map(|list| list.into_iter().filter(|entry| !entry.is_empty()).collect())
        };
        ProjectsRequest::Set {
            project: self.project,
            settings: SettingsChange {
                cors: list(self.cors),
                allow_unsafe_revenue: self.allow_unsafe_revenue,
                ip_filters: list(self.ip_filter),
                profile_filters: list(self.profile_filter),
                event_filters: self.event_filter.map(|filters| {
                    let filters = filters.into_iter();
                    filters.filter(|filter| !filter.name().is_empty()).collect()
                }),
            },
        }
    }
}

/// API keys. A key is written to a file; it is printed to a terminal only.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar keys create shop                        # ingest key of the project default\n  \
    fulmar keys create ops --scope admin --out ops.key\n  \
    fulmar keys rotate shop --overlap 24h          # the old key works for another day\n  \
    fulmar keys revoke fulmar_0a1b2c3d4e5f")]
pub struct KeysArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Subcommand, Debug)]
enum KeysCommand {
    /// List every key by its public first part; never the key.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Create a key for a client. The client is the source of what the key sends.
    Create {
        /// The client's name.
        client: String,
        /// Project that the client sends into.
        #[arg(long, default_value = DEFAULT_PROJECT)]
        project: String,
        /// What the key may do; may be given twice.
        #[arg(long, value_name = "ingest|webhooks|admin", default_value = "ingest")]
        scope: Vec<Scope>,
        /// File to write the key to; default CLIENT.key in the data folder's keys/.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Create the successor of a client's key; the old one expires after the overlap.
    Rotate {
        /// The client's name.
        client: String,
        /// Project of the client.
        #[arg(long, default_value = DEFAULT_PROJECT)]
        project: String,
        /// How long the old key stays valid.
        #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = overlap_ms)]
        overlap: i64,
        /// File to write the key to; default CLIENT.key in the data folder's keys/.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Let a key open nothing from now on.
    Revoke {
        /// Its public first part, as `keys list` shows it.
        prefix: String,
    },
}

/// The roster of agents. It decides who is let in once `agents.admission = roster` is set.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar agents register web-1 --project shop\n  \
    fulmar agents disable web-1                    # refused until enabled again\n  \
    fulmar agents revoke web-1                     # refused for ever")]
pub struct AgentsArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(subcommand)]
    command: AgentsCommand,
}

#[derive(Subcommand, Debug)]
enum AgentsCommand {
    /// Register an agent, active.
    Register {
        /// Its id: the common name of its certificate.
        agent: String,
        /// Its tenant.
        #[arg(long, default_value = DEFAULT_PROJECT)]
        project: String,
    },
    /// List the roster.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Let a disabled agent in again.
    Enable {
        /// Its id.
        agent: String,
    },
    /// Refuse an agent until it is enabled again.
    Disable {
        /// Its id.
        agent: String,
    },
    /// Refuse an agent for ever.
    Revoke {
        /// Its id.
        agent: String,
    },
}

pub(super) fn overlap_ms(text: &str) -> Result<i64, String> {
    let ms = parse_duration_ms(text).ok_or("takes a duration such as 24h")?;
    i64::try_from(ms).map_err(|_| "is too long".to_owned())
}

impl ProjectsArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        match self.command {
            ProjectsCommand::List { json } => {
                let answer = ask(&self.place, "projects", &ProjectsRequest::List {})?;
                print_list(&answer, "projects", &["project", "created"], json)
            }
            ProjectsCommand::Create { project } => {
                let request = ProjectsRequest::Create { project };
                print_json(&ask(&self.place, "projects", &request)?)
            }
            ProjectsCommand::Set(set) => print_json(&ask(&self.place, "projects", &set.request())?),
        }
    }
}

impl KeysArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let (request, client, out) = match self.command {
            KeysCommand::List { json } => {
                let answer = ask(&self.place, "keys", &KeysRequest::List {})?;
                let columns = [
                    "prefix",
                    "project",
                    "client",
                    "scopes",
                    "live",
                    "created",
                    "last_used",
                ];
                return print_list(&answer, "keys", &columns, json);
            }
            KeysCommand::Revoke { prefix } => {
                return print_json(&ask(&self.place, "keys", &KeysRequest::Revoke { prefix })?);
            }
            KeysCommand::Create {
                client,
                project,
                scope,
                out,
            } => {
                let request = KeysRequest::Create {
                    project,
                    client: client.clone(),
                    scopes: scope,
                };
                (request, client, out)
            }
            KeysCommand::Rotate {
                client,
                project,
                overlap,
                out,
            } => {
                let request = KeysRequest::Rotate {
                    project,
                    client: client.clone(),
                    overlap_ms: overlap,
                };
                (request, client, out)
            }
        };
        let out = key_path(&self.place, &client, out)?;
        // A successor takes the place of the key that it follows; a new key takes no other's.
        let reserved = matches!(request, KeysRequest::Create { .. });
        if reserved {
            reserve(&out, &client)?;
        }
        let handed = ask(&self.place, "keys", &request).and_then(|answer| hand_over(&answer, &out));
        if reserved && handed.is_err() {
            // Only while it is the empty file of above: a key in it is somebody's.
            let empty = std::fs::metadata(&out).is_ok_and(|file| file.len() == 0);
            let _ = empty.then(|| std::fs::remove_file(&out));
        }
        handed
    }
}

/// Makes the empty file that a new key will stand in, so that of two commands at once for one file
/// only one makes a key.
fn reserve(out: &Path, client: &str) -> Result<(), Failure> {
    match std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(out)
    {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(Failure::usage(format!(
                "{} exists: `fulmar keys rotate {client}` makes a successor, --out names another \
                 file",
                out.display()
            )))
        }
        Err(error) => Err(Failure::new(format!(
            "cannot make {}: {error}",
            out.display()
        ))),
    }
}

/// Where the new key goes; told before it is made, so that none is made for nobody.
pub(super) fn key_path(
    place: &PlaceArgs,
    client: &str,
    out: Option<PathBuf>,
) -> Result<PathBuf, Failure> {
    if let Some(path) = out {
        return Ok(path);
    }
    if place.server.is_some() {
        return Err(Failure::usage(
            "with --server, --out names the file for the new key",
        ));
    }
    let folder = place.data.dir().keys();
    create_private_dir(&folder).context(format!("cannot make {}", folder.display()))?;
    if client.contains(['/', '\\']) {
        return Err(Failure::usage(format!("`{client}` is no name of a client")));
    }
    Ok(folder.join(format!("{client}.key")))
}

/// Hands a new key over, and tells of it.
fn hand_over(answer: &Value, out: &Path) -> Outcome {
    let Some(key) = answer["key"].as_str() else {
        return Err(Failure::new("the server's answer holds no key"));
    };
    let shown = json!({
        "prefix": answer["prefix"],
        "project": answer["project"],
        "client": answer["client"],
        "file": out.display().to_string(),
        "revision": answer["revision"],
    });
    hand_secret_over(("key", key), out, &shown)
}

/// Writes a secret to its file, 0600, prints what is shown beside it, and the secret itself to a
/// terminal only.
pub(super) fn hand_secret_over((word, secret): (&str, &str), out: &Path, shown: &Value) -> Outcome {
    write_private(out, format!("{secret}\n").as_bytes())
        .context(format!("cannot write {}", out.display()))?;
    print_json(shown)?;
    if to_terminal() {
        note(format_args!("{word}: {secret}"));
    }
    Ok(Exit::Done)
}

impl AgentsArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let set = |agent: String, state| AgentsRequest::Set { agent, state };
        let request = match self.command {
            AgentsCommand::List { json } => {
                let answer = ask(&self.place, "agents", &AgentsRequest::List {})?;
                let columns = ["agent", "project", "state", "registered"];
                return print_list(&answer, "agents", &columns, json);
            }
            AgentsCommand::Register { agent, project } => {
                AgentsRequest::Register { agent, project }
            }
            AgentsCommand::Enable { agent } => set(agent, AgentState::Active),
            AgentsCommand::Disable { agent } => set(agent, AgentState::Disabled),
            AgentsCommand::Revoke { agent } => set(agent, AgentState::Revoked),
        };
        print_json(&ask(&self.place, "agents", &request)?)
    }
}

/// Prints the list of an answer: the array as JSON, else a table.
pub(super) fn print_list(answer: &Value, member: &str, columns: &[&str], json: bool) -> Outcome {
    if json {
        return print_json(&answer[member]);
    }
    if answer[member].as_array().is_some_and(Vec::is_empty) {
        note(format_args!("no {member}"));
        return Ok(Exit::Done);
    }
    print_table(&answer[member], columns)
}
