//! Whatever stands in a segment's file, opening and reading end, without a
//! panic, and give only records that were appended, in order.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Harm {
    Flip(usize, u8),
    Fill(usize, usize, u8),
    CopyWithin(usize, usize, usize),
    Cut(usize),
}

fn harm() -> impl Strategy<Value = Harm> {
    let at = 0..5200usize;
    prop_oneof![
        (at.clone(), 1..=255u8).prop_map(|(at, mask)| Harm::Flip(at, mask)),
        (at.clone(), 1..400usize, any::<u8>())
            .prop_map(|(at, length, byte)| Harm::Fill(at, length, byte)),
        (at.clone(), 1..400usize, at.clone())
            .prop_map(|(from, length, to)| Harm::CopyWithin(from, length, to)),
        at.prop_map(Harm::Cut),
    ]
}

fn apply(content: &mut Vec<u8>, harm: &Harm) {
    let length = content.len();
    match *harm {
        Harm::Flip(at, mask) if at < length => content[at] ^= mask,
        Harm::Fill(at, count, byte) if at < length => {
            content[at..length.min(at + count)].fill(byte);
        }
        Harm::CopyWithin(from, count, to) if from.max(to) + count < length => {
            content.copy_within(from..from + count, to);
        }
        Harm::Cut(at) if at < length => content.truncate(at),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_harmed_segment_gives_a_part_of_what_it_held(
        harms in proptest::collection::vec(harm(), 1..5),
    ) {
        static SAMPLE: std::sync::OnceLock<Sample> = std::sync::OnceLock::new();
        let sample = SAMPLE.get_or_init(sample);
        let mut content = sample.closed.clone();
        for harm in &harms {
            apply(&mut content, harm);
        }
        let dir = folder_with(&sample.name, &content);
        let data = scratch();
        let folder = data.path().join("events");
        std::fs::create_dir(&folder).unwrap();
        std::fs::copy(
            dir.path().join(sample.name.file_name().unwrap()),
            folder.join(sample.name.file_name().unwrap()),
        )
        .unwrap();
        let report = crate::verify(data.path(), Topic::Events, &mut |_| {}).unwrap();
        let journal = open(dir.path());
        prop_assert!(report.end <= journal.end());
        let mut from = 0;
        let mut texts = Vec::new();
        while from < journal.end() {
            let (read, error) = read_until_error(&journal, from);
            from += read.len() as u64;
            texts.extend(read);
            match error {
                Some(LogError::Damaged(damage)) => {
                    prop_assert!(damage.end_offset > from, "{damage}");
                    from = damage.end_offset;
                }
                Some(error) => panic!("{error}"),
                None => prop_assert_eq!(from, journal.end()),
            }
        }
        let mut expected = TEXTS.iter();
        for text in &texts {
            prop_assert!(expected.any(|it| it == text), "{text} in {texts:?}");
        }
        append(&journal, "new");
    }
}
