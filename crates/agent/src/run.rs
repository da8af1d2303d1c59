//! The whole sender: readers, batcher, spool and door, wired and ended.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::header::HeaderValue;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::backoff::Backoff;
use crate::batch::{Batcher, OpenBatch, ReadCounts};
use crate::deliver::{AnyDoor, Deliverer, Stop};
use crate::door::agents::AgentsDoor;
use crate::door::events::EventsDoor;
use crate::door::http::Client;
use crate::door::{Seen, tls};
use crate::error::SendError;
use crate::identity;
use crate::options::{Door, Format, SendOptions, Source, Summary};
use crate::parse::Parser;
use crate::place;
use crate::progress::Progress;
use crate::read::{Chunk, Job, Reader, newest_time};
use crate::receipts::Receipts;
use crate::spool::Spool;

/// Chunks between readers and batcher: a read of 64 KiB each, so that parsing
/// and writing overlap (I7).
const CHUNKS_MAX: usize = 8;

/// How long an answer that is under way is waited for after an interrupt.
const GRACE: Duration = Duration::from_secs(5);

type Chunks = Receiver<Result<Chunk, SendError>>;

/// Sends what `options` name until the sources end (never, when followed) or
/// `interrupt` resolves. What was read and not acknowledged by then stays in
/// the spool for the next run with the same options.
pub async fn run(
    options: SendOptions,
    interrupt: impl Future<Output = ()>,
) -> Result<Summary, SendError> {
    check(&options)?;
    let zone = zone(&options)?;
    let dir = place::spool_folder(&options)?;
    let spool = Arc::new(Spool::open(&dir, options.spool_bytes_max)?);
    let jobs = jobs(&options, &spool, &zone)?;
    let receipts = options
        .receipts
        .as_deref()
        .map(Receipts::open)
        .transpose()?;
    let counts = Arc::new(ReadCounts::default());
    let stop = Stop::default();
    let progress = Progress::new(Arc::clone(&counts), options.quiet);
    let _stop_on_drop = StopOnDrop(stop.clone());
    let (door, fallback) = door(&options)?;
    let backoff = Backoff::new(options.retry_wait_max);
    let mut deliverer = Deliverer::new(door, receipts, fallback, stop.clone(), backoff, progress);

    let chunks = start_readers(&options, jobs, &zone, &stop)?;
    let batcher = Batcher {
        spool: Arc::clone(&spool),
        limits: options.limits,
        counts: Arc::clone(&counts),
        stop: Arc::clone(&stop.flag),
        open: OpenBatch::default(),
    };
    let batching = start_thread("fulmar-batcher", move || batcher.run(chunks))?;

    let sent = send_all(&spool, &mut deliverer, &stop, interrupt).await;
    stop.set();
    let read = join(batching).await;
    let mut summary = deliverer.summary.clone();
    summary.skipped = counts.skipped.load(Ordering::Relaxed);
    summary.bytes = counts.bytes.load(Ordering::Relaxed);
    summary.pending = spool.pending_events();
    summary.interrupted = !sent?;
    read?;
    if !summary.interrupted && !options.follow && summary.pending == 0 {
        // The work is done: the same command sends the same file again.
        spool.clear()?;
    }
    Ok(summary)
}

/// Ends the threads when the future is dropped half-way.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Takes entries off the spool; true at its end, false on interrupt.
async fn send_all(
    spool: &Spool,
    deliverer: &mut Deliverer,
    stop: &Stop,
    interrupt: impl Future<Output = ()>,
) -> Result<bool, SendError> {
    let sending = async {
        while let Some((sequence, entry)) = spool.next().await? {
            if stop.is_set() || !deliverer.deliver(entry.items).await? {
                return Ok(false);
            }
            spool.free(sequence, entry.positions)?;
        }
        Ok(!stop.is_set())
    };
    let interrupted = async {
        interrupt.await;
        stop.set();
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        result = sending => result,
        () = interrupted => Ok(false),
    }
}

/// What the command line could not rule out.
fn check(options: &SendOptions) -> Result<(), SendError> {
    let usage = |text: &str| Err(SendError::Usage(text.to_owned()));
    let stdin = options.sources.contains(&Source::Stdin);
    if options.sources.is_empty() {
        return usage("no file to send");
    }
    if options.rebase && (stdin || options.follow) {
        return usage("--rebase reads twice: it takes neither - nor --follow");
    }
    if stdin && options.sources.len() > 1 {
        return usage("- stands alone");
    }
    if Parser::new(options.door, options.format, TimeZone::UTC).is_none() {
        return Err(SendError::Usage(format!(
            "the {} door takes no {}",
            options.door.as_str(),
            options.format.as_str(),
        )));
    }
    let limits = &options.limits;
    if limits.events_max == 0 || limits.bytes_max == 0 {
        return usage("a batch holds at least one event");
    }
    Ok(())
}

fn zone(options: &SendOptions) -> Result<TimeZone, SendError> {
    match &options.timezone {
        None => Ok(TimeZone::system()),
        Some(name) => TimeZone::get(name)
            .map_err(|error| SendError::Usage(format!("time zone {name}: {error}"))),
    }
}

