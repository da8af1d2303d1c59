//! What people or their operators want forgotten.

use fulmar_event::{AttemptRecord, Door, Enrichment, Head, ProfileView, Records, Timestamp};
use fulmar_log::Topic;
use fulmar_registry::{Change, new_client_id};
use fulmar_store::Forgotten;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AdminError, Desk, time_text};

/// The source of such records in the log.
const OPERATOR: &str = "operator";
/// Longest id of a profile, in bytes: longer ones are refused at the door.
const PROFILE_BYTES_MAX: usize = 1_024;

/// `POST /v1/admin/delete`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum DeleteRequest {
    /// Everything that is known of a profile by now.
    Profile {
        /// Its project.
        project: String,
        /// Its id, or that of a device.
        profile: String,
    },
    /// A project with its clients, keys and agents, and everything that it has stored.
    Project {
        /// Its id.
        project: String,
        /// Only what is stored: the project goes on.
        #[serde(default)]
        rows_only: bool,
    },
    /// What was deleted, and how far that is.
    List {},
}

/// Answers a request to delete. What it appends is hidden once the folds have come to it.
pub fn answer(desk: &Desk, request: DeleteRequest, now_ms: i64) -> Result<Value, AdminError> {
    match request {
        DeleteRequest::Profile { project, profile } => {
            check_project(desk, &project)?;
            if profile.is_empty() || profile.len() > PROFILE_BYTES_MAX {
                let rule = format!("profile takes 1 to {PROFILE_BYTES_MAX} bytes");
                return Err(AdminError::Refused(rule));
            }
            append(desk, &project, Some(&profile), now_ms)?;
            Ok(json!({ "project": project, "profile": profile, "hidden": false }))
        }
        DeleteRequest::Project { project, rows_only } => {
            check_project(desk, &project)?;
            if !rows_only {
                // The doors refuse its clients first, so that no more comes in.
                let project = project.clone();
                let gone = Change::ProjectDeleted { project };
                desk.registry.change(gone, now_ms)?;
            }
            append(desk, &project, None, now_ms)?;
            Ok(json!({ "project": project, "rows_only": rows_only, "hidden": false }))
        }
        DeleteRequest::List {} => {
            let snapshot = desk.lake.snapshot();
            let list: Vec<Value> = snapshot.forgotten().iter().map(shown).collect();
            Ok(json!({ "deletions": list }))
        }
    }
}

fn check_project(desk: &Desk, project: &str) -> Result<(), AdminError> {
    match desk.registry.current().projects.contains_key(project) {
        true => Ok(()),
        false => Err(AdminError::NotFound(format!("no project `{project}`"))),
    }
}

/// The fold of profiles reads it first, passes it on to the session fold, and hears of it again
/// from there: then nothing of before is on its way any more. Deliveries are a project's, and have
/// a topic of their own.
fn append(
    desk: &Desk,
    project: &str,
    profile: Option<&str>,
    now_ms: i64,
) -> Result<(), AdminError> {
    let view = ProfileView::forget(profile);
    let time = Timestamp::from_millis(now_ms);
    let head = Head {
        event_id: &format!("forget-{}", new_client_id()?),
        time,
        ingest_time: time,
        gateway: "",
        batch_id: "",
        project,
        client: OPERATOR,
        key: view.profile_id,
        door: Door::Track,
        control_offset: desk.registry.current().revision,
        enrichment: Enrichment::default(),
    };
    let mut records = Records::new();
    // Any partition will do: both folds read them all, in the order of the log.
    head.append_to(&view, 0, &mut records);
    desk.journal(Topic::Profiles).append_blocking(records)?;
    if profile.is_none() {
        let mut records = Records::new();
        let mark = records.begin(0);
        AttemptRecord::forget(project).encode(records.buffer());
        records.end(mark);
        desk.journal(Topic::Deliveries).append_blocking(records)?;
    }
    Ok(())
}

fn shown(one: &Forgotten) -> Value {
    json!({
        "project": one.project,
        "profile": one.profile,
        "topic": one.topic,
        "before": one.before,
        "asked": time_text(one.asked_ms),
        "removed": one.removed_ms.map(time_text),
    })
}
