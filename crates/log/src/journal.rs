//! One topic: append, read, positions of folds.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};

use crate::append::{Append, Appended};
use crate::commit::Committer;
use crate::config::{APPEND_BYTES_MAX, GROUP_BYTES_MAX};
use crate::error::{At, LogError, Result};
use crate::reader::{Extent, Extents, Reader};
use crate::recover::{front_damage, recover};
use crate::shared::{Pending, Queue, Shared, View, lock};
use crate::space::DiskGuard;
use crate::spares::Spares;
use crate::stats::{Counters, add, get};
use crate::{Chunk, Damage, JournalStats, LogConfig, Topic};
use fulmar_event::Records;

/// Readers that [`Journal::read`] keeps, each with its place: more folds than
/// this on one topic search for theirs.
const READERS_MAX: usize = 8;

/// A commit thread copies slices and keeps nothing on its stack.
const COMMIT_STACK_BYTES: usize = 256 << 10;

/// A topic's journal, shared by its partitions. Made by [`crate::Log::open`].
pub struct Journal {
    pub(crate) shared: Arc<Shared>,
    readers: Mutex<Vec<Reader>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Journal")
            .field("topic", &self.shared.topic)
            .field("end", &self.end())
            .finish_non_exhaustive()
    }
}

impl Journal {
    /// Opens a topic's folder and starts its commit thread. `synced_end` is
    /// what a second witness says of its end; 0 when there is none.
    pub(crate) fn open(
        dir: &Path,
        topic: Topic,
        config: &LogConfig,
        disk: Arc<DiskGuard>,
        synced_end: u64,
    ) -> Result<Journal> {
        let segment_bytes = config.topic(topic).segment_bytes;
        let found = recover(dir, topic, config.partitions, segment_bytes, synced_end)?;
        let segments: Vec<_> = found.segments.into_iter().map(Arc::new).collect();
        let last = Arc::clone(segments.last().expect("recover makes a first segment"));
        let view = View {
            segments,
            end_bytes: found.end_bytes,
            end_offset: found.end_offset,
        };
        let shared = Arc::new(Shared {
            topic,
            dir: dir.to_path_buf(),
            config: config.clone(),
            disk,
            queue: Mutex::new(Queue::default()),
            work: Condvar::new(),
            view: RwLock::new(view),
            end: watch::Sender::new(found.end_offset),
            end_now: Mutex::new(found.end_offset),
            end_moved: Condvar::new(),
            folds: Mutex::default(),
            accepted: RwLock::new(Arc::from([])),
            damages: Mutex::default(),
            counters: Counters::default(),
            spares: Spares::default(),
            broken: AtomicBool::new(found.must_roll),
        });
        add(&shared.counters.torn_tail_bytes, found.torn_bytes);
        if found.torn_bytes > 0 {
            let (topic, bytes) = (topic.name(), found.torn_bytes);
            tracing::warn!(topic, bytes, offset = found.end_offset, "cut a torn tail");
        }
        for damage in &found.damages {
            shared.note_damage(damage);
        }
        let committer = Committer {
            shared: Arc::clone(&shared),
            file: found.file,
            segment: last,
            byte: found.end_bytes,
            offset: found.end_offset,
            time_ms: found.last_time_ms,
            sealed: found.sealed,
            broken: found.must_roll,
            keep_as_is: found.must_roll,
        };
        let thread = std::thread::Builder::new()
            .name(format!("log-{topic}"))
            .stack_size(COMMIT_STACK_BYTES)
            .spawn(move || committer.run())
            .at(dir)?;
        Ok(Journal {
            shared,
            readers: Mutex::default(),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// The topic.
    pub fn topic(&self) -> Topic {
        self.shared.topic
    }

    /// Appends records, atomically. The future resolves once they are synced
    /// (I1); the call itself takes the time of a CRC and does no I/O but,
    /// five times a second at most, a look at the disk's free space.
    ///
    /// # Errors
    /// `DiskLow`, `Full`, `TooLarge`, `Closed` at once; `SyncFailed` later.
    pub fn append(&self, records: Records) -> Append {
        let topic = self.shared.topic;
        if records.is_empty() {
            let append_time_ms = self.last_time_ms();
            let nothing = Appended {
                first_offset: self.end(),
                append_time_ms,
            };
            return Append::ready(topic, Ok(nothing));
        }
        match self.enqueue(records) {
            Ok(answer) => Append::waiting(topic, answer),
            Err(error) => Append::ready(topic, Err(error)),
        }
    }

    /// An empty run for the next append, in the memory of one that was written.
    pub fn buffer(&self) -> Records {
        Records::reusing(self.shared.spares.take())
    }

    fn enqueue(&self, records: Records) -> Result<oneshot::Receiver<Result<Appended>>> {
        let shared = &self.shared;
        let count = records.count();
        let payload = records.into_bytes();
        if payload.len() > APPEND_BYTES_MAX {
            let (bytes, bytes_max) = (payload.len(), APPEND_BYTES_MAX);
            return Err(LogError::TooLarge { bytes, bytes_max });
        }
        if let Err(error) = shared.disk.admit(shared.topic) {
            add(&shared.counters.refused_disk_low, 1);
            return Err(error);
        }
        let crc = crc32c::crc32c(&payload);
        let (sender, answer) = oneshot::channel();
        let pending = Pending {
            payload,
            crc,
            count,
            queued_at: Instant::now(),
            answer: sender,
        };
        let wakes = {
            let mut queue = lock(&shared.queue);
            if queue.closing {
                return Err(shared.closed());
            }
            let queued_bytes = queue.bytes + pending.payload.len();
            // I7; one append alone always fits.
            if queued_bytes > shared.config.queue_bytes_max && queue.bytes > 0 {
                add(&shared.counters.refused_full, 1);
                let (topic, queued_bytes) = (shared.topic, queue.bytes);
                return Err(LogError::Full {
                    topic,
                    queued_bytes,
                });
            }
            queue.bytes = queued_bytes;
            let peak = &shared.counters.queue_bytes_peak;
            peak.fetch_max(queued_bytes as u64, Ordering::Relaxed);
            queue.waiting.push(pending);
            queue.idle
        };
        if wakes {
            shared.work.notify_one();
        }
        Ok(answer)
    }

    /// Appends and waits on this thread; not for an async runtime.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn append_blocking(&self, records: Records) -> Result<Appended> {
        self.append(records).wait()
    }

    /// Appends records in as many runs as their bytes need, each atomically, and waits on this
    /// thread until all are synced.
    ///
    /// # Errors
    /// As [`Journal::append`]; the runs before the one that failed are there.
    pub fn append_all_blocking(&self, records: Records) -> Result<()> {
        if records.bytes().len() <= GROUP_BYTES_MAX {
            return self.append_blocking(records).map(|_| ());
        }
        let mut run = Records::new();
        for record in records.iter() {
            let record = record.expect("a run is of whole records");
            run.push(record.partition, record.bytes);
            if run.bytes().len() >= GROUP_BYTES_MAX {
                self.append_blocking(std::mem::take(&mut run))?;
            }
        }
        self.append_blocking(run).map(|_| ())
    }

    fn last_time_ms(&self) -> i64 {
        self.shared.read_view(|view| {
            let header = view.segments.last().and_then(|segment| segment.header);
            header.map_or(i64::MIN, |header| header.start_time_ms)
        })
    }

    /// First offset held.
    pub fn start(&self) -> u64 {
        self.shared.read_view(View::start)
    }

    /// One past the last synced offset.
    pub fn end(&self) -> u64 {
        self.shared.read_view(|view| view.end_offset)
    }

    /// Changes with every group that was synced.
    pub fn watch_end(&self) -> watch::Receiver<u64> {
        self.shared.end.subscribe()
    }

    /// Blocks until the end is past `position` or the time is over; gives the
    /// end.
    pub fn wait_end(&self, position: u64, timeout: Duration) -> u64 {
        self.shared.wait_end(position, timeout)
    }

    /// A reader with a place of its own, for whoever reads on and on.
    pub fn reader(&self, from: u64) -> Reader {
        let source: Arc<dyn Extents> = self.shared.clone();
        Reader::new(source, from)
    }

    /// Reads whole frames from an offset on, about `bytes_max` bytes of
    /// payload, at least one frame; `None` at the synced end. Going on at the
    /// end of an earlier chunk is cheap.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn read(&self, from: u64, bytes_max: usize) -> Result<Option<Chunk>> {
        let kept = {
            let mut readers = lock(&self.readers);
            let found = readers.iter().position(|reader| reader.is_near(from));
            found.map(|index| readers.swap_remove(index))
        };
        let mut reader = kept.unwrap_or_else(|| self.reader(from));
        reader.seek(from);
        let chunk = reader.next(bytes_max)?;
        let mut readers = lock(&self.readers);
        if readers.len() >= READERS_MAX {
            readers.remove(0);
        }
        readers.push(reader);
        Ok(chunk)
    }

    /// A fold needs nothing before `position` any more (L3). Its first call
    /// makes retention wait for it from then on; a position before the start
    /// tells that the first segments are gone, which retention never does.
    pub fn release(&self, fold: &str, position: u64) {
        let is_new = {
            let mut folds = lock(&self.shared.folds);
            folds.insert(fold.to_owned(), position).is_none()
        };
        if is_new {
            let front = self.shared.read_view(|view| {
                let first = view.segments.first().map(|first| first.as_ref());
                front_damage(self.topic(), first, position)
            });
            front
                .iter()
                .for_each(|front| self.shared.note_damage(front));
        }
    }

    /// A fold is no more; retention does not wait for it.
    pub fn forget(&self, fold: &str) {
        lock(&self.shared.folds).remove(fold);
    }

    /// Ends the current segment, unless it is empty, and gives the files of
    /// all ended segments, oldest first: they never change again. Blocks for
    /// a few syncs.
    ///
    /// # Errors
    /// `Closed`, `DiskLow`, `SyncFailed`.
    pub fn roll(&self) -> Result<Vec<PathBuf>> {
        let (sender, answer) = oneshot::channel();
        {
            let mut queue = lock(&self.shared.queue);
            if queue.closing {
                return Err(self.shared.closed());
            }
            queue.rolls.push(sender);
        }
        self.shared.work.notify_one();
        answer.blocking_recv().map_err(|_| self.shared.closed())??;
        Ok(self.shared.read_view(|view| {
            let ended = view.segments.len().saturating_sub(1);
            view.segments[..ended]
                .iter()
                .map(|segment| segment.path.clone())
                .collect()
        }))
    }

    /// Writes what waits, seals, ends the thread. Later appends are `Closed`.
    pub(crate) fn close(&self) {
        lock(&self.shared.queue).closing = true;
        self.shared.work.notify_one();
        if let Some(thread) = lock(&self.thread).take() {
            // A panic of the thread has been printed; there is nothing to save.
            let _ = thread.join();
        }
    }

    /// Figures.
    pub fn stats(&self) -> JournalStats {
        self.shared.stats()
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.close();
    }
}

impl Extents for Shared {
    fn topic(&self) -> Topic {
        self.topic
    }

