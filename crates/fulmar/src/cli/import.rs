//! `fulmar import`: projects and clients of the system before, so that SDKs keep their credentials.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use fulmar_registry::{
    ClientKind, Condition, ConditionalFilter, DEFAULT_PROJECT, EventFilter, MemoryLog, Operator,
    Registry, SettingsChange,
};
use hyper::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::calling::Api;
use super::output::{note, print_json, print_line};
use crate::admin::clients::clients;
use crate::admin::registry::projects;
use crate::admin::{ClientsRequest, ProjectsRequest};
use crate::exit::{Context as _, Failure, Outcome};
use crate::node::ask;
use crate::place::PlaceArgs;

/// Longest file that is read, in bytes: a hundred thousand clients.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Take projects and clients, or webhooks, over from another system.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar import openpanel export.json --dry-run\n  \
    fulmar import openpanel export.json\n  \
    fulmar import sparrow export.json        # of a running server\n\n\
    docs/moving.md has the format, and the SQL that makes such a file of OpenPanel's database.\n\
    A second import of a file changes nothing.")]
pub struct ImportArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(subcommand)]
    from: From,
}

#[derive(Subcommand, Debug)]
enum From {
    /// Projects and clients of OpenPanel, with the scrypt hashes of their secrets.
    Openpanel {
        /// The export (JSON).
        file: PathBuf,
        /// Say what would change, and change nothing.
        #[arg(long)]
        dry_run: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Event types, webhooks with ids and secrets, and subscriptions of Sparrow.
    Sparrow {
        /// The export (JSON).
        file: PathBuf,
        /// Say what would change, and change nothing.
        #[arg(long)]
        dry_run: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// An export. Members that mean nothing here are passed over.
#[derive(Debug, Deserialize)]
struct Export {
    projects: Vec<ExportedProject>,
    #[serde(default)]
    clients: Vec<ExportedClient>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExportedProject {
    id: String,
    #[serde(default)]
    cors: Vec<String>,
    #[serde(default)]
    allow_unsafe_revenue_tracking: bool,
    #[serde(default)]
    filters: Vec<ExportedFilter>,
}

/// `{"type":"ip","ip":…}`, `{"type":"profile_id","profileId":…}` or `{"type":"event","name":…}`.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ExportedFilter {
    Ip {
        ip: String,
    },
    ProfileId {
        #[serde(rename = "profileId")]
        profile_id: String,
    },
    Event {
        name: String,
        #[serde(default)]
        filters: Vec<ExportedCondition>,
    },
}

/// `{"name":…,"operator":…,"value":[…]}`; its id is passed over. Values may be of any kind.
#[derive(Debug, Deserialize)]
struct ExportedCondition {
    name: String,
    operator: Operator,
    #[serde(default)]
    value: Vec<Value>,
}

impl ExportedCondition {
    fn taken(&self) -> Condition {
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            other => Some(other.to_string()),
        };
        let needs_none = matches!(self.operator, Operator::IsNull | Operator::IsNotNull);
        let values = self.value.iter().filter_map(text);
        Condition {
            name: self.name.clone(),
            operator: self.operator,
            value: values.filter(|_| !needs_none).collect(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExportedClient {
    id: String,
    name: String,
    #[serde(rename = "type")]
    kind: ClientKind,
    project_id: String,
    /// `saltHex.hashHex`.
    secret: Option<String>,
    #[serde(default)]
    ignore_cors_and_secret: bool,
}

/// What is to be done, in order.
#[derive(Default)]
struct Plan {
    projects: Vec<ProjectsRequest>,
    clients: Vec<ClientsRequest>,
    unchanged: u64,
}

impl ImportArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        match &self.from {
            From::Openpanel {
                file,
                dry_run,
                json,
            } => self.openpanel(file, *dry_run, *json),
            From::Sparrow {
                file,
                dry_run,
                json,
            } => self.sparrow(file, *dry_run, *json),
        }
    }

    fn sparrow(&self, file: &Path, dry_run: bool, json: bool) -> Outcome {
        let mut export: Map<String, Value> = read(file)?;
        export.insert("dry_run".to_owned(), dry_run.into());
        let api = Api::of(&self.place)?;
        let report = api.call(Method::POST, "/v1/import/sparrow", &export.into())?;
        if json {
            return print_json(&report);
        }
        for told in report["notes"].as_array().into_iter().flatten() {
            note(told.as_str().unwrap_or_default());
        }
        let would = if dry_run { "would be " } else { "" };
        print_line(&format!(
            "{} event types, {} webhooks and {} subscriptions {would}taken over, {} are there \
             already",
            report["event_types"], report["webhooks"], report["subscriptions"], report["unchanged"]
        ))
    }

    fn openpanel(&self, file: &Path, dry_run: bool, json: bool) -> Outcome {
        let export: Export = read(file)?;
        let known_projects = ask(&self.place, "projects", &ProjectsRequest::List {})?;
        rehearse(&export, &known_projects)?;
        let known_clients = ask(&self.place, "clients", &ClientsRequest::List {})?;
        let plan = export.plan(&known_projects, &known_clients)?;
        if !dry_run {
            for request in &plan.projects {
                ask(&self.place, "projects", request)?;
            }
            for request in &plan.clients {
                ask(&self.place, "clients", request)?;
            }
        }
        let report = json!({
            "projects_changed": plan.projects.len(), "clients_created": plan.clients.len(),
            "unchanged": plan.unchanged, "dry_run": dry_run,
        });
        if json {
            return print_json(&report);
        }
        let would = if dry_run { "would be " } else { "" };
        print_line(&format!(
            "{} changes of projects and {} clients {would}made, {} clients are there already",
            plan.projects.len(),
            plan.clients.len(),
            plan.unchanged
        ))
    }
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<T, Failure> {
    let shown = file.display();
    let bytes = std::fs::metadata(file)
        .context(format!("cannot read {shown}"))?
        .len();
    if bytes > FILE_BYTES_MAX {
        let told = format!("{shown} has {bytes} bytes, more than {FILE_BYTES_MAX}");
        return Err(Failure::usage(told));
    }
    let text = std::fs::read_to_string(file).context(format!("cannot read {shown}"))?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("{shown} is no export: {error}")))
}

/// Does it all in a registry of its own with the projects of the real one, and its rules: a file
/// with anything wrong in it changes nothing.
fn rehearse(export: &Export, known: &Value) -> Result<(), Failure> {
    let registry = Registry::open(MemoryLog::default())?;
    registry.ensure_default_project(0)?;
    let known = known["projects"].as_array().into_iter().flatten();
    let in_file = |id: &str| export.projects.iter().any(|project| project.id == id);
    for id in known.filter_map(|project| project["project"].as_str()) {
        if id != DEFAULT_PROJECT && !in_file(id) {
            let project = id.to_owned();
            projects(&registry, ProjectsRequest::Create { project }, 0)?;
        }
    }
    let fresh = json!({ "projects": [{ "project": DEFAULT_PROJECT, "settings": {} }] });
    let plan = export.plan(&fresh, &json!({ "clients": [] }))?;
    for request in plan.projects {
        let told = format!("projects: {request:?}");
        projects(&registry, request, 0).map_err(|error| wrong(&told, &error.to_string()))?;
    }
    for request in plan.clients {
        let ClientsRequest::Create { id: Some(id), .. } = &request else {
            continue;
        };
        let told = format!("clients: {id}");
        clients(&registry, request, 0).map_err(|error| wrong(&told, &error.to_string()))?;
    }
    Ok(())
}

fn wrong(place: &str, rule: &str) -> Failure {
    Failure::usage(format!("nothing is imported: {place}: {rule}"))
}

impl Export {
    /// What is missing where these projects and clients are.
    fn plan(&self, projects: &Value, clients: &Value) -> Result<Plan, Failure> {
        let mut plan = Plan::default();
        let by = |list: &Value, name: &str| -> BTreeMap<String, Value> {
            let items = list.as_array().into_iter().flatten();
            let named =
                items.filter_map(|item| Some((item[name].as_str()?.to_owned(), item.clone())));
            named.collect()
        };
        let known = by(&projects["projects"], "project");
        for project in &self.projects {
            let id = &project.id;
            if !known.contains_key(id) {
                plan.projects.push(ProjectsRequest::Create {
                    project: id.clone(),
                });
            }
            let wanted = serde_json::to_value(project.settings())?;
            let has = known
                .get(id)
                .map_or(&Value::Null, |project| &project["settings"]);
            let differs = |(name, value): (&String, &Value)| {
                let empty = [json!([]), json!(false)].contains(value);
                has[name] != *value && !(has[name].is_null() && empty)
            };
            if wanted.as_object().into_iter().flatten().any(differs) {
                let settings = project.settings();
                plan.projects.push(ProjectsRequest::Set {
                    project: id.clone(),
                    settings,
                });
            }
        }
        let known = by(&clients["clients"], "client");
        for (place, client) in self.clients.iter().enumerate() {
            let Some(there) = known.get(&client.id) else {
                plan.clients.push(client.request(place)?);
                continue;
            };
            if there["project"] != client.project_id.as_str() {
                let told = format!("clients[{place}] ({})", client.id);
                let rule = format!("is a client of project {} already", there["project"]);
                return Err(wrong(&told, &rule));
            }
            plan.unchanged += 1;
        }
        Ok(plan)
    }
}

impl ExportedProject {
    fn settings(&self) -> SettingsChange {
        let mut settings = SettingsChange {
            cors: Some(self.cors.clone()),
            allow_unsafe_revenue: Some(self.allow_unsafe_revenue_tracking),
            ip_filters: Some(Vec::new()),
            profile_filters: Some(Vec::new()),
            event_filters: Some(Vec::new()),
        };
        for filter in &self.filters {
            let (list, entry) = match filter {
                ExportedFilter::Ip { ip } => (&mut settings.ip_filters, ip),
                ExportedFilter::ProfileId { profile_id } => {
                    (&mut settings.profile_filters, profile_id)
                }
                ExportedFilter::Event { name, filters } => {
                    let name = name.clone();
                    let taken = match filters.is_empty() {
                        true => EventFilter::Name(name),
                        false => EventFilter::When(ConditionalFilter {
                            name,
                            filters: filters.iter().map(ExportedCondition::taken).collect(),
                        }),
                    };
                    settings.event_filters.get_or_insert_default().push(taken);
                    continue;
                }
            };
            list.get_or_insert_default().push(entry.clone());
        }
        settings
    }
}

impl ExportedClient {
    fn request(&self, place: usize) -> Result<ClientsRequest, Failure> {
        let Some(secret) = &self.secret else {
            let told = format!("clients[{place}] ({})", self.id);
            return Err(wrong(
                &told,
                "secret is missing: the scrypt hash, saltHex.hashHex",
            ));
        };
        Ok(ClientsRequest::Create {
            name: self.name.clone(),
            project: self.project_id.clone(),
            kind: self.kind,
            ignore_cors_and_secret: self.ignore_cors_and_secret,
            cors: Vec::new(),
            id: Some(self.id.clone()),
            secret_hash: Some(secret.clone()),
        })
    }
}
