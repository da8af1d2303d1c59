//! The first reading of `--rebase`: the newest time in all files.

use jiff::Timestamp;

use super::file::LogFile;
use super::lines::Lines;
use crate::error::SendError;
use crate::parse::Parser;
use crate::read::Job;

/// The newest event time of `job`'s file, or `None` if it holds no event.
pub fn newest_time(
    job: &Job,
    mut parser: Parser,
    now: Timestamp,
) -> Result<Option<Timestamp>, SendError> {
    let Some(path) = &job.path else {
        return Ok(None);
    };
    let fail = |e| SendError::file("read", path, e);
    let mut file = LogFile::open(path).map_err(fail)?;
    let mut lines = Lines::at(0);
    let mut newest = None;
    loop {
        let at_end = lines.fill(&mut file).map_err(fail)? == 0;
        while let Some(line) = if at_end {
            lines.last_line()
        } else {
            lines.next_line()
        } {
            let time = line.bytes.and_then(|bytes| parser.time(bytes, now));
            newest = newest.max(time);
        }
        if at_end {
            return Ok(newest);
        }
    }
}
