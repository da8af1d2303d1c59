//! `inspect` and `verify`: what a folder holds, and whether it is whole. Both
//! only read, and may run beside a server.

use std::fs::File;
use std::path::Path;

use crate::ends;
use crate::error::{LogError, Result};
use crate::frame::{FrameHeader, Kind};
use crate::read_only;
use crate::recover::{front_damage, kept_from};
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentFile};
use crate::shared::limit;
use crate::survey::{Bound, Depth, Survey, survey};
use crate::{Damage, Topic};

/// One segment. Times are append times in ms since the epoch.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SegmentReport {
    /// The file's name.
    pub file: String,
    /// Its place in the sequence of segments.
    pub sequence: u64,
    /// First offset.
    pub first_offset: u64,
    /// One past the last proven offset.
    pub end_offset: u64,
    /// Bytes of header and frames that are proven synced.
    pub bytes: u64,
    /// Size of the file, preallocated space too.
    pub file_bytes: u64,
    /// Frames of any kind.
    pub frames: u64,
    /// Of them, seals.
    pub seals: u64,
    /// Records.
    pub records: u64,
    /// Bytes of payload.
    pub payload_bytes: u64,
    /// Time of the first frame.
    pub first_time_ms: Option<i64>,
    /// Time of the last frame.
    pub last_time_ms: Option<i64>,
}

/// One topic.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TopicReport {
    /// The topic.
    pub topic: Topic,
    /// First offset held.
    pub start: u64,
    /// One past the last offset that is proven synced.
    pub end: u64,
    /// Records read, of `end - start`.
    pub records: u64,
    /// Frames of any kind.
    pub frames: u64,
    /// Bytes of headers and frames.
    pub bytes: u64,
    /// Bytes of good frames behind the proven end: acknowledged or not, the
    /// next start keeps them.
    pub unproven_bytes: u64,
    /// Bytes behind those: the next start cuts them as a torn tail.
    pub torn_bytes: u64,
    /// Every bad place.
    pub damages: Vec<Damage>,
    /// The segments, oldest first.
    pub segments: Vec<SegmentReport>,
}

/// How far [`inspect`] or [`verify`] has come in a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The topic.
    pub topic: Topic,
    /// Bytes walked.
    pub bytes_done: u64,
    /// Bytes of all its segments' files.
    pub bytes_total: u64,
}

/// Walks the frame headers of a topic under `dir` (`DIR/log`); payloads are
/// not read but in the last segment.
///
/// # Errors
/// `NewerFormat`, `Io`; damage is in the report.
pub fn inspect(
    dir: &Path,
    topic: Topic,
    progress: &mut dyn FnMut(Progress),
) -> Result<TopicReport> {
    report(dir, topic, Depth::Headers, progress)
}

/// As [`inspect`], with every payload checked.
///
/// # Errors
/// As [`inspect`].
pub fn verify(dir: &Path, topic: Topic, progress: &mut dyn FnMut(Progress)) -> Result<TopicReport> {
    report(dir, topic, Depth::Whole, progress)
}

fn report(
    dir: &Path,
    topic: Topic,
    depth: Depth,
    progress: &mut dyn FnMut(Progress),
) -> Result<TopicReport> {
    // Before the segments: beside a server the log only grows.
    let synced_end = ends::read(dir)?.get(topic);
    let dir = dir.join(topic.name());
    let segments = read_only::list(&dir, topic)?;
    let bytes_total = segments.iter().map(|segment| segment.file_bytes).sum();
    let mut whole = TopicReport {
        topic,
        start: segments.first().map_or(0, |segment| segment.first_offset),
        end: segments.last().map_or(0, |segment| segment.first_offset),
        records: 0,
        frames: 0,
        bytes: 0,
        unproven_bytes: 0,
        torn_bytes: 0,
        damages: crate::recover::hole_damages(topic, &segments),
        segments: Vec::new(),
    };
    let front = front_damage(topic, segments.first(), kept_from(topic));
    whole.damages.extend(front);
    if segments.is_empty() && synced_end > 0 {
        whole.damages.push(no_segments(topic, synced_end));
    }
    let mut bytes_done = 0;
    for (index, segment) in segments.iter().enumerate() {
        let bound = match limit(&segments, index) {
            Some((bytes, offset)) => Bound::Closed { bytes, offset },
            None => Bound::Open,
        };
        let mut at = |byte: u64| {
            progress(Progress {
                topic,
                bytes_done: bytes_done + byte,
                bytes_total,
            });
        };
        match walk(topic, segment, bound, depth, &mut at) {
            Ok((mut found, report)) => {
                if matches!(bound, Bound::Open) {
                    found.expect_end(topic, segment, synced_end);
                }
                whole.add(segment, bound, found, report);
            }
            Err(error) if is_gone(&error) && whole.segments.is_empty() => {
                // Retention took the oldest segment meanwhile.
                whole.start = segments
                    .get(index + 1)
                    .map_or(whole.end, |it| it.first_offset);
            }
            Err(error) => return Err(error),
        }
        bytes_done += segment.file_bytes;
        progress(Progress {
            topic,
            bytes_done,
            bytes_total,
        });
    }
    Ok(whole)
}

