//! The agents door through mutual TLS: what frees a batch and what does not.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod fake;

use fake::{Act, FakeDoor, never, receipts, sshd_lines, sshd_log};
use fulmar_agent::{Door, Format, Summary, run};
use fulmar_event::encode_ack;

const MIB: usize = 1 << 20;

fn once_each(door: &FakeDoor, count: usize) {
    let stored = door.stored.lock().unwrap();
    assert_eq!(stored.times.len(), count);
    assert!(stored.times.values().all(|times| *times == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_stored_in_order_with_a_receipt_for_each_event() {
    let dir = tempfile::tempdir().unwrap();
    let file = sshd_log(dir.path(), 2_500);
    std::fs::write(
        &file,
        format!("no event\n{}", std::fs::read_to_string(&file).unwrap()),
    )
    .unwrap();
    let door = FakeDoor::start(Door::Agents, 8 * MIB, vec![]).await;
    let summary = run(door.options(Format::Sshd, &file), never())
        .await
        .unwrap();
    let bytes = std::fs::metadata(&file).unwrap().len();
    let want = Summary {
        events: 2_500,
        accepted: 2_500,
        skipped: 1,
        bytes,
        ..Summary::default()
    };
    assert_eq!(summary, want);
    once_each(&door, 2_500);
    assert_eq!(door.requests(), 3);
    let ids: Vec<String> = receipts(&file)
        .into_iter()
        .map(|(project, source, id)| {
            assert_eq!((project.as_str(), source.as_str()), ("default", "web-1"));
            id
        })
        .collect();
    assert_eq!(ids, door.stored.lock().unwrap().order);

    // The same file again: the same ids, which the server knows.
    let again = run(door.options(Format::Sshd, &file), never())
        .await
        .unwrap();
    assert_eq!((again.accepted, door.count()), (2_500, 2_500));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_but_the_full_acknowledgement_frees_a_batch() {
    let dir = tempfile::tempdir().unwrap();
    let file = sshd_log(dir.path(), 100);
    let script = vec![
        Act::HangUp,
        Act::TakeAndHangUp,
        Act::Say(200, encode_ack(99)),
        Act::Say(200, vec![0x08, 1, 0x18, 100]),
        Act::Say(200, Vec::new()),
        Act::Say(429, Vec::new()),
        Act::Say(503, Vec::new()),
        Act::Say(500, b"oops".to_vec()),
        Act::Say(403, Vec::new()),
    ];
    let door = FakeDoor::start(Door::Agents, 8 * MIB, script).await;
    let summary = run(door.options(Format::Sshd, &file), never())
        .await
        .unwrap();
    assert_eq!(
        (summary.accepted, summary.refused, summary.pending),
        (100, 0, 0)
    );
    assert_eq!((door.count(), door.requests()), (100, 10));
    assert_eq!(receipts(&file).len(), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_too_large_is_halved_until_it_fits() {
    let dir = tempfile::tempdir().unwrap();
    let file = sshd_log(dir.path(), 300);
    let long = "x".repeat(3_000);
    let line = format!(
        "{} {long}\n",
        sshd_lines(0, 1, -30).trim_end().replace("u0", &long)
    );
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}{line}")).unwrap();
    // Two events of 380 bytes fit, the long one does not.
    let door = FakeDoor::start(Door::Agents, 1_000, vec![]).await;
    let summary = run(door.options(Format::Sshd, &file), never())
        .await
        .unwrap();
    assert_eq!((summary.accepted, summary.refused), (300, 0));
    assert_eq!(summary.skipped, 1, "a tail behind ssh2 makes the line none");
    once_each(&door, 300);
    let stored = door.stored.lock().unwrap();
    assert!(stored.requests > 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_too_large_alone_is_refused_and_its_neighbours_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let file = sshd_log(dir.path(), 9);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(
        &file,
        text.replace(" u4 ", &format!(" {} ", "u".repeat(900))),
    )
    .unwrap();
    let door = FakeDoor::start(Door::Agents, 1_000, vec![]).await;
    let summary = run(door.options(Format::Sshd, &file), never())
        .await
        .unwrap();
    assert_eq!((summary.accepted, summary.refused), (8, 1));
    assert!(summary.first_refusal.unwrap().contains("413"));
    once_each(&door, 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_at_fault_are_taken_out_by_their_index() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auth.log");
    let week = -8 * 24 * 3_600;
    let text = [
        sshd_lines(0, 10, -100),
        sshd_lines(10, 11, week),
        sshd_lines(11, 20, -90),
        sshd_lines(20, 21, 3_600),
        sshd_lines(21, 30, -80),
    ];
    std::fs::write(&file, text.concat()).unwrap();
    let door = FakeDoor::start(Door::Agents, 8 * MIB, vec![]).await;
    let summary = run(door.options(Format::Sshd, &file), never())
        .await
        .unwrap();
    assert_eq!(
        (summary.events, summary.accepted, summary.refused),
        (30, 28, 2)
    );
    assert!(summary.window_refused);
    assert!(
        summary
            .first_refusal
            .unwrap()
            .contains("invalid_event (422)")
    );
    once_each(&door, 28);
    assert_eq!(receipts(&file).len(), 28);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_file_is_refused_in_a_few_requests_and_taken_when_rebased() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auth.log");
    std::fs::write(&file, sshd_lines(0, 5_000, -30 * 24 * 3_600)).unwrap();
    let door = FakeDoor::start(Door::Agents, 8 * MIB, vec![]).await;
    let mut options = door.options(Format::Sshd, &file);
    let summary = run(options.clone(), never()).await.unwrap();
    assert_eq!(
        (summary.accepted, summary.refused, summary.window_refused),
        (0, 5_000, true)
    );
    assert!(door.requests() < 20, "{} requests", door.requests());

    options.rebase = true;
    let before = jiff::Timestamp::now().as_millisecond();
    let summary = run(options, never()).await.unwrap();
    assert_eq!((summary.accepted, summary.refused), (5_000, 0));
    let stored = door.stored.lock().unwrap();
    let newest = stored
        .bodies
        .iter()
        .map(|bytes| {
            fulmar_event::EventView::parse(bytes)
                .unwrap()
                .event_time
                .unwrap()
                .as_millis()
        })
        .max();
    let after = jiff::Timestamp::now().as_millisecond();
    assert!(newest >= Some(before) && newest <= Some(after));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_sender_leaves_its_spool_to_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let file = sshd_log(dir.path(), 3_000);
    let door = FakeDoor::start(Door::Agents, 8 * MIB, vec![Act::Take, Act::TakeAndHangUp]).await;
    *door.down.lock().unwrap() = Some(503);
    let interrupt = {
        let door = std::sync::Arc::clone(&door);
        async move { door.wait(|stored| stored.requests >= 4).await }
    };
    let summary = run(door.options(Format::Sshd, &file), interrupt)
        .await
        .unwrap();
    assert!(summary.interrupted);
    assert_eq!(summary.accepted, 1_000);
    assert_eq!(receipts(&file).len(), 1_000);

    *door.down.lock().unwrap() = None;
    let summary = run(door.options(Format::Sshd, &file), never())
        .await
        .unwrap();
    // What was acknowledged is not sent again; what was lost on the way is.
    assert_eq!((summary.accepted, summary.pending), (2_000, 0));
    assert_eq!(door.count(), 3_000);
    assert_eq!(receipts(&file).len(), 3_000);
}
