//! The fold: which session an event belongs to, when sessions start, end and are forgotten.
//!
//! Spec: sessions last until their device was silent for the time-out, in event time; the log's
//! time closes what no event closes. A late event is judged against its device's newest (S1).

mod forget;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use fulmar_event::{EventView, SessionId, TrackView, session_id, session_id_of_record};

use crate::codec::{self, StateFault};
use crate::due::{DueQueue, Ticket};
use crate::interner::Interner;
use crate::live::LiveView;
use crate::session::{At, Placed, Session, SessionView};

/// How far an event's time counts ahead of the log's when a session is kept open: doors admit
/// no more, so that no clock can hold a session for longer.
const AHEAD_MAX_MS: i64 = 60_000;

/// The numbers of the algorithm, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionRules {
    /// Silence that ends a session.
    pub timeout_ms: i64,
    /// How far behind its device's newest event a late one still belongs to a session.
    pub late_ms: i64,
}

impl Default for SessionRules {
    /// 30 minutes, 15 minutes.
    fn default() -> Self {
        Self {
            timeout_ms: 30 * 60_000,
            late_ms: 15 * 60_000,
        }
    }
}

/// One product event and its place in the log.
#[derive(Clone, Copy, Debug)]
pub struct Feed<'a> {
    /// The event.
    pub event: &'a EventView<'a>,
    /// Its payload.
    pub track: &'a TrackView<'a>,
    /// Its time, ms since the epoch.
    pub time_ms: i64,
    /// The record's partition.
    pub partition: u16,
    /// The record's offset.
    pub offset: u64,
    /// The log's time: when the record was appended.
    pub log_ms: i64,
}

