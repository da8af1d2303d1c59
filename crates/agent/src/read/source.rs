//! The thread that reads one source: from its position to its end, or on and
//! on over rotation and truncation.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::file::{self, Change, LogFile};
use super::lines::{Line, Lines};
use crate::error::SendError;
use crate::item::Item;
use crate::parse::{self, Parser};
use crate::spool::entry::Position;

/// How often a followed file is looked at once its end is reached. Fresh within
/// two seconds leaves room for ten looks; a look costs two system calls.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

/// Bytes before a resumed position that are read for the parser's memory (the
/// last few logoffs) and not sent again.
const CONTEXT_BYTES: u64 = 64 << 10;

/// One source to read.
#[derive(Clone, Debug)]
pub struct Job {
    /// The file as the caller named it; `None` for standard input.
    pub path: Option<PathBuf>,
    /// The key of its read position: the canonical path.
    pub key: String,
    /// The name that ids are made from.
    pub name: String,
    /// Where reading stopped before.
    pub resume: Option<Position>,
    /// Go on at the end of the file.
    pub follow: bool,
    /// Added to every event time.
    pub shift: SignedDuration,
}

/// Some lines' worth of events.
#[derive(Debug, Default)]
pub struct Chunk {
    /// Events, each with the read position that holds once it is safe. Only
    /// the last event of a line passes the line.
    pub items: Vec<(Item, u64)>,
    /// Where the chunk ends; its offset is replaced by an item's own. `None`
    /// for a source that can't be read again.
    pub position: Option<Position>,
    /// Lines that were no event.
    pub skipped: u64,
    /// Bytes of lines read.
    pub bytes: u64,
}

/// Reads a job and hands chunks on.
pub struct Reader {
    /// What to read.
    pub job: Job,
    /// The format's parser.
    pub parser: Parser,
    /// Where chunks go; a full channel stops the reading (I7).
    pub sink: SyncSender<Result<Chunk, SendError>>,
    /// Set when the caller wants no more.
    pub stop: Arc<AtomicBool>,
}

/// The channel's other end is gone or `stop` is set: nobody wants more.
struct Done;

enum Ended {
    Done,
    Failed(SendError),
}

impl From<Done> for Ended {
    fn from(_: Done) -> Ended {
        Ended::Done
    }
}

impl Reader {
    /// Reads to the end or until stopped. A fault is handed on as the last
    /// thing.
    pub fn run(mut self) {
        let result = match self.job.path.clone() {
            Some(path) => self.read_file(&path),
            None => self.read_stream(&mut std::io::stdin().lock()),
        };
        if let Err(Ended::Failed(error)) = result {
            // Nobody to tell: then nobody waits for it either.
            let _ = self.sink.send(Err(error));
        }
    }

    fn failed(&self, error: std::io::Error) -> Ended {
        let path = self.job.path.clone().unwrap_or_else(|| PathBuf::from("-"));
        Ended::Failed(SendError::file("read", path, error))
    }

