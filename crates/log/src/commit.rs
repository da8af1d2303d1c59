//! The commit thread: all appends that wait are written with one call and made
//! durable with one sync.

use std::fs::File;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Appended;
use crate::config::GROUP_BYTES_MAX;
use crate::disk;
use crate::error::{LogError, Result};
use crate::frame::{FrameHeader, HEADER_BYTES, Kind, frame_bytes};
use crate::segment::{self, SEGMENT_HEADER_BYTES, SegmentFile, SegmentHeader};
use crate::shared::{Pending, Shared, lock};
use crate::stats::add;

static ZEROS: [u8; HEADER_BYTES] = [0; HEADER_BYTES];

/// Room kept at a segment's end for the seal that ends it.
const SEAL_BYTES: u64 = HEADER_BYTES as u64;

/// The one writer of a journal. `byte`, `offset` and `time_ms` are those of
/// the synced end.
pub(crate) struct Committer {
    pub shared: Arc<Shared>,
    pub file: File,
    pub segment: Arc<SegmentFile>,
    pub byte: u64,
    pub offset: u64,
    pub time_ms: i64,
    /// The last frame is a seal.
    pub sealed: bool,
    /// What stands behind `byte` can't be trusted or must not be touched: a
    /// new segment comes before the next append (L1, L2).
    pub broken: bool,
    /// The segment holds damage: it is left as it is.
    pub keep_as_is: bool,
}

enum Work {
    Group(Vec<Pending>),
    Roll(tokio::sync::oneshot::Sender<Result<()>>),
    Idle,
    Close,
}

fn micros(since: Instant) -> u64 {
    since.elapsed().as_micros() as u64
}

/// Milliseconds since the epoch by the machine's clock.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    since.as_millis() as i64
}

impl Committer {
    /// Runs until the journal is closed.
    pub(crate) fn run(mut self) {
        loop {
            let waits = Instant::now();
            let work = self.next_work();
            add(&self.shared.counters.wait_us, micros(waits));
            match work {
                Work::Group(group) => self.commit(group),
                Work::Idle => self.seal_or_break(),
                Work::Roll(answer) => drop(answer.send(self.roll_for_backup())),
                Work::Close => {
                    self.seal_or_break();
                    return;
                }
            }
            self.shared.broken.store(self.broken, Ordering::Relaxed);
        }
    }

    fn next_work(&self) -> Work {
        let wants_seal = !self.sealed && !self.broken;
        let deadline = Instant::now() + self.shared.config.seal_after;
        let mut queue = lock(&self.shared.queue);
        loop {
            if !queue.waiting.is_empty() {
                return Work::Group(take_group(&mut queue.waiting));
            }
            if let Some(answer) = queue.rolls.pop() {
                return Work::Roll(answer);
            }
            if queue.closing {
                return Work::Close;
            }
            queue.idle = true;
            let work = &self.shared.work;
            let left = deadline.saturating_duration_since(Instant::now());
            if wants_seal && left.is_zero() {
                queue.idle = false;
                return Work::Idle;
            }
            queue = if wants_seal {
                let woken = work.wait_timeout(queue, left);
                woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0
            } else {
                work.wait(queue)
                    .unwrap_or_else(|poisoned| poisoned.into_inner())
            };
            queue.idle = false;
        }
    }

    fn commit(&mut self, mut group: Vec<Pending>) {
        let started = Instant::now();
        while !group.is_empty() {
            let first_bytes = frame_bytes(group[0].payload.len());
            if let Err(error) = self.make_room(first_bytes) {
                self.answer_failed(group, &error);
                return;
            }
            let fitting = self.count_fitting(&group);
            let rest = group.split_off(fitting);
            self.commit_fitting(group);
            group = rest;
        }
        add(&self.shared.counters.busy_us, micros(started));
    }

    /// Makes sure that the segment may be written and takes a frame and a seal.
    fn make_room(&mut self, bytes: u64) -> Result<()> {
        if self.broken {
            return self.start_segment(bytes);
        }
        // A lone frame may be larger than a segment: its file grows.
        let is_empty = self.byte == SEGMENT_HEADER_BYTES;
        if is_empty || self.byte + bytes + SEAL_BYTES <= self.segment.file_bytes {
            return Ok(());
        }
        self.seal_or_break();
        self.start_unless_fresh(bytes)
    }

