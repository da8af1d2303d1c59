//! What is committed is what is taken up, and an uncommitted block leaves no trace.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::StateFault;

/// The state store, as the writer has it.
#[derive(Clone, Default)]
struct Store(BTreeMap<Vec<u8>, Vec<u8>>);

impl Store {
    fn take(&mut self, fold: &SessionFold) {
        fold.changes(|key, value| {
            match value {
                Some(value) => self.0.insert(key.to_vec(), value.to_vec()),
                None => self.0.remove(key),
            };
        });
    }

    fn open(&self) -> SessionFold {
        let mut fold = fold();
        for value in self.0.values() {
            fold.load(value).unwrap();
        }
        fold
    }

    fn begin(&self, fold: &mut SessionFold) {
        let get = |key: &[u8]| Ok::<_, StateFault>(self.0.get(key).cloned());
        fold.begin(get).unwrap();
    }
}

/// A visit: device, minutes after noon by the log, minutes late, and what it is.
type Visit = (u8, i64, i64, u8);

fn visits() -> impl Strategy<Value = Vec<Visit>> {
    proptest::collection::vec((0_u8..3, 0_i64..40, 0_i64..20, 0_u8..6), 1..40)
}

/// The visits in the order of the log, which moves on by each one's minutes.
fn sent(visits: &[Visit]) -> Vec<(usize, i64, i64)> {
    let mut log_ms = 0;
    let placed = visits.iter().enumerate().map(|(at, (_, wait, late, _))| {
        log_ms += wait * MINUTE;
        (at, log_ms, log_ms - late * MINUTE)
    });
    placed.collect()
}

fn feed_visit(fold: &mut SessionFold, visits: &[Visit], at: (usize, i64, i64), book: &mut Book) {
    let (place, log_ms, time_ms) = at;
    let (device, _, _, what) = visits[place];
    let path = format!("/{what}");
    let name = ["device-0", "device-1", "device-2"][device as usize];
    let profile = if what == 4 { "u1" } else { "" };
    let mut sent = view(&path, time_ms);
    sent.track.device_id = name;
    sent.track.profile_id = profile;
    sent.track.is_server = what == 5;
    sent.log_ms = NOON + log_ms;
    sent.offset = place as u64;
    feed(fold, &sent, book);
}

/// Everything ends, and then is forgotten.
fn end_all(fold: &mut SessionFold, book: &mut Book) {
    for minutes in [100_000, 200_000] {
        fold.advance(NOON + minutes * MINUTE, book);
    }
    fold.finish_block(book);
}

proptest! {
    /// Blocks cut anywhere, each tried twice, with a restart before it or not, give the rows of
    /// one fold over all, and the same last row of each session (I4, S2).
    #[test]
    fn blocks_tries_and_restarts_change_no_row(
        visits in visits(),
        cuts in proptest::collection::vec((any::<bool>(), any::<bool>(), any::<bool>()), 40),
    ) {
        let mut whole = fold();
        let mut expected = Book::default();
        for at in sent(&visits) {
            feed_visit(&mut whole, &visits, at, &mut expected);
        }
        end_all(&mut whole, &mut expected);

        let mut store = Store::default();
        let mut fold = store.open();
        let mut found = Book::default();
        let mut block = Vec::new();
        let last = visits.len() - 1;
        for (at, (ends, fails, restarts)) in sent(&visits).into_iter().zip(cuts) {
            block.push(at);
            if !ends && at.0 < last {
                continue;
            }
            if restarts {
                fold = store.open();
            }
            for attempt in 0..=u8::from(fails) {
                store.begin(&mut fold);
                let mut book = Book::default();
                for at in &block {
                    feed_visit(&mut fold, &visits, *at, &mut book);
                }
                fold.finish_block(&mut book);
                if attempt == u8::from(fails) {
                    found.lines.extend(book.lines);
                    found.latest.extend(book.latest);
                }
            }
            store.take(&fold);
            fold.committed(None);
            block.clear();
        }
        store.begin(&mut fold);
        end_all(&mut fold, &mut found);
        store.take(&fold);
        // Ends that fall due at one moment come in no order: rows are sorted in their tables.
        found.lines.sort();
        expected.lines.sort();
        prop_assert_eq!(&found.lines, &expected.lines);
        prop_assert_eq!(&found.latest, &expected.latest);
        prop_assert!(store.0.is_empty(), "nothing is kept of what is forgotten");
        prop_assert_eq!(fold.next_due_ms(), None);
    }
}

#[test]
fn a_value_of_another_build_or_cut_short_is_refused() {
    let mut fold = fold();
    all(&mut fold, &[view("/a", 0)]);
    let mut store = Store::default();
    store.take(&fold);
    let value = store.0.values().next().unwrap().clone();
    let mut newer = value.clone();
    newer[0] = 9;
    let mut other = super::fold();
    assert_eq!(other.load(&newer), Err(StateFault::Version { found: 9 }));
    for end in 2..value.len() {
        let cut = other.load(&value[..end]);
        assert!(matches!(cut, Err(StateFault::Malformed(_))), "{end}");
    }
    other.load(&value).unwrap();
    assert_eq!(other.len(), 1);
}
