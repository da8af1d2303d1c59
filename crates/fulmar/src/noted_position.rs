//! How far the writer had come at the last start and stop, noted beside the tables' files.
//!
//! A state store whose journal is damaged may open without a word, and hold less than it had
//! committed. Files of tables that its list has lost would then be taken for leftovers.

use std::path::PathBuf;

use fulmar_flow::{State, committed_position};
use fulmar_log::disk;
use fulmar_store::writer::WRITER;

use crate::data_dir::DataDir;
use crate::exit::Failure;

fn path(data: &DataDir) -> PathBuf {
    data.lake().join("position")
}

/// The number twice, so that a flipped digit is no note.
fn parse(text: &str) -> Option<u64> {
    let (one, other) = text.trim_end().split_once(' ')?;
    (one == other).then(|| one.parse().ok())?
}

/// What was noted, if the state store knows of less by now, and what it knows of.
pub fn lost(data: &DataDir, state: &State) -> Result<Option<(u64, u64)>, Failure> {
    let text = std::fs::read_to_string(path(data)).unwrap_or_default();
    let noted = parse(&text).unwrap_or(0);
    let position = committed_position(state, WRITER)?;
    Ok((position < noted).then_some((noted, position)))
}

/// Notes the position. A failure costs a witness and nothing else.
pub fn note(data: &DataDir, state: &State) {
    let noted = committed_position(state, WRITER)
        .map_err(|error| error.to_string())
        .and_then(|position| {
            let text = format!("{position} {position}\n");
            disk::write_atomic(&path(data), text.as_bytes()).map_err(|error| error.to_string())
        });
    if let Err(error) = noted {
        tracing::warn!(error, "the writer's position is not noted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_that_stands_there_twice_is_a_note() {
        assert_eq!(parse("41 41\n"), Some(41));
        for wrong in ["", "41\n", "41 42\n", "41 41 41", "x x", "-1 -1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