    fn count_fitting(&self, group: &[Pending]) -> usize {
        let mut end = self.byte;
        for (index, pending) in group.iter().enumerate() {
            end += frame_bytes(pending.payload.len());
            if index > 0 && end + SEAL_BYTES > self.segment.file_bytes {
                return index;
            }
        }
        group.len()
    }

    fn commit_fitting(&mut self, group: Vec<Pending>) {
        // L5: this thread is the only one to stamp, so that the order of stamps
        // is the order of frames; a clock set back repeats the last stamp.
        let time_ms = now_ms().max(self.time_ms);
        let mut offset = self.offset;
        let mut headers = Vec::with_capacity(group.len());
        for pending in &group {
            headers.push(
                self.header(Kind::Records, pending, offset, time_ms)
                    .encode(),
            );
            offset += u64::from(pending.count);
        }
        let mut slices = Vec::with_capacity(group.len() * 3);
        let mut bytes = 0;
        for (pending, header) in group.iter().zip(&headers) {
            let padding =
                pending.payload.len().next_multiple_of(HEADER_BYTES) - pending.payload.len();
            slices.push(IoSlice::new(header));
            slices.push(IoSlice::new(&pending.payload));
            slices.push(IoSlice::new(&ZEROS[..padding]));
            bytes += frame_bytes(pending.payload.len());
        }
        match self.write_and_sync(&mut slices) {
            Ok(()) => {
                drop(slices);
                self.byte += bytes;
                self.offset = offset;
                self.time_ms = time_ms;
                self.sealed = false;
                self.shared.advance(self.byte, self.offset);
                self.answer_durable(group, time_ms);
            }
            Err(error) => {
                drop(slices);
                self.fail(&error);
                let source = Arc::new(error);
                let topic = self.shared.topic;
                self.answer_failed(group, &LogError::SyncFailed { topic, source });
            }
        }
    }

    fn header(&self, kind: Kind, of: &Pending, first_offset: u64, time_ms: i64) -> FrameHeader {
        FrameHeader {
            kind,
            // Append refuses what is over APPEND_BYTES_MAX.
            payload_bytes: of.payload.len() as u32,
            payload_crc: of.crc,
            count: of.count,
            first_offset,
            append_time_ms: time_ms,
            // L1: everything up to the synced end is on disk by now.
            synced_bytes: self.byte,
            nonce: self.segment.nonce().unwrap_or(0),
        }
    }

    fn write_and_sync(&self, slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        disk::write_vectored_at(&self.file, slices, self.byte)?;
        let sync_started = Instant::now();
        disk::fdatasync(&self.file)?;
        add(&self.shared.counters.sync_us, micros(sync_started));
        add(&self.shared.counters.syncs, 1);
        Ok(())
    }

    /// L2: nothing behind the synced end is trusted any more.
    fn fail(&mut self, error: &io::Error) {
        add(&self.shared.counters.sync_failures, 1);
        tracing::error!(
            topic = self.shared.topic.name(),
            segment = self.segment.name(),
            byte = self.byte,
            %error,
            "write or sync failed, the journal is cut here"
        );
        self.broken = true;
        // At once, so that what is refused is gone also when no append
        // follows; if it fails too, the next append tries again.
        if let Err(error) = self.start_segment(0) {
            tracing::error!(topic = self.shared.topic.name(), %error, "no new segment");
        }
    }

    fn answer_durable(&self, group: Vec<Pending>, append_time_ms: i64) {
        let counters = &self.shared.counters;
        add(&counters.groups, 1);
        let mut first_offset =
            self.offset - group.iter().map(|it| u64::from(it.count)).sum::<u64>();
        add(&counters.appends, group.len() as u64);
        add(&counters.records, self.offset - first_offset);
        self.release_bytes(&group);
        for pending in group {
            add(&counters.payload_bytes, pending.payload.len() as u64);
            add(&counters.queued_us, micros(pending.queued_at));
            let answer = Ok(Appended {
                first_offset,
                append_time_ms,
            });
            first_offset += u64::from(pending.count);
            self.shared.spares.give(pending.payload);
            // The caller may have gone; the records stay.
            let _ = pending.answer.send(answer);
        }
    }