    fn read_stream(&mut self, stream: &mut impl Read) -> Result<(), Ended> {
        let mut lines = Lines::at(0);
        loop {
            let at_end = lines.fill(stream).map_err(|e| self.failed(e))? == 0;
            self.take_lines(&mut lines, at_end, None)?;
            if at_end || self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }

    fn read_file(&mut self, path: &std::path::Path) -> Result<(), Ended> {
        let mut file = LogFile::open(path).map_err(|e| self.failed(e))?;
        let mut offset = 0;
        if let Some(position) = self.job.resume.take() {
            if file.holds(&position) {
                offset = position.offset;
            } else if let Some(renamed) = file::find_renamed(path, &position) {
                let mut old = LogFile::open(&renamed).map_err(|e| self.failed(e))?;
                self.remember(&mut old, position.offset)?;
                let mut lines = Lines::at(position.offset);
                self.read_to_end(&mut old, &mut lines)?;
                self.take_lines(&mut lines, true, Some(&mut old))?;
            }
        }
        self.remember(&mut file, offset)?;
        let mut lines = Lines::at(offset);
        loop {
            self.read_to_end(&mut file, &mut lines)?;
            if !self.job.follow {
                self.take_lines(&mut lines, true, Some(&mut file))?;
                return Ok(());
            }
            (file, lines) = self.wait_for_more(path, file, lines)?;
        }
    }

    /// Feeds the parser what stands just before `offset`, and leaves the file
    /// at `offset`.
    fn remember(&mut self, file: &mut LogFile, offset: u64) -> Result<(), Ended> {
        let start = offset.saturating_sub(CONTEXT_BYTES);
        let mut context = vec![0; (offset - start) as usize];
        let read = file
            .seek(start)
            .and_then(|()| file.read_exact(&mut context));
        read.map_err(|e| self.failed(e))?;
        let now = Timestamp::now();
        for line in context.split(|byte| *byte == b'\n') {
            self.parser.time(line, now);
        }
        Ok(())
    }

    fn read_to_end(&mut self, file: &mut LogFile, lines: &mut Lines) -> Result<(), Ended> {
        while lines.fill(file).map_err(|e| self.failed(e))? > 0 {
            self.take_lines(lines, false, Some(file))?;
        }
        Ok(())
    }

    /// Waits until the file grew, or gives the one to read on with.
    fn wait_for_more(
        &mut self,
        path: &std::path::Path,
        mut file: LogFile,
        mut lines: Lines,
    ) -> Result<(LogFile, Lines), Ended> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Ended::Done);
        }
        std::thread::sleep(FOLLOW_INTERVAL);
        let last = file.position(&self.job.key, lines.offset());
        // A position that can't be taken any more means that the file shrank.
        let change = last.map_or(Change::Truncated, |last| file.change(path, &last));
        match change {
            Change::None => Ok((file, lines)),
            Change::Truncated => {
                // A line cut short by it is still a line that was there.
                self.take_lines(&mut lines, true, None)?;
                file.seek(0).map_err(|e| self.failed(e))?;
                Ok((file, Lines::at(0)))
            }
            Change::Rotated => {
                // What was written between the last read and the rename.
                self.read_to_end(&mut file, &mut lines)?;
                self.take_lines(&mut lines, true, Some(&mut file))?;
                match LogFile::open(path) {
                    Ok(fresh) => Ok((fresh, Lines::at(0))),
                    // Gone again: the old one is followed until there is one.
                    Err(_) => Ok((file, lines)),
                }
            }
        }
    }

    /// Parses the whole lines in the buffer (at the end also the last one) and
    /// hands their events on.
    fn take_lines(
        &mut self,
        lines: &mut Lines,
        at_end: bool,
        file: Option<&mut LogFile>,
    ) -> Result<(), Ended> {
        let mut chunk = Chunk::default();
        let now = Timestamp::now();
        while let Some(line) = lines.next_line() {
            self.take_line(&line, now, &mut chunk);
        }
        if at_end && let Some(line) = lines.last_line() {
            self.take_line(&line, now, &mut chunk);
        }
        if chunk.bytes == 0 {
            return Ok(());
        }
        if let Some(file) = file {
            // A file cut meanwhile has no such position: it is read from its
            // start again, which repeats ids and loses nothing.
            chunk.position = file.position(&self.job.key, lines.offset()).ok();
        }
        // A file is read again from its position; what came from a pipe is kept.
        let dropped = chunk.position.is_some() && self.stop.load(Ordering::Relaxed);
        if dropped || self.sink.send(Ok(chunk)).is_err() {
            return Err(Done.into());
        }
        Ok(())
    }

    fn take_line(&mut self, line: &Line<'_>, now: Timestamp, chunk: &mut Chunk) {
        chunk.bytes += line.end - line.start;
        let mut items = Vec::new();
        if let Some(bytes) = line.bytes {
            let place = parse::Place {
                source: &self.job.name,
                offset: line.start,
                line: bytes,
                now,
                shift: self.job.shift,
            };
            self.parser.parse(place, &mut items);
        }
        if items.is_empty() {
            chunk.skipped += 1;
        }
        let last = items.len().wrapping_sub(1);
        for (index, item) in items.into_iter().enumerate() {
            chunk
                .items
                .push((item, if index == last { line.end } else { line.start }));
        }
    }
}