/// Every segment of a topic that was synced up to `synced_end` is gone.
fn no_segments(topic: Topic, synced_end: u64) -> Damage {
    Damage {
        topic,
        segment: "none".to_owned(),
        byte: 0,
        first_offset: 0,
        end_offset: synced_end,
        reason: "all segments are missing".to_owned(),
    }
}

fn is_gone(error: &LogError) -> bool {
    matches!(error, LogError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
}

impl Survey {
    /// The last segment ends before what was noted as synced: the next start
    /// would name the same loss.
    fn expect_end(&mut self, topic: Topic, segment: &SegmentFile, synced_end: u64) {
        if self.end_offset >= synced_end {
            return;
        }
        self.torn_bytes = 0;
        self.damages.push(Damage {
            topic,
            segment: segment.name(),
            byte: self.end_bytes,
            first_offset: self.end_offset,
            end_offset: synced_end,
            reason: "records are missing that were synced".to_owned(),
        });
    }
}

impl TopicReport {
    fn add(
        &mut self,
        segment: &SegmentFile,
        bound: Bound,
        found: Survey,
        mut report: SegmentReport,
    ) {
        if matches!(bound, Bound::Open) {
            report.bytes = found.proven_bytes;
            report.end_offset = found.proven_offset;
            self.unproven_bytes = found.end_bytes.saturating_sub(found.proven_bytes);
            self.torn_bytes = found.torn_bytes;
            self.end = found.proven_offset;
        } else {
            report.bytes = found.end_bytes.min(segment.file_bytes);
            report.end_offset = found.end_offset;
        }
        self.damages.extend(found.damages);
        self.frames += report.frames;
        self.records += report.records;
        self.bytes += report.bytes;
        self.segments.push(report);
    }
}

fn walk(
    topic: Topic,
    segment: &SegmentFile,
    bound: Bound,
    depth: Depth,
    progress: &mut dyn FnMut(u64),
) -> Result<(Survey, SegmentReport)> {
    let failed = |error| LogError::io(&segment.path, error);
    let file = File::open(&segment.path).map_err(failed)?;
    let mut report = SegmentReport {
        file: segment.name(),
        sequence: segment.sequence,
        first_offset: segment.first_offset,
        end_offset: segment.first_offset,
        bytes: SEGMENT_HEADER_BYTES,
        file_bytes: segment.file_bytes,
        frames: 0,
        seals: 0,
        records: 0,
        payload_bytes: 0,
        first_time_ms: None,
        last_time_ms: None,
    };
    // What stands behind the proven end of the last segment may still be cut:
    // a first walk finds that end, so that the second counts up to it only.
    let open = match bound {
        Bound::Open => {
            let all = &mut |_, _: &FrameHeader| true;
            Some(survey(topic, segment, &file, bound, Depth::Whole, all).map_err(failed)?)
        }
        Bound::Closed { .. } => None,
    };
    let proven = open.as_ref().map_or(u64::MAX, |found| found.proven_bytes);
    let mut visit = |at: u64, header: &FrameHeader| {
        if at >= proven {
            return false;
        }
        report.count(header);
        progress(at + header.frame_bytes());
        true
    };
    let depth = if open.is_some() { Depth::Whole } else { depth };
    let counted = survey(topic, segment, &file, bound, depth, &mut visit).map_err(failed)?;
    Ok((open.unwrap_or(counted), report))
}

impl SegmentReport {
    fn count(&mut self, header: &FrameHeader) {
        self.frames += 1;
        self.seals += u64::from(header.kind == Kind::Seal);
        self.records += u64::from(header.count);
        self.payload_bytes += u64::from(header.payload_bytes);
        self.first_time_ms = self.first_time_ms.or(Some(header.append_time_ms));
        self.last_time_ms = Some(header.append_time_ms);
    }
}