    fn answer_failed(&self, group: Vec<Pending>, error: &LogError) {
        self.release_bytes(&group);
        for pending in group {
            self.shared.spares.give(pending.payload);
            let _ = pending.answer.send(Err(error.clone()));
        }
    }

    fn release_bytes(&self, group: &[Pending]) {
        let bytes: usize = group.iter().map(|pending| pending.payload.len()).sum();
        lock(&self.shared.queue).bytes -= bytes;
    }

    /// Writes and syncs a seal if the last frame is none (L1).
    fn seal_or_break(&mut self) {
        if self.sealed || self.broken {
            return;
        }
        let seal = FrameHeader {
            kind: Kind::Seal,
            payload_bytes: 0,
            payload_crc: 0,
            count: 0,
            first_offset: self.offset,
            append_time_ms: self.time_ms,
            synced_bytes: self.byte,
            nonce: self.segment.nonce().unwrap_or(0),
        };
        match self.write_and_sync(&mut [IoSlice::new(&seal.encode())]) {
            Ok(()) => {
                add(&self.shared.counters.seals, 1);
                self.byte += SEAL_BYTES;
                self.sealed = true;
                self.shared.advance(self.byte, self.offset);
            }
            Err(error) => self.fail(&error),
        }
    }

    fn roll_for_backup(&mut self) -> Result<()> {
        let is_empty = self.byte == SEGMENT_HEADER_BYTES;
        if is_empty && !self.broken {
            return Ok(());
        }
        self.seal_or_break();
        self.start_unless_fresh(0)
    }

    /// A seal that failed has started the next segment already.
    fn start_unless_fresh(&mut self, bytes: u64) -> Result<()> {
        if self.byte == SEGMENT_HEADER_BYTES && !self.broken {
            return Ok(());
        }
        self.start_segment(bytes)
    }

    /// Ends the segment at the synced end and starts the next one, durably,
    /// with room for a frame of `bytes`.
    fn start_segment(&mut self, bytes: u64) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let header = SegmentHeader {
            partitions: shared.config.partitions,
            sequence: self.segment.sequence + 1,
            first_offset: self.offset,
            start_time_ms: self.time_ms,
            previous_end_bytes: self.byte,
            nonce: segment::new_nonce(),
            missing: 0,
        };
        let usual_bytes = shared.config.topic(shared.topic).segment_bytes;
        let segment_bytes = usual_bytes.max(SEGMENT_HEADER_BYTES + bytes + SEAL_BYTES);
        let (file, made) = segment::create(&shared.dir, shared.topic, &header, segment_bytes)
            .map_err(|error| self.no_segment(error))?;
        let made = Arc::new(made);
        shared.write_view(|view| {
            view.segments.push(Arc::clone(&made));
            view.end_bytes = SEGMENT_HEADER_BYTES;
        });
        if !self.keep_as_is {
            // Gives back what was preallocated. Nothing depends on it: the
            // end stands in the next header.
            let _ = disk::set_len(&self.file, self.byte);
        }
        self.file = file;
        self.segment = made;
        self.byte = SEGMENT_HEADER_BYTES;
        self.sealed = true;
        self.broken = false;
        self.keep_as_is = false;
        Ok(())
    }

    /// No space for a segment is the disk being low, whatever the last look said.
    fn no_segment(&self, error: LogError) -> LogError {
        let LogError::Io { source, .. } = &error else {
            return error;
        };
        if source.kind() == io::ErrorKind::StorageFull {
            self.shared.disk.look();
            return self.shared.disk.error();
        }
        add(&self.shared.counters.sync_failures, 1);
        LogError::SyncFailed {
            topic: self.shared.topic,
            source: Arc::clone(source),
        }
    }
}

/// The first waiting appends, up to the group's size in bytes, at least one.
fn take_group(waiting: &mut Vec<Pending>) -> Vec<Pending> {
    let mut bytes = 0;
    let mut count = 0;
    for pending in waiting.iter() {
        bytes += pending.payload.len();
        if count > 0 && bytes > GROUP_BYTES_MAX {
            break;
        }
        count += 1;
    }
    let rest = waiting.split_off(count);
    std::mem::replace(waiting, rest)
}
