//! One fold's work, step by step, without threads and without waiting.
//!
//! The order of the steps is F4: boundary, fold (whose outputs are durable when it returns), one
//! batch with state, counts and position. A process may die between any two of them.

use std::sync::Arc;

use tracing::{info, warn};

use crate::block::{Block, BlockLimits, BlockName};
use crate::error::{FlowError, Result};
use crate::fold::{BlockCounts, Fold, FoldError};
use crate::input::Input;
use crate::phases::{Phase, Phases};
use crate::progress::{Boundary, Progress};
use crate::state::{State, StateBatch};
use fulmar_log::{Chunk, LogError};

/// Bytes asked of the log at once: large reads, yet small beside a block.
const READ_BYTES: usize = 4 * 1024 * 1024;
/// The name under which lost offsets are counted (L1).
const DAMAGE: &str = "damage";

/// What a step came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A block was committed, or a loss passed: the position has moved.
    Moved,
    /// Not enough for a block. Ask again when the log's end reaches `end`, or at `due_ms`
    /// (milliseconds since the epoch; none while nothing is read and nothing open).
    Waiting { end: u64, due_ms: Option<i64> },
}

/// The part of the next block that has been read.
#[derive(Debug, Default)]
struct Open {
    chunks: Vec<Chunk>,
    next: u64,
    bytes: u64,
    oldest_ms: i64,
    /// Where a gap ends that begins at `next`.
    gap_to: Option<u64>,
}

/// What to do next.
enum Plan {
    Block(Block),
    Gap { to: u64 },
    Wait(Step),
}

#[derive(Debug, PartialEq, Eq)]
enum Read {
    Records,
    Gap,
    End,
}

pub(crate) struct Engine {
    fold: Box<dyn Fold>,
    phases: Arc<Phases>,
    input: Arc<dyn Input>,
    state: Arc<State>,
    limits: BlockLimits,
    progress: Progress,
    boundary: Option<Boundary>,
    open: Open,
    /// The block whose boundary is durable, kept over tries.
    begun: Option<Block>,
}

impl Engine {
    /// Takes up where committed state says.
    pub fn new(
        fold: Box<dyn Fold>,
        input: Arc<dyn Input>,
        state: Arc<State>,
        limits: BlockLimits,
    ) -> Result<Engine> {
        let (name, stream) = (fold.name(), input.stream().to_owned());
        let (start, end) = (input.start(), input.end());
        let progress = match Progress::load(&state, name)? {
            Some(progress) if progress.stream != stream => {
                let (fold, was) = (name.to_owned(), progress.stream);
                return Err(FlowError::StreamChanged {
                    fold,
                    was,
                    now: stream,
                });
            }
            Some(progress) => progress,
            // A fold that is new to an old log: what it can't have is named, not silent (I8).
            None if start > 0 => Progress::new(&stream).passed(start, input.before_start()),
            None => Progress::new(&stream),
        };
        let position = progress.position;
        // A position before the start is damage, which whoever reads there is told (L1).
        if position > end {
            let fold = name.to_owned();
            return Err(FlowError::PositionOutside {
                fold,
                stream,
                position,
                start,
                end,
            });
        }
        // A boundary goes with the commit of its block, so that it begins at the position.
        let boundary = Boundary::load(&state, name)?.filter(|begun| begun.first == position);
        input.release(name, position);
        let open = Open {
            next: position,
            ..Open::default()
        };
        let begun = None;
        let phases = fold.phases();
        Ok(Engine {
            fold,
            phases,
            input,
            state,
            limits,
            progress,
            boundary,
            open,
            begun,
        })
    }

