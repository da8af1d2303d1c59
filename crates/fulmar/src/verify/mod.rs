//! Proves by id that what was acknowledged and logged is stored, exactly once, and nothing else.
//!
//! The log's integrity and the bytes of the tables' files come first. Then the log (over the
//! offsets that it still holds), the tables and the receipts are streamed into files split by hash,
//! and each identity is judged on its own, so that memory stays bounded whatever their number.

mod gather;
mod judge;
mod spill;

use std::ops::Range;
use std::path::{Path, PathBuf};

use fulmar_log::{Damage, ReadOnly, Topic, TopicReport};
use fulmar_registry::AcceptedLoss;
use serde_json::{Value, json};

use gather::Name;
pub use gather::{Deletions, Retention, TableFile};
use judge::{Faults, Identity, Met, Scope, Tally};
use spill::Spill;

use crate::exit::{Context as _, Exit, Failure};

/// What is compared.
pub struct Subject {
    /// `DIR/log`.
    pub log: PathBuf,
    /// Where the comparison may keep its files.
    pub scratch: PathBuf,
    /// Offsets of `events` that are compared: up to the position that the writer had reached.
    pub to: u64,
    /// The log's end after the tables were listed.
    pub end: u64,
    /// Ranges that an operator gave up.
    pub given_up: Vec<AcceptedLoss>,
    /// The tables' files, of one snapshot taken after `to` was stored.
    pub files: Vec<TableFile>,
    /// What each table keeps.
    pub retention: Retention,
    /// What operators had deleted.
    pub deletions: Deletions,
    /// Receipts of senders.
    pub receipts: Vec<PathBuf>,
}

impl Subject {
    /// Whether an operator gave the damaged range up.
    fn gave_up(&self, damage: &Damage) -> bool {
        damage.first_offset < damage.end_offset
            && self
                .ranges(damage.topic)
                .any(|range| range.start <= damage.first_offset && damage.end_offset <= range.end)
    }

    fn ranges(&self, topic: Topic) -> impl Iterator<Item = Range<u64>> {
        self.given_up
            .iter()
            .filter(move |loss| loss.topic == topic.name())
            .map(|loss| loss.from..loss.to.saturating_add(1))
    }
}

/// One kind of fault in the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How many identities.
    pub count: u64,
    /// The first of them: project, source, id; or where an unreadable one stands.
    pub first: Option<Value>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Integrity of each topic.
    pub topics: Vec<TopicReport>,
    /// The tables' files that are missing or changed, one line each.
    pub files: Vec<String>,
    /// Whether there is damage that no operator gave up.
    pub damaged: bool,
    /// Offsets compared.
    pub from: u64,
    /// One past the last offset compared.
    pub to: u64,
    /// Offsets that an operator gave up.
    pub given_up: u64,
    /// The counts; `None` when damage kept the log from being compared.
    pub tally: Option<Tally>,
    /// Logged or acknowledged, and not stored.
    pub lost: Finding,
    /// Stored more than once.
    pub doubled: Finding,
    /// Stored, and not from the log.
    pub foreign: Finding,
}

impl Report {
    /// The exit code: damage before lost, lost before doubled, doubled before foreign.
    pub fn exit(&self) -> Exit {
        if self.damaged {
            return Exit::Damage;
        }
        match (self.lost.count, self.doubled.count, self.foreign.count) {
            (0, 0, 0) => Exit::Done,
            (0, 0, _) => Exit::Foreign,
            (0, _, _) => Exit::Doubled,
            _ => Exit::Lost,
        }
    }

