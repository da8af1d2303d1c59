use super::*;
use crate::item::Item;

fn entry(number: u8) -> Entry {
    let item = |n: u8| Item {
        id: format!("id-{number}-{n}"),
        time_ms: (n > 0).then_some(i64::from(number) * 1_000),
        bytes: vec![number; usize::from(n) * 3],
    };
    let position = Position {
        path: "/log".to_owned(),
        offset: u64::from(number) * 100,
        ..Position::default()
    };
    Entry {
        items: (0..3).map(item).collect(),
        positions: vec![position],
    }
}

fn go() -> AtomicBool {
    AtomicBool::new(false)
}

async fn drain(spool: &Spool) -> Vec<Entry> {
    spool.close();
    let mut found = Vec::new();
    while let Some((sequence, entry)) = spool.next().await.unwrap() {
        spool.free(sequence, entry.positions.clone()).unwrap();
        found.push(entry);
    }
    found
}

fn segment_file(dir: &Path) -> PathBuf {
    segment::path(dir, *segment::list(dir).unwrap().last().unwrap())
}

#[tokio::test]
async fn entries_come_back_in_order_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::open(dir.path(), 1 << 20).unwrap();
    for number in 1..=4 {
        assert!(spool.append(&entry(number), &go()).unwrap());
    }
    let (sequence, first) = spool.next().await.unwrap().unwrap();
    assert_eq!(first, entry(1));
    spool.free(sequence, first.positions).unwrap();
    drop(spool);

    let spool = Spool::open(dir.path(), 1 << 20).unwrap();
    assert_eq!(spool.pending_events(), 9);
    // What was read is known though it is not yet sent.
    assert_eq!(spool.saved().positions[0].offset, 400);
    assert!(spool.append(&entry(5), &go()).unwrap());
    assert_eq!(
        drain(&spool).await,
        [entry(2), entry(3), entry(4), entry(5)]
    );
    drop(spool);
    let spool = Spool::open(dir.path(), 1 << 20).unwrap();
    assert_eq!(
        (spool.pending_events(), spool.saved().positions[0].offset),
        (0, 500)
    );
}

#[tokio::test]
async fn a_cut_at_any_byte_leaves_the_whole_entries_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::open(dir.path(), 1 << 20).unwrap();
    let mut ends = vec![0];
    for number in 1..=3 {
        spool.append(&entry(number), &go()).unwrap();
        ends.push(std::fs::metadata(segment_file(dir.path())).unwrap().len() as usize);
    }
    drop(spool);
    let file = segment_file(dir.path());
    let whole = std::fs::read(&file).unwrap();
    for cut in 0..=whole.len() {
        std::fs::write(&file, &whole[..cut]).unwrap();
        let spool = Spool::open(dir.path(), 1 << 20).unwrap();
        let kept = ends.iter().filter(|end| **end <= cut).count() - 1;
        let offset = spool
            .saved()
            .positions
            .first()
            .map_or(0, |position| position.offset);
        assert_eq!(offset, kept as u64 * 100, "cut at {cut}");
        // Writing goes on behind what is whole.
        spool.append(&entry(9), &go()).unwrap();
        drop(spool);
        let spool = Spool::open(dir.path(), 1 << 20).unwrap();
        assert_eq!(
            spool.pending_events(),
            (kept as u64 + 1) * 3,
            "cut at {cut}"
        );
    }
}

#[test]
fn a_flipped_bit_before_the_last_entry_is_damage_and_in_it_a_torn_tail() {
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::open(dir.path(), 1 << 20).unwrap();
    spool.append(&entry(1), &go()).unwrap();
    let end = std::fs::metadata(segment_file(dir.path())).unwrap().len() as usize;
    spool.append(&entry(2), &go()).unwrap();
    drop(spool);
    let file = segment_file(dir.path());
    let whole = std::fs::read(&file).unwrap();
    for byte in 0..whole.len() {
        let mut bent = whole.clone();
        bent[byte] ^= 0x10;
        std::fs::write(&file, &bent).unwrap();
        match Spool::open(dir.path(), 1 << 20) {
            Err(SendError::SpoolDamaged { byte: at, .. }) => {
                assert!(byte < end && at == 0, "{byte}");
            }
            Ok(spool) => assert!(byte >= end && spool.pending_events() == 3, "{byte}"),
            Err(error) => panic!("{byte}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_torn_state_means_sending_again_and_not_losing() {
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::open(dir.path(), 1 << 20).unwrap();
    spool.append(&entry(1), &go()).unwrap();
    spool.append(&entry(2), &go()).unwrap();
    let (sequence, first) = spool.next().await.unwrap().unwrap();
    spool.free(sequence, first.positions).unwrap();
    drop(spool);
    let state = dir.path().join("state.json");
    let whole = std::fs::read(&state).unwrap();
    for cut in 0..whole.len() {
        std::fs::write(&state, &whole[..cut]).unwrap();
        let spool = Spool::open(dir.path(), 1 << 20).unwrap();
        assert_eq!(
            (spool.pending_events(), spool.saved().positions[0].offset),
            (6, 200)
        );
    }
    std::fs::write(&state, &whole).unwrap();
    let spool = Spool::open(dir.path(), 1 << 20).unwrap();
    assert_eq!(drain(&spool).await, [entry(2)]);
}

#[tokio::test]
async fn a_full_spool_holds_the_writer_until_room_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let spool = std::sync::Arc::new(Spool::open(dir.path(), 1).unwrap());
    // One entry is always taken, however small the bound.
    assert!(spool.append(&entry(1), &go()).unwrap());
    let stopped = AtomicBool::new(true);
    assert!(!spool.append(&entry(2), &stopped).unwrap());
    let writer = std::thread::spawn({
        let spool = std::sync::Arc::clone(&spool);
        move || spool.append(&entry(3), &go()).unwrap()
    });
    let (sequence, first) = spool.next().await.unwrap().unwrap();
    spool.free(sequence, first.positions).unwrap();
    assert!(writer.join().unwrap());
    assert_eq!(drain(&spool).await, [entry(3)]);
}

#[tokio::test]
async fn segments_go_once_they_are_sent() {
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::open(dir.path(), 1 << 30).unwrap();
    let large = |n: u8| {
        let item = Item {
            id: "x".to_owned(),
            time_ms: None,
            bytes: vec![n; 3 << 20],
        };
        Entry {
            items: vec![item],
            positions: vec![],
        }
    };
    for number in 0..7 {
        spool.append(&large(number), &go()).unwrap();
    }
    assert_eq!(segment::list(dir.path()).unwrap(), [0, 3, 6]);
    for _ in 0..4 {
        let (sequence, entry) = spool.next().await.unwrap().unwrap();
        spool.free(sequence, entry.positions).unwrap();
    }
    assert_eq!(segment::list(dir.path()).unwrap(), [3, 6]);
    assert_eq!(drain(&spool).await.len(), 3);
    spool.clear().unwrap();
    assert!(segment::list(dir.path()).unwrap().is_empty());
}

#[test]
fn one_sender_holds_a_spool() {
    let dir = tempfile::tempdir().unwrap();
    let _spool = Spool::open(dir.path(), 1 << 20).unwrap();
    assert!(matches!(
        Spool::open(dir.path(), 1 << 20),
        Err(SendError::SpoolLocked(_))
    ));
}
