//! The sender's thread: one loop over what has happened.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fulmar_flow::repeats::Repeats;
use fulmar_registry::WebhookState;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::again::Again;
use super::breaker::Breaker;
use super::checkpoint::Pending;
use super::delivery::{Delivery, DeliveryId};
use super::dispatch::Ended;
use super::fan_out::FanOut;
use super::lane::{Lane, LaneState, Ring};
use super::loading::{LoadError, Loaded};
use super::outcomes::Outcomes;
use super::rate::Rate;
use super::receiver::Receivers;
use super::sooner::{Fetched, Sooner};
use super::window::Window;
use super::{Command, Counts, SenderError, SenderParts, SenderStats, recover};
use crate::client::{Client, SystemResolver, Trust};

/// Between two checkpoints.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);
/// The same while something waits for its retry, which starts from disk.
const CHECKPOINT_SOON: Duration = Duration::from_millis(200);
/// Between two looks at idle connections.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// Longest sleep: nothing that matters is missed by more.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// What happened on this thread or for it.
pub(super) enum Note {
    Ended(Ended),
    Appended(Result<(), fulmar_log::LogError>),
    Loaded(usize, Result<Loaded, LoadError>),
    /// One that somebody wants now.
    Fetched(usize, Fetched, oneshot::Sender<bool>),
    /// The checkpoint is on disk; the index of repeats comes back.
    Committed(Box<Repeats>),
    /// The registry could not note that a webhook is disabled.
    NotDisabled(usize),
}

/// All that the thread knows.
pub(super) struct Share {
    pub parts: SenderParts,
    pub lanes: Vec<Lane>,
    pub by_webhook: HashMap<Rc<str>, usize>,
    pub ring: Ring,
    /// When lanes are to be looked at, ms since the epoch.
    pub timers: BinaryHeap<Reverse<(i64, usize)>>,
    pub memory: HashMap<DeliveryId, Rc<Delivery>>,
    /// Bytes of their events.
    pub held_bytes: Arc<AtomicUsize>,
    pub receivers: Receivers,
    pub client: Rc<Client>,
    pub in_flight: usize,
    pub window: Window,
    /// Of exchanges that ended.
    pub rate: Rate,
    pub outcomes: Outcomes,
    pub fan_out: FanOut,
    pub pending: Pending,
    pub counts: Counts,
    pub attempts: BTreeMap<&'static str, u64>,
    pub loading: usize,
    /// Lanes that want to load once the checkpoint is over.
    pub want_load: Vec<usize>,
    pub notes: mpsc::UnboundedSender<Note>,
    pub stopping: bool,
    pub trouble: Option<String>,
    pub began: Instant,
    pub last_checkpoint: Instant,
    pub asked: Vec<oneshot::Sender<()>>,
    /// What is to be sent again.
    pub again: VecDeque<Again>,
    /// What waits for its next attempt, and is wanted now.
    pub sooner: Vec<Sooner>,
    /// Shared by each trial under way.
    pub trials: Rc<()>,
    /// Those that were taken up again and have not ended.
    pub open_again: HashSet<DeliveryId>,
    /// Where `deliveries` ended at the start.
    pub recovered_to: u64,
    pub stats: Arc<Mutex<SenderStats>>,
}

/// Runs a share to its end.
pub(super) fn run(
    parts: SenderParts,
    commands: mpsc::UnboundedReceiver<Command>,
    stats: Arc<Mutex<SenderStats>>,
    started: &SyncSender<Result<(), SenderError>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(8)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = started.send(Err(error.into()));
            return;
        }
    };
    let run = async {
        let (notes, noted) = mpsc::unbounded_channel();
        match recover::recover(parts, notes, stats) {
            Ok(share) => {
                let _ = started.send(Ok(()));
                share.go_on(commands, noted).await;
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        }
    };
    LocalSet::new().block_on(&runtime, run);
}

/// The client of a sender.
pub(super) fn client(parts: &SenderParts) -> Rc<Client> {
    let guard = parts.guard.clone();
    Rc::new(Client::new(
        guard,
        Rc::new(SystemResolver),
        Trust::of_system(),
    ))
}

/// Milliseconds since the epoch.
pub(super) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

