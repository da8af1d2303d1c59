//! The tables' files.

use fulmar_store::Lake;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::AdminError;

/// `POST /v1/admin/lake`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum LakeRequest {
    /// The exact list of one snapshot.
    Files {},
    /// Read every listed file and say what is wrong.
    Check {},
    /// Merge all that can be merged, now.
    Compact {},
}

/// Answers a request about the tables' files.
pub fn answer(lake: &Lake, request: LakeRequest) -> Result<Value, AdminError> {
    match request {
        LakeRequest::Files {} => {
            let snapshot = lake.snapshot();
            let forgotten = snapshot.forgotten();
            Ok(json!({ "files": snapshot.file_infos(), "forgotten": forgotten }))
        }
        LakeRequest::Check {} => Ok(serde_json::to_value(lake.snapshot().check())?),
        LakeRequest::Compact {} => Ok(serde_json::to_value(lake.compact_now()?)?),
    }
}