/// What the fold gives out. Everything borrows from the fold and the event.
pub trait Rows {
    /// A session ended: the row `session_end`. Comes before the event that ended it.
    fn ended(&mut self, session: &SessionView<'_>);
    /// The event in hand starts a session: the row `session_start`.
    fn started(&mut self, session: &SessionView<'_>);
    /// The event in hand names another profile than its session had.
    fn identified(&mut self, session: &SessionView<'_>);
    /// Where the event in hand belongs.
    fn placed(&mut self, placed: &Placed<'_>);
    /// A session as the block leaves it: a row of `sessions`.
    fn session(&mut self, session: &SessionView<'_>);
}

/// 128 bits of a device's name, by keys that no producer knows: at a billion devices the chance
/// that two share them is below 1e-20.
type DeviceHash = [u64; 2];

/// The sessions of all devices of one stream of the log.
pub struct SessionFold {
    rules: SessionRules,
    texts: Interner,
    sessions: Vec<Option<Session>>,
    free: Vec<u32>,
    lives: u32,
    /// The place of each device's latest session in memory.
    devices: HashMap<DeviceHash, u32>,
    hashers: [RandomState; 2],
    due: DueQueue,
    /// The log's time.
    now_ms: i64,
    /// Places of sessions that changed in the block in hand.
    changed: Vec<u32>,
    /// Devices whose committed value the block in hand changes, with their keys.
    touched: HashMap<DeviceHash, Vec<u8>>,
    committed_ms: i64,
}

impl SessionFold {
    /// A fold without sessions.
    pub fn new(rules: SessionRules) -> Self {
        Self {
            rules,
            texts: Interner::default(),
            sessions: Vec::new(),
            free: Vec::new(),
            lives: 0,
            devices: HashMap::new(),
            hashers: [RandomState::new(), RandomState::new()],
            due: DueQueue::new(),
            now_ms: i64::MIN,
            changed: Vec::new(),
            touched: HashMap::new(),
            committed_ms: i64::MIN,
        }
    }

    /// Takes up a committed value of a device.
    ///
    /// # Errors
    /// When it is of another build or damaged.
    pub fn load(&mut self, value: &[u8]) -> Result<(), StateFault> {
        let mut found = Vec::new();
        codec::read(value, &mut self.texts, |session| found.push(session))?;
        for session in found {
            let device = self.hash(self.texts.text(session.project), session.device());
            self.now_ms = self.now_ms.max(session.touched_ms);
            self.insert(device, session);
        }
        self.committed_ms = self.now_ms;
        Ok(())
    }

    /// The device that a key of the state names.
    pub fn device_of_key(key: &[u8]) -> &[u8] {
        codec::names(key).map_or(key, |(_, device)| device.as_bytes())
    }

    /// Begins a block. What an earlier try of it changed and did not commit is undone: `get`
    /// gives the committed value of a key.
    ///
    /// # Errors
    /// Those of `get`, and as [`SessionFold::load`].
    pub fn begin<E: From<StateFault>>(
        &mut self,
        mut get: impl FnMut(&[u8]) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<(), E> {
        self.changed.clear();
        let committed_ms = self.committed_ms;
        for (device, key) in std::mem::take(&mut self.touched) {
            while let Some(&place) = self.devices.get(&device) {
                self.remove(device, place);
            }
            if let Some(value) = get(&key)? {
                self.load(&value)?;
            }
        }
        (self.now_ms, self.committed_ms) = (committed_ms, committed_ms);
        Ok(())
    }

    /// Takes an event. The log's time goes on to that of its record first.
    pub fn event(&mut self, feed: &Feed<'_>, rows: &mut impl Rows) {
        self.advance(feed.log_ms, rows);
        let track = feed.track;
        let outside = Placed {
            session_id: "",
            device_id: track.device_id,
            referrer: track.referrer,
            referrer_name: track.referrer_name,
            referrer_type: track.referrer_type,
        };
        if track.device_id.is_empty() {
            return rows.placed(&outside);
        }
        let device = self.hash(feed.event.stamp.project, track.device_id);
        let newest_ms = self.of_device(device).map(|(_, s)| s.ended_ms).max();
        let bound_ms = newest_ms.map(|newest_ms| newest_ms.saturating_sub(self.rules.late_ms));
        if bound_ms.is_some_and(|bound_ms| feed.time_ms < bound_ms) {
            return rows.placed(&outside);
        }
        let holding = self.holding(device, feed.time_ms);
        let place = match holding {
            // A server's event joins a live session and starts none.
            _ if track.is_server && !holding.is_some_and(|place| self.is_open(place)) => {
                return rows.placed(&outside);
            }
            Some(place) => place,
            None => self.start(device, feed, rows),
        };
        self.touch(device, place);
        let at = at(feed);
        let session = self.sessions[place as usize].as_mut().expect(HERE);
        let another = session.take((feed.event, track), feed.time_ms, at, &mut self.texts);
        if session.events + session.screen_views == 1 {
            rows.started(&session.view(&self.texts));
        } else if another {
            rows.identified(&session.view(&self.texts));
        }
        rows.placed(&session.placed(track, &self.texts));
    }

    /// Lets the log's time go on, by a record without a product event or a tick (F2): what was
    /// due before it is done.
    pub fn advance(&mut self, log_ms: i64, rows: &mut impl Rows) {
        if log_ms <= self.now_ms {
            return;
        }
        self.now_ms = log_ms;
        let rules = self.rules;
        loop {
            let sessions = &self.sessions;
            let due = |ticket: Ticket| due_ms(sessions, ticket, &rules);
            let Some(ticket) = self.due.next(log_ms, due) else {
                return;
            };
            let session = self.sessions[ticket.place as usize].as_ref().expect(HERE);
            let device = self.hash(self.texts.text(session.project), session.device());
            if session.closed {
                self.forget(device, ticket.place, rows);
            } else {
                self.close(device, ticket.place, rows);
            }
        }
    }

    /// Ends a block: a row for each session that it changed, the last of its versions.
    pub fn finish_block(&mut self, rows: &mut impl Rows) {
        for place in std::mem::take(&mut self.changed) {
            if let Some(session) = self.sessions[place as usize].as_mut()
                && std::mem::take(&mut session.changed)
            {
                rows.session(&session.view(&self.texts));
            }
        }
    }

    /// The values that the block changes, for its batch: key, and value or none to delete.
    pub fn changes(&self, mut each: impl FnMut(&[u8], Option<&[u8]>)) {
        let mut value = Vec::new();
        for (device, key) in &self.touched {
            codec::begin(&mut value);
            let mut any = false;
            // The latest last, so that it is first again when it is taken up.
            let mut sessions: Vec<&Session> = self.of_device(*device).map(|(_, s)| s).collect();
            sessions.reverse();
            for session in sessions {
                codec::write(session, &self.texts, &mut value);
                any = true;
            }
            each(key, any.then_some(&value[..]));
        }
    }

    /// The block's batch is committed; `live` is shown what it changed.
    pub fn committed(&mut self, live: Option<&LiveView>) {
        for (device, key) in live.iter().flat_map(|_| &self.touched) {
            if let (Some(live), Some((project, name))) = (live, codec::names(key)) {
                live.put(project, name, self.open_of(*device));
            }
        }
        self.touched.clear();
        self.committed_ms = self.now_ms;
        let (sessions, rules) = (&self.sessions, self.rules);
        self.due.settle(|ticket| due_ms(sessions, ticket, &rules));
    }

    /// The log's time at which something is to be done without any event (F2); none when nothing
    /// is open.
    pub fn next_due_ms(&self) -> Option<i64> {
        Some(self.due.earliest_ms()?.saturating_add(1))
    }

    /// Sessions in memory: open ones, and closed ones that late events may still correct.
    pub fn len(&self) -> usize {
        self.sessions.len() - self.free.len()
    }

    /// Whether there is no session in memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn hash(&self, project: &str, device: &str) -> DeviceHash {
        let [first, second] = &self.hashers;
        [
            first.hash_one((project, device)),
            second.hash_one((project, device)),
        ]
    }

    /// A device's sessions, the one that started last in the log first.
    fn of_device(&self, device: DeviceHash) -> impl Iterator<Item = (u32, &Session)> {
        let mut next = self.devices.get(&device).copied();
        std::iter::from_fn(move || {
            let place = next?;
            let session = self.sessions[place as usize].as_ref().expect(HERE);
            next = session.earlier;
            Some((place, session))
        })
    }

    /// The session that a time belongs to: the earliest that it is no more than a time-out away
    /// from (S1). At exactly the time-out it still belongs.
    fn holding(&self, device: DeviceHash, time_ms: i64) -> Option<u32> {
        let timeout_ms = self.rules.timeout_ms;
        let holds = |session: &Session| {
            let from_ms = session.created_ms.saturating_sub(timeout_ms);
            let to_ms = session.ended_ms.saturating_add(timeout_ms);
            (from_ms..=to_ms).contains(&time_ms)
        };
        let holding = self.of_device(device).filter(|(_, session)| holds(session));
        let earliest = holding.min_by_key(|(_, session)| (session.created_ms, session.ended_ms));
        earliest.map(|(place, _)| place)
    }

    /// The device's open session that an event of now extends: id, start, end.
    fn open_of(&self, device: DeviceHash) -> Option<(SessionId, i64, i64)> {
        let open = self
            .of_device(device)
            .filter(|(_, session)| !session.closed);
        let (_, session) = open.max_by_key(|(_, session)| session.ended_ms)?;
        Some((session.id, session.created_ms, session.ended_ms))
    }

    /// Shows `live` all that is open: after the committed values were taken up.
    pub fn show_all(&self, live: &LiveView) {
        for (device, place) in &self.devices {
            let session = self.sessions[*place as usize].as_ref().expect(HERE);
            let project = self.texts.text(session.project);
            live.put(project, session.device(), self.open_of(*device));
        }
    }

    fn is_open(&self, place: u32) -> bool {
        !self.sessions[place as usize].as_ref().expect(HERE).closed
    }

    /// Starts a session, and ends those of the device that are over by it (a boundary).
    fn start(&mut self, device: DeviceHash, feed: &Feed<'_>, rows: &mut impl Rows) -> u32 {
        let timeout_ms = self.rules.timeout_ms;
        let over = |session: &Session| {
            !session.closed && session.ended_ms.saturating_add(timeout_ms) < feed.time_ms
        };
        let over: Vec<u32> = self
            .of_device(device)
            .filter(|(_, session)| over(session))
            .map(|(place, _)| place)
            .collect();
        for place in over.into_iter().rev() {
            self.close(device, place, rows);
        }
        let id = self.new_id(device, feed);
        let of = (feed.event, feed.track);
        let session = Session::start(of, feed.time_ms, id, at(feed), &mut self.texts);
        self.insert(device, session)
    }

    /// The id that the doors answer, where they may have been asked; else one of the record.
    fn new_id(&self, device: DeviceHash, feed: &Feed<'_>) -> SessionId {
        let (project, name) = (feed.event.stamp.project, feed.track.device_id);
        let timeout_ms = self.rules.timeout_ms.unsigned_abs();
        let id = session_id(project, name, feed.time_ms, timeout_ms);
        let age_ms = feed.log_ms.saturating_sub(feed.time_ms);
        let asked = age_ms <= self.rules.late_ms;
        let taken = self.of_device(device).any(|(_, session)| session.id == id);
        if asked && !taken {
            return id;
        }
        session_id_of_record(project, name, feed.offset)
    }

    fn insert(&mut self, device: DeviceHash, mut session: Session) -> u32 {
        self.lives = self.lives.wrapping_add(1);
        session.life = self.lives;
        session.earlier = self.devices.get(&device).copied();
        let due_ms = due_of(&session, &self.rules);
        let place = self.free.pop().unwrap_or(self.sessions.len() as u32);
        let ticket = Ticket {
            place,
            life: session.life,
        };
        if place as usize == self.sessions.len() {
            self.sessions.push(Some(session));
        } else {
            self.sessions[place as usize] = Some(session);
        }
        self.devices.insert(device, place);
        self.due.put(due_ms, ticket);
        place
    }

    /// Notes that a session changes with the block in hand, and its device's value.
    fn touch(&mut self, device: DeviceHash, place: u32) {
        let session = self.sessions[place as usize].as_mut().expect(HERE);
        if !session.changed {
            session.changed = true;
            self.changed.push(place);
        }
        self.touch_device(device, place);
    }

    fn touch_device(&mut self, device: DeviceHash, place: u32) {
        let session = self.sessions[place as usize].as_ref().expect(HERE);
        let project = self.texts.text(session.project);
        self.touched
            .entry(device)
            .or_insert_with(|| codec::key(project, session.device()));
    }

    fn close(&mut self, device: DeviceHash, place: u32, rows: &mut impl Rows) {
        self.touch_device(device, place);
        let now_ms = self.now_ms;
        let session = self.sessions[place as usize].as_mut().expect(HERE);
        session.closed = true;
        session.touched_ms = session.touched_ms.max(now_ms);
        rows.ended(&session.view(&self.texts));
        let ticket = Ticket {
            place,
            life: session.life,
        };
        self.due.put(due_of(session, &self.rules), ticket);
    }

    fn forget(&mut self, device: DeviceHash, place: u32, rows: &mut impl Rows) {
        self.touch_device(device, place);
        let session = self.sessions[place as usize].as_mut().expect(HERE);
        if std::mem::take(&mut session.changed) {
            rows.session(&session.view(&self.texts));
        }
        self.remove(device, place);
    }

    /// Takes a session out of memory and out of its device's list.
    fn remove(&mut self, device: DeviceHash, place: u32) {
        let session = self.sessions[place as usize].take().expect(HERE);
        let latest = self.devices.get(&device).copied().expect(HERE);
        if latest != place {
            let later = self
                .of_device(device)
                .find(|(_, s)| s.earlier == Some(place));
            let later = later.map(|(later, _)| later).expect(HERE);
            self.sessions[later as usize].as_mut().expect(HERE).earlier = session.earlier;
        } else if let Some(earlier) = session.earlier {
            self.devices.insert(device, earlier);
        } else {
            self.devices.remove(&device);
        }
        for symbol in session.symbols() {
            self.texts.release(symbol);
        }
        self.free.push(place);
    }
}

/// Places in the device's list and in the queue are those of sessions in memory.
const HERE: &str = "a session in a list is in memory";

fn at(feed: &Feed<'_>) -> At {
    At {
        partition: feed.partition,
        offset: feed.offset,
        log_ms: feed.log_ms,
    }
}

/// When a session is looked at: an open one when it was silent for the time-out, a closed one
/// when no event can be late enough to correct it.
fn due_of(session: &Session, rules: &SessionRules) -> i64 {
    if session.closed {
        let kept_ms = rules.timeout_ms.saturating_add(rules.late_ms);
        return session.touched_ms.saturating_add(kept_ms);
    }
    let ahead_ms = session.ended_ms.saturating_sub(session.touched_ms);
    let last_ms = session
        .touched_ms
        .saturating_add(ahead_ms.clamp(0, AHEAD_MAX_MS));
    last_ms.saturating_add(rules.timeout_ms)
}

/// The same by ticket; none for a session that is gone.
fn due_ms(sessions: &[Option<Session>], ticket: Ticket, rules: &SessionRules) -> Option<i64> {
    let session = sessions.get(ticket.place as usize)?.as_ref()?;
    (session.life == ticket.life).then(|| due_of(session, rules))
}