    /// The report for programs.
    pub fn to_json(&self) -> Value {
        let finding = |f: &Finding| json!({ "count": f.count, "first": f.first });
        let topics: Vec<Value> = self
            .topics
            .iter()
            .map(|t| {
                json!({
                    "topic": t.topic, "start": t.start, "end": t.end, "records": t.records,
                    "bytes": t.bytes, "torn_bytes": t.torn_bytes, "damages": t.damages,
                })
            })
            .collect();
        let tally = self.tally.clone().unwrap_or_default();
        json!({
            "verdict": self.verdict(),
            "from": self.from,
            "to": self.to,
            "logged": tally.logged,
            "stored": tally.stored,
            "acknowledged": tally.acknowledged,
            "repeats": tally.repeats,
            "quarantined": tally.quarantined,
            "expired": tally.expired,
            "deleted": tally.deleted,
            "in_damaged_files": tally.hidden,
            "given_up": self.given_up,
            "lost": finding(&self.lost),
            "doubled": finding(&self.doubled),
            "foreign": finding(&self.foreign),
            "topics": topics,
            "damaged_files": self.files,
        })
    }

    /// One word: `ok` or what is wrong.
    pub fn verdict(&self) -> &'static str {
        match self.exit() {
            Exit::Done => "ok",
            Exit::Damage => "damage",
            Exit::Lost => "lost",
            Exit::Doubled => "doubled",
            _ => "foreign",
        }
    }
}

/// Checks every topic's frames, whole.
pub fn integrity(log: &Path) -> Result<Vec<TopicReport>, Failure> {
    Topic::ALL
        .iter()
        .map(|topic| Ok(fulmar_log::verify(log, *topic, &mut |_| {})?))
        .collect()
}

/// Adds damage that others know of.
pub fn add_damages<'a>(topics: &mut [TopicReport], known: impl IntoIterator<Item = &'a Damage>) {
    for damage in known {
        let Some(report) = topics.iter_mut().find(|it| it.topic == damage.topic) else {
            continue;
        };
        let is_same = |found: &Damage| {
            (&found.segment, found.byte) == (&damage.segment, damage.byte)
                || (found.first_offset, found.end_offset)
                    == (damage.first_offset, damage.end_offset)
        };
        if !report.damages.iter().any(is_same) {
            report.damages.push(damage.clone());
        }
    }
}

/// Compares the subject. `topics` is what [`integrity`] found; damage of the log that nobody
/// accepted ends the comparison, since what it hides cannot be compared. Of a damaged file of a
/// table no row is believed: what it may hold is counted apart.
pub fn compare(subject: &Subject, topics: Vec<TopicReport>) -> Result<Report, Failure> {
    let log = ReadOnly::open(&subject.log, Topic::Events)?;
    let damages = topics.iter().flat_map(|topic| &topic.damages);
    let open: Vec<_> = damages.filter(|damage| !subject.gave_up(damage)).collect();
    // The registry and the outcomes of deliveries are no part of the comparison.
    let compared = |topic| !matches!(topic, Topic::Control | Topic::Deliveries);
    let hides_records = open
        .iter()
        .any(|damage| compared(damage.topic) && damage.first_offset < damage.end_offset);
    let (sound, damaged) = sound_and_damaged(&subject.files);
    let files = damaged.iter().map(|(_, what)| what.clone()).collect();
    let mut report = Report {
        from: log.start(),
        to: subject.to,
        given_up: 0,
        tally: None,
        lost: Finding {
            count: 0,
            first: None,
        },
        doubled: Finding {
            count: 0,
            first: None,
        },
        foreign: Finding {
            count: 0,
            first: None,
        },
        damaged: !open.is_empty() || !damaged.is_empty(),
        topics,
        files,
    };
    if hides_records {
        return Ok(report);
    }
    let mut spill = Spill::new(&subject.scratch)
        .context(format!("cannot write into {}", subject.scratch.display()))?;
    let given_up = gather_log(subject, &log, &mut spill)?;
    report.given_up = given_up.iter().map(|range| range.end - range.start).sum();
    gather_rest(subject, &sound, &mut spill)?;

    let scope = Scope {
        held: log.start()..subject.to,
        end: log.end().max(subject.end),
        given_up,
        hidden: damaged
            .iter()
            .filter_map(|(file, _)| file.offsets())
            .collect(),
    };
    let mut tally = Tally::default();
    spill.groups(|identity, met| judge::judge(identity, met, &scope, &mut tally))?;
    report.lost = finding(subject, &sound, &tally.lost)?;
    report.doubled = finding(subject, &sound, &tally.doubled)?;
    report.foreign = finding(subject, &sound, &tally.foreign)?;
    report.tally = Some(tally);
    Ok(report)
}

