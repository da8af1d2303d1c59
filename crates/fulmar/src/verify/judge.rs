//! What the log, the tables and the receipts must say of one identity. Pure.

use std::ops::Range;

/// The name of an event as 128 bits of its (project, source, id): at a billion events the chance
/// that any two share one is below 1e-20.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(pub u128);

/// Where an identity was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Met {
    /// In the log, at this offset.
    Logged {
        /// Its offset.
        offset: u64,
    },
    /// In the log, and its row is past its table's retention.
    Expired {
        /// Its offset.
        offset: u64,
    },
    /// In the log, and its row may be gone because an operator deleted whose it was.
    Deleted {
        /// Its offset.
        offset: u64,
    },
    /// In the log and in the quarantine: neither lost nor stored.
    Quarantined {
        /// Its offset.
        offset: u64,
    },
    /// In a table, as a row that came from this offset.
    Stored {
        /// The row's `log_offset`.
        offset: u64,
    },
    /// In the receipts: a door acknowledged it.
    Acknowledged,
}

/// What is compared.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Offsets that the log holds, up to its end when the comparison began.
    pub held: Range<u64>,
    /// The log's end after the tables were listed: a row from beyond it came from nowhere.
    pub end: u64,
    /// Ranges of the log that an operator gave up: what was stored of them before is genuine, and
    /// the log can no longer vouch for it.
    pub given_up: Vec<Range<u64>>,
    /// Offsets whose rows may stand in a table's file that is damaged: what is not stored
    /// elsewhere may be there.
    pub hidden: Vec<Range<u64>>,
}

impl Scope {
    /// Whether a damaged file may hold the row of that offset; without one, of an offset that
    /// the log no longer holds.
    fn hides(&self, offset: Option<u64>) -> bool {
        self.hidden.iter().any(|range| match offset {
            Some(offset) => range.contains(&offset),
            None => range.start < self.held.start,
        })
    }
}

/// Faults of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// How many identities.
    pub count: u64,
    /// The one with the lowest offset, and that offset; `u64::MAX` when only receipts know it.
    pub first: Option<(Identity, u64)>,
}

impl Faults {
    fn add(&mut self, identity: Identity, offset: u64) {
        self.count += 1;
        if self.first.is_none_or(|(_, first)| offset < first) {
            self.first = Some((identity, offset));
        }
    }
}

/// What the comparison came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records of the log in scope.
    pub logged: u64,
    /// Of them, quarantined.
    pub quarantined: u64,
    /// Of them, repeats of an identity that is stored once.
    pub repeats: u64,
    /// Of them, past their table's retention and gone.
    pub expired: u64,
    /// Of them, deleted by an operator and gone.
    pub deleted: u64,
    /// Rows of the tables.
    pub stored: u64,
    /// Identities whose row may stand in a damaged file, and stands nowhere else.
    pub hidden: u64,
    /// Identities in the receipts.
    pub acknowledged: u64,
    /// Logged or acknowledged, and not stored.
    pub lost: Faults,
    /// Stored more than once.
    pub doubled: Faults,
    /// Stored, and the log does not hold it at the row's offset.
    pub foreign: Faults,
}