    pub fn name(&self) -> &'static str {
        self.fold.name()
    }

    /// Where times are added.
    pub fn phases(&self) -> Arc<Phases> {
        Arc::clone(&self.phases)
    }

    /// Offset of the next record that is not committed.
    pub fn position(&self) -> u64 {
        self.progress.position
    }

    /// Does as much as leads to one commit, or finds that there is not enough to do.
    /// After a transient error or damage it can be called again; what was done stays done.
    pub fn step(&mut self, now_ms: i64, cut_to: u64) -> std::result::Result<Step, FoldError> {
        // A batch that failed is settled before anything is done on the strength of its failure.
        self.state.ready()?;
        if self.begun.is_none() {
            match self.plan(now_ms, cut_to)? {
                Plan::Block(block) => self.begin(block)?,
                Plan::Gap { to } => {
                    self.pass_gap(to)?;
                    return Ok(Step::Moved);
                }
                Plan::Wait(step) => return Ok(step),
            }
        }
        let (counts, batch) = self.run()?;
        self.commit(counts, batch)?;
        Ok(Step::Moved)
    }

    fn plan(&mut self, now_ms: i64, cut_to: u64) -> std::result::Result<Plan, FoldError> {
        match self.replay()? {
            Some(block) => Ok(Plan::Block(block)),
            None => self.assemble(now_ms, cut_to),
        }
    }

    /// Passes offsets that an operator gave up (L1) and names them in the ledger.
    fn pass_gap(&mut self, to: u64) -> std::result::Result<(), FoldError> {
        let from = self.position();
        warn!(
            fold = self.name(),
            from, to, "passing offsets given up as damaged"
        );
        let progress = self.progress.passed(to, DAMAGE);
        let mut batch = StateBatch::new();
        progress.stage(self.name(), &mut batch);
        self.state.commit(batch)?;
        self.moved(progress);
        Ok(())
    }

    /// The block that was begun before a restart, exactly as it was (F4); none when there is
    /// none, or when a part of it was given up since, which makes it another block.
    fn replay(&mut self) -> std::result::Result<Option<Block>, FoldError> {
        let Some(boundary) = &self.boundary else {
            return Ok(None);
        };
        let (first, last, version) = (boundary.first, boundary.last, boundary.version);
        while self.open.next <= last {
            let read = self.read_on()?;
            if read == Read::Gap {
                self.boundary = None;
                return Ok(None);
            }
            if read == Read::End {
                let (fold, end) = (self.name(), self.input.end());
                let begun = format!("{fold} began {first} to {last}, but the log ends at {end}");
                return Err(FoldError::Fatal(begun));
            }
        }
        let block = self.close(last);
        let (fold, name) = (self.name(), block.name());
        info!(fold, block = %name, version, "doing an unfinished block again");
        Ok(Some(block))
    }

    /// Reads on until the next block is full, due, asked for, or cut off by a gap or by damage.
    fn assemble(&mut self, now_ms: i64, cut_to: u64) -> std::result::Result<Plan, FoldError> {
        let position = self.position();
        let mut closes = false;
        while !self.is_full() {
            match self.read_on() {
                Ok(Read::Records) => {}
                Ok(Read::End) => break,
                Ok(Read::Gap) => {
                    closes = true;
                    break;
                }
                // What is readable before the damage is a block of its own.
                Err(FoldError::Damaged(_)) if !self.open.chunks.is_empty() => {
                    closes = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if self.open.chunks.is_empty() {
            return match self.open.gap_to {
                Some(to) => Ok(Plan::Gap { to }),
                None => self.idle(now_ms),
            };
        }
        let due_ms = self.open.oldest_ms.saturating_add(self.limits.age_ms);
        closes |= self.is_full() || position < cut_to || now_ms >= due_ms;
        if closes {
            return Ok(Plan::Block(self.close(self.open.next - 1)));
        }
        let end = position + self.limits.rows;
        Ok(Plan::Wait(Step::Waiting {
            end,
            due_ms: Some(due_ms),
        }))
    }

    /// Nothing is there to read: time goes on by ticks alone, and only while something is due
    /// some day (F2). One tick is enough: its block moves the fold's time past what was due.
    fn idle(&self, now_ms: i64) -> std::result::Result<Plan, FoldError> {
        let due_ms = self.fold.next_due_ms();
        if due_ms.is_some_and(|due_ms| due_ms <= now_ms) {
            self.input.tick().map_err(read_error)?;
        }
        Ok(Plan::Wait(Step::Waiting {
            end: self.position() + 1,
            due_ms,
        }))
    }

    fn is_full(&self) -> bool {
        let rows = self.open.next - self.position();
        rows >= self.limits.rows || self.open.bytes >= self.limits.bytes
    }

    /// Reads the next chunk into the open block.
    fn read_on(&mut self) -> std::result::Result<Read, FoldError> {
        let next = self.open.next;
        if self.open.gap_to.is_some() {
            return Ok(Read::Gap);
        }
        let input = &self.input;
        let read = self
            .phases
            .time(Phase::Read, || input.read(next, READ_BYTES));
        let Some(chunk) = read.map_err(read_error)? else {
            return Ok(Read::End);
        };
        if chunk.first_offset() != next || chunk.end_offset() <= next {
            let (first, end) = (chunk.first_offset(), chunk.end_offset());
            return Err(FoldError::Fatal(format!(
                "the log gave {first} to {end} for {next}"
            )));
        }
        if let Some(gap) = chunk.gap() {
            self.open.gap_to = Some(gap.end);
            return Ok(Read::Gap);
        }
        if self.open.chunks.is_empty() {
            self.open.oldest_ms = chunk.first_time_ms().unwrap_or(i64::MIN);
        }
        self.open.next = chunk.end_offset();
        self.open.bytes += chunk.payload_bytes() as u64;
        self.open.chunks.push(chunk);
        Ok(Read::Records)
    }

    /// The block up to `last`. What was read behind it is read again after it.
    fn close(&mut self, last: u64) -> Block {
        let first = self.position();
        let stream = self.progress.stream.clone();
        let from_here = Open {
            next: first,
            ..Open::default()
        };
        let open = std::mem::replace(&mut self.open, from_here);
        Block::new(
            BlockName {
                stream,
                first,
                last,
            },
            open.chunks,
        )
    }

    /// Makes the block's boundary durable, before any output of it can be (F4).
    fn begin(&mut self, block: Block) -> std::result::Result<(), FoldError> {
        let (first, last) = (block.name().first, block.name().last);
        let boundary = Boundary {
            first,
            last,
            version: self.fold.version(),
        };
        if self.boundary.as_ref() != Some(&boundary) {
            boundary.commit(&self.state, self.name())?;
            self.boundary = Some(boundary);
        }
        self.begun = Some(block);
        Ok(())
    }

    /// Lets the fold do the begun block.
    fn run(&mut self) -> std::result::Result<(BlockCounts, StateBatch), FoldError> {
        let block = self
            .begun
            .as_ref()
            .expect("a step runs only what it has begun");
        let mut batch = StateBatch::new();
        let counts = self.fold.fold(block, &mut batch)?;
        if counts.total() != block.len() {
            let (name, total) = (block.name(), counts.total());
            return Err(FoldError::Fatal(format!(
                "{name}: {total} records accounted for"
            )));
        }
        Ok((counts, batch))
    }

    /// Commits the fold's changes, the counts and the position at once (F4, I6).
    fn commit(
        &mut self,
        counts: BlockCounts,
        mut batch: StateBatch,
    ) -> std::result::Result<(), FoldError> {
        let name = self
            .begun
            .as_ref()
            .expect("a step commits only what it has run")
            .name()
            .clone();
        let progress = self.progress.after(&name, &counts);
        if !progress.balances() {
            return Err(FoldError::Fatal(format!(
                "{name}: the ledger does not balance"
            )));
        }
        progress.stage(self.fold.name(), &mut batch);
        let state = &self.state;
        self.phases.time(Phase::Commit, || state.commit(batch))?;
        self.begun = None;
        self.fold.committed(&name);
        self.moved(progress);
        Ok(())
    }

    fn moved(&mut self, progress: Progress) {
        self.progress = progress;
        self.boundary = None;
        self.open = Open {
            next: self.progress.position,
            ..Open::default()
        };
        self.input.release(self.fold.name(), self.progress.position);
    }
}

/// Damage and a position outside of the log stop the fold; the rest may pass.
fn read_error(error: LogError) -> FoldError {
    match &error {
        LogError::Damaged { .. } => FoldError::Damaged(error.to_string()),
        LogError::OutOfRange { offset, start, .. } if offset < start => {
            let gone = format!("{error}; the segments from {offset} to {start} are missing");
            FoldError::Damaged(gone)
        }
        LogError::OutOfRange { .. } => FoldError::Fatal(error.to_string()),
        _ => FoldError::Transient(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
