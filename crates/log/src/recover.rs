//! Opening a topic's folder: which segments there are, where the log ends,
//! what of its tail is kept (L1, L2).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::commit::now_ms;
use crate::disk;
use crate::error::{At, LogError, Result};
use crate::segment::{self, SegmentFile, SegmentHeader};
use crate::survey::{Bound, Depth, MISSING_RECORDS, Survey, survey};
use crate::{Damage, Topic};

/// Bytes copied at once when an unproven tail is written again.
const COPY_BYTES: usize = 1 << 20;

/// A topic as it was found, its tail made durable.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub segments: Vec<SegmentFile>,
    /// The last segment, open for writing.
    pub file: File,
    pub end_bytes: u64,
    pub end_offset: u64,
    pub last_time_ms: i64,
    pub sealed: bool,
    /// The last segment must not be written to: damage stands in it.
    pub must_roll: bool,
    pub torn_bytes: u64,
    pub damages: Vec<Damage>,
}

/// Reads a topic's folder and cuts what may be cut. The folder's lock is held.
/// `synced_end` is an offset up to which the topic is known to have been synced.
pub(crate) fn recover(
    dir: &Path,
    topic: Topic,
    partitions: u16,
    segment_bytes: u64,
    synced_end: u64,
) -> Result<Recovered> {
    disk::create_dir_all(dir).at(dir)?;
    segment::remove_temporaries(dir)?;
    let segments = segment::list(dir, topic)?;
    check_partitions(&segments, partitions)?;
    let found = match segments.is_empty() {
        true => create_first(dir, topic, partitions, segment_bytes)?,
        false => recover_last(topic, segments, segment_bytes, synced_end)?,
    };
    if found.end_offset >= synced_end {
        return Ok(found);
    }
    pass_loss(dir, topic, partitions, segment_bytes, found, synced_end)
}

/// Surveys the last segment and makes its tail durable.
fn recover_last(
    topic: Topic,
    segments: Vec<SegmentFile>,
    segment_bytes: u64,
    synced_end: u64,
) -> Result<Recovered> {
    let last = segments.last().expect("the caller has looked");
    let mut damages = hole_damages(topic, &segments);
    damages.extend(front_damage(topic, segments.first(), kept_from(topic)));
    damages.extend(loss_damages(topic, &segments));
    let file = disk::open(&last.path).at(&last.path)?;
    let found = survey(
        topic,
        last,
        &file,
        Bound::Open,
        Depth::Whole,
        &mut |_, _| true,
    )
    .at(&last.path)?;
    let last_time_ms = found
        .last_time_ms
        .or(last.header.map(|header| header.start_time_ms))
        .unwrap_or(i64::MIN);
    // Of a tail that is known to be more than torn nothing is cut.
    let may_cut = found.damages.is_empty() && found.end_offset >= synced_end;
    make_tail_durable(&file, &found, may_cut, segment_bytes).at(&last.path)?;
    let must_roll = !found.damages.is_empty();
    // Headers of older segments; the last one's is among the survey's findings.
    let older = &segments[..segments.len() - 1];
    damages.extend(
        older
            .iter()
            .filter_map(|segment| segment.header_damage(topic)),
    );
    damages.extend(found.damages);
    Ok(Recovered {
        file,
        end_bytes: found.end_bytes,
        end_offset: found.end_offset,
        last_time_ms,
        sealed: found.sealed,
        must_roll,
        torn_bytes: if may_cut { found.torn_bytes } else { 0 },
        damages,
        segments,
    })
}

fn check_partitions(segments: &[SegmentFile], configured: u16) -> Result<()> {
    for segment in segments {
        let Some(header) = segment.header else {
            continue;
        };
        if header.partitions != configured {
            return Err(LogError::Partitions {
                path: segment.path.clone(),
                found: header.partitions,
                configured,
            });
        }
    }
    Ok(())
}

fn create_first(
    dir: &Path,
    topic: Topic,
    partitions: u16,
    segment_bytes: u64,
) -> Result<Recovered> {
    let header = SegmentHeader {
        partitions,
        sequence: 0,
        first_offset: 0,
        start_time_ms: i64::MIN,
        previous_end_bytes: 0,
        nonce: segment::new_nonce(),
        missing: 0,
    };
    let (file, first) = segment::create(dir, topic, &header, segment_bytes)?;
    Ok(Recovered {
        segments: vec![first],
        file,
        end_bytes: segment::SEGMENT_HEADER_BYTES,
        end_offset: 0,
        last_time_ms: i64::MIN,
        sealed: true,
        must_roll: false,
        torn_bytes: 0,
        damages: Vec::new(),
    })
}

