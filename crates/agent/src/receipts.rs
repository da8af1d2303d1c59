//! The receipts file: one JSON object a line for each acknowledged id.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::SendError;

/// Bytes looked at from the end for the last whole line; a line is shorter.
const TAIL_BYTES: u64 = 4 << 10;

#[derive(Serialize)]
struct Line<'a> {
    project: &'a str,
    source: &'a str,
    id: &'a str,
}

/// A receipts file, open to append.
pub struct Receipts {
    path: PathBuf,
    file: File,
}

impl Receipts {
    /// Opens or makes the file. A last line that a crash cut short is removed:
    /// its batch was not freed and gets its receipt again.
    pub fn open(path: &Path) -> Result<Receipts, SendError> {
        let fail = |e| SendError::file("open the receipts", path, e);
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).read(true).write(true);
        let mut file = options.open(path).map_err(fail)?;
        // A pipe has no end to look at and no line that was cut.
        if file.metadata().map_err(fail)?.is_file() {
            let end = whole_lines_end(&mut file).map_err(fail)?;
            file.set_len(end).map_err(fail)?;
            file.seek(SeekFrom::Start(end)).map_err(fail)?;
        }
        Ok(Receipts {
            path: path.to_owned(),
            file,
        })
    }

    /// Appends the ids of one acknowledgement in one write.
    pub fn append<'a>(
        &mut self,
        project: &str,
        source: &str,
        ids: impl Iterator<Item = &'a str>,
    ) -> Result<(), SendError> {
        let mut text = Vec::new();
        for id in ids {
            let line = Line {
                project,
                source,
                id,
            };
            serde_json::to_writer(&mut text, &line).expect("text is always written");
            text.push(b'\n');
        }
        self.file
            .write_all(&text)
            .map_err(|e| SendError::file("write", &self.path, e))
    }
}

fn whole_lines_end(file: &mut File) -> std::io::Result<u64> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(match tail.iter().rposition(|byte| *byte == b'\n') {
        Some(at) => start + at as u64 + 1,
        None => start,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_after_a_cut_at_any_byte() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("receipts");
        let mut receipts = Receipts::open(&path).unwrap();
        receipts
            .append("default", "web-1", ["a", "b\"c"].into_iter())
            .unwrap();
        drop(receipts);
        let whole = std::fs::read(&path).unwrap();
        let first = "{\"project\":\"default\",\"source\":\"web-1\",\"id\":\"a\"}\n";
        let second = "{\"project\":\"default\",\"source\":\"web-1\",\"id\":\"b\\\"c\"}\n";
        assert_eq!(whole, format!("{first}{second}").as_bytes());
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut receipts = Receipts::open(&path).unwrap();
            receipts
                .append("default", "web-1", ["a"].into_iter())
                .unwrap();
            let kept = match cut {
                _ if cut == whole.len() => format!("{first}{second}"),
                _ if cut >= first.len() => first.to_owned(),
                _ => String::new(),
            };
            assert_eq!(
                std::fs::read_to_string(&path).unwrap(),
                format!("{kept}{first}"),
                "{cut}"
            );
        }
    }
}