    fn find(&self, offset: u64) -> Result<Option<Extent>> {
        self.read_view(|view| view.find(self.topic, offset))
    }

    fn accepted(&self) -> Arc<[Range<u64>]> {
        Shared::accepted(self)
    }

    fn note_damage(&self, damage: &Damage) {
        Shared::note_damage(self, damage);
    }
}

impl Shared {
    fn stats(&self) -> JournalStats {
        let counters = &self.counters;
        let (queue_bytes, queue_appends) = {
            let queue = lock(&self.queue);
            (queue.bytes as u64, queue.waiting.len() as u64)
        };
        let (start, end, segments, bytes, oldest) = self.read_view(|view| {
            let oldest = view.segments.first().and_then(|segment| segment.header);
            (
                view.start(),
                view.end_offset,
                view.segments.len(),
                view.bytes(),
                oldest,
            )
        });
        JournalStats {
            topic: self.topic,
            start,
            end,
            segments: segments as u64,
            bytes,
            oldest_time_ms: oldest
                .map(|it| it.start_time_ms)
                .filter(|&time| time != i64::MIN),
            torn_tail_bytes: get(&counters.torn_tail_bytes),
            damages: lock(&self.damages).clone(),
            segments_verified: get(&counters.segments_verified),
            appends: get(&counters.appends),
            records: get(&counters.records),
            payload_bytes: get(&counters.payload_bytes),
            groups: get(&counters.groups),
            syncs: get(&counters.syncs),
            sync_failures: get(&counters.sync_failures),
            seals: get(&counters.seals),
            busy_us: get(&counters.busy_us),
            sync_us: get(&counters.sync_us),
            wait_us: get(&counters.wait_us),
            queued_us: get(&counters.queued_us),
            queue_bytes,
            queue_appends,
            queue_bytes_peak: get(&counters.queue_bytes_peak),
            refused_full: get(&counters.refused_full),
            refused_disk_low: get(&counters.refused_disk_low),
            segments_expired: get(&counters.segments_expired),
            segments_expired_early: get(&counters.segments_expired_early),
            broken: self.broken.load(Ordering::Relaxed),
        }
    }
}