/// Segments that are gone from the middle. What is lost with them is found
/// where the segment before the hole ends, when it is read.
pub(crate) fn hole_damages(topic: Topic, segments: &[SegmentFile]) -> Vec<Damage> {
    let mut damages = Vec::new();
    for pair in segments.windows(2) {
        if pair[1].sequence != pair[0].sequence + 1 {
            damages.push(Damage {
                topic,
                segment: pair[1].name(),
                byte: 0,
                first_offset: pair[1].first_offset,
                end_offset: pair[1].first_offset,
                reason: format!(
                    "the segments before it, after {}, are missing",
                    pair[0].name()
                ),
            });
        }
    }
    damages
}

/// The journal ends before what is known to have been synced: the next segment
/// starts behind the loss, so that no offset is used twice, and its header
/// records the loss for readers of the log alone (L1).
fn pass_loss(
    dir: &Path,
    topic: Topic,
    partitions: u16,
    segment_bytes: u64,
    mut found: Recovered,
    synced_end: u64,
) -> Result<Recovered> {
    let last = found.segments.last().expect("there is one by now");
    let header = SegmentHeader {
        partitions,
        sequence: last.sequence + 1,
        first_offset: synced_end,
        // When the lost records came is not known: retention counts from now, so that the loss
        // does not go unseen because what stands before it is old.
        start_time_ms: found.last_time_ms.max(now_ms()),
        previous_end_bytes: found.end_bytes,
        nonce: segment::new_nonce(),
        missing: synced_end - found.end_offset,
    };
    let (file, next) = segment::create(dir, topic, &header, segment_bytes)?;
    found.damages.extend(loss_before(topic, last, &next));
    found.segments.push(next);
    Ok(Recovered {
        file,
        end_bytes: segment::SEGMENT_HEADER_BYTES,
        end_offset: synced_end,
        sealed: true,
        must_roll: false,
        ..found
    })
}

/// The first offset that a topic holds whatever folds have passed: `control` is
/// kept for ever (R1).
pub(crate) fn kept_from(topic: Topic) -> u64 {
    match topic {
        Topic::Control => 0,
        _ => u64::MAX,
    }
}

/// Records from `needed` on can't have been removed by retention: if the topic
/// starts behind it, its first segments are gone.
pub(crate) fn front_damage(
    topic: Topic,
    first: Option<&SegmentFile>,
    needed: u64,
) -> Option<Damage> {
    let first = first.filter(|first| needed < first.first_offset)?;
    Some(Damage {
        topic,
        segment: first.name(),
        byte: 0,
        first_offset: needed,
        end_offset: first.first_offset,
        reason: "the segments before it are missing".to_owned(),
    })
}

/// Losses that earlier starts found and recorded in headers.
fn loss_damages(topic: Topic, segments: &[SegmentFile]) -> Vec<Damage> {
    let pairs = segments.windows(2);
    pairs
        .filter_map(|pair| loss_before(topic, &pair[0], &pair[1]))
        .collect()
}

/// The damage that a segment's header records, as a walk to the end of the
/// segment before it finds it too.
fn loss_before(topic: Topic, before: &SegmentFile, segment: &SegmentFile) -> Option<Damage> {
    let header = segment.header.filter(|header| header.missing > 0)?;
    if header.sequence != before.sequence + 1 {
        return None;
    }
    Some(Damage {
        topic,
        segment: before.name(),
        byte: header.previous_end_bytes,
        first_offset: header.first_offset.saturating_sub(header.missing),
        end_offset: header.first_offset,
        reason: MISSING_RECORDS.to_owned(),
    })
}

/// After this everything up to the survey's end is on disk and nothing stands
/// behind it.
///
/// The bytes since the proven position are written again before the sync: if
/// the process before this one ended after a failed sync, the system may hold
/// them as clean pages that never reached the disk, and a sync alone would
/// say yes to that (L2).
fn make_tail_durable(
    file: &File,
    found: &Survey,
    may_cut: bool,
    segment_bytes: u64,
) -> std::io::Result<()> {
    if found.sealed {
        return Ok(());
    }
    let mut at = found.proven_bytes;
    let mut bytes = vec![0; COPY_BYTES.min((found.end_bytes - at) as usize)];
    while at < found.end_bytes {
        let piece = bytes.len().min((found.end_bytes - at) as usize);
        file.read_exact_at(&mut bytes[..piece], at)?;
        disk::write_all_at(file, &bytes[..piece], at)?;
        at += piece as u64;
    }
    if may_cut && found.torn_bytes > 0 {
        // Cut, so that no stale frame can ever seem to follow a new one.
        disk::set_len(file, found.end_bytes)?;
        // On a full disk the file grows as it can.
        match disk::preallocate(file, segment_bytes) {
            Err(error) if error.kind() != std::io::ErrorKind::StorageFull => return Err(error),
            _ => {}
        }
    }
    disk::fdatasync(file)
}
