//! Reading a folder that another process may be writing: never past the end
//! that its frames and seals prove synced (L1, L2). Nothing is written here.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::error::{At, LogError, Result};
use crate::reader::{Extent, Extents, Reader};
use crate::segment::{self, SegmentFile};
use crate::shared::{View, lock};
use crate::survey::{Bound, Depth, survey};
use crate::{Damage, Topic};

/// A topic's folder, looked at from outside.
#[derive(Debug)]
pub struct ReadOnly {
    folder: Arc<Folder>,
}

#[derive(Debug)]
struct Folder {
    topic: Topic,
    dir: PathBuf,
    view: Mutex<View>,
}

impl ReadOnly {
    /// Looks at `DIR/log/TOPIC`, `dir` being `DIR/log`; no lock is needed.
    ///
    /// # Errors
    /// `NewerFormat`, `Io`. A folder that is missing holds nothing.
    pub fn open(dir: &Path, topic: Topic) -> Result<ReadOnly> {
        let dir = dir.join(topic.name());
        let view = look(&dir, topic)?;
        Ok(ReadOnly {
            folder: Arc::new(Folder {
                topic,
                dir,
                view: Mutex::new(view),
            }),
        })
    }

    /// First offset held.
    pub fn start(&self) -> u64 {
        lock(&self.folder.view).start()
    }

    /// One past the last offset that was proven synced at the last look. A
    /// server that was idle for [`crate::LogConfig::seal_after`] has proven all.
    pub fn end(&self) -> u64 {
        lock(&self.folder.view).end_offset
    }

    /// A reader from an offset on; at the end it looks again.
    pub fn reader(&self, from: u64) -> Reader {
        let source: Arc<dyn Extents> = self.folder.clone();
        Reader::new(source, from)
    }
}

impl Reader {
    /// A reader of `dir`/TOPIC from an offset on, beside a running server or
    /// without one; see [`ReadOnly`].
    ///
    /// # Errors
    /// As [`ReadOnly::open`].
    pub fn open_read_only(dir: &Path, topic: Topic, from: u64) -> Result<Reader> {
        Ok(ReadOnly::open(dir, topic)?.reader(from))
    }
}

/// The segments as they are now. A listing is not taken at one moment: one
/// with a hole is taken again, in case retention was at work.
pub(crate) fn list(dir: &Path, topic: Topic) -> Result<Vec<SegmentFile>> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let listed = segment::list(dir, topic)?;
    let has_hole = listed
        .windows(2)
        .any(|pair| pair[1].sequence != pair[0].sequence + 1);
    if has_hole {
        segment::list(dir, topic)
    } else {
        Ok(listed)
    }
}

fn look(dir: &Path, topic: Topic) -> Result<View> {
    let segments: Vec<_> = list(dir, topic)?.into_iter().map(Arc::new).collect();
    let Some(last) = segments.last() else {
        return Ok(View {
            segments,
            end_bytes: 0,
            end_offset: 0,
        });
    };
    let file = File::open(&last.path).at(&last.path)?;
    let found = survey(
        topic,
        last,
        &file,
        Bound::Open,
        Depth::Whole,
        &mut |_, _| true,
    )
    .at(&last.path)?;
    Ok(View {
        segments,
        end_bytes: found.proven_bytes,
        end_offset: found.proven_offset,
    })
}

impl Extents for Folder {
    fn topic(&self) -> Topic {
        self.topic
    }

    fn find(&self, offset: u64) -> Result<Option<Extent>> {
        let mut view = lock(&self.view);
        // At the end, or before a start that retention may have moved on.
        let first_is_gone = view
            .segments
            .first()
            .is_some_and(|first| !first.path.exists());
        if offset >= view.end_offset || first_is_gone {
            *view = look(&self.dir, self.topic)?;
        }
        view.find(self.topic, offset)
    }

    fn accepted(&self) -> Arc<[Range<u64>]> {
        Arc::from([])
    }

    fn note_damage(&self, _damage: &Damage) {}
}

impl View {
    /// The segment that holds an offset; `None` at the end.
    pub(crate) fn find(&self, topic: Topic, offset: u64) -> Result<Option<Extent>> {
        let (start, end) = (self.start(), self.end_offset);
        if offset == end {
            return Ok(None);
        }
        if offset < start || offset > end {
            return Err(LogError::OutOfRange {
                topic,
                offset,
                start,
                end,
            });
        }
        // The last segment that starts at or before it: after a failed sync an
        // earlier one may start there too, with nothing in it.
        let index = self
            .segments
            .partition_point(|segment| segment.first_offset <= offset)
            - 1;
        let (limit_bytes, limit_offset) = self.limit(index);
        let segment = Arc::clone(&self.segments[index]);
        Ok(Some(Extent {
            segment,
            limit_bytes,
            limit_offset,
        }))
    }
}