/// Judges one identity by all that was met of it. `met` is sorted, so that the log comes before the
/// tables.
pub fn judge(identity: Identity, met: &[Met], scope: &Scope, tally: &mut Tally) {
    let mut logged: Vec<u64> = Vec::new();
    // Records whose rows may rightly be gone.
    let mut gone = Vec::new();
    let mut deleted = false;
    let mut quarantined = 0_u64;
    let mut stored: Vec<u64> = Vec::new();
    let mut acknowledged = false;
    for one in met {
        match *one {
            Met::Logged { offset } => logged.push(offset),
            Met::Expired { offset } => gone.push(offset),
            Met::Deleted { offset } => {
                gone.push(offset);
                deleted = true;
            }
            Met::Quarantined { .. } => quarantined += 1,
            Met::Stored { offset } => stored.push(offset),
            Met::Acknowledged => acknowledged = true,
        }
    }
    let records = (logged.len() + gone.len()) as u64;
    tally.logged += records + quarantined;
    tally.quarantined += quarantined;
    tally.stored += stored.len() as u64;
    tally.acknowledged += u64::from(acknowledged);

    if stored.len() > 1 {
        tally.doubled.add(identity, stored[0]);
    }
    for offset in &stored {
        let beyond = *offset >= scope.end;
        let given_up = scope.given_up.iter().any(|range| range.contains(offset));
        let unlogged = scope.held.contains(offset)
            && !given_up
            && !logged.contains(offset)
            && !gone.contains(offset);
        if beyond || unlogged {
            tally.foreign.add(identity, *offset);
        }
    }
    if !stored.is_empty() {
        // One record made the row; when the log no longer holds that one, all are repeats.
        let made = stored.iter().any(|offset| scope.held.contains(offset));
        tally.repeats += records.saturating_sub(u64::from(made));
        return;
    }
    match (logged.first(), gone.is_empty()) {
        // A record from after the deletion is a repeat of the one that it took.
        _ if deleted => tally.deleted += records,
        (Some(offset), _) if scope.hides(Some(*offset)) => tally.hidden += 1,
        (Some(offset), _) => tally.lost.add(identity, *offset),
        (None, false) => tally.expired += records,
        // Acknowledged, and not even in the log, nor put aside in sight.
        (None, true) if acknowledged && quarantined == 0 => match scope.hides(None) {
            true => tally.hidden += 1,
            false => tally.lost.add(identity, u64::MAX),
        },
        (None, true) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::Met::{Acknowledged, Expired, Logged, Quarantined, Stored};
    use super::*;

    const ID: Identity = Identity(7);

    /// The log holds 10 to 19; when the tables were listed it had grown to 25.
    fn of(met: &[Met]) -> Tally {
        let mut tally = Tally::default();
        judge(
            ID,
            met,
            &Scope {
                held: 10..20,
                end: 25,
                given_up: vec![17..18, 18..19],
                hidden: vec![],
            },
            &mut tally,
        );
        tally
    }

    #[test]
    fn what_was_deleted_may_be_there_still_or_be_gone() {
        use super::Met::Deleted;
        for met in [
            &[Deleted { offset: 12 }, Acknowledged][..],
            &[Deleted { offset: 12 }, Stored { offset: 12 }],
        ] {
            assert_eq!(faults(met), (0, 0, 0), "{met:?}");
        }
        assert_eq!(of(&[Deleted { offset: 12 }, Acknowledged]).deleted, 1);
        // What comes after it is a repeat.
        let repeated = [Logged { offset: 15 }, Deleted { offset: 12 }];
        assert_eq!((faults(&repeated).0, of(&repeated).deleted), (0, 2));
    }

    #[test]
    fn what_a_damaged_file_may_hold_is_hidden_not_lost() {
        let scope = |hidden: Range<u64>| Scope {
            held: 10..20,
            end: 20,
            given_up: vec![],
            hidden: vec![hidden],
        };
        let judged = |met: &[Met], hidden: Range<u64>| {
            let mut tally = Tally::default();
            judge(ID, met, &scope(hidden), &mut tally);
            (tally.hidden, tally.lost.count)
        };
        assert_eq!(judged(&[Logged { offset: 12 }], 12..14), (1, 0));
        assert_eq!(judged(&[Logged { offset: 12 }], 13..14), (0, 1));
        // Of what the log no longer holds, a file that reaches back as far may have the row.
        assert_eq!(judged(&[Acknowledged], 3..14), (1, 0));
        assert_eq!(judged(&[Acknowledged], 10..14), (0, 1));
        let found = [Logged { offset: 12 }, Stored { offset: 12 }];
        assert_eq!(judged(&found, 12..14), (0, 0));
    }

    fn faults(met: &[Met]) -> (u64, u64, u64) {
        let tally = of(met);
        (tally.lost.count, tally.doubled.count, tally.foreign.count)
    }

    #[test]
    fn what_is_whole_has_no_fault() {
        let whole: [&[Met]; 10] = [
            &[Logged { offset: 12 }, Stored { offset: 12 }, Acknowledged],
            // Logged and stored without an answer: the client was gone.
            &[Logged { offset: 12 }, Stored { offset: 12 }],
            // A repeat, expected once.
            &[
                Logged { offset: 12 },
                Logged { offset: 15 },
                Stored { offset: 12 },
                Acknowledged,
            ],
            // A repeat of what the log no longer holds.
            &[Logged { offset: 12 }, Stored { offset: 3 }, Acknowledged],
            // Only the tables still hold it.
            &[Stored { offset: 3 }, Acknowledged],
            // Put aside in sight.
            &[Quarantined { offset: 12 }, Acknowledged],
            // Past its table's retention, gone or not yet.
            &[Expired { offset: 12 }, Acknowledged],
            &[Expired { offset: 12 }, Stored { offset: 12 }],
            // Stored before its place in the log was damaged and given up.
            &[Stored { offset: 18 }, Acknowledged],
            // It came after the comparison began.
            &[Stored { offset: 22 }],
        ];
        for met in whole {
            assert_eq!(faults(met), (0, 0, 0), "{met:?}");
        }
    }

    #[test]
    fn lost_is_logged_or_acknowledged_and_nowhere_stored() {
        assert_eq!(faults(&[Logged { offset: 12 }]), (1, 0, 0));
        assert_eq!(faults(&[Acknowledged]), (1, 0, 0));
        let tally = of(&[Logged { offset: 15 }, Logged { offset: 17 }, Acknowledged]);
        assert_eq!(
            tally.lost,
            Faults {
                count: 1,
                first: Some((ID, 15))
            }
        );
        assert_eq!(of(&[Acknowledged]).lost.first, Some((ID, u64::MAX)));
    }

    #[test]
    fn doubled_is_two_rows_also_when_both_are_old() {
        assert_eq!(
            faults(&[
                Logged { offset: 12 },
                Stored { offset: 12 },
                Stored { offset: 12 }
            ]),
            (0, 1, 0)
        );
        assert_eq!(
            faults(&[Stored { offset: 3 }, Stored { offset: 4 }]),
            (0, 1, 0)
        );
    }

    #[test]
    fn foreign_is_a_row_that_the_log_does_not_hold_at_its_offset() {
        assert_eq!(faults(&[Stored { offset: 12 }]), (0, 0, 1));
        assert_eq!(
            faults(&[Logged { offset: 13 }, Stored { offset: 12 }]),
            (0, 0, 1)
        );
        assert_eq!(
            faults(&[Stored { offset: 25 }]),
            (0, 0, 1),
            "beyond the log's end"
        );
        assert_eq!(
            faults(&[Quarantined { offset: 12 }, Stored { offset: 12 }]),
            (0, 0, 1)
        );
    }

    #[test]
    fn counts_follow_the_ledger() {
        let tally = of(&[
            Logged { offset: 12 },
            Logged { offset: 13 },
            Quarantined { offset: 14 },
            Stored { offset: 12 },
            Acknowledged,
        ]);
        assert_eq!((tally.logged, tally.stored, tally.repeats), (3, 1, 1));
        assert_eq!(
            (tally.quarantined, tally.expired, tally.acknowledged),
            (1, 0, 1)
        );
        assert_eq!(of(&[Expired { offset: 12 }]).expired, 1);
        assert_eq!(
            of(&[Logged { offset: 12 }, Stored { offset: 3 }]).repeats,
            1
        );
    }

    #[test]
    fn the_first_fault_has_the_lowest_offset() {
        let scope = Scope {
            held: 10..20,
            end: 25,
            given_up: Vec::new(),
            hidden: Vec::new(),
        };
        let mut tally = Tally::default();
        for (id, offset) in [(1, 15), (2, 11), (3, 18)] {
            judge(Identity(id), &[Logged { offset }], &scope, &mut tally);
        }
        assert_eq!(
            tally.lost,
            Faults {
                count: 3,
                first: Some((Identity(2), 11))
            }
        );
    }
}