fn parser(options: &SendOptions, zone: &TimeZone) -> Parser {
    Parser::new(options.door, options.format, zone.clone()).expect("checked at the start")
}

fn jobs(options: &SendOptions, spool: &Spool, zone: &TimeZone) -> Result<Vec<Job>, SendError> {
    let saved = spool.saved();
    let mut jobs = Vec::new();
    for source in &options.sources {
        let (path, key) = match source {
            Source::Stdin => (None, "stdin".to_owned()),
            Source::File(path) => (Some(path.clone()), place::canonical(path)?),
        };
        jobs.push(Job {
            path,
            name: options.source_name.clone().unwrap_or_else(|| key.clone()),
            resume: saved
                .positions
                .iter()
                .find(|position| position.path == key)
                .cloned(),
            key,
            follow: options.follow,
            shift: SignedDuration::ZERO,
        });
    }
    if options.rebase {
        let shift = match saved.shift_ns {
            Some(shift_ns) => SignedDuration::from_nanos(shift_ns),
            None => shift(options, &jobs, zone)?,
        };
        spool.save_shift(i64::try_from(shift.as_nanos()).unwrap_or(0))?;
        for job in &mut jobs {
            job.shift = shift;
        }
    }
    Ok(jobs)
}

/// How far the newest line of all files is from now.
fn shift(
    options: &SendOptions,
    jobs: &[Job],
    zone: &TimeZone,
) -> Result<SignedDuration, SendError> {
    let now = Timestamp::now();
    let mut newest = None;
    for job in jobs {
        newest = newest.max(newest_time(job, parser(options, zone), now)?);
    }
    Ok(newest.map_or(SignedDuration::ZERO, |newest: Timestamp| {
        now.duration_since(newest)
    }))
}

fn door(options: &SendOptions) -> Result<(AnyDoor, Seen), SendError> {
    let client = Client::new(options.address.clone(), options.door);
    let mut fallback = Seen {
        project: options.project.clone(),
        source: options.agent.clone(),
    };
    let credentials = &options.credentials;
    match options.door {
        Door::Agents => {
            let Some(files) = credentials.certificate.clone() else {
                return Err(SendError::Usage(
                    "the agents door needs a certificate".to_owned(),
                ));
            };
            // Faults of these files are told before anything is read.
            tls::agent_config(&files)?;
            let leaf = tls::certificates(&files.certificate)?;
            let named = leaf.first().and_then(|leaf| identity::common_name(leaf));
            fallback.source = named.or(fallback.source);
            Ok((AnyDoor::Agents(AgentsDoor::new(client, files)), fallback))
        }
        Door::Events | Door::Track => {
            let Some(key) = &credentials.api_key else {
                let door = options.door.as_str();
                return Err(SendError::Usage(format!("the {door} door needs a key")));
            };
            let key = key.trim();
            let (path, value) = match (options.door, options.format) {
                (Door::Track, Format::Combined) => ("/import/events", basic(key)),
                (Door::Track, _) => ("/track/batch", basic(key)),
                _ => ("/v1/events", format!("Bearer {key}")),
            };
            let mut authorization = HeaderValue::try_from(value)
                .map_err(|_| SendError::Usage("the key holds control characters".to_owned()))?;
            authorization.set_sensitive(true);
            if let Some(authorities) = &credentials.authorities {
                tls::anonymous_config(authorities)?;
            }
            let authorities = credentials.authorities.clone();
            Ok((
                AnyDoor::Events(EventsDoor::new(client, path, authorization, authorities)),
                fallback,
            ))
        }
    }
}

/// A client's id and secret, as RFC 7617 has them.
fn basic(key: &str) -> String {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(key);
    format!("Basic {encoded}")
}

/// Followed sources are read side by side, others one after the other.
fn start_readers(
    options: &SendOptions,
    jobs: Vec<Job>,
    zone: &TimeZone,
    stop: &Stop,
) -> Result<Chunks, SendError> {
    let (sink, chunks) = sync_channel(CHUNKS_MAX);
    let mut readers = Vec::new();
    for job in jobs {
        let parser = parser(options, zone);
        readers.push(Reader {
            job,
            parser,
            sink: sink.clone(),
            stop: Arc::clone(&stop.flag),
        });
    }
    if options.follow {
        for reader in readers {
            start_thread("fulmar-reader", move || reader.run())?;
        }
    } else {
        start_thread("fulmar-reader", move || {
            readers.into_iter().for_each(Reader::run)
        })?;
    }
    Ok(chunks)
}

fn start_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, SendError> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder
        .spawn(work)
        .map_err(|e| SendError::file("start a thread for", PathBuf::from(name), e))
}

/// Waits for a thread without holding up the runtime.
async fn join<T: Send + 'static>(thread: JoinHandle<T>) -> T {
    let joined = tokio::task::spawn_blocking(move || thread.join()).await;
    match joined.expect("the waiting task is not cancelled") {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// The name that ids of `path` are made from by default.
pub fn default_source_name(path: &Path) -> Result<String, SendError> {
    place::canonical(path)
}
