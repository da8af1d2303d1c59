//! What a journal has lost, and what of it an operator gave up (L1).

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{At, Result};
use crate::reader::merge_ranges;
use crate::recover::{front_damage, kept_from};
use crate::shared::lock;
use crate::survey::{Bound, Depth, survey};
use crate::{Damage, Journal};

impl Journal {
    /// The ranges of offsets that an operator accepted as lost: reads pass
    /// them as gaps (L1). Replaces the list; ranges that touch are one.
    pub fn accept_loss(&self, ranges: Vec<Range<u64>>) {
        let accepted = merge_ranges(ranges);
        *self
            .shared
            .accepted
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner()) = accepted.into();
    }

    /// The damage that loses records of a range of offsets: every frame of the
    /// segments that hold it is read.
    ///
    /// # Errors
    /// `Io`.
    pub fn damages_in(&self, range: &Range<u64>) -> Result<Vec<Damage>> {
        let extents = self.shared.read_view(|view| {
            let all = (0..view.segments.len()).map(|index| {
                let (bytes, offset) = view.limit(index);
                (Arc::clone(&view.segments[index]), bytes, offset)
            });
            all.collect::<Vec<_>>()
        });
        let first = extents.first().map(|it| it.0.as_ref());
        let mut damages = Vec::from_iter(front_damage(self.topic(), first, self.needed()));
        for (segment, bytes, offset) in extents {
            if segment.first_offset >= range.end || offset <= range.start {
                continue;
            }
            let file = File::open(&segment.path).at(&segment.path)?;
            let bound = Bound::Closed { bytes, offset };
            let all = &mut |_, _: &_| true;
            let found =
                survey(self.topic(), &segment, &file, bound, Depth::Whole, all).at(&segment.path)?;
            damages.extend(found.damages);
        }
        damages.retain(|damage| {
            let lost = damage.first_offset.max(range.start)..damage.end_offset.min(range.end);
            !lost.is_empty()
        });
        Ok(damages)
    }

    /// The first offset that somebody needs.
    fn needed(&self) -> u64 {
        let folds = lock(&self.shared.folds);
        let of_folds = folds.values().min().copied().unwrap_or(u64::MAX);
        of_folds.min(kept_from(self.topic()))
    }
}
