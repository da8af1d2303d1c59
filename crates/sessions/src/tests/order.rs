//! S1: arrival order changes no session, as long as events bridge no two.

use proptest::prelude::*;

use super::*;

/// Seconds into a visit of 15 minutes, and what it says.
type Told = (i64, u8);

fn visit(told: &[Told]) -> String {
    let mut fold = fold();
    let mut book = Book::default();
    let paths = ["", "/a", "/b", "/c"];
    let groups: Vec<Vec<u8>> = (0..4)
        .map(|n| fulmar_event::encode_texts([format!("g{n}").as_str()]))
        .collect();
    for (seconds, what) in told {
        let mut sent = view(paths[usize::from(what % 4)], seconds * 1_000);
        sent.track.profile_id = ["", "u1", "u2", "device-1"][usize::from(what / 4 % 4)];
        sent.track.referrer = ["", "https://a.example"][usize::from(what / 16 % 2)];
        sent.track.query = ["", "utm_source=x"][usize::from(what / 32 % 2)];
        sent.track.groups = fulmar_event::Texts::new(&groups[usize::from(what % 4)]);
        sent.log_ms = NOON + 15 * MINUTE;
        feed(&mut fold, &sent, &mut book);
    }
    fold.finish_block(&mut book);
    assert_eq!(book.sessions.len(), 1);
    book.sessions.remove(0)
}

proptest! {
    #[test]
    fn any_order_of_arrival_gives_the_same_session(
        told in proptest::collection::vec((0_i64..900, 0_u8..64), 1..12)
            .prop_flat_map(|told| (Just(told.clone()), Just(told).prop_shuffle())),
    ) {
        prop_assert_eq!(visit(&told.0), visit(&told.1));
    }
}