/// The files whose bytes are those listed, and the others with what is wrong.
fn sound_and_damaged(files: &[TableFile]) -> (Vec<&TableFile>, Vec<(&TableFile, String)>) {
    let (mut sound, mut damaged) = (Vec::new(), Vec::new());
    for file in files {
        match file.damage() {
            None => sound.push(file),
            Some(what) => damaged.push((file, what)),
        }
    }
    (sound, damaged)
}

fn reader(subject: &Subject, log: &ReadOnly) -> fulmar_log::Reader {
    let mut reader = log.reader(log.start());
    reader.accept_loss(subject.ranges(Topic::Events).collect());
    reader
}

fn gather_log(
    subject: &Subject,
    log: &ReadOnly,
    spill: &mut Spill,
) -> Result<Vec<Range<u64>>, Failure> {
    let passed = subject.ranges(Topic::Quarantine).collect();
    let quarantined = gather::quarantined(&subject.log, passed)?;
    gather::log(&mut reader(subject, log), subject.to, |record| {
        if record.is_tick() {
            return Ok(());
        }
        let aside = quarantined.binary_search(&record.offset).is_ok();
        let (retention, deletions) = (&subject.retention, &subject.deletions);
        match gather::of_record(record, aside, retention, deletions) {
            Some((identity, met)) => Ok(spill.add(identity, met)?),
            None => Ok(()),
        }
    })
}

fn gather_rest(subject: &Subject, sound: &[&TableFile], spill: &mut Spill) -> Result<(), Failure> {
    for file in sound {
        gather::table_file(file, |name, offset| {
            Ok(spill.add(name.identity(), Met::Stored { offset })?)
        })?;
    }
    for path in &subject.receipts {
        gather::receipts(path, |name| {
            Ok(spill.add(name.identity(), Met::Acknowledged)?)
        })?;
    }
    Ok(())
}

/// Finds the name behind the first identity of a kind, by looking once more.
fn finding(subject: &Subject, sound: &[&TableFile], faults: &Faults) -> Result<Finding, Failure> {
    let Some((identity, offset)) = faults.first else {
        return Ok(Finding {
            count: 0,
            first: None,
        });
    };
    let first = name_of(subject, sound, identity, offset)?;
    Ok(Finding {
        count: faults.count,
        first: Some(first),
    })
}

fn name_of(
    subject: &Subject,
    sound: &[&TableFile],
    wanted: Identity,
    offset: u64,
) -> Result<Value, Failure> {
    let mut found = None;
    let place = (offset != u64::MAX).then_some(offset);
    let mut look = |name: Name<'_>| {
        if found.is_none() && name.identity() == wanted {
            found = Some(json!({
                "project": name.project, "source": name.source, "id": name.id, "offset": place,
            }));
        }
        Ok(())
    };
    for path in &subject.receipts {
        gather::receipts(path, &mut look)?;
    }
    for file in sound {
        gather::table_file(file, |name, _| look(name))?;
    }
    if let Some(offset) = place {
        let log = ReadOnly::open(&subject.log, Topic::Events)?;
        let mut reader = reader(subject, &log);
        if (log.start()..log.end()).contains(&offset) {
            reader.seek(offset);
            gather::log(
                &mut reader,
                offset + 1,
                |record| match fulmar_event::EventView::parse(record.bytes) {
                    Ok(event) => look(Name {
                        project: event.stamp.project,
                        source: event.stamp.source,
                        id: event.event_id,
                    }),
                    Err(_) => Ok(()),
                },
            )?;
        }
    }
    Ok(found.unwrap_or_else(|| json!({ "unreadable": true, "offset": place })))
}
