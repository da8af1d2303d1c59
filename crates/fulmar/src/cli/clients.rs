//! `fulmar clients`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use fulmar_registry::{ClientKind, DEFAULT_PROJECT};
use serde_json::Value;

use super::output::print_json;
use super::registry::{hand_secret_over, key_path, overlap_ms, print_list};
use crate::admin::ClientsRequest;
use crate::exit::{Failure, Outcome};
use crate::keys::read_file;
use crate::node::ask;
use crate::place::PlaceArgs;

/// Clients of the SDK door. A secret is written to a file; it is printed to a terminal only.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar clients create shop-web --project shop --cors https://shop.example\n  \
    fulmar clients create backend --out backend.secret\n  \
    fulmar clients rotate 0b54…-… --overlap 24h      # the old secret works for another day\n  \
    fulmar clients revoke 0b54…-…")]
pub struct ClientsArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(subcommand)]
    command: ClientsCommand,
}

#[derive(Subcommand, Debug)]
enum ClientsCommand {
    /// List every client; never a secret.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Create a client; its id and where its secret lies are printed.
    Create(CreateArgs),
    /// Create the successor of a client's secret; the old one expires after the overlap.
    Rotate {
        /// The client's id.
        client: String,
        /// How long the old secret stays valid.
        #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = overlap_ms)]
        overlap: i64,
        /// File to write the secret to; default client-ID.key in the data folder's keys/.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Refuse a client for ever.
    Revoke {
        /// The client's id.
        client: String,
    },
}

#[derive(Args, Debug)]
struct CreateArgs {
    /// What people call it.
    name: String,
    /// Project that it sends into.
    #[arg(long, default_value = DEFAULT_PROJECT)]
    project: String,
    /// What it may do besides sending.
    #[arg(long, value_name = "write|read|root", default_value = "write")]
    kind: ClientKind,
    /// Origin that the project lets in without a secret from now on; may be given often.
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,
    /// The id alone is enough: for apps that have no origin and can keep no secret.
    #[arg(long)]
    ignore_cors_and_secret: bool,
    /// The id that the client has already.
    #[arg(long, value_name = "UUID")]
    id: Option<String>,
    /// File with the scrypt hash (saltHex.hashHex) of the secret that the client has already.
    #[arg(long, value_name = "FILE")]
    secret_hash_file: Option<PathBuf>,
    /// File to write the secret to; default client-ID.key in the data folder's keys/.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl ClientsArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let (request, out) = match self.command {
            ClientsCommand::List { json } => {
                let answer = ask(&self.place, "clients", &ClientsRequest::List {})?;
                let columns = ["client", "name", "project", "kind", "state", "created"];
                return print_list(&answer, "clients", &columns, json);
            }
            ClientsCommand::Revoke { client } => {
                let request = ClientsRequest::Revoke { client };
                return print_json(&ask(&self.place, "clients", &request)?);
            }
            ClientsCommand::Create(args) => {
                let out = args.out.clone();
                (args.request()?, out)
            }
            ClientsCommand::Rotate {
                client,
                overlap,
                out,
            } => {
                let overlap_ms = overlap;
                (ClientsRequest::Rotate { client, overlap_ms }, out)
            }
        };
        // Told before it is made, so that none is made for nobody.
        let folder = key_path(&self.place, "client", out.clone())?;
        if matches!(request, ClientsRequest::Create { .. })
            && out.as_ref().is_some_and(|o| o.exists())
        {
            return Err(Failure::usage(format!(
                "{} exists: --out names another file",
                folder.display()
            )));
        }
        let answer = ask(&self.place, "clients", &request)?;
        let id = answer["client"].as_str().unwrap_or_default();
        let path = out.unwrap_or_else(|| folder.with_file_name(format!("client-{id}.key")));
        hand_over(answer.clone(), &path)
    }
}

impl CreateArgs {
    fn request(self) -> Result<ClientsRequest, Failure> {
        let secret_hash = self
            .secret_hash_file
            .as_deref()
            .map(read_file)
            .transpose()?;
        Ok(ClientsRequest::Create {
            name: self.name,
            project: self.project,
            kind: self.kind,
            ignore_cors_and_secret: self.ignore_cors_and_secret,
            cors: self.cors,
            id: self.id,
            secret_hash,
        })
    }
}

/// Hands a new secret over, if one was made, and tells of its client.
fn hand_over(mut answer: Value, out: &Path) -> Outcome {
    let secret = answer["secret"].take();
    let members = answer.as_object_mut();
    let members = members.ok_or_else(|| Failure::new("the server's answer is no object"))?;
    members.remove("secret");
    let Some(secret) = secret.as_str() else {
        return print_json(&answer);
    };
    members.insert("file".to_owned(), out.display().to_string().into());
    hand_secret_over(("secret", secret), out, &answer)
}