impl Share {
    async fn go_on(
        mut self,
        mut commands: mpsc::UnboundedReceiver<Command>,
        mut noted: mpsc::UnboundedReceiver<Note>,
    ) {
        let mut end = self.parts.events.watch_end();
        let mut revision = self.parts.registry.watch_revision();
        let mut swept = Instant::now();
        let mut stop_at = None;
        loop {
            if stop_at.is_some_and(|at| self.is_done() || Instant::now() >= at) {
                break;
            }
            let wake = self.next_wake();
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(Command::Checkpoint(done)) => self.asked.push(done),
                    Some(Command::Again(again)) => self.again.push_back(again),
                    Some(Command::Sooner(sooner)) => self.sooner.push(sooner),
                    Some(Command::Try(trial)) => self.try_out(*trial),
                    Some(Command::Stop) | None => {
                        self.stopping = true;
                        stop_at.get_or_insert(Instant::now() + self.parts.config.stop_time_max);
                    }
                },
                changed = revision.changed() => {
                    if changed.is_ok() {
                        self.renew();
                    }
                }
                note = noted.recv() => {
                    let mut next = note;
                    while let Some(note) = next {
                        self.note(note);
                        next = noted.try_recv().ok();
                    }
                }
                _ = end.changed(), if self.reads_at_once() => {}
                () = tokio::time::sleep_until(wake) => {}
            }
            self.turn();
            if swept.elapsed() >= SWEEP_EVERY {
                self.client.sweep();
                swept = Instant::now();
            }
        }
        self.end(&mut noted).await;
    }

    /// All that can be done now.
    fn turn(&mut self) {
        let now_ms = now_ms();
        if !self.stopping {
            self.read_on();
            self.fire_timers(now_ms);
            self.take_up();
            self.send_sooner();
            self.dispatch(now_ms);
        }
        self.append_outcomes();
        if self.checkpoint_is_due() {
            self.begin_checkpoint();
        }
    }

    fn note(&mut self, note: Note) {
        match note {
            Note::Ended(ended) => self.ended(ended),
            Note::Appended(appended) => self.appended(appended),
            Note::Loaded(lane, loaded) => self.loaded(lane, loaded),
            Note::Fetched(lane, fetched, taken) => self.fetched(lane, fetched, taken),
            Note::Committed(repeats) => self.committed(*repeats),
            Note::NotDisabled(lane) => self.refresh(lane),
        }
    }

    fn next_wake(&self) -> Instant {
        let now = Instant::now();
        let mut wake = now + SLEEP_MAX;
        if let Some(Reverse((at_ms, _))) = self.timers.peek() {
            let wait_ms = u64::try_from(at_ms - now_ms()).unwrap_or(0);
            wake = wake.min(now + Duration::from_millis(wait_ms));
        }
        if !self.pending.is_committing() && self.loading == 0 {
            wake = wake.min((self.last_checkpoint + self.checkpoint_every()).max(now));
        }
        if let Some(due) = self.outcomes.due() {
            wake = wake.min(due.max(now));
        }
        match self.fan_out.next_read {
            Some(at) if !self.stopping && !self.pending.is_over_full() => wake.min(at),
            _ => wake,
        }
    }

    fn checkpoint_every(&self) -> Duration {
        match self.pending.has_waiting() || self.stopping {
            true => CHECKPOINT_SOON,
            false => CHECKPOINT_EVERY,
        }
    }

    fn checkpoint_is_due(&self) -> bool {
        let asked = !self.asked.is_empty() || self.pending.is_full();
        let due = asked || self.last_checkpoint.elapsed() >= self.checkpoint_every();
        due && !self.pending.is_committing() && self.loading == 0
    }

    /// Whether nothing is under way that a stop waits for.
    fn is_done(&self) -> bool {
        self.in_flight == 0 && self.outcomes.is_empty()
    }

    /// Goes on with the registry as it is now.
    fn renew(&mut self) {
        self.receivers.renew(self.parts.registry.current());
        for lane in 0..self.lanes.len() {
            self.refresh(lane);
        }
    }

    /// Takes over what the registry says of a lane's webhook.
    pub fn refresh(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        let state = self.receivers.state();
        let was = lane.state;
        match state.webhooks.get(&*lane.webhook) {
            None => lane.state = LaneState::Gone,
            Some(webhook) => {
                lane.state = match webhook.state {
                    WebhookState::Active => LaneState::Active,
                    WebhookState::Paused | WebhookState::Disabled { .. } => LaneState::Held,
                };
                let own = webhook.in_flight_max;
                lane.in_flight_max = own.unwrap_or(self.parts.config.in_flight_per_webhook);
                let rate = webhook.rate_limit_rps.map(u64::from);
                lane.interval_ns = rate.map_or(0, |rate| 1_000_000_000 / rate.max(1));
                // Who changes a webhook may have mended it.
                if webhook.updated_ms != lane.updated_ms {
                    lane.updated_ms = webhook.updated_ms;
                    lane.breaker = Breaker::default();
                }
            }
        }
        match lane.state {
            LaneState::Held => self.hold(index),
            state if state != was => self.look_at(index),
            _ => self.enqueue(index),
        }
    }

    /// The lane of a webhook, new if it must be.
    pub fn lane_of(&mut self, webhook: &str, of: (&str, &str)) -> usize {
        if let Some(lane) = self.by_webhook.get(webhook) {
            return *lane;
        }
        let known = self.receivers.state().webhooks.get(webhook);
        let (project, consumer) = known.map_or(of, |one| (&*one.project, &*one.consumer));
        let backlog = self.parts.backlogs.of(project);
        let lane = Lane::new(webhook, (project, consumer), backlog);
        let index = self.lanes.len();
        self.by_webhook.insert(Rc::clone(&lane.webhook), index);
        self.lanes.push(lane);
        self.refresh(index);
        index
    }

    /// Looks at a lane at a time, or before: each look sets the next one.
    pub fn set_timer(&mut self, at_ms: i64, lane: usize) {
        if at_ms < self.lanes[lane].timer_ms {
            self.lanes[lane].timer_ms = at_ms;
            self.timers.push(Reverse((at_ms, lane)));
        }
    }

    fn fire_timers(&mut self, now_ms: i64) {
        while let Some(Reverse((at_ms, lane))) = self.timers.peek().copied()
            && at_ms <= now_ms
        {
            self.timers.pop();
            if self.lanes[lane].timer_ms == at_ms {
                self.lanes[lane].timer_ms = i64::MAX;
                self.look_at(lane);
            }
        }
    }

    /// A last checkpoint, once what was begun has ended.
    async fn end(mut self, noted: &mut mpsc::UnboundedReceiver<Note>) {
        while self.loading > 0 || self.pending.is_committing() {
            match noted.recv().await {
                Some(note) => self.note(note),
                None => return,
            }
        }
        self.begin_checkpoint();
        while self.pending.is_committing() {
            match noted.recv().await {
                Some(note) => self.note(note),
                None => return,
            }
        }
    }
}
